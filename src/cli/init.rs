//! `init`: installs and removes the adapters of agents.

use super::args::{Init, InitClient};
use super::failure::{Failure, Kind};
use super::output;
use crate::agent::{AgentClient, Setup, SetupError};
use crate::model::text;
use crate::ops::{ShellSetup, ShellSetupError, UserProgram, lookup};
use crate::paths::foreign_home;

const WHAT: &str = "init";

/// What is printed in front of a file that was to be removed and is not there.
const NOTHING: &str = "nothing to remove:";

/// The maximum length of a path, in characters.
const MAX_CHARS: usize = 4096;

pub(super) fn run(args: &Init) -> Result<(), Failure> {
    if let Some((home, owner)) = foreign_home(&lookup).filter(|_| args.write || args.remove) {
        let why = format!("{} belongs to uid {owner}", home.display());
        return Err(Failure::new(Kind::Failed, WHAT, why)
            .with_hint("with sudo, give -H; otherwise set HOME to your own home directory"));
    }
    let client = match args.client {
        InitClient::Bash => return set_up_program(args, UserProgram::Bash),
        InitClient::Fish => return set_up_program(args, UserProgram::Fish),
        #[cfg(feature = "panel")]
        InitClient::Tmux => return set_up_program(args, UserProgram::Tmux),
        InitClient::Zsh => return set_up_program(args, UserProgram::Zsh),
        InitClient::Pi => AgentClient::Pi,
        InitClient::Claude => AgentClient::Claude,
        InitClient::Codex => AgentClient::Codex,
        InitClient::Opencode => AgentClient::Opencode,
    };
    let setup = Setup::of(client, &lookup).map_err(failure)?;
    let paths: Vec<_> = setup.paths();
    let paths = paths.iter().map(|path| path.display().to_string());
    let (file_verb, command_verb, commands) = if args.write {
        setup.install().map_err(failure)?;
        ("wrote", "ran", setup.install_commands())
    } else if !args.remove {
        ("would write", "would run", setup.install_commands())
    } else {
        let removed = setup.remove().map_err(failure)?;
        for command in removed.not_run {
            output::note(&format!(
                "tmux-task: {WHAT}: `{}` is not on PATH, so this was not run: {command}",
                client.name()
            ));
        }
        let verb = if removed.was_installed {
            "removed"
        } else {
            NOTHING
        };
        (verb, "ran", removed.run)
    };
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

/// Shows what would be added to a file of the program, adds it or removes it.
fn set_up_program(args: &Init, program: UserProgram) -> Result<(), Failure> {
    let setup = ShellSetup::of(program, &lookup).map_err(shell_failure)?;
    let path = text::one_line(setup.path.as_os_str().as_encoded_bytes(), MAX_CHARS);
    if args.write {
        let done = if setup.install().map_err(shell_failure)? {
            "wrote"
        } else {
            "is there already:"
        };
        output::line(&format!("{done} {path}"))?;
        output::note(&match program {
            UserProgram::Bash | UserProgram::Fish | UserProgram::Zsh => {
                "hint: a shell that is started now completes `tmux-task`".to_owned()
            }
            #[cfg(feature = "panel")]
            UserProgram::Tmux => format!(
                "hint: `tmux source-file {path}` loads it now; then the prefix key and T open the panel"
            ),
        });
    } else if args.remove {
        let done = if setup.remove().map_err(shell_failure)? {
            "removed from"
        } else {
            NOTHING
        };
        output::line(&format!("{done} {path}"))?;
    } else {
        output::line(&format!("would add to {path}:"))?;
        output::text(&setup.block)?;
        output::note(&format!(
            "hint: `tmux-task init {} --write` does it, --remove takes it away",
            program.name()
        ));
    }
    Ok(())
}

fn shell_failure(error: ShellSetupError) -> Failure {
    let hint = match &error {
        ShellSetupError::Damaged(_) => Some("remove these lines by hand".to_owned()),
        ShellSetupError::NotOurs(_) => Some("move it away, or delete it".to_owned()),
        ShellSetupError::Dangling { .. } => {
            Some("make the file, or mount the volume that it is on".to_owned())
        }
        ShellSetupError::Protected(path) => {
            Some(format!("`chmod u+w {}` allows it", path.display()))
        }
        ShellSetupError::NoHome | ShellSetupError::File { .. } => None,
    };
    Failure::of(Kind::Failed, WHAT, &error).with_optional_hint(hint)
}

fn failure(error: SetupError) -> Failure {
    let hint = match &error {
        SetupError::NoProgram(_) | SetupError::Spawn { .. } => {
            Some("install the client first, and put it on PATH".to_owned())
        }
        SetupError::NoHome | SetupError::File { .. } | SetupError::Command { .. } => None,
    };
    Failure::of(Kind::Failed, WHAT, &error).with_optional_hint(hint)
}
