//! `fleet feed`: the records of all hosts, and which hosts stop publishing and begin again, as JSON
//! lines.

use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tmux_task::model::{Backoff, Error, Seq, check_consumer_name, rfc3339};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::time::sleep;

use crate::board::{FleetBoard, FleetChange, FleetWatch, PresenceChange};
use crate::config::FleetConfig;
use crate::connection::{Connection, connect, connect_as_configured};
use crate::feed_reader::{FeedReader, FeedRequest, FeedStart};
use crate::layout::HOSTS;
use crate::machine::now;
use crate::{FleetFeed, complain, print, print_json};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

pub(crate) async fn run(args: FleetFeed) -> Result<(), Error> {
    let start = match (args.consumer, args.after) {
        (Some(name), _) => {
            check_consumer_name(&name).map_err(Error::usage)?;
            FeedStart::Consumer(name)
        }
        (None, Some(after)) => FeedStart::After(after),
        (None, None) if args.follow => FeedStart::Now,
        (None, None) => FeedStart::First,
    };
    let is_consumer = matches!(start, FeedStart::Consumer(_));
    let acks = is_consumer.then(|| BufReader::new(tokio::io::stdin()).lines());
    let request = FeedRequest {
        start,
        kinds: args.kind,
        types: args.types,
    };
    let (connection, host, config) = connect_as_configured().await?;
    let reader = FeedReader::begin(&connection, &request, None);
    let mut reader = connection.unless_refused(reader).await?;
    if !args.follow {
        print_gap(&reader)?;
        let mut lines = String::new();
        while let Some(record) = reader.next_kept().await? {
            lines += &format!("{}\n", record.fields);
            if lines.len() > AT_ONCE {
                print(&std::mem::take(&mut lines))?;
            }
        }
        return print(&lines);
    }
    let mut printer = Printer {
        board: FleetBoard::default(),
        acks,
        printed: 0,
        is_sync_printed: false,
    };
    let broker = (config, host);
    tokio::select! {
        ended = printer.follow(connection, broker, reader, &request) => ended,
        () = stdout_closed() => Ok(()),
    }
}

/// How much is printed at once, in bytes.
const AT_ONCE: usize = 64 << 10;

/// Resolves when nobody reads standard output any more.
pub(crate) async fn stdout_closed() {
    use std::os::fd::AsFd;

    use tokio::io::Interest;
    use tokio::net::unix::pipe;

    // Unchecked: a check would make the stream non-blocking for all processes that share it.
    let pipe = io::stdout().as_fd().try_clone_to_owned();
    let pipe = pipe.and_then(pipe::Sender::from_owned_fd_unchecked);
    let closed = match &pipe {
        Ok(pipe) => pipe.ready(Interest::ERROR).await.is_ok(),
        // A file: writing to it fails if it is closed.
        Err(_) => false,
    };
    if !closed {
        std::future::pending::<()>().await;
    }
}

struct Printer {
    board: FleetBoard,
    /// Standard input, for a consumer.
    acks: Option<Lines<BufReader<Stdin>>>,
    /// The last record that was printed.
    printed: Seq,
    /// Whether it was printed that what follows is live.
    is_sync_printed: bool,
}

impl Printer {
    /// Prints records until the user has enough. Connects again when the connection breaks.
    async fn follow(
        &mut self,
        mut connection: Connection,
        (config, host): (FleetConfig, String),
        mut reader: FeedReader,
        request: &FeedRequest,
    ) -> Result<(), Error> {
        print_hello(&reader)?;
        print_gap(&reader)?;
        loop {
            let lost = self.follow_connection(&mut reader, &connection).await?;
            let lost = Error::failed(format!("{}; connecting again", lost.message));
            complain(&lost, "fleet feed");
            let mut retry = RETRY;
            let before = reader;
            reader = loop {
                sleep(retry.next_pause()).await;
                let again = async {
                    connection = connect(&config, &host).await?;
                    let reader = FeedReader::begin(&connection, request, Some(&before));
                    connection.unless_refused(reader).await
                };
                if let Ok(again) = again.await {
                    break again;
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
    ) -> Result<Error, Error> {
        let watch = FleetWatch::begin(connection, &[HOSTS]);
        let mut watch = match connection.unless_refused(watch).await {
            Ok(watch) => watch,
            Err(error) => return Ok(error),
        };
        // Hosts that are here are not news at first.
        let is_first = self.board.hosts.is_empty();
        loop {
            if !self.is_sync_printed && reader.is_live() {
                self.is_sync_printed = true;
                print_json(&json!({ "kind": "sync" }))?;
            }
            let is_back_news = !is_first || watch.is_complete();
            tokio::select! {
                change = watch.next(&mut self.board) => match change {
                    Ok(Some(change)) => print_change(change, is_back_news)?,
                    Ok(None) => {}
                    Err(error) => return Ok(error),
                },
                record = reader.next() => match record {
                    Ok(record) => {
                        print_json(&record.fields)?;
                        self.printed = record.place;
                    }
                    Err(error) => return Ok(error),
                },
                acknowledged = next(&mut self.acks) => {
                    let ack = acknowledged?;
                    if ack > self.printed {
                        let why = format!("{ack} was acknowledged, but not sent");
                        return Err(Error::failed(why));
                    }
                    if let Err(error) = reader.acknowledge(ack).await {
                        // The record comes again.
                        return Ok(error);
                    }
                    print_json(&json!({ "kind": "acked", "acked": ack }))?;
                }
            }
        }
    }
}

fn print_change(change: FleetChange, is_back_news: bool) -> Result<(), Error> {
    let FleetChange { host, presence } = change;
    let time = rfc3339(now());
    print_json(&match presence {
        PresenceChange::Gone(since) => {
            json!({ "kind": "hostGone", "host": host, "time": time, "since": rfc3339(since) })
        }
        PresenceChange::Back if is_back_news => {
            json!({ "kind": "hostBack", "host": host, "time": time })
        }
        PresenceChange::Back | PresenceChange::None => return Ok(()),
    })
}

/// Resolves with the next acknowledgement; never when there will be none.
async fn next(acks: &mut Option<Lines<BufReader<Stdin>>>) -> Result<Seq, Error> {
    #[derive(Deserialize)]
    struct Acknowledgement {
        ack: Seq,
    }
    let line = match acks {
        Some(lines) => lines.next_line().await.ok().flatten(),
        None => None,
    };
    let Some(line) = line else {
        *acks = None;
        return std::future::pending().await;
    };
    let given: Result<Acknowledgement, _> = serde_json::from_str(&line);
    let given = given.map_err(|error| {
        let why = format!("standard input has no line like {{\"ack\":12}}: {error}");
        Error::usage(why)
    });
    Ok(given?.ack)
}

fn print_hello(reader: &FeedReader) -> Result<(), Error> {
    print_json(&json!({
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
        Some((from, to)) => print_json(&json!({ "kind": "gap", "from": from, "to": to })),
        None => Ok(()),
    }
}
