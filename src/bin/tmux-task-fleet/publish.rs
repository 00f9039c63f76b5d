//! A session on the broker: its daemon writes its records and tasks to standard input, and reads on standard
//! output how far the broker has them. One process is one connection: when that ends, the process does,
//! with why, and the daemon starts another one after a pause.
//!
//! In: first a [`Session`], then, once `{"after":SEQ}` was written, the daemon's stream of the feed behind
//! that record. Out: `{"ready":true}` when others reach this machine, `{"ack":SEQ}` for each record.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::json;
use tmux_task::model::{Error, Seq};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::watch;

use crate::at::OURS;
use crate::buckets::{TaskBoard, beat, check_name, keep_beating, keep_tasks};
use crate::config::FleetConfig;
use crate::connection::{broken, connect_as_configured};
use crate::layout::{HostState, Machine, VERSION};
use crate::machine::{random, system_name};
use crate::print_json;
use crate::service::Service;
use crate::uplink::Uplink;

/// What the daemon says first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// The key of the session's files.
    pub(crate) key: String,
    pub(crate) session_name: String,
    /// The epoch of its feed, and the last record.
    pub(crate) epoch: String,
    pub(crate) last_seq: Seq,
    /// The last record that the broker has confirmed.
    pub(crate) cursor: Seq,
    /// The folder of its state.
    pub(crate) state: PathBuf,
    /// The folder that all sessions of the user share while the machine runs.
    pub(crate) runtime: PathBuf,
}

/// What the daemon writes.
pub(crate) type FromDaemon = Lines<BufReader<Stdin>>;

pub(crate) async fn run() -> Result<(), Error> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let first = lines.next_line().await.map_err(Error::of)?;
    let session = first.and_then(|line| serde_json::from_str(&line).ok());
    let session: Session = session.ok_or_else(|| Error::usage("a daemon starts this"))?;
    let connection = connect_as_configured().await?;
    let FleetConfig { host, allow, .. } = &*connection.config;
    let shared = session.runtime.join("fleet");
    let state = HostState {
        v: VERSION,
        host: host.clone(),
        version: OURS.to_owned(),
        allow: allow.iter().map(|verb| verb.name().to_owned()).collect(),
        machine: Some(Machine {
            id: machine_id(&shared).map_err(|error| Error::folder(&shared, &error))?,
            name: system_name(),
        }),
    };
    check_name(&connection, &state).await?;
    let service = Service::new(host.clone(), allow.clone(), shared.join("keys"));
    // Whoever sees that the machine is there can ask it.
    let requests = service.begin(&connection.client).await?;
    beat(&connection, &state).await?;
    print_json(&json!({ "ready": true }))?;
    let key = session.key.clone();
    let (boards, board) = watch::channel(TaskBoard {
        session_name: session.session_name.clone(),
        ..TaskBoard::default()
    });
    let uplink = Uplink {
        session,
        connection: &connection,
    };
    let serving = async {
        tokio::try_join!(
            service.serve(&connection.client, requests),
            keep_tasks(&connection, &key, board),
            keep_beating(&connection, &state),
        )
    };
    tokio::select! {
        // All that the daemon had is published.
        published = uplink.publish(lines, boards) => published,
        Err(error) = serving => Err(error),
        () = connection.ended() => Err(broken()),
    }
}

/// Returns what identifies this machine until it ends: all of the user's daemons have the same.
fn machine_id(folder: &Path) -> io::Result<String> {
    let mut new = fs::DirBuilder::new();
    new.recursive(true).mode(0o700).create(folder)?;
    let path = folder.join("id");
    // A link is there as a whole, or not at all: another daemon may read it.
    match symlink(random(), &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(fs::read_link(path)?.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_a_machine_have_its_id_and_other_machines_another() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = machine_id(one.path()).unwrap();
        assert_eq!(machine_id(one.path()).unwrap(), id);
        assert_ne!(machine_id(two.path()).unwrap(), id);
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1);
    }
}
