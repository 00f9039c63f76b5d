//! `--host`: passes a command on to another machine.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::time::sleep;

use super::args::CliCommand;
use super::context::{Context, ExitWatch};
use super::feed::Feed;
use super::kill::KillAll;
use super::logs::Logs;
use super::replay::Replay;
use super::run::{Restart, Run};
use super::send::Send;
use super::{output, usage};
use crate::client::hosts::{FarProcess, Host, install};
use crate::model::*;
use crate::ops::{
    Caller, SessionChoice, WaitArguments, lookup, misses_nothing, note_host, session_words,
};

/// How long to wait before a wait that was cut off connects again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// What a command needs of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Needs {
    stdin: FarStdin,
    /// What it reads counts only as a whole.
    whole_stdin: bool,
    /// It shows or asks something on the terminal, if there is one.
    terminal: bool,
    cwd: bool,
    /// It may start tasks, of which a conversation wants to hear.
    launches: bool,
    /// How it ends when its output is closed, also while it prints nothing.
    ends_with_output: Option<ErrorKind>,
}

/// Returns what the command needs; `None` for one that is only about this machine.
fn needs_of(command: &CliCommand) -> Option<Needs> {
    let mut needs = Needs::default();
    match command {
        CliCommand::Run(Run { cwd, follow, .. }) => {
            needs.launches = true;
            needs.ends_with_output = follow.end_unread();
            needs.cwd = cwd.as_ref().is_none_or(|cwd| cwd.is_relative());
        }
        CliCommand::Up(_) => (needs.launches, needs.cwd) = (true, true),
        CliCommand::Down(_) => needs.cwd = true,
        CliCommand::Restart(Restart { follow, .. }) => {
            needs.launches = true;
            needs.ends_with_output = follow.end_unread();
        }
        CliCommand::Wait(_) => needs.ends_with_output = Some(ErrorKind::Failed),
        CliCommand::Logs(Logs { follow, .. }) => {
            needs.ends_with_output = follow.then_some(ErrorKind::OutputClosed);
        }
        CliCommand::Feed(Feed {
            follow, consume, ..
        }) => {
            needs.ends_with_output = follow.then_some(ErrorKind::OutputClosed);
            if consume.consumer.is_some() && !consume.auto_ack {
                needs.stdin = FarStdin::Acknowledgements;
            }
        }
        CliCommand::Send(Send { secret, .. }) => {
            (needs.whole_stdin, needs.terminal) = (*secret, *secret);
        }
        CliCommand::KillAll(KillAll { yes, .. }) => needs.terminal = !yes,
        CliCommand::Attach(_) => needs.terminal = true,
        #[cfg(feature = "panel")]
        CliCommand::Panel(_) => needs.terminal = true,
        #[cfg(feature = "mcp")]
        CliCommand::Mcp(_) => (needs.launches, needs.stdin) = (true, FarStdin::Follows),
        CliCommand::Replay(Replay { file, .. }) => {
            needs.cwd = true;
            if file.as_ref().is_none_or(|file| file.as_os_str() == "-") {
                needs.stdin = FarStdin::Follows;
            }
        }
        CliCommand::Fleet(_)
        | CliCommand::Config(_)
        | CliCommand::Init(_)
        | CliCommand::Guide
        | CliCommand::Completions(_)
        | CliCommand::Man(_)
        | CliCommand::Agent(_) => return None,
        _ => {}
    }
    Some(needs)
}

/// Executes the command, with its words and its arguments, the program's name first, on another machine.
pub(super) async fn run(
    name: &str,
    choice: &SessionChoice,
    (words, args): (&str, &[OsString]),
    command: &CliCommand,
) -> Result<(), Error> {
    let not_here = || Error::usage("it is about this machine: --host does not go with it");
    let needs = needs_of(command).ok_or_else(not_here)?;
    let verb = words.split(' ').next().unwrap_or_default();
    let host = Host::named(name, &lookup)?;
    let call = call(&host, &needs, choice, (verb, args))?;
    let code = match FarProcess::start_in_fleet(&host, &call).await? {
        Some(process) => pass(process, &call, &needs, &mut ExitWatch::listen()?).await,
        None => execute(&host, choice, (&needs, command), call).await,
    };
    match code? {
        0 => Ok(()),
        code => Err(Error::silent(ErrorKind::OfTask(code))),
    }
}

async fn execute(
    host: &Host,
    choice: &SessionChoice,
    (needs, command): (&Needs, &CliCommand),
    mut call: FarCall,
) -> Result<u8, Error> {
    // The host is not forgotten before the launch there is done.
    let _held = match needs.launches {
        true => note_host(&call, choice)?,
        false => None,
    };
    if needs.terminal && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return host.in_terminal(&call).await;
    }
    // From here on, a signal is for the execution there.
    let mut signals = ExitWatch::listen()?;
    if needs.whole_stdin {
        let mut text = String::new();
        let mut stdin = tokio::io::stdin();
        let read = tokio::select! {
            read = stdin.read_to_string(&mut text) => read,
            kind = signals.recv() => return Err(Error::silent(kind)),
        };
        read.map_err(Error::of)?;
        call.stdin = FarStdin::Text(text);
    }
    if let CliCommand::Wait(args) = command {
        return wait(host, choice, (needs, args), call, &mut signals).await;
    }
    ask(host, &call, needs, &mut signals).await
}

/// Executes a wait. When the connection is lost, it connects again and goes on, as long as its time allows and
/// unless it would miss what happens meanwhile. Returns its exit code.
async fn wait(
    host: &Host,
    choice: &SessionChoice,
    (needs, args): (&Needs, &WaitArguments),
    mut call: FarCall,
    signals: &mut ExitWatch,
) -> Result<u8, Error> {
    let misses_nothing = misses_nothing(&args.request("", None));
    let mut since = args.since.clone();
    if let ([name], false) = (&*args.names, misses_nothing) {
        let logs = ["logs", "--json", "-n", "1", "--", name].map(str::to_owned);
        let logs = FarCall {
            args: session_words(choice).into_iter().chain(logs).collect(),
            ..call.clone()
        };
        let started = FarProcess::start(host, may_ask(), &logs);
        let printed = tokio::select! {
            printed = async { started.await?.line().await } => printed?,
            kind = signals.recv() => return Err(Error::silent(kind)),
        };
        let log: Value = serde_json::from_slice(&printed.unwrap_or_default()).unwrap_or_default();
        since = log["cursor"].as_str().map(str::to_owned);
    }
    let goes_on = args.channel.is_none() && (misses_nothing || since.is_some());
    let now = Instant::now();
    let deadline = args.timeout.and_then(|limit| now.checked_add(limit));
    let left = || deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let (mut retry, mut is_cut) = (RETRY, false);
    loop {
        if goes_on {
            call.wait_since = since.clone();
            call.wait_ms = left().map(whole_millis);
        }
        let error = match ask(host, &call, needs, signals).await {
            Err(error) if goes_on => error,
            ended => return ended,
        };
        let is_unreachable = is_cut && error.kind == ErrorKind::Unreachable;
        if error.kind != ErrorKind::Lost && !is_unreachable {
            return Err(error);
        }
        if !is_cut {
            let lost = &error.message;
            output::note(&format!("tmux-task: wait: {lost}; connecting again"));
        }
        is_cut = true;
        let pause = retry.next_pause();
        // Losing an arm is safe: nothing is asked.
        tokio::select! {
            () = sleep(left().unwrap_or(pause).min(pause)) => {}
            kind = signals.recv() => return Err(Error::silent(kind)),
        }
        if left().is_some_and(|left| left.is_zero()) {
            let why = "the connection was lost, and the time is over";
            return Err(Error::new(ErrorKind::TimedOut, why));
        }
    }
}

async fn ask(
    host: &Host,
    call: &FarCall,
    needs: &Needs,
    signals: &mut ExitWatch,
) -> Result<u8, Error> {
    // Losing an arm is safe: without the process, the execution there is interrupted.
    let process = tokio::select! {
        process = FarProcess::start(host, may_ask(), call) => process?,
        kind = signals.recv() => return Err(Error::silent(kind)),
    };
    pass(process, call, needs, signals).await
}

/// Passes on what an execution reads and writes. Returns its exit code.
async fn pass(
    mut process: FarProcess,
    call: &FarCall,
    needs: &Needs,
    signals: &mut ExitWatch,
) -> Result<u8, Error> {
    let mut pipe = process.way.take_stdin();
    let mut output = pin!(pass_on_output(&mut process));
    let closed = async {
        let Some(kind) = needs.ends_with_output else {
            return std::future::pending().await;
        };
        output::stdout_closed().await;
        kind
    };
    // Losing an arm is safe: without the process, the execution there is interrupted.
    let kind = tokio::select! {
        code = &mut output => return code,
        never = pass_on_stdin(&mut pipe, &call.stdin) => never,
        kind = closed => return Err(Error::silent(kind)),
        kind = signals.recv() => kind,
    };
    // The first signal interrupts the command there. The second one leaves it: the connection may be what
    // does not end.
    drop(pipe);
    tokio::select! {
        _ = output => {}
        _ = signals.recv() => {}
    }
    Err(Error::silent(kind))
}

/// `init host`: puts this program onto another machine, and checks it.
pub(super) async fn init_host(context: &Context, name: String) -> Result<(), Error> {
    // Whoever answers a question of ssh takes his time, and so does a slow line.
    context.limit.lift();
    let host = Host::named(&name, &lookup)?;
    output::line(&install(&host, may_ask()).await?)?;
    let args = ["tmux-task", "--host", &name, "doctor"].map(Into::into);
    let (doctor, words) =
        usage::parse(&args).map_err(|error| usage::failure(&error, &args).about("usage"))?;
    let choice = context.global.choice();
    let examined = run(&name, &choice, (&words, &args), &doctor.command).await;
    examined.map_err(|error| error.about("doctor"))
}

fn may_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn call(
    host: &Host,
    needs: &Needs,
    choice: &SessionChoice,
    (verb, args): (&str, &[OsString]),
) -> Result<FarCall, Error> {
    let args = args
        .iter()
        .skip(1)
        .map(|arg| arg.to_str().map(str::to_owned));
    let args: Option<Vec<String>> = args.collect();
    let args =
        args.ok_or_else(|| Error::usage("an argument is not UTF-8, and --host passes on text"))?;
    let mut call = FarCall {
        verb: verb.to_owned(),
        session: Some(choice.name()?),
        needs_cwd: needs.cwd,
        stdin: needs.stdin.clone(),
        ..host.call(args, Caller::of_environment().owner)
    };
    call.caller = FarCaller {
        host: call.caller.host,
        machine: call.caller.machine,
        ..output::viewer().clone()
    };
    Ok(call)
}

/// Prints what comes from the execution, to its end. Returns its exit code.
async fn pass_on_output(process: &mut FarProcess) -> Result<u8, Error> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    loop {
        match process.next().await? {
            FarAnswer::Stdout(piece) => {
                let written = async {
                    stdout.write_all(&piece.into_bytes()).await?;
                    stdout.flush().await
                };
                let written = written.await;
                written.or_else(|error| output::closed_is_fine(&error))?;
            }
            FarAnswer::Stderr(piece) => {
                // If that fails, it cannot be reported.
                drop(stderr.write_all(&piece.into_bytes()).await);
                drop(stderr.flush().await);
            }
            FarAnswer::Exit(code) => return Ok(code),
            FarAnswer::TmuxTask(_) | FarAnswer::Failed(_) => {}
        }
    }
}

/// Passes on standard input. Never ends.
async fn pass_on_stdin<T>(pipe: &mut Option<ChildStdin>, what: &FarStdin) -> T {
    let is_read = matches!(what, FarStdin::Follows | FarStdin::Acknowledgements);
    if let (Some(to), true) = (&mut *pipe, is_read) {
        let mut stdin = tokio::io::stdin();
        let mut bytes = vec![0; 8 << 10];
        while let Ok(n @ 1..) = stdin.read(&mut bytes).await {
            let written = to.write_all(&bytes[..n]).await;
            if written.and(to.flush().await).is_err() {
                break;
            }
        }
    }
    if *what == FarStdin::Follows {
        *pipe = None;
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::faces::cli::args::Cli;
    use crate::model::test_notation::rows;

    fn needs(line: &str) -> Option<Needs> {
        let args = std::iter::once("tmux-task").chain(line.split(' '));
        needs_of(&Cli::try_parse_from(args).unwrap().command)
    }

    #[test]
    fn what_a_command_needs_of_this_machine_is_known() {
        for [line, expected] in rows(
            "send a --secret | stdin terminal Nothing
             send a b | Nothing
             feed -f --consumer c | Acknowledgements
             feed -f --consumer c --auto-ack | Nothing
             replay | cwd Follows
             kill-all | terminal Nothing
             kill-all --yes | Nothing
             run a -- x | cwd Nothing
             run a --cwd b -- x | cwd Nothing
             run a --cwd /b -- x | Nothing",
        ) {
            let found = needs(&line).unwrap();
            let stdin = format!("{:?}", found.stdin);
            let needs = [
                (found.whole_stdin, "stdin"),
                (found.terminal, "terminal"),
                (found.cwd, "cwd"),
            ];
            let needs = needs
                .iter()
                .filter(|(needs, _)| *needs)
                .map(|(_, what)| *what);
            let needs: Vec<&str> = needs.chain([&*stdin]).collect();
            assert_eq!(needs.join(" "), expected, "{line}");
        }
    }

    #[test]
    fn commands_about_this_machine_are_not_passed_on() {
        for line in [
            "config show",
            "man",
            "completions bash",
            "init claude",
            "guide",
        ] {
            assert_eq!(needs(line), None, "{line}");
        }
    }
}
