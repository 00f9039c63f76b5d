//! `init`: installs and removes the adapters of agents.

use std::path::PathBuf;

use super::args::{Init, InitClient};
use super::context::{self, Context};
use super::failure::Failure;
use super::{init_host, output};
use crate::faces::agent::{AgentClient, CommandError, Setup, SetupError};
use crate::model::{ErrorKind, with_causes};
use crate::ops::lookup;
use crate::paths::foreign_home;

const WHAT: &str = "init";

/// What is printed in front of a file that was to be removed and is not there.
const NOTHING: &str = "nothing to remove:";

pub(super) async fn run(context: &Context, args: &Init) -> Result<(), Failure> {
    match (args.client, &args.machine) {
        (InitClient::Host, Some(name)) => return init_host::run(context, name).await,
        (_, None) => {}
        (_, Some(name)) => {
            let why = format!("unexpected argument '{name}': only `init host` takes one");
            return Err(Failure::new(ErrorKind::Usage, WHAT, why));
        }
    }
    if let Some((home, owner)) = foreign_home(&lookup).filter(|_| args.write || args.remove) {
        let why = format!("{} belongs to uid {owner}", home.display());
        return Err(Failure::new(ErrorKind::Failed, WHAT, why)
            .with_hint("with sudo, give -H; otherwise set HOME to your own home directory"));
    }
    let client = match args.client {
        InitClient::Host => {
            return Err(Failure::new(ErrorKind::Usage, WHAT, "the host is missing")
                .with_hint("`tmux-task init host HOST`, a name under [hosts] in the configuration, or a destination for ssh"));
        }
        InitClient::Pi => AgentClient::Pi,
        InitClient::Claude => AgentClient::Claude,
        InitClient::Codex => AgentClient::Codex,
        InitClient::Opencode => AgentClient::Opencode,
    };
    // Each command of a client has a time limit of its own.
    context.limit.lift();
    // A command that runs is killed by an interrupt.
    context::unless_interrupted(WHAT, set_up_client(args, client)).await?
}

/// Shows what installing an adapter would do, installs it or removes it.
async fn set_up_client(args: &Init, client: AgentClient) -> Result<(), Failure> {
    let name = client.name();
    let setup = Setup::of(client, &lookup).map_err(|error| failure(&error))?;
    if args.write {
        let done = setup.install().await;
        print("wrote", &done.written, "ran", &done.run)?;
        return done.error.map_or(Ok(()), |error| {
            let failure = failure(&error);
            Err(if done.written.is_empty() {
                failure
            } else {
                failure.with_hint(format!(
                    "`tmux-task init {name} --remove` takes away what was written"
                ))
            })
        });
    }
    if !args.remove {
        let commands = setup.install_commands();
        print("would write", &setup.paths(), "would run", &commands)?;
        output::note(&format!(
            "hint: `tmux-task init {name} --write` does it, --remove takes it away"
        ));
        return Ok(());
    }
    let removed = setup.remove().await.map_err(|error| failure(&error))?;
    let verb = if removed.was_installed {
        "removed"
    } else {
        NOTHING
    };
    print(verb, &setup.paths(), "ran", &removed.run)?;
    for command in removed.not_run {
        output::note(&format!(
            "tmux-task: {WHAT}: `{name}` is not on PATH, so this was not run: {command}"
        ));
    }
    let mut failed = removed.failed;
    let Some(last) = failed.pop() else {
        return Ok(());
    };
    for error in failed {
        output::note(&format!("tmux-task: {WHAT}: {}", with_causes(&error)));
    }
    let hint = format!("the files are removed; if {name} still lists tmux-task, remove it there");
    Err(Failure::of(ErrorKind::Failed, WHAT, &last).with_hint(hint))
}

fn print(
    file_verb: &str,
    files: &[PathBuf],
    command_verb: &str,
    commands: &[String],
) -> Result<(), Failure> {
    let files = files
        .iter()
        .map(|path| format!("{file_verb} {}", path.display()));
    let commands = commands
        .iter()
        .map(|command| format!("{command_verb} {command}"));
    output::lines(files.chain(commands))
}

fn failure(error: &SetupError) -> Failure {
    let hint = match error {
        SetupError::NoProgram(_) | SetupError::Command(CommandError::Spawn { .. }) => {
            Some("install the client first, and put it on PATH".to_owned())
        }
        SetupError::NoHome
        | SetupError::File { .. }
        | SetupError::Command(CommandError::Failed { .. }) => None,
    };
    Failure::of(ErrorKind::Failed, WHAT, error).with_optional_hint(hint)
}
