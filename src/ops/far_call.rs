//! How a machine executes what another one asks of it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::env;
use crate::model::FarCall;
use crate::model::environment::{WithheldVariables, covers_name};

/// Makes this process the one that executes it: gives it its variables and its directory. Returns what is
/// said about the directory.
///
/// # Errors
///
/// When it cannot enter the directory.
pub(crate) fn enter_call(call: &FarCall) -> io::Result<Option<String>> {
    env::change(changes(call, env::vars().map(|(name, _)| name)));
    let (cwd, note) = directory_of(call);
    std::env::set_current_dir(cwd)?;
    Ok(note)
}

/// Returns the variables that it has, and those of these that it has not.
fn changes(
    call: &FarCall,
    known: impl Iterator<Item = OsString>,
) -> Vec<(OsString, Option<OsString>)> {
    // Conversations of this machine are not the caller's.
    let withheld = WithheldVariables::default();
    let is_ours = |name: &OsString| {
        let name = name.to_string_lossy();
        let names_session = ["TMUX_TASK_SESSION", "PI_TMUX_SESSION"].contains(&&*name);
        withheld.names().any(|pattern| covers_name(pattern, &name))
            || name == "TMUX"
            || name == "TMUX_PANE"
            || (names_session && call.session.is_some())
    };
    let set = [
        ("TMUX_TASK_OWNER", call.owner.as_ref()),
        ("TMUX_TASK_SESSION", call.session.as_ref()),
        ("TMUX_TASK_MACHINE", Some(&call.caller.machine)),
    ];
    let set = set
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), Some(value?.into()))));
    set.chain(known.filter(is_ours).map(|name| (name, None)))
        .collect()
}

/// Returns the directory to run in, and what is said about it.
fn directory_of(call: &FarCall) -> (PathBuf, Option<String>) {
    let home = std::env::home_dir().unwrap_or_else(|| "/".into());
    let Some(cwd) = call.cwd.as_deref() else {
        return (home, None);
    };
    let path = match cwd.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => Path::new(cwd).to_owned(),
    };
    if path.is_dir() {
        return (path, None);
    }
    let note = call.needs_cwd.then(|| {
        format!(
            "tmux-task: {}: there is no directory {} on {}: this runs in the home directory",
            call.verb,
            path.display(),
            call.caller.host
        )
    });
    (home, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FarCaller;

    fn call() -> FarCall {
        FarCall {
            args: vec![
                "--host".to_owned(),
                "gpu1".to_owned(),
                "it's $x\n".to_owned(),
            ],
            caller: FarCaller {
                host: "gpu1".to_owned(),
                machine: "laptop".to_owned(),
                ..FarCaller::default()
            },
            owner: Some("claude:1".to_owned()),
            session: Some("work".to_owned()),
            ..FarCall::default()
        }
    }

    #[test]
    fn owner_and_session_are_in_the_environment() {
        let known = ["HOME", "TMUX", "TMUX_TASK_OWNER", "CLAUDECODE"].map(OsString::from);
        let changes = changes(&call(), known.into_iter());
        let value = |name: &str| {
            let (_, value) = changes.iter().find(|(known, _)| *known == name)?;
            Some(value.as_ref().map(|value| value.to_str().unwrap()))
        };
        assert_eq!(value("TMUX_TASK_OWNER"), Some(Some("claude:1")));
        assert_eq!(value("TMUX_TASK_SESSION"), Some(Some("work")));
        assert_eq!(value("TMUX_TASK_MACHINE"), Some(Some("laptop")));
        assert_eq!(value("TMUX"), Some(None));
        assert_eq!(value("CLAUDECODE"), Some(None));
        assert_eq!(value("HOME"), None);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_said_where_it_matters() {
        let mut call = call();
        call.cwd = Some("/nowhere/x".to_owned());
        assert_eq!(directory_of(&call).1, None);
        call.needs_cwd = true;
        let note = directory_of(&call).1.unwrap();
        assert!(note.contains("no directory /nowhere/x on gpu1"), "{note}");
        call.cwd = Some("/".to_owned());
        assert_eq!(directory_of(&call), ("/".into(), None));
    }
}
