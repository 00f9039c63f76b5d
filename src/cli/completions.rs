//! Shell completion: the script for a shell, and the candidates for names of tasks.
//!
//! The script asks the program itself at each completion, so that it knows the tasks.

use std::ffi::OsString;
use std::time::Duration;

use clap::{Command, CommandFactory};
use clap_complete::env::{CompleteEnv, Shells};
use clap_complete::{ArgValueCandidates, CompletionCandidate};

use super::args::{Cli, Completions, Global};
use super::context::Context;
use super::failure::{Failure, Kind};
use super::output;
use crate::ops;

/// The variable by which the script says that it wants candidates.
const VARIABLE: &str = "TMUX_TASK_COMPLETE";

/// The arguments that name tasks, with their commands.
const NAMES: [(&str, &str); 8] = [
    ("explain", "name"),
    ("feed", "task"),
    ("kill", "names"),
    ("logs", "name"),
    ("run", "name"),
    ("search", "name"),
    ("send", "name"),
    ("wait", "name"),
];

/// A shell's user does not wait longer than this for the names of tasks.
const LIMIT: Duration = Duration::from_millis(500);

pub(super) fn run(args: Completions) -> Result<(), Failure> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let name = "tmux-task";
    let written = match shells.completer(args.shell.name()) {
        Some(shell) => shell.write_registration(VARIABLE, name, name, name, &mut script),
        None => return Err(Failure::new(Kind::Failed, "completions", "no such script")),
    };
    written.map_err(|error| Failure::of(Kind::Failed, "completions", &error))?;
    output::text(&String::from_utf8_lossy(&script))
}

/// Prints the candidates if a shell asks for them. Returns whether it did.
pub(super) fn answer(args: &[OsString]) -> Result<bool, clap::Error> {
    if std::env::var_os(VARIABLE).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(command)
        .var(VARIABLE)
        .try_complete(args.iter().cloned(), folder.as_deref())
}

/// Returns the command line, with candidates for the names of tasks.
fn command() -> Command {
    NAMES
        .iter()
        .fold(Cli::command(), |program, (command, name)| {
            program.mut_subcommand(command, |command| {
                command.mut_arg(name, |arg| arg.add(tasks()))
            })
        })
}

fn tasks() -> ArgValueCandidates {
    ArgValueCandidates::new(|| {
        let words: Vec<OsString> = std::env::args_os().skip_while(|arg| arg != "--").collect();
        names(global(&words)).unwrap_or_default()
    })
}

/// Returns the tasks of the session, with their states; `None` if they are not known in time.
fn names(global: Global) -> Option<Vec<CompletionCandidate>> {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().ok()?;
    let listed = runtime.block_on(async {
        let list = async {
            let session = Context::new(global).session("completions").await.ok()?;
            ops::list(&session).await.ok()
        };
        tokio::time::timeout(LIMIT, list).await.ok()?
    });
    runtime.shutdown_background();
    let candidate = |task: crate::wire::LsTask| {
        let state = task.state.as_str();
        CompletionCandidate::new(task.task.window_name).help(Some(state.into()))
    };
    Some(listed?.tasks.into_iter().map(candidate).collect())
}

/// Returns the options for session and server on an unfinished command line.
fn global(words: &[OsString]) -> Global {
    let value = |names: [&str; 2]| {
        let mut words = words.iter().map(|word| word.to_string_lossy());
        while let Some(word) = words.next() {
            for name in names.iter().filter(|name| !name.is_empty()) {
                if word == *name {
                    return words.next().map(std::borrow::Cow::into_owned);
                }
                let joined = word.strip_prefix(name);
                let joined = joined.map(|rest| rest.strip_prefix('=').unwrap_or(rest));
                if let Some(joined) =
                    joined.filter(|_| !word.starts_with("--") || word.contains('='))
                {
                    return Some(joined.to_owned());
                }
            }
        }
        None
    };
    Global {
        session: value(["-s", "--session"]),
        socket_name: value(["-L", ""]),
        socket_path: value(["-S", ""]).map(Into::into),
        tmux: value(["--tmux", ""]).map(Into::into),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_is_found_on_an_unfinished_command_line() {
        let global = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let Global {
                session,
                socket_name,
                ..
            } = global(&words);
            (session, socket_name)
        };
        let work = || Some("work".to_owned());
        assert_eq!(global("-- tmux-task logs "), (None, None));
        assert_eq!(global("-- tmux-task -s work logs "), (work(), None));
        assert_eq!(global("-- tmux-task -swork logs "), (work(), None));
        assert_eq!(global("-- tmux-task logs --session work "), (work(), None));
        assert_eq!(
            global("-- tmux-task --session=work -L x kill "),
            (work(), Some("x".to_owned()))
        );
    }
}
