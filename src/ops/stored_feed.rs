//! What is stored of a session's feed: asked of its daemon, and read from the files where none runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::net::UnixStream;

use super::lookup;
use super::session::TaskSession;
use crate::client::{DaemonClient, Hello, refusal_in, unreadable};
use crate::config;
use crate::model::{Body, Error, ErrorKind, Kind, Record, Seq};
use crate::process;
use crate::rules::wire::{
    After, ConsumerList, Filter, ReaderStart, Request, StoredUse, StreamRecord, check_consumer_name,
};
use crate::store::StoredFeed;
use crate::store::feed::{consumers_of, remove_consumer as remove_file, sync_consumers};

/// The stored records of a feed that were asked for.
#[derive(Debug)]
pub(crate) struct StoredRecords {
    stream: DaemonClient,
    /// The feed's epoch; `None` while it has no record.
    pub(crate) epoch: Option<String>,
    pub(crate) last_seq: Seq,
}

#[derive(Debug)]
pub(crate) enum StoredLine {
    Record(String),
    /// The first and the last number of records that are gone.
    Gap(Seq, Seq),
}

/// What every line has that is no answer, whatever its kind is.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct LineHead {
    pub(crate) kind: String,
    pub(crate) seq: Option<Seq>,
    from: Option<Seq>,
    /// The last number of a gap.
    pub(crate) to: Option<Seq>,
}

impl StoredRecords {
    /// Returns what is stored of the session's feed; `None` where it has none.
    pub(crate) async fn open(
        session: &TaskSession,
        start: ReaderStart,
        filter: Filter,
        used: StoredUse,
    ) -> Result<Option<Self>, Error> {
        let request = Request::Subscribe {
            start: start.clone(),
            filter: filter.clone(),
            tasks: false,
            stored: Some(used),
        };
        let answers = |daemon: &DaemonClient| !daemon.pid().is_some_and(process::is_stopped);
        if let Some(mut daemon) = session.daemon().await?.filter(answers) {
            match daemon.stream(&request).await {
                // It was ending when it was found, or was there before an update.
                Err(error) if matches!(error.kind, ErrorKind::DaemonEnded | ErrorKind::Version) => {
                }
                hello => return Self::begin(daemon, &hello?).map(Some),
            }
        }
        let files = files_of(session);
        if !files.exists() {
            return Ok(None);
        }
        let (ours, theirs) = UnixStream::pair().map_err(Error::of)?;
        let mut stream = DaemonClient::over(ours, &files.feed);
        tokio::spawn(files.serve(start, filter, used, theirs));
        let hello = stream.hello().await?;
        Self::begin(stream, &hello).map(Some)
    }

    fn begin(stream: DaemonClient, hello: &str) -> Result<Self, Error> {
        let hello = Hello::parse(hello)?;
        Ok(Self {
            stream,
            epoch: Some(hello.epoch).filter(|_| hello.last_seq > 0),
            last_seq: hello.last_seq,
        })
    }

    /// Returns the next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<StoredLine>, Error> {
        loop {
            let text = self.stream.next_line().await?;
            let head = serde_json::from_str::<LineHead>(&text);
            let head =
                head.map_err(|error| refusal_in(&text).unwrap_or_else(|| unreadable(error)))?;
            match (head.seq, head.kind.as_str(), head.from, head.to) {
                (Some(_), ..) => return Ok(Some(StoredLine::Record(text))),
                (None, "gap", Some(from), Some(to)) => return Ok(Some(StoredLine::Gap(from, to))),
                (None, "sync", ..) => return Ok(None),
                (None, ..) => {}
            }
        }
    }

    /// Returns the next record that this version knows; `None` if there is none.
    pub(crate) async fn next_record(&mut self) -> Result<Option<Record>, Error> {
        while let Some(line) = self.next().await? {
            if let StoredLine::Record(text) = line
                && let Ok(StreamRecord::Durable(record)) = serde_json::from_str(&text)
            {
                return Ok(Some(*record));
            }
        }
        Ok(None)
    }
}

fn files_of(session: &TaskSession) -> StoredFeed {
    StoredFeed {
        feed: session.paths.feed(),
        session_name: session.name.clone(),
    }
}

pub(crate) fn no_feed(session: &TaskSession) -> Error {
    Error::missing(format!("no feed of session `{}`", session.name))
        .with_hint("a daemon keeps it: `tmux-task daemon --detach`, or `tmux-task run`")
}

/// Returns the consumers of the session's feed; where no daemon runs, as its files tell.
pub(crate) async fn list_consumers(session: &mut TaskSession) -> Result<ConsumerList, Error> {
    if let Some(list) = session.ask_running(Request::Consumers).await? {
        return Ok(list);
    }
    let files = files_of(session);
    if !files.exists() {
        return Err(no_feed(session));
    }
    files.consumers(&config::load(&lookup)?.feed)
}

pub(crate) async fn remove_consumer(session: &mut TaskSession, name: &str) -> Result<(), Error> {
    check_consumer_name(name).map_err(Error::usage)?;
    let request = Request::RemoveConsumer {
        name: name.to_owned(),
    };
    if let Some(IgnoredAny) = session.ask_running(request).await? {
        return Ok(());
    }
    if !files_of(session).exists() {
        return Err(no_feed(session));
    }
    let folder = consumers_of(&session.paths.feed());
    let failed = |source: io::Error| {
        if source.kind() == io::ErrorKind::NotFound {
            let hint = "`tmux-task consumer ls` shows which there are";
            Error::missing(format!("no consumer `{name}`")).with_hint(hint)
        } else {
            Error::folder(&folder, &source)
        }
    };
    folder.join(name).symlink_metadata().map_err(failed)?;
    remove_file(&folder, name).map_err(failed)?;
    sync_consumers(&folder).map_err(failed)
}

/// Returns the owners among `cursors` (owner to the last record that its consumer has acknowledged)
/// for which the feed has a later follow-up. Follow-ups for everybody do not count.
pub(crate) async fn owners_with_pending_follow_ups(
    session: &TaskSession,
    cursors: &BTreeMap<String, Seq>,
) -> Result<BTreeSet<String>, Error> {
    let mut owners = BTreeSet::new();
    let Some(first) = cursors.values().min() else {
        return Ok(owners);
    };
    let start = ReaderStart::After(After {
        epoch: None,
        seq: *first,
    });
    let filter = Filter::new(vec![Kind::FollowUp], Vec::new(), Vec::new());
    let Some(mut stored) = StoredRecords::open(session, start, filter, StoredUse::Examine).await?
    else {
        return Ok(owners);
    };
    while let Some(record) = stored.next_record().await? {
        if let Body::FollowUp {
            owner: Some(owner), ..
        } = record.body
            && cursors
                .get(&owner)
                .is_some_and(|cursor| record.seq > *cursor)
        {
            owners.insert(owner);
        }
    }
    Ok(owners)
}
