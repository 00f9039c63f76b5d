//! A session on the broker: its daemon writes its records and tasks to standard input, and reads on standard
//! output how far the broker has them. One process is one connection: when that ends, the process does,
//! with why, and the daemon starts another one after a pause.
//!
//! In: first a [`Session`], then, once `{"after":SEQ}` was written, the daemon's stream of the feed behind
//! that record. Out: `{"ready":true}` when others reach this machine, `{"ack":SEQ}` for each record.
//!
//! The feed is the truth: what the broker has not confirmed, or has lost since, is published from it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::SystemTime;

use async_nats::header::NATS_MESSAGE_ID as MESSAGE_ID;
use async_nats::jetstream::context::{PublishAckFuture, PublishErrorKind};
use async_nats::jetstream::message::PublishMessage;
use futures_util::stream::{self, StreamExt};
use serde::Deserialize;
use serde_json::json;
use tmux_task::model::{Body, Error, OURS, Record, Seq};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::sync::watch;

use crate::buckets::{TaskBoard, beat, check_name, keep_beating, keep_tasks};
use crate::config::FleetConfig;
use crate::connection::{Connection, KEPT, broken, connect, create_missing};
use crate::layout::{
    FEED, HostState, LOOK_HEADER, Machine, VERSION, feed_subject, message_id, parse_message_id,
    subject, token, wakes_of,
};
use crate::machine::{millis, private_folder, system_name};
use crate::print_json;
use crate::service::Service;

/// How many records may wait for their confirmation: what the broker takes in the time of an answer.
const MOST_UNDER_WAY: usize = 256;

/// Between the epoch of a feed and how often it has gone back to an older copy.
const GENERATION: &str = "-";

/// How much a message may be smaller than the broker permits, for its headers, in bytes.
const HEADERS: usize = 4 << 10;

/// What the daemon says first.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    /// The key of the session's files.
    key: String,
    session_name: String,
    /// The epoch of its feed, and the last record.
    epoch: String,
    last_seq: Seq,
    /// The last record that the broker has confirmed.
    cursor: Seq,
    /// The folder of its state.
    state: PathBuf,
    /// The folder that all sessions of the user share while the machine runs.
    runtime: PathBuf,
}

pub(crate) async fn run() -> Result<(), Error> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let first = lines.next_line().await.map_err(Error::of)?;
    let session = first.and_then(|line| serde_json::from_str(&line).ok());
    let session: Session = session.ok_or_else(|| Error::usage("a daemon starts this"))?;
    let connection = connect().await?;
    let FleetConfig { host, allow, .. } = &*connection.config;
    let shared = session.runtime.join("fleet");
    let state = HostState {
        v: VERSION,
        host: host.clone(),
        version: OURS.to_owned(),
        allow: json!(allow),
        machine: Some(Machine {
            id: machine_id(&shared, &connection.client.new_inbox())
                .map_err(|error| Error::folder(&shared, &error))?,
            name: system_name(),
        }),
    };
    check_name(&connection, &state).await?;
    // Whoever sees that the machine is there can ask it.
    let service = Service::begin(&connection, shared.join("keys")).await?;
    beat(&connection, &state).await?;
    print_json(&json!({ "ready": true }))?;
    let (boards, board) = watch::channel(TaskBoard {
        session_name: session.session_name.clone(),
        ..TaskBoard::default()
    });
    let serving = async {
        tokio::try_join!(
            service.serve(),
            keep_tasks(&connection, &session.key, board),
            keep_beating(&connection, &state),
        )
    };
    tokio::select! {
        // All that the daemon had is published.
        published = session.publish(&connection, lines, boards) => published,
        Err(error) = serving => Err(error),
        () = connection.ended() => Err(broken()),
    }
}

/// Returns what identifies this machine until it ends: all of the user's daemons have the same. `new` is a name
/// that nothing else has.
fn machine_id(folder: &Path, new: &str) -> io::Result<String> {
    private_folder(folder)?;
    let path = folder.join("id");
    // A link is there as a whole, or not at all: another daemon may read it.
    match symlink(new, &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) => Ok(fs::read_link(path)?.display().to_string()),
    }
}

impl Session {
    /// Publishes all records that the broker does not have, and those to come, until the daemon leaves.
    async fn publish(
        &self,
        connection: &Connection,
        lines: Lines<BufReader<Stdin>>,
        boards: watch::Sender<TaskBoard>,
    ) -> Result<(), Error> {
        let (epoch, known) = self.find_start(connection).await?;
        // Whatever ended the connection before may have come between a record and its wake.
        print_json(&json!({ "after": known.min(self.cursor) }))?;
        let oldest = millis(SystemTime::now() - KEPT);
        // A line that cannot be read is the last one.
        let lines = stream::unfold(lines, async |mut lines| {
            Some((lines.next_line().await.ok()??, lines))
        });
        let records = lines.filter_map(async |line| read(&line, &boards));
        let sent = records.then(async |record| {
            let (seq, is_known) = (record.seq, record.seq <= known);
            let record = Record {
                epoch: epoch.clone(),
                ..record
            };
            // The broker would remove it at once.
            let sent = match record.time < oldest {
                true => Ok(Vec::new()),
                false => self.send(connection, record, is_known).await,
            };
            all_stored(seq, sent)
        });
        let mut stored = pin!(sent.buffered(MOST_UNDER_WAY));
        let mut confirmed_before = self.cursor;
        while let Some(done) = stored.next().await {
            match done {
                // What is published again is acknowledged already.
                Ok(seq) if seq > confirmed_before => {
                    confirmed_before = seq;
                    print_json(&json!({ "ack": seq }))?;
                }
                Ok(_) => {}
                Err(kind) => {
                    if kind == PublishErrorKind::StreamNotFound {
                        create_missing(connection).await;
                    }
                    return Err(connection.not_confirmed(kind));
                }
            }
        }
        Ok(())
    }

    /// Returns the epoch by which the broker knows the feed, and the last record of the session that the broker
    /// has; the last one that it confirmed where it may not be asked. A broker that has more than the feed has it
    /// from before the machine's state went back to an older copy: what comes now has other numbers, so it is
    /// another feed to whoever reads.
    async fn find_start(&self, connection: &Connection) -> Result<(String, Seq), Error> {
        let (cursor, last_seq) = (self.cursor, self.last_seq);
        let noted = self.noted_generation();
        let subject = subject(FEED.root, &[&connection.config.host, &self.key]);
        let last = connection.last(FEED, format!("{subject}.>")).await;
        // These credentials may only publish.
        let is_known = last.is_ok();
        let id = last.ok().flatten();
        let id = id.and_then(|last| parse_message_id(last.headers.get(MESSAGE_ID)?.as_str()));
        // A feed that was created again has other records with these numbers.
        let found = id.and_then(|(epoch, seq)| Some((self.generation_of(&epoch)?, seq)));
        // The latest generation, and the last record of that.
        let (mut generation, known) = found.unwrap_or_default().max((noted, 0));
        let mut after = if is_known { known } else { cursor };
        if after > last_seq {
            generation += 1;
            after = cursor.min(last_seq);
        }
        let epoch = match generation {
            0 => self.epoch.clone(),
            n => format!("{}{GENERATION}{n}", self.epoch),
        };
        if generation != noted {
            let path = self.generation_file();
            fs::write(&path, &epoch).map_err(|error| Error::folder(&path, &error))?;
        }
        Ok((epoch, after))
    }

    /// Returns how often the feed with this epoch, as the broker knows it, had gone back; `None` for another
    /// feed.
    fn generation_of(&self, epoch: &str) -> Option<u64> {
        match epoch.strip_prefix(&self.epoch)? {
            "" => Some(0),
            rest => rest.strip_prefix(GENERATION)?.parse().ok(),
        }
    }

    /// A broker that has lost everything does not know it.
    fn noted_generation(&self) -> u64 {
        let noted = fs::read_to_string(self.generation_file()).unwrap_or_default();
        self.generation_of(&noted).unwrap_or_default()
    }

    fn generation_file(&self) -> PathBuf {
        self.state.join("fleet-generation")
    }

    /// Sends a record, unless the broker has it, and the wake of a conversation that it is for. Returns what
    /// resolves when each is stored.
    async fn send(
        &self,
        connection: &Connection,
        record: Record,
        is_known: bool,
    ) -> Result<Vec<PublishAckFuture>, PublishErrorKind> {
        let (host, key) = (&connection.config.host, &self.key);
        let mut subjects = Vec::new();
        if !is_known {
            subjects.push(feed_subject(host, key, &record.body));
        }
        if let Body::FollowUp {
            owner: Some(owner), ..
        } = &record.body
        {
            subjects.push(format!("{}.{}", wakes_of(owner), token(host)));
        }
        let last_of_write = record.seq + Seq::from(record.more);
        let message = PublishMessage::build()
            .message_id(message_id(host, key, &record.epoch, record.seq))
            .header(LOOK_HEADER, format!("{}:{last_of_write}", record.epoch))
            .payload(payload(host, record, connection.client.max_payload()).into());
        let mut sent = Vec::new();
        for subject in subjects {
            let jetstream = &connection.jetstream;
            let one = jetstream.send_publish(subject, message.clone()).await;
            sent.push(one.map_err(|error| error.kind())?);
        }
        Ok(sent)
    }
}

/// Reads a line of the daemon: a record; or what it says of tasks, which is noted.
fn read(line: &str, boards: &watch::Sender<TaskBoard>) -> Option<Record> {
    let Ok(record) = serde_json::from_str::<Record>(line) else {
        let tasks = serde_json::from_str(line).ok()?;
        boards.send_modify(|board| board.apply(tasks));
        return None;
    };
    boards.send_if_modified(|board| {
        let is_other = board.session_name != record.session_name;
        board.session_name.clone_from(&record.session_name);
        is_other
    });
    Some(record)
}

/// Resolves when the broker has stored everything of this record.
async fn all_stored(
    seq: Seq,
    sent: Result<Vec<PublishAckFuture>, PublishErrorKind>,
) -> Result<Seq, PublishErrorKind> {
    for stored in sent? {
        stored.await.map_err(|error| error.kind())?;
    }
    Ok(seq)
}

/// Returns a record as it is published. If it is longer than the broker permits, it is without the
/// output of its tasks, and if that does not suffice, without its events: their records are there.
fn payload(host: &str, mut record: Record, most: usize) -> Vec<u8> {
    record.host = Some(host.to_owned());
    // The daemon's own.
    record.checkpoint = None;
    let json = |record: &Record| serde_json::to_vec(record).expect("it has text and numbers only");
    let most = most.saturating_sub(HEADERS);
    let mut payload = json(&record);
    for is_last in [false, true] {
        if payload.len() <= most {
            break;
        }
        match &mut record.body {
            Body::FollowUp { message, .. } if is_last => message.details.events.clear(),
            Body::FollowUp { message, .. } => {
                for event in &mut message.details.events {
                    event.task.screen.forget_rows();
                }
            }
            Body::Event(event) => event.task.screen.forget_rows(),
            Body::Notice { text, .. } => text.truncate(text.floor_char_boundary(most / 2)),
        }
        payload = json(&record);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_of_a_machine_have_its_id_and_other_machines_another() {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let id = machine_id(one.path(), "a").unwrap();
        assert_eq!(machine_id(one.path(), "b").unwrap(), id);
        assert_ne!(machine_id(two.path(), "b").unwrap(), id);
        assert_eq!(fs::read_dir(one.path()).unwrap().count(), 1);
    }
}
