//! `fleet feed`: the records of all hosts, and which hosts stop publishing and begin again, as JSON
//! lines.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use super::args::FleetFeed;
use super::feed::{Acknowledgements, next};
use super::{context, output};
use crate::clock;
use crate::faces::agent::read_lines;
use crate::fleet::{
    BucketEntry, BucketNews, BucketWatch, Connection, FeedReader, FeedRequest, FeedStart,
    FleetBoard, FleetChange, FleetError,
};
use crate::model::{Backoff, Error, ErrorKind, Seq, rfc3339};
use crate::ops::Fleet;
use crate::wire::{Acknowledgement, check_consumer_name};

const WHAT: &str = "fleet feed";

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

pub(super) async fn run(args: FleetFeed) -> Result<(), Error> {
    let start = match (args.consumer, args.after) {
        (Some(name), _) => {
            check_consumer_name(&name).map_err(Error::usage)?;
            FeedStart::Consumer(name)
        }
        (None, Some(after)) => FeedStart::After(after),
        (None, None) if args.follow => FeedStart::Now,
        (None, None) => FeedStart::First,
    };
    let mut acks = None;
    if let FeedStart::Consumer(_) = start {
        acks = Some(read_lines());
    }
    let request = FeedRequest {
        start,
        kinds: args.kind,
        types: args.types,
    };
    let fleet = Fleet::connect().await?;
    let reader = FeedReader::begin(&fleet.connection, &request, None);
    let reader = fleet.connection.unless_refused(reader).await;
    let mut reader = reader?;
    if !args.follow {
        print_gap(&reader)?;
        let mut out = output::Results::new();
        while let Some(record) = reader.next_kept().await? {
            out.line(&record.fields.to_string())?;
        }
        return out.end();
    }
    let mut printer = Printer {
        board: FleetBoard::default(),
        acks,
        printed: 0,
        is_sync_printed: false,
    };
    let mut interrupts = context::interrupts()?;
    tokio::select! {
        ended = printer.follow(fleet, reader, &request) => ended,
        () = output::stdout_closed() => Ok(()),
        _ = interrupts.recv() => Err(Error::silent(ErrorKind::Interrupted)),
    }
}

struct Printer {
    board: FleetBoard,
    acks: Option<Acknowledgements>,
    /// The last record that was printed.
    printed: Seq,
    /// Whether it was printed that what follows is live.
    is_sync_printed: bool,
}

impl Printer {
    /// Prints records until the user has enough. Connects again when the connection breaks.
    async fn follow(
        &mut self,
        mut fleet: Fleet,
        mut reader: FeedReader,
        request: &FeedRequest,
    ) -> Result<(), Error> {
        print_hello(&reader)?;
        print_gap(&reader)?;
        loop {
            let lost = self
                .follow_connection(&mut reader, &fleet.connection)
                .await?;
            output::note(&format!("tmux-task: {WHAT}: {lost}; connecting again"));
            let mut retry = RETRY;
            let before = reader;
            reader = loop {
                sleep(retry.next_pause()).await;
                let again = async {
                    fleet.reconnect().await?;
                    let known = Some(&before);
                    let reader = FeedReader::begin(&fleet.connection, request, known);
                    Ok::<_, Error>(fleet.connection.unless_refused(reader).await?)
                };
                match again.await {
                    Ok(again) => break again,
                    Err(error) => tracing::debug!(%error, "cannot read the feed now"),
                }
            };
            if reader.bounds.epoch != before.bounds.epoch {
                self.printed = 0;
                print_hello(&reader)?;
            }
        }
    }

    /// Prints what comes on one connection. Returns why it has ended.
    async fn follow_connection(
        &mut self,
        reader: &mut FeedReader,
        connection: &Connection,
    ) -> Result<FleetError, Error> {
        let watch = BucketWatch::begin(connection, true);
        let mut watch = match connection.unless_refused(watch).await {
            Ok(watch) => watch,
            Err(error) => return Ok(error),
        };
        // Hosts that are here are not news at first.
        let mut has_all_hosts = !self.board.hosts.is_empty();
        loop {
            if !self.is_sync_printed && reader.is_live() {
                self.is_sync_printed = true;
                output::json(&json!({ "kind": "sync" }))?;
            }
            tokio::select! {
                news = watch.next() => match news {
                    Ok(BucketNews::Entry(entry)) => self.print_change(&entry, has_all_hosts)?,
                    Ok(BucketNews::Complete) => has_all_hosts = true,
                    Err(error) => return Ok(error),
                },
                record = reader.next() => match record {
                    Ok(record) => {
                        output::json(&record.fields)?;
                        self.printed = record.place;
                    }
                    Err(error) => return Ok(error),
                },
                acknowledged = next(&mut self.acks) => {
                    let Acknowledgement { ack } = acknowledged?;
                    if ack > self.printed {
                        let why = format!("{ack} was acknowledged, but not sent");
                        return Err(Error::failed(why));
                    }
                    if let Err(error) = reader.acknowledge(ack).await {
                        // The record comes again.
                        return Ok(error);
                    }
                    output::json(&json!({ "kind": "acked", "acked": ack }))?;
                }
            }
        }
    }

    fn print_change(&mut self, entry: &BucketEntry, has_all_hosts: bool) -> Result<(), Error> {
        let time = rfc3339(clock::now().wall);
        output::json(&match self.board.apply(entry) {
            Some(FleetChange::HostGone { host, since }) => {
                json!({ "kind": "hostGone", "host": host, "time": time, "since": rfc3339(since) })
            }
            Some(FleetChange::HostBack { host }) if has_all_hosts => {
                json!({ "kind": "hostBack", "host": host, "time": time })
            }
            Some(FleetChange::HostBack { .. }) | None => return Ok(()),
        })
    }
}

fn print_hello(reader: &FeedReader) -> Result<(), Error> {
    output::json(&json!({
        "kind": "hello",
        "v": 1,
        "epoch": reader.bounds.epoch,
        "lastSeq": reader.bounds.last,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// Says which records the broker has removed.
fn print_gap(reader: &FeedReader) -> Result<(), Error> {
    match reader.bounds.gap() {
        Some((from, to)) => output::json(&json!({ "kind": "gap", "from": from, "to": to })),
        None => Ok(()),
    }
}
