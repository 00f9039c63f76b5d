//! The names of tasks and hosts, for completion.

use std::borrow::Cow;
use std::ffi::OsString;
use std::time::Duration;

use clap_complete::{ArgValueCandidates, CompletionCandidate};

use crate::config;
use crate::ops::{self, SessionChoice, TaskSession, lookup};
use crate::wire::LsTask;

/// A shell's user does not wait longer than this for the names of tasks.
const LIMIT: Duration = Duration::from_millis(500);

/// Completes to the names of the tasks of the session that the command line selects.
pub(super) fn candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words: Vec<OsString> = std::env::args_os().skip_while(|arg| arg != "--").collect();
        names(&choice(&words)).unwrap_or_default()
    })
}

/// Completes to the names of hosts in the configuration.
pub(super) fn host_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let hosts = config::load(&lookup).map(|config| config.hosts);
        let names = hosts.unwrap_or_default().into_keys();
        names.map(CompletionCandidate::new).collect()
    })
}

/// Returns the tasks of the session, with their states; `None` if they are not known in time.
fn names(choice: &SessionChoice) -> Option<Vec<CompletionCandidate>> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().ok()?;
    let listed = runtime.block_on(async {
        let list = async {
            let mut session = TaskSession::named(choice).ok()?;
            session.resolve_name().await.ok()?;
            ops::list(&mut session).await.ok()
        };
        tokio::time::timeout(LIMIT, list).await.ok()?
    });
    runtime.shutdown_background();
    let candidate = |task: LsTask| {
        let state = task.state.as_str();
        CompletionCandidate::new(task.task.window_name).help(Some(state.into()))
    };
    Some(listed?.tasks.into_iter().map(candidate).collect())
}

/// Returns the options for session and server on an unfinished command line.
fn choice(words: &[OsString]) -> SessionChoice {
    let mut choice = SessionChoice {
        session: value(words, &["-s", "--session"]),
        ..SessionChoice::default()
    };
    choice.server.socket_name = value(words, &["-L"]).map(Into::into);
    choice.server.socket_path = value(words, &["-S"]).map(Into::into);
    choice.server.program = value(words, &["--tmux"]).map(Into::into);
    choice
}

/// Returns the value of an option: `-s X`, `-sX`, `--session X` or `--session=X`.
fn value(words: &[OsString], names: &[&str]) -> Option<String> {
    let mut words = words.iter().map(|word| word.to_string_lossy());
    while let Some(word) = words.next() {
        for name in names {
            match word.strip_prefix(name) {
                Some("") => return words.next().map(Cow::into_owned),
                Some(rest) if !name.starts_with("--") => return Some(rest.to_owned()),
                Some(rest) if rest.starts_with('=') => return Some(rest[1..].to_owned()),
                Some(_) | None => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_on_an_unfinished_command_line() {
        let chosen = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let choice = choice(&words);
            (choice.session, choice.server.socket_name)
        };
        let work = || Some("work".to_owned());
        assert_eq!(chosen("-- tmux-task logs "), (None, None));
        assert_eq!(chosen("-- tmux-task -s work logs "), (work(), None));
        assert_eq!(chosen("-- tmux-task -swork logs "), (work(), None));
        assert_eq!(chosen("-- tmux-task logs --session work "), (work(), None));
        assert_eq!(
            chosen("-- tmux-task --session=work -L x kill "),
            (work(), Some("x".into()))
        );
    }
}
