//! `--host`: passes a command on to another machine.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::args::{CliCommand, Feed, KillAll, Replay, Run, Send};
use super::context::ExitWatch;
use super::output;
use crate::config;
use crate::hosts::{
    Channel, ChannelInput, ChannelOutput, FarCall, FarCaller, FarStdin, Host, Questions, Ssh,
    connect, lost, not_started, this_machine,
};
use crate::model::{Error, ErrorKind};
#[cfg(feature = "fleet")]
use crate::ops::ask_fleet;
use crate::ops::{Caller, SessionChoice, TaskSession, lookup, note_host};

/// The failure of ssh itself.
const SSH_FAILED: i32 = 255;

/// What a command needs of this machine.
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts, all but a few of them false"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Needs {
    /// Its name.
    command: &'static str,
    /// It reads standard input.
    stdin: bool,
    /// It shows or asks something on the terminal, if there is one.
    terminal: bool,
    /// It depends on the directory it runs in.
    cwd: bool,
    /// It may start tasks, of which a conversation wants to hear.
    launches: bool,
    /// It ends when its output is closed, also while it prints nothing.
    ends_with_output: bool,
}

/// Returns what the command needs; for one that is only about this machine, its name.
fn needs_of(command: &CliCommand) -> Result<Needs, &'static str> {
    let of = |command| Needs {
        command,
        ..Needs::default()
    };
    let is_here = |path: &Option<PathBuf>| path.as_ref().is_none_or(|path| path.is_relative());
    Ok(match command {
        CliCommand::Run(Run { cwd, .. }) => Needs {
            launches: true,
            cwd: is_here(cwd),
            ..of("run")
        },
        CliCommand::Up(_) => Needs {
            launches: true,
            cwd: true,
            ..of("up")
        },
        CliCommand::Down(_) => Needs {
            cwd: true,
            ..of("down")
        },
        CliCommand::Restart(_) => Needs {
            launches: true,
            ..of("restart")
        },
        CliCommand::Daemon(_) => of("daemon"),
        CliCommand::Feed(Feed {
            follow, consume, ..
        }) => Needs {
            stdin: consume.consumer.is_some() && !consume.auto_ack,
            ends_with_output: *follow,
            ..of("feed")
        },
        CliCommand::Consumer(_) => of("consumer"),
        CliCommand::Ls(_) => of("ls"),
        CliCommand::Logs(_) => of("logs"),
        CliCommand::Search(_) => of("search"),
        CliCommand::Wait(_) => of("wait"),
        CliCommand::Signal(_) => of("signal"),
        CliCommand::Explain(_) => of("explain"),
        CliCommand::Send(Send { secret, .. }) => Needs {
            stdin: *secret,
            terminal: *secret,
            ..of("send")
        },
        CliCommand::Kill(_) => of("kill"),
        CliCommand::KillAll(KillAll { yes, .. }) => Needs {
            terminal: !yes,
            ..of("kill-all")
        },
        CliCommand::Prune(_) => of("prune"),
        CliCommand::Status(_) => of("status"),
        CliCommand::Doctor(_) => of("doctor"),
        CliCommand::Attach(_) => Needs {
            terminal: true,
            ..of("attach")
        },
        #[cfg(feature = "panel")]
        CliCommand::Panel(_) => Needs {
            terminal: true,
            ..of("panel")
        },
        #[cfg(feature = "mcp")]
        CliCommand::Mcp(_) => Needs {
            launches: true,
            stdin: true,
            ..of("mcp")
        },
        CliCommand::Replay(Replay { file, .. }) => Needs {
            stdin: file.as_ref().is_none_or(|file| file.as_os_str() == "-"),
            cwd: true,
            ..of("replay")
        },
        CliCommand::Fleet(_) => return Err("fleet"),
        CliCommand::Config(_) => return Err("config"),
        CliCommand::Init(_) => return Err("init"),
        CliCommand::Guide => return Err("guide"),
        CliCommand::Completions(_) => return Err("completions"),
        CliCommand::Man(_) => return Err("man"),
        CliCommand::Agent(_) => return Err("agent"),
        CliCommand::Serve(_) => return Err("serve"),
    })
}

/// Executes the command with these arguments, the program's name first, on another machine.
pub(super) async fn run(
    name: &str,
    choice: &SessionChoice,
    args: &[OsString],
    command: &CliCommand,
) -> Result<(), Error> {
    let not_here = |_| Error::usage("it is about this machine: --host does not go with it");
    let needs = needs_of(command).map_err(not_here)?;
    let config = config::load(&lookup)?;
    let host = Host::named(name, &config)?;
    let call = call(&host, needs, choice, args)?;
    #[cfg(feature = "fleet")]
    if let Some(mut answers) = ask_fleet(&config, &call, needs.command, choice).await? {
        let mut signals = ExitWatch::listen()?;
        // Losing an arm is safe: without somebody who waits, the execution there is terminated.
        return tokio::select! {
            outcome = pass_on(async || answers.next().await) => outcome,
            kind = signals.recv() => Err(Error::silent(kind)),
        };
    }
    // The host is not forgotten before the launch there is done.
    let owner = call.owner.as_deref().filter(|_| needs.launches);
    let _held = match owner {
        Some(owner) => note_host(owner, &host.name).await?,
        None => None,
    };
    // From here on, a signal is for the execution there.
    let signals = ExitWatch::listen()?;
    let ssh = Ssh::prepare(&lookup)?;
    let has_terminal = io::stdin().is_terminal();
    let connected = match connected(&host, &ssh, questions(), signals).await {
        Ok((channel, signals)) => (channel?, signals),
        Err(kind) => return Err(Error::silent(kind)),
    };
    let (mut channel, signals) = connected;
    if needs.terminal && has_terminal && io::stdout().is_terminal() {
        // ssh has the terminal, and its signals.
        drop((channel, signals));
        let status = tokio::process::Command::from(ssh.in_terminal(&host, &call))
            .status()
            .await;
        let status = status.map_err(|error| not_started("ssh", &error))?;
        return match status.code() {
            Some(SSH_FAILED) => Err(lost(&host.name)),
            code => ended(code.and_then(|code| code.try_into().ok()).unwrap_or(1)),
        };
    }
    channel.open(call);
    let input = channel.input();
    let closed = async {
        if needs.ends_with_output {
            output::stdout_closed().await;
        } else {
            std::future::pending::<()>().await;
        }
    };
    // Losing an arm is safe: without the channel, the execution there is terminated.
    tokio::select! {
        outcome = pass_on(async || channel.next().await) => outcome,
        kind = pass_on_signals(signals, &input) => Err(Error::silent(kind)),
        () = closed => Err(Error::silent(ErrorKind::OutputClosed)),
        never = pass_on_stdin(&input, needs.stdin) => never,
    }
}

/// Returns whether ssh may ask.
pub(super) fn questions() -> Questions {
    if io::stdin().is_terminal() && io::stderr().is_terminal() {
        Questions::AtTerminal
    } else {
        Questions::Never
    }
}

/// Connects; a signal meanwhile ends the command.
async fn connected(
    host: &Host,
    ssh: &Ssh,
    questions: Questions,
    mut signals: ExitWatch,
) -> Result<(Result<Channel, Error>, ExitWatch), ErrorKind> {
    tokio::select! {
        channel = connect(host, ssh, questions) => Ok((channel, signals)),
        kind = signals.recv() => Err(kind),
    }
}

/// Returns what is executed there.
fn call(
    host: &Host,
    needs: Needs,
    choice: &SessionChoice,
    args: &[OsString],
) -> Result<FarCall, Error> {
    let args = args
        .iter()
        .skip(1)
        .map(|arg| arg.to_str().map(str::to_owned));
    let args: Option<Vec<String>> = args.collect();
    let args =
        args.ok_or_else(|| Error::usage("an argument is not UTF-8, and --host passes on text"))?;
    let session = match &choice.session {
        Some(_) => None,
        None => Some(TaskSession::name_from_here()?),
    };
    let here = std::env::current_dir().ok();
    let here = here.and_then(|dir| dir.to_str().map(str::to_owned));
    Ok(FarCall {
        args,
        caller: FarCaller {
            host: host.name.clone(),
            machine: this_machine(),
            stdout_columns: output::terminal_columns(),
            is_stdout_terminal: output::is_stdout_terminal(),
            is_stderr_terminal: output::is_stderr_terminal(),
            is_coloured: output::is_coloured(),
            is_guarded: false,
        },
        owner: Caller::of_environment().owner,
        session,
        cwd: host.cwd.clone().or(here),
        needs_cwd: needs.cwd.then(|| needs.command.to_owned()),
        stdin: match needs.stdin {
            true => FarStdin::Follows,
            false => FarStdin::Nothing,
        },
    })
}

/// Prints what comes from the execution, to its end.
async fn pass_on(mut next: impl AsyncFnMut() -> Result<ChannelOutput, Error>) -> Result<(), Error> {
    let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
    loop {
        match next().await? {
            ChannelOutput::Stdout(bytes) => {
                let written = async {
                    stdout.write_all(&bytes).await?;
                    stdout.flush().await
                };
                let written = written.await;
                written.or_else(|error| output::closed_is_fine(&error))?;
            }
            ChannelOutput::Stderr(bytes) => {
                // If that fails, it cannot be reported.
                drop(stderr.write_all(&bytes).await);
                drop(stderr.flush().await);
            }
            ChannelOutput::Exit(code) => return ended(code),
        }
    }
}

fn ended(code: u8) -> Result<(), Error> {
    match code {
        0 => Ok(()),
        code => Err(Error::silent(ErrorKind::OfTask(code))),
    }
}

/// Passes on the first signal, which the execution there ends with. Ends at the second one: the
/// connection may be what does not end.
async fn pass_on_signals(mut signals: ExitWatch, input: &ChannelInput) -> ErrorKind {
    let first = signals.recv().await;
    input.signal(i32::from(first.exit_code()) - 128);
    signals.recv().await
}

/// Passes on standard input. Never ends.
async fn pass_on_stdin<T>(input: &ChannelInput, is_read: bool) -> T {
    if is_read {
        let mut stdin = tokio::io::stdin();
        let mut bytes = vec![0; 8 << 10];
        while let Ok(n @ 1..) = stdin.read(&mut bytes).await {
            input.write(&bytes[..n]).await;
        }
        input.close();
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::faces::cli::args::Cli;

    fn needs(line: &str) -> Result<Needs, &'static str> {
        let args = std::iter::once("tmux-task").chain(line.split(' '));
        needs_of(&Cli::try_parse_from(args).unwrap().command)
    }

    #[test]
    fn what_a_command_needs_of_this_machine_is_known() {
        let has = |line: &str, is_so: fn(Needs) -> bool| is_so(needs(line).unwrap());
        assert!(has("send a --secret", |needs| needs.stdin && needs.terminal));
        assert!(!has("send a b", |needs| needs.stdin || needs.terminal));
        assert!(has("feed -f --consumer c", |needs| needs.stdin));
        assert!(!has("feed -f --consumer c --auto-ack", |needs| needs.stdin));
        assert!(has("kill-all", |needs| needs.terminal));
        assert!(!has("kill-all --yes", |needs| needs.terminal));
        assert!(has("run a -- x", |needs| needs.cwd));
        assert!(has("run a --cwd b -- x", |needs| needs.cwd));
        assert!(!has("run a --cwd /b -- x", |needs| needs.cwd));
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
            let name = line.split(' ').next().unwrap();
            assert_eq!(needs(line), Err(name));
        }
    }
}
