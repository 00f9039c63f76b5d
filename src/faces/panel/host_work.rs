//! What is done on a host of a fleet: by the command that does it, `tmux-task --host HOST`.

use std::process::Stdio;

use tokio::process::Command;

use super::effect::{ActionReport, PanelEffect};
use super::work::{EffectResult, limited};
use crate::model::{text, with_causes};
use crate::wire::TypedInput;

/// The longest line of a command's output, in characters.
const LINE_CHARS: usize = 4096;

/// The answer to what is no command to a host.
const NOT_HERE: &str = "this does not go through the broker";

/// Performs an effect on a host.
pub(super) async fn perform(host: &str, session: &str, effect: PanelEffect) -> EffectResult {
    let run = async |args: &[&str]| {
        let args = [&["--host", host, "-s", session], args].concat();
        let printed = limited(execute(&args)).await;
        printed.unwrap_or_else(|| Err(format!("{host} does not answer")))
    };
    let report = match effect {
        PanelEffect::Quit => return EffectResult::Quit,
        PanelEffect::Send { name, request, .. } => {
            let prompt = request.if_prompt.unwrap_or_default();
            let mut args = vec!["send", &request.task, "--if-prompt", &prompt];
            match &request.input {
                TypedInput::Text(text) => {
                    args.extend((!request.enter).then_some("--no-enter"));
                    args.extend(["--", text]);
                }
                TypedInput::Keys(keys) => args.extend(keys.iter().flat_map(|key| ["--key", key])),
                TypedInput::Secret(_) => {
                    let why = "a secret is not sent through the broker".to_owned();
                    return EffectResult::Report(ActionReport::Said(Err(why)));
                }
            }
            ActionReport::Said(run(&args).await.map(|_| format!("sent to {name}")))
        }
        PanelEffect::Kill { task, name } => {
            let killed = run(&["kill", &task.window]).await;
            ActionReport::Said(killed.map(|_| format!("killed {name}")))
        }
        PanelEffect::ReadLog { task } => ActionReport::Log {
            result: run(&["logs", &task.window]).await,
            task,
        },
        PanelEffect::Preview { task, .. } => ActionReport::Preview {
            task,
            lines: Vec::new(),
        },
        PanelEffect::Attach { .. } | PanelEffect::Rerun { .. } | PanelEffect::Prune { .. } => {
            ActionReport::Said(Err(NOT_HERE.to_owned()))
        }
        PanelEffect::Explain { task } => ActionReport::Explained {
            task,
            // The daemon there refuses an answer that would have to be hidden.
            result: Ok((false, vec![NOT_HERE.to_owned()])),
        },
    };
    EffectResult::Report(report)
}

/// Executes our own program. Returns the lines that it prints, or what it says when it fails.
async fn execute(args: &[&str]) -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|error| with_causes(&error))?;
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await;
    let output = output.map_err(|error| with_causes(&error))?;
    let of = |bytes: &[u8]| -> Vec<String> {
        let lines = bytes.split(|byte| *byte == b'\n');
        lines
            .map(|line| text::bounded(&text::piece(line), LINE_CHARS))
            .collect()
    };
    match output.status.success() {
        true => Ok(of(&output.stdout)),
        false => Err(of(&output.stderr).swap_remove(0)),
    }
}
