//! `init`: installs and removes the adapters of agents.

use super::args::{Init, InitClient};
use super::failure::{Failure, Kind};
use super::output;
use crate::agent::{AgentClient, Setup, SetupError};
use crate::ops::lookup;

const WHAT: &str = "init";

pub(super) fn run(args: &Init) -> Result<(), Failure> {
    let client = match args.client {
        InitClient::Pi => AgentClient::Pi,
        InitClient::Claude => AgentClient::Claude,
        InitClient::Codex => AgentClient::Codex,
        InitClient::Opencode => AgentClient::Opencode,
    };
    let setup = Setup::of(client, &lookup).map_err(failure)?;
    let paths: Vec<_> = setup.paths();
    let paths = paths.iter().map(|path| path.display().to_string());
    let (file_verb, command_verb, commands) = match (args.write, args.remove) {
        (true, _) => ("wrote", "ran", setup.install_commands()),
        (false, true) => ("removed", "ran", setup.remove_commands()),
        (false, false) => ("would write", "would run", setup.install_commands()),
    };
    if args.write {
        setup.install().map_err(failure)?;
    } else if args.remove {
        setup.remove().map_err(failure)?;
    }
    let files = paths.map(|path| format!("{file_verb} {path}"));
    let commands = commands
        .into_iter()
        .map(|command| format!("{command_verb} {command}"));
    let lines: Vec<String> = files.chain(commands).collect();
    output::lines(lines.iter().map(String::as_str))?;
    if !args.write && !args.remove {
        output::note(&format!(
            "hint: `tmux-task init {} --write` does it, --remove takes it away",
            client.name()
        ));
    }
    Ok(())
}

fn failure(error: SetupError) -> Failure {
    let hint = match &error {
        SetupError::Spawn { .. } => Some("install the client first, and put it on PATH".to_owned()),
        SetupError::NoHome | SetupError::File { .. } | SetupError::Command { .. } => None,
    };
    Failure::of(Kind::Failed, WHAT, &error).with_optional_hint(hint)
}
