//! The sessions of all hosts of a fleet, as its program reports them, and what is done there: by the command
//! that does it, `tmux-task --host HOST`.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tokio::process::Command;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;

use super::board::{Place, SessionKey, SessionName};
use super::mode::PanelEffect;
use super::state::{ActionReport, Incoming};
use super::work::{limited, text_of};
use crate::client::FleetProcess;
use crate::env;
use crate::model::{Backoff, Error, Millis, rfc3339, text, with_causes};
use crate::rules::wire::{LsTask, TypedInput};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// The sessions that were found, by host and the key of their files.
type Keys = BTreeMap<(String, String), SessionKey>;

/// Reports the sessions and tasks of all hosts. Connects again when the connection breaks.
pub(super) async fn follow(to: UnboundedSender<Incoming>) {
    let (mut keys, mut retry) = (Keys::new(), RETRY);
    while !to.is_closed() {
        if let Err(error) = read(&mut keys, &to, &mut retry).await {
            drop(to.send(Incoming::Lost(format!("{}; trying again", text_of(&error)))));
        }
        sleep(retry.next_pause()).await;
    }
}

/// A line of the program: a host that has changed.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostLine {
    host: String,
    gone_since: Option<Millis>,
    sessions: Vec<HostSession>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct HostSession {
    key: String,
    session_name: String,
    exists: bool,
    tasks: Vec<LsTask>,
}

async fn read(
    keys: &mut Keys,
    to: &UnboundedSender<Incoming>,
    retry: &mut Backoff,
) -> Result<(), Error> {
    let (_stdin, mut process) = FleetProcess::start(["ls", "--json", "--follow"])?;
    while !to.is_closed() {
        match serde_json::from_slice(&process.line().await?) {
            Ok(host) => report(host, keys, to),
            // All hosts were reported.
            Err(_) => {
                *retry = RETRY;
                drop(to.send(Incoming::Found));
            }
        }
    }
    Ok(())
}

/// Reports all that is known of a host.
fn report(known: HostLine, keys: &mut Keys, to: &UnboundedSender<Incoming>) {
    let host = known.host;
    let mut sessions = known.sessions;
    sessions.retain(|session| session.exists);
    for ((of, file_key), key) in keys.iter() {
        if *of == host && !sessions.iter().any(|session| session.key == *file_key) {
            drop(to.send(Incoming::Gone(*key)));
        }
    }
    for HostSession {
        key: file_key,
        session_name,
        mut tasks,
        ..
    } in sessions
    {
        let n_keys = keys.len();
        let key = keys.entry((host.clone(), file_key));
        let key = *key.or_insert(SessionKey(n_keys));
        let name = SessionName {
            name: session_name.clone(),
            server: Some(host.clone()),
        };
        if let Some(since) = known.gone_since {
            let why = format!("{host} is gone since {}", rfc3339(since));
            drop(to.send(Incoming::Unknown { key, name, why }));
            continue;
        }
        let place = Place::Host {
            host: host.clone(),
            session: session_name,
        };
        drop(to.send(Incoming::Connected { key, place, name }));
        for task in &mut tasks {
            // The processes of that number here are others.
            Arc::make_mut(&mut task.task).pid = None;
        }
        drop(to.send(Incoming::Tasks {
            key,
            exists: true,
            is_complete: true,
            tasks,
            removed: Vec::new(),
        }));
    }
}

/// The longest line of a command's output, in characters.
const LINE_CHARS: usize = 4096;

/// The answer to what is no command to a host.
const NOT_HERE: &str = "this does not go through the broker";

/// Performs an effect on a host.
pub(super) async fn perform(host: &str, session: &str, effect: PanelEffect) -> ActionReport {
    let run = async |args: &[&str]| {
        let args = [&["--host", host, "-s", session], args].concat();
        let printed = limited(execute(&args)).await;
        printed.unwrap_or_else(|| Err(format!("{host} does not answer")))
    };
    match effect {
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
                    return ActionReport::Said(Err(why));
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
    }
}

/// Executes our own program. Returns the lines that it prints, or what it says when it fails.
async fn execute(args: &[&str]) -> Result<Vec<String>, String> {
    let program = std::env::current_exe().map_err(|error| with_causes(&error))?;
    let mut command = Command::new(program);
    env::pass_on(command.as_std_mut());
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
