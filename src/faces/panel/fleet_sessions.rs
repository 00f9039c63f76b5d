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
        let Ok(host) = serde_json::from_slice(&process.line().await?) else {
            // All hosts were reported.
            *retry = RETRY;
            drop(to.send(Incoming::Found));
            continue;
        };
        for incoming in of_host(host, keys) {
            drop(to.send(incoming));
        }
    }
    Ok(())
}

/// Returns all that is known of a host.
fn of_host(known: HostLine, keys: &mut Keys) -> Vec<Incoming> {
    let host = known.host;
    let is_there = |file_key: &str| {
        let mut sessions = known.sessions.iter();
        sessions.any(|session| session.exists && session.key == file_key)
    };
    let mut all = Vec::new();
    for ((of, file_key), key) in keys.iter() {
        if *of == host && !is_there(file_key) {
            all.push(Incoming::Gone(*key));
        }
    }
    for mut session in known.sessions.into_iter().filter(|session| session.exists) {
        let n_keys = keys.len();
        let key = keys.entry((host.clone(), session.key));
        let key = *key.or_insert(SessionKey(n_keys));
        let name = SessionName {
            name: session.session_name.clone(),
            server: Some(host.clone()),
        };
        if let Some(since) = known.gone_since {
            let why = format!("{host} is gone since {}", rfc3339(since));
            all.push(Incoming::Unknown { key, name, why });
            continue;
        }
        let place = Place::Host {
            host: host.clone(),
            session: session.session_name,
        };
        for task in &mut session.tasks {
            // The processes of that number here are others.
            Arc::make_mut(&mut task.task).pid = None;
        }
        all.push(Incoming::Connected { key, place, name });
        all.push(Incoming::Tasks {
            key,
            exists: true,
            is_complete: true,
            tasks: session.tasks,
            removed: Vec::new(),
        });
    }
    all
}

/// The longest line of a command's output, in characters.
const LINE_CHARS: usize = 4096;

const NOT_HERE: &str = "this does not go through the broker";

pub(super) async fn perform(host: &str, session: &str, effect: PanelEffect) -> ActionReport {
    let run = async |args: &[&str]| {
        let args = [&["--host", host, "-s", session], args].concat();
        let printed = limited(execute(&args)).await;
        printed.unwrap_or_else(|| Err(format!("{host} does not answer")))
    };
    let said = ActionReport::Said;
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
                    let why = "a secret is not sent through the broker";
                    return said(Err(why.to_owned()));
                }
            }
            said(run(&args).await.map(|_| format!("sent to {name}")))
        }
        PanelEffect::Kill { task, name } => {
            let killed = run(&["kill", &task.window]).await;
            said(killed.map(|_| format!("killed {name}")))
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
            said(Err(NOT_HERE.to_owned()))
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
    let lines = |bytes: &[u8]| -> Vec<String> {
        let lines = bytes.split(|byte| *byte == b'\n').map(text::piece);
        lines.map(|line| text::bounded(&line, LINE_CHARS)).collect()
    };
    match output.status.success() {
        true => Ok(lines(&output.stdout)),
        false => Err(lines(&output.stderr).swap_remove(0)),
    }
}
