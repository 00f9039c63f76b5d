//! Names tasks that were started without a name.

use std::ffi::OsString;
use std::path::Path;

use super::list::list;
use super::session::TaskSession;
use crate::model::Error;

/// The longest name that is made of a command: a number has room behind it.
const LONGEST: usize = 32;

/// The name of a task whose command says nothing.
const UNKNOWN: &str = "task";

/// Words before a program that say nothing of it.
const WRAPPERS: [&str; 5] = ["exec", "env", "nice", "nohup", "time"];

/// Returns a task's name made of its command: the program without its folder, and its subcommand if it
/// has one, like `cargo-test` or `npm-run-dev`.
pub(crate) fn name_of_command(command: &[OsString]) -> String {
    let words: Vec<String> = match command {
        [line] => line
            .to_string_lossy()
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
        words => words
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    };
    let mut words = words
        .iter()
        .skip_while(|word| is_assignment(word) || WRAPPERS.contains(&word.as_str()));
    let program = words.next().map_or("", String::as_str);
    let program = Path::new(program)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let mut parts = vec![program.as_ref()];
    for word in words.take_while(|word| is_subcommand(word)) {
        parts.push(word);
        // `run` is about another word.
        if word != "run" {
            break;
        }
    }
    let is_part = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let name = parts.join("-").replace(|c| !is_part(c), "-");
    let name = name.trim_start_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = name.get(..LONGEST).unwrap_or(name);
    match name.trim_end_matches(['-', '.']) {
        "" => UNKNOWN.to_owned(),
        name => name.to_owned(),
    }
}

/// Whether a word sets a variable for the command behind it.
fn is_assignment(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=')
        .is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_part))
}

fn is_subcommand(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_lowercase() || "-:_".contains(c);
    word.starts_with(|c: char| c.is_ascii_lowercase()) && word.chars().all(is_part)
}

/// Returns the first of `NAME`, `NAME-2`, `NAME-3` and so on that no task has which runs or is about
/// to run again.
pub(crate) async fn free_name(session: &mut TaskSession, name: &str) -> Result<String, Error> {
    let tasks = list(session).await?.tasks;
    let is_taken = |name: &str| {
        let mut tasks = tasks.iter();
        tasks.any(|task| {
            task.is_task_named(name) && (task.task.is_alive() || task.next_restart.is_some())
        })
    };
    let mut free = name.to_owned();
    let mut number = 1_u64;
    while is_taken(&free) {
        number += 1;
        free = format!("{name}-{number}");
    }
    Ok(free)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::is_task_name;

    #[test]
    fn a_name_is_made_of_the_command() {
        let long = "x".repeat(100);
        for (command, expected) in [
            (&["cargo", "test", "--workspace"][..], "cargo-test"),
            (&["cargo test -p api"], "cargo-test"),
            (&["RUST_LOG=debug CI=1 cargo test | tee log"], "cargo-test"),
            (&["npm", "run", "dev"], "npm-run-dev"),
            (&["npm", "run", "-s", "dev"], "npm-run"),
            (&["/usr/bin/python3", "x.py"], "python3"),
            (&["./my script", "serve"], "my-script-serve"),
            (&["sleep 1000"], "sleep"),
            (&["exec sleep 1000"], "sleep"),
            (&["./build.sh"], "build.sh"),
            (&["bash", "-c", "true"], "bash"),
            (&["--", "x"], "x"),
            (&["\u{1b}[31mred"], "31mred"),
            (&["\u{e9}t\u{e9}"], "t"),
            (&["/"], "task"),
            (&["$(x)"], "x"),
            (&[" "], "task"),
            (&[long.as_str()], &long[..32]),
        ] {
            let words: Vec<OsString> = command.iter().map(OsString::from).collect();
            let name = name_of_command(&words);
            assert_eq!(name, expected, "{command:?}");
            assert!(is_task_name(&format!("{name}-9999999")), "{name}");
        }
    }
}
