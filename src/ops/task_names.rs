//! The names of tasks, sessions, consumers and hosts, for completion.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::time::Duration;

use clap_complete::engine::ValueCompleter as _;
use clap_complete::{ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter};

use crate::config;
use crate::ops::{self, SessionChoice, TaskSession, lookup};
use crate::rules::wire::LsTask;

/// A shell's user does not wait longer than this for the names of tasks.
const LIMIT: Duration = Duration::from_millis(500);

/// Completes to the names of the tasks of the session that the command line selects.
pub(crate) fn candidates() -> ArgValueCandidates {
    candidates_of(|choice| async move {
        let mut session = TaskSession::named(&choice).ok()?;
        session.resolve_name().await.ok()?;
        let listed = ops::list(&mut session).await.ok()?;
        let candidate = |task: LsTask| {
            let state = task.state.to_string();
            CompletionCandidate::new(&task.task.name).help(Some(state.into()))
        };
        Some(listed.tasks.into_iter().map(candidate).collect())
    })
}

/// Completes to the task sessions of the tmux server that the command line selects.
pub(crate) fn session_candidates() -> ArgValueCandidates {
    candidates_of(|choice| async move {
        let choice = SessionChoice {
            // What is typed so far.
            session: None,
            ..choice
        };
        let found = ops::list_everywhere(&choice).await.ok()?;
        let here = found.sessions.into_iter().filter(|listed| listed.is_here);
        let names = here.map(|listed| listed.view.session_name);
        Some(names.map(CompletionCandidate::new).collect())
    })
}

/// Completes to the consumers of the session that the command line selects.
pub(crate) fn consumer_candidates() -> ArgValueCandidates {
    candidates_of(|choice| async move {
        let mut session = TaskSession::named(&choice).ok()?;
        session.resolve_name().await.ok()?;
        let list = ops::list_consumers(&mut session).await.ok()?;
        let names = list.consumers.into_iter().map(|consumer| consumer.name);
        Some(names.map(CompletionCandidate::new).collect())
    })
}

/// Completes to the names of hosts in the configuration.
pub(crate) fn host_candidates() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let hosts = config::load(&lookup).map(|config| config.hosts);
        let names = hosts.unwrap_or_default().into_keys();
        names.map(CompletionCandidate::new).collect()
    })
}

/// Completes to the names of the tasks of the project's file, and to files.
pub(crate) fn candidates_of_file() -> ArgValueCompleter {
    ArgValueCompleter::new(|given: &OsStr| {
        let begins = |name: &String| name.starts_with(given.to_string_lossy().as_ref());
        let session = TaskSession::named(&SessionChoice::default());
        let names = session.map(|session| ops::names_in_file(&session));
        let names = names.unwrap_or_default().into_iter().filter(begins);
        let mut candidates: Vec<_> = names.map(CompletionCandidate::new).collect();
        candidates.extend(PathCompleter::file().complete(given));
        candidates
    })
}

/// Completes to what is known in time for the session and server of the unfinished command line.
fn candidates_of<F>(ask: impl Fn(SessionChoice) -> F + Send + Sync + 'static) -> ArgValueCandidates
where
    F: Future<Output = Option<Vec<CompletionCandidate>>>,
{
    ArgValueCandidates::new(move || {
        let words: Vec<OsString> = std::env::args_os().skip_while(|arg| arg != "--").collect();
        let runtime = tokio::runtime::Builder::new_current_thread();
        let Ok(runtime) = { runtime }.enable_all().build() else {
            return Vec::new();
        };
        let work = async { tokio::time::timeout(LIMIT, ask(choice(&words))).await };
        let answer = runtime.block_on(work);
        runtime.shutdown_background();
        answer.ok().flatten().unwrap_or_default()
    })
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
        for (line, session, server) in [
            ("-- tmux-task logs ", None, None),
            ("-- tmux-task -s work logs ", Some("work"), None),
            ("-- tmux-task -swork logs ", Some("work"), None),
            ("-- tmux-task logs --session work ", Some("work"), None),
            ("-- tmux-task --session=w -L x kill ", Some("w"), Some("x")),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let choice = choice(&words);
            assert_eq!(choice.session.as_deref(), session, "{line}");
            assert_eq!(choice.server.socket_name, server.map(Into::into), "{line}");
        }
    }
}
