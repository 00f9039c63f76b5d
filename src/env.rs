//! This process's environment variables. A command that runs for another machine has some of its own:
//! the real ones cannot be changed safely once there may be threads.

use std::env;
use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// What differs from the real environment: names with values, or without one.
static CHANGES: OnceLock<Vec<(OsString, Option<OsString>)>> = OnceLock::new();

/// Sets variables, or removes those without a value. Only the first call counts.
pub(crate) fn change(changes: Vec<(OsString, Option<OsString>)>) {
    CHANGES.get_or_init(|| changes);
}

fn changes() -> &'static [(OsString, Option<OsString>)] {
    CHANGES.get().map_or(&[], Vec::as_slice)
}

/// Looks up a variable.
pub(crate) fn var(name: &str) -> Option<OsString> {
    match changes().iter().find(|(known, _)| known == name) {
        Some((_, value)) => value.clone(),
        None => env::var_os(name),
    }
}

/// Returns all variables.
pub(crate) fn vars() -> impl Iterator<Item = (OsString, OsString)> {
    let is_changed = |name: &OsString| changes().iter().any(|(known, _)| known == name);
    let real = env::vars_os().filter(move |(name, _)| !is_changed(name));
    let set = changes().iter();
    real.chain(set.filter_map(|(name, value)| Some((name.clone(), value.clone()?))))
}

/// Gives a program that inherits the environment what differs from the real one.
pub(crate) fn pass_on(command: &mut Command) {
    for (name, value) in changes() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}
