//! How a machine executes what another one asks of it.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::model::environment::{WithheldVariables, covers_name};
use crate::model::{FAR_CALL, FarCall};
use crate::tmux::program;

/// Returns how to execute it on this machine, in a process that reads it from its standard input, or
/// has it as a `word` among its arguments; and what is said about its directory.
///
/// # Errors
///
/// When our own program is not found.
pub(crate) fn far_command(
    call: &FarCall,
    word: Option<&str>,
) -> io::Result<(Command, Option<String>)> {
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
        .filter_map(|(name, value)| Some((name, value?)));
    let (cwd, note) = directory_of(call);
    let mut command = Command::new(program().ok_or(io::ErrorKind::NotFound)?);
    command
        .args([FAR_CALL, "run"])
        .args(word)
        .env_clear()
        .envs(env::vars_os().filter(|(name, _)| !is_ours(name)))
        .envs(set)
        .current_dir(cwd);
    Ok((command, note))
}

/// Returns the directory to run in, and what is said about it.
fn directory_of(call: &FarCall) -> (PathBuf, Option<String>) {
    let home = env::home_dir().unwrap_or_else(|| "/".into());
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
            caller: FarCaller {
                host: "gpu1".to_owned(),
                machine: "laptop".to_owned(),
                ..FarCaller::default()
            },
            ..FarCall::default()
        }
    }

    #[test]
    fn owner_and_session_are_in_the_environment() {
        let call = FarCall {
            owner: Some("claude:1".to_owned()),
            session: Some("work".to_owned()),
            ..call()
        };
        let (command, _) = far_command(&call, None).unwrap();
        assert_eq!(command.get_args().collect::<Vec<_>>(), [FAR_CALL, "run"]);
        for (name, expected) in [
            ("TMUX_TASK_OWNER", Some("claude:1")),
            ("TMUX_TASK_SESSION", Some("work")),
            ("TMUX_TASK_MACHINE", Some("laptop")),
            ("TMUX", None),
        ] {
            let found = command.get_envs().find(|(known, _)| *known == name);
            let value = found.and_then(|(_, value)| value?.to_str());
            assert_eq!(value, expected, "{name}");
        }
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
