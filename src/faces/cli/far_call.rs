//! The far side of `--host`: the program executes itself for another machine.
//!
//! `far-call` reads the call from standard input, starts `far-call run`, which reads it from there in its
//! turn and is the command, and watches whether the caller is still there. `far-call WORD` becomes the
//! command in this terminal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::iter::once;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::thread;

use clap::{CommandFactory, FromArgMatches};
use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::Builder;

use super::args::{Cli, CliCommand, Ls, Send};
use super::output;
#[cfg(feature = "mcp")]
use crate::faces::mcp;
use crate::model::{Error, FarAnswer, FarCall, FarPiece, FarStdin, OURS, text};
use crate::ops::{SessionChoice, far_command, list_everywhere};

/// Returns the call whose command this process is to be; else it has ended.
pub(super) fn run(words: &[OsString]) -> Result<FarCall, ExitCode> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let outcome = match words.as_deref() {
        Some([]) => serve().map(Err),
        Some(["run"]) => read_call().map(Ok),
        Some(["run", word]) => call_of(word).map(Ok),
        Some([word]) => call_of(word).and_then(|call| become_command(&call, word)),
        Some(_) | None => Err(no_call()),
    };
    let outcome = outcome.unwrap_or_else(|error| {
        output::complain(&Error::of(&error), "far-call", "");
        Err(ExitCode::FAILURE)
    });
    if outcome.is_ok() {
        // Without the process that watches the caller, nobody waits for it.
        #[cfg(linux)]
        rustix::process::set_parent_process_death_signal(Some(Signal::INT)).unwrap_or_default();
    }
    outcome
}

fn no_call() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is no call")
}

fn call_of(word: &str) -> io::Result<FarCall> {
    FarCall::of_word(word).ok_or_else(no_call)
}

/// Reads a call from standard input, and nothing of what is behind it that others could not read.
fn read_call() -> io::Result<FarCall> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(|_| no_call())
}

/// Executes the command in this terminal.
fn become_command<T>(call: &FarCall, word: &str) -> io::Result<T> {
    let host = &call.caller.host;
    if call.version != OURS {
        let why = format!("{host} has tmux-task {OURS}, {} asks", call.version);
        return Err(io::Error::other(why));
    }
    let (mut command, note) = far_command(call, Some(word))?;
    if let Some(note) = note {
        output::note(&note);
    }
    Err(command.exec())
}

/// Executes a command for whoever sends its call.
fn serve() -> io::Result<ExitCode> {
    let mut call = read_call()?;
    if let Err(error) = admit(&mut call) {
        answer(&error.into())?;
        return Ok(ExitCode::FAILURE);
    }
    // What start files have printed ends here.
    answer(&FarAnswer::TmuxTask(OURS.to_owned()))?;
    if call.version != OURS {
        return Ok(ExitCode::FAILURE);
    }
    let (mut command, note) = far_command(&call, None)?;
    if let Some(note) = note {
        let line = format!("{}\n", text::row(note.as_bytes()));
        answer(&FarAnswer::Stderr(FarPiece::Text(line)))?;
    }
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = streams.stderr(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    let pid = Pid::from_child(&child);
    thread::spawn(move || {
        if let Some(stdin) = stdin {
            // A command that does not read it says so itself.
            pass_on(&call, stdin).unwrap_or_default();
        }
        // Whoever sends nothing more has left, or closes what the command reads.
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap_or_default();
        if call.stdin != FarStdin::Follows {
            // It may have ended.
            kill_process(pid, Signal::INT).unwrap_or_default();
        }
    });
    let stderr = child.stderr.take();
    let saying = thread::spawn(|| pass_back(stderr, FarAnswer::Stderr));
    pass_back(child.stdout.take(), FarAnswer::Stdout)?;
    saying.join().unwrap_or_else(|_| Err(no_call()))?;
    let code = exit_code(child.wait()?);
    answer(&FarAnswer::Exit(code))?;
    Ok(ExitCode::from(code))
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

/// Passes back what the command writes, to the end of the stream.
fn pass_back(from: Option<impl Read>, piece: fn(FarPiece) -> FarAnswer) -> io::Result<()> {
    let mut bytes = [0; CHUNK];
    let Some(mut from) = from else { return Ok(()) };
    while let n @ 1.. = from.read(&mut bytes)? {
        answer(&piece(FarPiece::of(bytes[..n].to_vec())))?;
    }
    Ok(())
}

/// Writes a line to whoever asks.
fn answer(answer: &FarAnswer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Writes the call to the command's standard input, and what it is to read.
fn pass_on(call: &FarCall, mut to: impl Write) -> io::Result<()> {
    to.write_all(call.line().as_bytes())?;
    match &call.stdin {
        FarStdin::Nothing => {}
        FarStdin::Text(text) => to.write_all(text.as_bytes())?,
        FarStdin::Follows | FarStdin::Acknowledgements => {
            io::copy(&mut io::stdin(), &mut to)?;
        }
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
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
}
