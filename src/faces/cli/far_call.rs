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
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use clap::{CommandFactory, FromArgMatches};
use rustix::process::{Signal, getpid, kill_process};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};
use tokio::runtime::Builder;

use super::args::{Cli, CliCommand, Ls, Send};
use super::output;
#[cfg(feature = "mcp")]
use crate::faces::mcp;
use crate::model::{Error, FarAnswer, FarCall, FarPiece, FarStdin, OURS, text};
use crate::ops::{SessionChoice, enter_call, list_everywhere};

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

/// Prepares the execution in this terminal.
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

/// How much of a stream is read at once, in bytes.
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

/// Writes a line to whoever asks.
fn answer(to: &Mutex<File>, answer: &FarAnswer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(line.as_bytes())
}

/// Writes to the command what it is to read.
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
        of_broker(
            verb,
            &line.split(' ').collect::<Vec<_>>(),
            FarStdin::Nothing,
        )
    }

    #[test]
    fn what_a_subject_names_is_executed() {
        for (verb, line) in [
            ("ls", "--host gpu1 ls --json"),
            ("ls", "-s api ls"),
            ("ls", "ls --session=api -L tmux"),
            ("logs", "logs train -n 5 -f"),
            ("logs", "logs train -n5 --since=1"),
            ("run", "run train --wait -- rm --tmux /x -rf"),
            ("send", "send train --if-prompt Go? y"),
            ("send", "send --if-prompt=Go? train -- --secret"),
            ("kill", "kill train --grace 0"),
            ("wait", "wait train --text done --timeout 5s"),
            ("ls", "ps --json"),
            ("kill", "stop train"),
        ] {
            assert_eq!(refused(verb, line), None, "{line}");
        }
    }

    #[test]
    fn nothing_else_is_executed_for_the_broker() {
        let is_not = |verb: &str, line: &str, why: &str| {
            assert_eq!(refused(verb, line).as_deref(), Some(why), "{line}");
        };
        is_not("ls", "kill-all --yes", "`kill-all` is not `ls`");
        for (line, option) in [
            ("ls --tmux /bin/x", "--tmux"),
            ("--tmux=/bin/x ls", "--tmux"),
            ("ls -S /x", "-S"),
            ("ls -S/x", "-S"),
            ("ls -wS /x", "-S"),
            ("ls --all", "--all"),
            ("ls -a", "--all"),
        ] {
            let why = format!("`ls` does not take `{option}` through the broker");
            is_not("ls", line, &why);
        }
        is_not("ls", "-s other ls", "`other` is not the session `api`");
        is_not("ls", "ls -sother", "`other` is not the session `api`");
        let why = "`send` through the broker needs `--if-prompt`";
        is_not("send", "send train y", why);
        is_not("send", "send train -- --if-prompt y", why);
        let why = "`send` does not take `--secret` through the broker";
        is_not("send", "send train --if-prompt Go? --secret", why);
        let why = "`wait` does not take `--channel` through the broker";
        is_not("wait", "wait --channel x", why);
        let why = "nothing through the broker reads standard input";
        let reads = of_broker("ls", &["ls"], FarStdin::Text("x".to_owned()));
        assert_eq!(reads.as_deref(), Some(why));
    }

    #[cfg(feature = "mcp")]
    #[test]
    fn tools_are_executed_by_their_verbs() {
        use serde_json::json;
        let tool = |verb: &str, request: serde_json::Value| {
            let request = FarStdin::Text(request.to_string());
            of_broker(verb, &mcp::SINGLE_CALL, request)
        };
        let call = json!({"name": "list_tasks", "_meta": {"threadId": "1"}});
        assert_eq!(tool("ls", call), None);
        let answer = json!({"task": "a", "text": "y", "prompt": "Go?"});
        let call = json!({"name": "send_input", "arguments": answer});
        assert_eq!(tool("send", call), None);
        for (verb, request, why) in [
            (
                "ls",
                json!({"name": "kill_task"}),
                "`kill_task` is not `ls`",
            ),
            (
                "ls",
                json!({"name": "prune_tasks"}),
                "`prune_tasks` is not `ls`",
            ),
            (
                "wait",
                json!({"name": "wait_for", "arguments": {"channel": "x"}}),
                "`wait_for` does not take `channel` through the broker",
            ),
            (
                "ls",
                json!({"name": "list_tasks", "arguments": {"host": "x"}}),
                "`list_tasks` does not take `host` through the broker",
            ),
            (
                "send",
                json!({"name": "send_input", "arguments": {"task": "a", "text": "y", "prompt": null}}),
                "`send_input` through the broker needs `prompt`",
            ),
            ("ls", json!("list_tasks"), "`` is not `ls`"),
        ] {
            assert_eq!(tool(verb, request).as_deref(), Some(why));
        }
    }
}
