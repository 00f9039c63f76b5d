//! What runs in a task's pane before its command.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::launch::find_bash;
use super::recorded::{RECORD, RecordedCommand};
use super::script::{BASH_ENV, WITH_PROFILE, script};
use super::task_file::{TaskOrder, take};
use crate::files::PROC;
use crate::model::Slot;
use crate::model::environment::{WithheldVariables, covers_name};

/// What tmux sets for the terminal of a pane.
const OF_PANE: [&str; 7] = [
    "TMUX",
    "TMUX_PANE",
    "TERM",
    "TERM_PROGRAM",
    "TERM_PROGRAM_VERSION",
    "TERMINFO",
    "TERMINFO_DIRS",
];

/// Why a task's command did not begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    /// The launcher has given up, or is of another version.
    #[error("could not read what to run from {}", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("could not start {}", .shell.display())]
    Shell {
        shell: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Replaces this process with the shell that runs the task of this file, after `before` has waited for a
/// place in its slot if it has one. The process stays the same one throughout. Returns only if that fails.
pub(crate) fn exec_task(path: &Path, before: impl FnOnce(&Slot)) -> ExecError {
    let pane = env::var("TMUX_PANE").unwrap_or_default();
    let taken = take(path, &pane).or_else(|error| {
        if error.kind() != io::ErrorKind::NotFound {
            return Err(error);
        }
        let not_ours = || io::Error::other("this is not the process of a task's pane");
        recorded_order(&pane).ok_or_else(not_ours)
    });
    let order = match taken {
        Ok(order) => order,
        Err(source) => {
            return ExecError::File {
                path: path.to_owned(),
                source,
            };
        }
    };
    if let Some(slot) = order.slot() {
        before(&slot);
    }
    let mut shell = Command::new(&order.shell);
    shell
        .args(["--noprofile", "-lc", &script(&order), "bash", WITH_PROFILE])
        .args(order.command.words())
        .env_clear()
        .envs(environment(&order));
    ExecError::Shell {
        source: shell.exec(),
        shell: order.shell,
    }
}

/// Returns what the window of our pane has recorded, in tmux's environment, if it was respawned by hand.
fn recorded_order(pane: &str) -> Option<TaskOrder> {
    // The server's own program, unless one is named.
    let inside = env::var("TMUX").ok()?;
    let own = format!("{PROC}/{}/exe", inside.split(',').nth(1)?);
    let named = env::var_os("TMUX_TASK_TMUX").filter(|name| !name.is_empty());
    let program = named.or_else(|| Path::new(&own).exists().then(|| own.into()));
    let format = format!("#{{pane_pid}}\n#{{{RECORD}}}\n#{{window_name}}\n#{{session_name}}");
    let shown = Command::new(program.unwrap_or_else(|| "tmux".into()))
        .args(["display-message", "-p", "-t", pane, &format])
        .stderr(Stdio::null())
        .output();
    let shown = String::from_utf8(shown.ok()?.stdout).ok()?;
    let mut lines = shown.lines();
    let ours = [std::process::id(), parent_id()].map(|pid| pid.to_string());
    lines.next().filter(|pid| ours.contains(&(*pid).into()))?;
    let record = RecordedCommand::decode(lines.next()?)?;
    let withheld = WithheldVariables::default();
    let mut order = TaskOrder {
        shell: find_bash()?,
        is_on_top_of_tmux: true,
        withheld: withheld.names().map(str::to_owned).collect(),
        variables: Vec::new(),
        command: record.command(),
    };
    let name = lines.next()?;
    order.name_task(lines.next()?, name);
    Some(order)
}

/// Returns the environment of the shell, in which a later variable goes before an earlier one.
fn environment(order: &TaskOrder) -> impl Iterator<Item = (OsString, OsString)> {
    let of_tmux = env::vars_os().filter(|(name, _)| match order.is_on_top_of_tmux {
        true => name.to_str().is_none_or(|name| {
            !order
                .withheld
                .iter()
                .any(|pattern| covers_name(pattern, name))
        }),
        false => name.to_str().is_some_and(|name| OF_PANE.contains(&name)),
    });
    let all = of_tmux.chain(order.variables.iter().cloned());
    all.map(|(name, value)| match name == OsStr::new("BASH_ENV") {
        true => (BASH_ENV.into(), value),
        false => (name, value),
    })
}
