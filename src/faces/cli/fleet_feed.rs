//! `fleet feed`: the records of all hosts, and which hosts stop publishing and begin again.

use std::io::{self, IsTerminal};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::args::{FeedFormat, FleetFeed, FleetFormat};
use super::consume::{Acknowledgements, next, read_acknowledgements};
use super::context;
use super::failure::{Failure, Kind, OrFail};
use super::{feed_text, output};
use crate::clock;
use crate::fleet::{
    BucketNews, BucketWatch, FeedReader, FeedRequest, FeedStart, FleetBoard, FleetChange,
    FleetRecord,
};
use crate::model::{Backoff, Millis, Seq};
use crate::ops::{Fleet, OpsError};
use crate::wire::{Acknowledgement, DurableRecord, check_consumer_name, rfc3339};

const WHAT: &str = "fleet feed";

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

pub(super) async fn run(args: FleetFeed) -> Result<(), Failure> {
    let start = start_of(&args)?;
    let is_for_user =
        args.format.is_none() && args.consumer.is_none() && io::stdout().is_terminal();
    let mut kinds = args.kind;
    if is_for_user && kinds.is_empty() {
        // A notice or a follow-up says again what events have said.
        kinds.push(crate::wire::Kind::Event);
    }
    let mut feed = Printer {
        fleet: Fleet::connect().await.or_fail(WHAT)?,
        request: FeedRequest {
            start,
            kinds,
            types: args.types,
        },
        format: args.format.unwrap_or(match is_for_user {
            true => FleetFormat::Text,
            false => FleetFormat::Json,
        }),
        board: FleetBoard::default(),
        auto_ack: args.auto_ack,
        printed: 0,
        is_sync_printed: false,
    };
    if !args.follow {
        return feed.print_kept().await;
    }
    let mut acknowledgements =
        (args.consumer.is_some() && !args.auto_ack).then(read_acknowledgements);
    let mut interrupts = context::interrupts(WHAT)?;
    tokio::select! {
        ended = feed.follow(&mut acknowledgements) => ended,
        () = output::stdout_closed() => Ok(()),
        _ = interrupts.recv() => Err(Failure::silent(Kind::Interrupted)),
    }
}

fn start_of(args: &FleetFeed) -> Result<FeedStart, Failure> {
    Ok(match (&args.consumer, args.after) {
        (Some(name), _) => {
            check_consumer_name(name).map_err(|why| Failure::new(Kind::Usage, WHAT, why))?;
            FeedStart::Consumer {
                name: name.clone(),
                from_now: args.from.is_some(),
            }
        }
        (None, Some(after)) => FeedStart::After(after),
        (None, None) if args.follow => FeedStart::Now,
        (None, None) => FeedStart::First,
    })
}

struct Printer {
    fleet: Fleet,
    request: FeedRequest,
    format: FleetFormat,
    board: FleetBoard,
    auto_ack: bool,
    /// The last record that was printed.
    printed: Seq,
    /// Whether it was printed that what follows is live.
    is_sync_printed: bool,
}

impl Printer {
    /// Prints what the broker has.
    async fn print_kept(&mut self) -> Result<(), Failure> {
        let mut reader = self.begin(None).await.or_fail(WHAT)?;
        self.print_gap(&reader)?;
        let mut out = output::Results::new();
        while let Some(record) = reader
            .next_kept()
            .await
            .map_err(OpsError::from)
            .or_fail(WHAT)?
        {
            if let Some(line) = self.line(&record) {
                out.line(&line)?;
            }
        }
        out.end()
    }

    async fn begin(&self, known: Option<&FeedReader>) -> Result<FeedReader, OpsError> {
        Ok(FeedReader::begin(&self.fleet.connection, &self.request, known).await?)
    }

    /// Prints records until the user has enough. Connects again when the connection breaks.
    async fn follow(&mut self, acks: &mut Option<Acknowledgements>) -> Result<(), Failure> {
        let mut reader = self.begin(None).await.or_fail(WHAT)?;
        self.print_hello(&reader)?;
        self.print_gap(&reader)?;
        loop {
            let Err(error) = self.follow_connection(&mut reader, acks).await?;
            output::note(&format!("tmux-task: {WHAT}: {error}; connecting again"));
            let mut retry = RETRY;
            reader = loop {
                sleep_until(Instant::now() + retry.next_pause()).await;
                let again = async {
                    self.fleet.reconnect().await?;
                    self.begin(Some(&reader)).await
                };
                match again.await {
                    Ok(again) => break again,
                    Err(error) => tracing::debug!(%error, "cannot read the feed now"),
                }
            };
            if reader.has_begun_anew() {
                self.printed = 0;
                self.print_hello(&reader)?;
            }
        }
    }

    /// Prints what comes on one connection.
    async fn follow_connection(
        &mut self,
        reader: &mut FeedReader,
        acks: &mut Option<Acknowledgements>,
    ) -> Result<Result<std::convert::Infallible, OpsError>, Failure> {
        let mut watch = match BucketWatch::begin(&self.fleet.connection, true).await {
            Ok(watch) => watch,
            Err(error) => return Ok(Err(error.into())),
        };
        // Hosts that are here are not news at first.
        let mut has_all_hosts = !self.board.hosts.is_empty();
        loop {
            if !self.is_sync_printed && reader.is_live() {
                self.is_sync_printed = true;
                self.print_live(&json!({ "kind": "sync" }), None)?;
            }
            let broken = tokio::select! {
                news = watch.next() => match news {
                    Ok(BucketNews::Entry(entry)) => {
                        let change = self.board.apply(&entry);
                        self.print_change(change, has_all_hosts)?;
                        None
                    }
                    Ok(BucketNews::Complete) => {
                        has_all_hosts = true;
                        None
                    }
                    Err(error) => Some(error),
                },
                record = reader.next() => match record {
                    Ok(record) => {
                        if let Some(line) = self.line(&record) {
                            output::line(&line)?;
                        }
                        self.printed = record.place;
                        match self.auto_ack {
                            true => self.acknowledge(reader, record.place, false).await?,
                            false => None,
                        }
                    }
                    Err(error) => Some(error),
                },
                acknowledged = next(acks) => {
                    let Acknowledgement { ack } = acknowledged?;
                    if ack > self.printed {
                        let why = format!("{ack} was acknowledged, but not sent");
                        return Err(Failure::new(Kind::Failed, WHAT, why));
                    }
                    self.acknowledge(reader, ack, true).await?
                }
            };
            if let Some(error) = broken {
                return Ok(Err(error.into()));
            }
        }
    }

    /// Acknowledges a record. Returns why that failed: the record then comes again.
    async fn acknowledge(
        &mut self,
        reader: &mut FeedReader,
        place: Seq,
        is_asked: bool,
    ) -> Result<Option<crate::fleet::FleetError>, Failure> {
        if let Err(error) = reader.acknowledge(place).await {
            return Ok(Some(error));
        }
        if is_asked {
            let text = format!("acknowledged up to #{place}");
            self.print_live(&json!({ "kind": "acked", "acked": place }), Some(text))?;
        }
        Ok(None)
    }

    fn print_hello(&self, reader: &FeedReader) -> Result<(), Failure> {
        let bounds = &reader.bounds;
        let hello = json!({
            "kind": "hello",
            "v": 1,
            "epoch": bounds.epoch,
            "lastSeq": bounds.last,
            "version": env!("CARGO_PKG_VERSION"),
        });
        self.print_live(&hello, None)
    }

    /// Says which records the broker has removed.
    fn print_gap(&self, reader: &FeedReader) -> Result<(), Failure> {
        let Some((from, to)) = reader.bounds.gap() else {
            return Ok(());
        };
        let text = feed_text::missing(&[(from, to)], 0);
        self.print_live(&json!({ "kind": "gap", "from": from, "to": to }), text)
    }

    fn print_change(
        &self,
        change: Option<FleetChange>,
        has_all_hosts: bool,
    ) -> Result<(), Failure> {
        let now: Millis = clock::now().wall;
        let (value, text) = match change {
            Some(FleetChange::HostGone { host, since }) => (
                json!({ "kind": "hostGone", "host": host, "time": rfc3339(now), "since": rfc3339(since) }),
                format!("{} {host} is gone since {}", rfc3339(now), rfc3339(since)),
            ),
            Some(FleetChange::HostBack { host }) if has_all_hosts => (
                json!({ "kind": "hostBack", "host": host, "time": rfc3339(now) }),
                format!("{} {host} is back", rfc3339(now)),
            ),
            Some(FleetChange::HostBack { .. } | FleetChange::Session { .. }) | None => {
                return Ok(());
            }
        };
        self.print_live(&value, Some(text))
    }

    /// Prints what is no host's record.
    fn print_live(&self, value: &Value, text: Option<String>) -> Result<(), Failure> {
        match (self.format, text) {
            (FleetFormat::Json, _) => output::json(value),
            (FleetFormat::Text, Some(text)) => output::line(&text),
            (FleetFormat::Text, None) => Ok(()),
        }
    }

    /// Returns how a record is printed; `None` for one of a later version.
    fn line(&self, record: &FleetRecord) -> Option<String> {
        match self.format {
            FleetFormat::Json => Some(record.fields.to_string()),
            FleetFormat::Text => {
                let host = record.fields["host"].as_str()?;
                let record = serde_json::from_value::<DurableRecord>(record.fields.clone()).ok()?;
                Some(format!(
                    "{host} {}",
                    feed_text::durable(&record, FeedFormat::Text)
                ))
            }
        }
    }
}
