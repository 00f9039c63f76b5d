//! The far side of `--host`: a process that executes a command for another machine.
//!
//! `far-call` reads the call from standard input and becomes the command. Threads pass back what it writes,
//! pass on what it reads, and watch whether the caller is still there. `far-call WORD` becomes the command in
//! this terminal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::iter::once;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use clap::{CommandFactory, FromArgMatches};
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::runtime::Builder;

use super::args::{Cli, CliCommand};
use super::ls::Ls;
use super::output;
use super::send::Send;
use crate::env;
#[cfg(feature = "mcp")]
use crate::faces::mcp;
use crate::model::environment::{WithheldVariables, covers_name};
use crate::model::{Error, FarAnswer, FarCall, FarPiece, FarStdin, OURS, text};
use crate::ops::{SessionChoice, list_everywhere};

/// The command that this process becomes: the call, and who gets its answers if it is not in a terminal.
type Execution = (FarCall, Option<Answers>);

/// Returns the command that this process is to be; else it has ended.
pub(super) fn run(words: &[OsString]) -> Result<Execution, ExitCode> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let execution = match words.as_deref() {
        Some([]) => serve(),
        Some([word]) => in_terminal(word).map(Some),
        Some(_) | None => Err(no_call()),
    };
    let execution = execution.unwrap_or_else(|error| {
        output::complain(&Error::of(&error), "far-call", "");
        None
    });
    execution.ok_or(ExitCode::FAILURE)
}

fn no_call() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is no call")
}

fn in_terminal(word: &str) -> io::Result<Execution> {
    let call = FarCall::of_word(word).ok_or_else(no_call)?;
    let host = &call.caller.host;
    if call.version != OURS {
        let why = format!("{host} has tmux-task {OURS}, {} asks", call.version);
        return Err(io::Error::other(why));
    }
    if let Some(note) = enter_call(&call)? {
        output::note(&note);
    }
    Ok((call, None))
}

/// Prepares the execution for whoever sends its call; `None` if it was refused.
fn serve() -> io::Result<Option<Execution>> {
    // What is behind the call is for the command.
    let mut caller = BufReader::new(File::from(io::stdin().as_fd().try_clone_to_owned()?));
    let mut line = Vec::new();
    caller.read_until(b'\n', &mut line)?;
    let mut call: FarCall = serde_json::from_slice(&line).map_err(|_| no_call())?;
    let to = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let to = Arc::new(Mutex::new(to));
    if let Err(error) = admit(&mut call) {
        answer(&to, &error.into())?;
        return Ok(None);
    }
    // What start files have printed ends here.
    answer(&to, &FarAnswer::TmuxTask(OURS.to_owned()))?;
    if call.version != OURS {
        return Ok(None);
    }
    if let Some(note) = enter_call(&call)? {
        let line = format!("{}\n", text::row(note.as_bytes()));
        answer(&to, &FarAnswer::Stderr(FarPiece::Text(line)))?;
    }
    let answers = Answers::begin(to)?;
    let (reads, stdin) = io::pipe()?;
    dup2_stdin(reads)?;
    let input = call.stdin.clone();
    thread::spawn(move || {
        // A command that does not read it says so itself.
        pass_on(&input, &mut caller, stdin).unwrap_or_default();
        // Whoever sends nothing more has left, or closes what the command reads.
        io::copy(&mut caller, &mut io::sink()).unwrap_or_default();
        if input != FarStdin::Follows {
            interrupt();
        }
    });
    Ok(Some((call, Some(answers))))
}

/// Interrupts the command: whoever waits for it has left.
fn interrupt() {
    kill_process(getpid(), Signal::INT).unwrap_or_default();
}

/// Gives this process its variables and its directory. Returns what is said about that.
fn enter_call(call: &FarCall) -> io::Result<Option<String>> {
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

/// Checks a call that comes by the broker, and finds the tmux server that it is for: the one on which a daemon
/// supervises the session, because any daemon of the machine may have got it, else that of a login.
fn admit(call: &mut FarCall) -> Result<(), Error> {
    if !call.caller.is_guarded {
        return Ok(());
    }
    if let Some(why) = refusal(call) {
        return Err(Error::failed(why));
    }
    call.server = None;
    // What follows `--` are the words of a command.
    let mut options = call.args.iter().take_while(|arg| *arg != "--");
    if options.any(|arg| arg.starts_with("-L")) {
        return Ok(());
    }
    let session = call.session.as_deref().unwrap_or_default();
    let runtime = Builder::new_current_thread().enable_all().build();
    let choice = SessionChoice::default();
    let found = runtime
        .map_err(Error::of)?
        .block_on(list_everywhere(&choice));
    let sessions = found.map_or_else(|_| Vec::new(), |found| found.sessions);
    let of_name = sessions
        .into_iter()
        .filter(|one| one.view.supervised && one.view.session_name == session);
    let mut servers: BTreeSet<String> = of_name.map(|one| one.server).collect();
    if servers.len() > 1 {
        let why = format!("session `{session}` is on {} tmux servers", servers.len());
        return Err(Error::failed(why).with_hint("-L names one"));
    }
    call.server = servers.pop_first().map(PathBuf::from);
    Ok(())
}

/// Returns why a call that comes by the broker is not executed: it is not the command or not about the session
/// that its subject names, which the broker's permissions are about, or it does not go through the broker.
fn refusal(call: &FarCall) -> Option<String> {
    let verb = &call.verb;
    #[cfg(feature = "mcp")]
    if let (FarStdin::Text(request), true) = (&call.stdin, call.args == mcp::SINGLE_CALL) {
        return mcp::refusal(verb, request);
    }
    if call.stdin != FarStdin::Nothing {
        return Some("nothing through the broker reads standard input".to_owned());
    }
    let args = once("tmux-task").chain(call.args.iter().map(String::as_str));
    // What is no command line says so itself.
    let matches = Cli::command().try_get_matches_from(args).ok()?;
    let cli = Cli::from_arg_matches(&matches).ok()?;
    let given = matches.subcommand_name().unwrap_or_default();
    if given != verb {
        return Some(format!("`{given}` is not `{verb}`"));
    }
    let global = &cli.global;
    let session = call.session.as_deref().unwrap_or_default();
    if let Some(given) = global.session.as_deref().filter(|given| *given != session) {
        return Some(format!("`{given}` is not the session `{session}`"));
    }
    let command = &cli.command;
    let refused = [
        ("-S", global.socket_path.is_some()),
        ("--tmux", global.tmux.is_some()),
        (
            "--all",
            matches!(command, CliCommand::Ls(Ls { all: true, .. })),
        ),
        (
            "--channel",
            matches!(command, CliCommand::Wait(wait) if wait.channel.is_some()),
        ),
        (
            "--secret",
            matches!(command, CliCommand::Send(Send { secret: true, .. })),
        ),
    ];
    if let Some((option, _)) = refused.iter().find(|(_, is_given)| *is_given) {
        return Some(format!(
            "`{verb}` does not take `{option}` through the broker"
        ));
    }
    matches!(command, CliCommand::Send(send) if send.if_prompt.is_none())
        .then(|| "`send` through the broker needs `--if-prompt`".to_owned())
}

const CHUNK: usize = 32 << 10;

/// What the command writes, as answers to whoever asks for it.
pub(super) struct Answers {
    to: Arc<Mutex<File>>,
    streams: [JoinHandle<()>; 2],
}

impl Answers {
    /// Passes back from here on what this process writes.
    fn begin(to: Arc<Mutex<File>>) -> io::Result<Self> {
        let (stdout, writes) = io::pipe()?;
        dup2_stdout(writes)?;
        let (stderr, writes) = io::pipe()?;
        dup2_stderr(writes)?;
        let pass_back = |from: PipeReader, piece: fn(FarPiece) -> FarAnswer| {
            let to = Arc::clone(&to);
            thread::spawn(move || {
                if pass_back(from, &to, piece).is_err() {
                    interrupt();
                }
            })
        };
        let streams = [
            pass_back(stdout, FarAnswer::Stdout),
            pass_back(stderr, FarAnswer::Stderr),
        ];
        Ok(Self { to, streams })
    }

    /// Passes back the rest, and the code with which the command has ended.
    pub(super) fn end(self, code: u8) {
        // Nobody reads what cannot be passed back.
        io::stdout().flush().unwrap_or_default();
        let closed = {
            let to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
            dup2_stdout(&*to).and(dup2_stderr(&*to))
        };
        if closed.is_ok() {
            for stream in self.streams {
                stream.join().unwrap_or_default();
            }
        }
        answer(&self.to, &FarAnswer::Exit(code)).unwrap_or_default();
    }
}

/// Passes back what the command writes, to the end of the stream.
fn pass_back(
    mut from: impl Read,
    to: &Mutex<File>,
    piece: fn(FarPiece) -> FarAnswer,
) -> io::Result<()> {
    let mut bytes = [0; CHUNK];
    while let n @ 1.. = from.read(&mut bytes)? {
        answer(to, &piece(FarPiece::of(bytes[..n].to_vec())))?;
    }
    Ok(())
}

fn answer(to: &Mutex<File>, answer: &FarAnswer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(line.as_bytes())
}

fn pass_on(what: &FarStdin, caller: &mut impl Read, mut to: PipeWriter) -> io::Result<()> {
    match what {
        FarStdin::Nothing => Ok(()),
        FarStdin::Text(text) => to.write_all(text.as_bytes()),
        FarStdin::Follows | FarStdin::Acknowledgements => io::copy(caller, &mut to).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::FarCaller;
    use crate::model::test_notation::rows;

    fn of_broker(verb: &str, args: &[&str], stdin: FarStdin) -> Option<String> {
        refusal(&FarCall {
            args: args.iter().map(|&arg| arg.to_owned()).collect(),
            verb: verb.to_owned(),
            session: Some("api".to_owned()),
            caller: FarCaller {
                is_guarded: true,
                ..FarCaller::default()
            },
            stdin,
            ..FarCall::default()
        })
    }

    fn refused(verb: &str, line: &str) -> Option<String> {
        let args: Vec<&str> = line.split(' ').collect();
        of_broker(verb, &args, FarStdin::Nothing)
    }

    #[test]
    fn what_a_subject_names_is_executed() {
        for [verb, line] in rows(
            "ls | --host gpu1 ls --json
             ls | -s api ls
             ls | ls --session=api -L tmux
             logs | logs train -n 5 -f
             logs | logs train -n5 --since=1
             run | run train --wait -- rm --tmux /x -rf
             send | send train --if-prompt Go? y
             send | send --if-prompt=Go? train -- --secret
             kill | kill train --grace 0
             wait | wait train --text done --timeout 5s
             ls | ps --json
             kill | stop train",
        ) {
            assert_eq!(refused(&verb, &line), None, "{line}");
        }
    }

    #[test]
    fn nothing_else_is_executed_for_the_broker() {
        for [verb, line, why] in rows(
            "ls | kill-all --yes | `kill-all` is not `ls`
             ls | ls --tmux /bin/x | `ls` does not take `--tmux` through the broker
             ls | --tmux=/bin/x ls | `ls` does not take `--tmux` through the broker
             ls | ls -S /x | `ls` does not take `-S` through the broker
             ls | ls -S/x | `ls` does not take `-S` through the broker
             ls | ls -wS /x | `ls` does not take `-S` through the broker
             ls | ls --all | `ls` does not take `--all` through the broker
             ls | ls -a | `ls` does not take `--all` through the broker
             ls | -s other ls | `other` is not the session `api`
             ls | ls -sother | `other` is not the session `api`
             send | send train y | `send` through the broker needs `--if-prompt`
             send | send train -- --if-prompt y | `send` through the broker needs `--if-prompt`
             send | send train --if-prompt Go? --secret | `send` does not take `--secret` through the broker
             wait | wait --channel x | `wait` does not take `--channel` through the broker",
        ) {
            assert_eq!(refused(&verb, &line), Some(why), "{line}");
        }
        let why = "nothing through the broker reads standard input";
        let reads = of_broker("ls", &["ls"], FarStdin::Text("x".to_owned()));
        assert_eq!(reads.as_deref(), Some(why));
    }

    #[cfg(feature = "mcp")]
    #[test]
    fn tools_are_executed_by_their_verbs() {
        for [verb, request, why] in rows(
            r#"
            ls | {"name": "list_tasks", "_meta": {"threadId": "1"}} |
            send | {"name": "send_input", "arguments": {"task": "a", "text": "y", "prompt": "Go?"}} |
            ls | {"name": "kill_task"} | `kill_task` is not `ls`
            ls | {"name": "prune_tasks"} | `prune_tasks` is not `ls`
            wait | {"name": "wait_for", "arguments": {"channel": "x"}}
              | `wait_for` does not take `channel` through the broker
            ls | {"name": "list_tasks", "arguments": {"host": "x"}}
              | `list_tasks` does not take `host` through the broker
            send | {"name": "send_input", "arguments": {"task": "a", "text": "y", "prompt": null}}
              | `send_input` through the broker needs `prompt`
            ls | "list_tasks" | `` is not `ls`"#,
        ) {
            let refused = of_broker(&verb, &mcp::SINGLE_CALL, FarStdin::Text(request.clone()));
            assert_eq!(refused.unwrap_or_default(), why, "{request}");
        }
    }

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
        let known = ["HOME", "TMUX", "TMUX_TASK_OWNER", "CLAUDECODE"].map(OsString::from);
        let changes = changes(&call, known.into_iter());
        for (name, expected) in [
            ("TMUX_TASK_OWNER", Some(Some("claude:1"))),
            ("TMUX_TASK_SESSION", Some(Some("work"))),
            ("TMUX_TASK_MACHINE", Some(Some("laptop"))),
            ("TMUX", Some(None)),
            ("CLAUDECODE", Some(None)),
            ("HOME", None),
        ] {
            let found = changes.iter().find(|(known, _)| *known == name);
            let value = found.map(|(_, value)| value.as_ref().and_then(|value| value.to_str()));
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
