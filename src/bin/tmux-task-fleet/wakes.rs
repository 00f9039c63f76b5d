//! The follow-ups of a conversation's tasks on other hosts, as lines of JSON: a record with `host`, whose
//! `epoch` names the feed, and `cursor`, up to which it was acknowledged before. A line
//! `{"epoch":NAME,"ack":SEQ}` on standard input acknowledges. One process is one connection.
//!
//! The broker can send again what was acknowledged: after it has lost what it stored, the hosts publish
//! it again from their feeds. So the conversation's machine notes how far it is in each feed, before it
//! acknowledges.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, pull};
use serde::Deserialize;
use serde_json::json;
use tmux_task::model::{Body, Error, Event, Record, Seq, is_host_name};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::connection::{Connection, KEPT, broken, connect};
use crate::feed::AGAIN_AFTER;
use crate::layout::{WAKE, parse, wake_consumer, wakes_of, words_of};
use crate::{hash, print_json, private_folder};

/// How far a conversation is in the feeds of other hosts, and the file that keeps it.
struct Positions {
    folder: PathBuf,
    path: PathBuf,
    /// By the feed's name: the sequence number, and the first host that had a feed with this epoch, if that is
    /// known.
    feeds: BTreeMap<String, (Seq, String)>,
}

impl Positions {
    /// A file that cannot be read counts as empty: then a wake may come twice, and none is lost.
    fn of(owner: &str, folder: PathBuf) -> io::Result<Self> {
        private_folder(&folder)?;
        let path = folder.join(format!("{}.json", hash(owner)));
        let found = fs::read(&path).unwrap_or_default();
        Ok(Self {
            folder,
            path,
            feeds: serde_json::from_slice(&found).unwrap_or_default(),
        })
    }

    /// Returns the name of a host's feed: its epoch, by which a feed is recognised that comes by ssh as
    /// well, unless another host has one with this epoch. Copies of a machine have the same epochs, and a
    /// host may say anything.
    fn name(&mut self, host: &str, epoch: &str) -> String {
        let new = || (0, host.to_owned());
        let (_, first) = self.feeds.entry(epoch.to_owned()).or_insert_with(new);
        if first.is_empty() {
            host.clone_into(first);
        }
        if first == host && !epoch.contains('/') {
            epoch.to_owned()
        } else {
            format!("{host}/{epoch}")
        }
    }

    /// Moves a position. It is on the disk when this returns.
    fn note(&mut self, name: String, seq: Seq) -> io::Result<()> {
        self.feeds.entry(name).or_default().0 = seq;
        let bytes = serde_json::to_vec(&self.feeds).map_err(io::Error::from)?;
        let new = self.path.with_extension("new");
        let mut options = File::options();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.folder)?.sync_all()
    }
}

/// An acknowledgement.
#[derive(Debug, Deserialize)]
struct Acknowledgement {
    epoch: String,
    ack: Seq,
}

/// Prints the conversation's follow-ups until the connection breaks, or nobody reads them.
pub(crate) async fn run(owner: String, notes: PathBuf) -> Result<(), Error> {
    let unusable = |error| Error::folder(&notes, &error);
    let positions = Positions::of(&owner, notes.clone()).map_err(unusable)?;
    let connection = connect().await?;
    let messages = begin(&connection, &owner);
    let mut wakes = Wakes {
        messages: connection.unless_refused(messages).await?,
        own: format!("{owner}@{}", connection.config.host),
        open: BTreeMap::new(),
        connection,
        positions,
    };
    print_json(&json!({ "kind": "sync" }))?;
    let mut acknowledgements = BufReader::new(tokio::io::stdin()).lines();
    loop {
        tokio::select! {
            message = wakes.connection.next(&mut wakes.messages) => {
                wakes.receive(message?.map_err(|_| broken())?).await?;
            }
            line = acknowledgements.next_line() => {
                let Ok(Some(line)) = line else { return Ok(()) };
                let given = serde_json::from_str(&line).map_err(Error::of);
                let Acknowledgement { epoch, ack } = given?;
                // Without a note it would come again after the broker has lost it.
                wakes.positions.note(epoch.clone(), ack).map_err(unusable)?;
                wakes.acknowledge(&epoch, ack).await?;
            }
        }
    }
}

/// Begins to read as the conversation's durable consumer: with what was not acknowledged.
async fn begin(connection: &Connection, owner: &str) -> Result<pull::Stream, Error> {
    let refused = |error: &dyn std::error::Error| connection.unreadable(WAKE.name, error);
    let name = wake_consumer(owner);
    let config = pull::Config {
        durable_name: Some(name.clone()),
        filter_subject: format!("{}.*", wakes_of(owner)),
        ack_policy: AckPolicy::Explicit,
        ack_wait: AGAIN_AFTER,
        // By then there is nothing left that it has acknowledged.
        inactive_threshold: 2 * KEPT,
        ..pull::Config::default()
    };
    let mut consumer = connection.consumer(WAKE, config.clone()).await?;
    // What is sent again would go to a process that has not noticed yet that its client has ended, and come
    // here behind later wakes.
    if consumer.cached_info().num_waiting > 0 {
        let why = "another process reads the wakes of this conversation";
        return Err(Error::failed(why));
    }
    // What was sent on another connection comes again at once and in order. A broker before 2.14
    // cannot do that: there the consumer is made again, and what was acknowledged comes too.
    if consumer.reset(None).await.is_err() {
        let jetstream = &connection.jetstream;
        let removed = jetstream.delete_consumer_from_stream(&name, WAKE.stream);
        removed.await.map_err(|error| refused(&error))?;
        consumer = connection.consumer(WAKE, config).await?;
    }
    let messages = consumer.messages().await;
    messages.map_err(|error| refused(&error))
}

/// Checks whether the credentials permit to read wakes, by a consumer of none that goes by itself.
pub(crate) async fn may_read(connection: &Connection) -> Result<(), Error> {
    let config = pull::Config {
        name: Some("doctor".to_owned()),
        filter_subject: format!("{}.*", wakes_of("doctor:check")),
        inactive_threshold: Duration::from_secs(1),
        ..pull::Config::default()
    };
    connection.consumer(WAKE, config).await.map(drop)
}

/// Wakes on one connection.
struct Wakes {
    messages: pull::Stream,
    connection: Connection,
    /// What was not acknowledged, by epoch and sequence number.
    open: BTreeMap<(String, Seq), Message>,
    /// What tasks say that this conversation has ended from here.
    own: String,
    positions: Positions,
}

impl Wakes {
    async fn receive(&mut self, message: Message) -> Result<(), Error> {
        // What it says of its host does not count.
        let words = words_of(WAKE.root, &message.subject);
        let host = words.and_then(|mut words| words.pop());
        let host = host.filter(|host| is_host_name(host));
        let Some((host, mut record)) = host.zip(parse::<Record>(&message.payload, "\n")) else {
            // What nobody can read does not come again.
            return self.connection.acknowledge(&message).await;
        };
        record.epoch = self.positions.name(&host, &record.epoch);
        let (epoch, seq) = (record.epoch.clone(), record.seq);
        let noted = self.positions.feeds.get(&epoch);
        let cursor = noted.map_or(0, |(seq, _)| *seq);
        self.open.insert((epoch.clone(), seq), message);
        // The daemons of this machine deliver their follow-ups themselves.
        if host == self.connection.config.host || seq <= cursor {
            return self.acknowledge(&epoch, seq).await;
        }
        if let Body::FollowUp { message, .. } = &mut record.body {
            // What the conversation has ended itself, it knows.
            let known = |event: &Event| event.task.asked_by.as_ref() == Some(&self.own);
            if message.details.events.iter().all(known) {
                message.details.events.clear();
            }
        }
        let mut line = json!(record);
        line["host"] = json!(host);
        line["cursor"] = json!(cursor);
        print_json(&line)
    }

    /// Acknowledges the wakes of this feed up to this record.
    async fn acknowledge(&mut self, epoch: &str, seq: Seq) -> Result<(), Error> {
        let up_to = (epoch.to_owned(), 0)..=(epoch.to_owned(), seq);
        for (_, message) in self.open.extract_if(up_to, |_, _| true) {
            self.connection.acknowledge(&message).await?;
        }
        Ok(())
    }
}
