//! `fleet feed`: the records of all hosts, and which hosts stop publishing and begin again, as JSON
//! lines.
//!
//! A record's place is its sequence number on the broker. What is acknowledged is so for all places
//! before it.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use async_nats::jetstream::Message;
use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use serde::Deserialize;
use serde_json::{Value, json};
use tmux_task::model::{
    Backoff, Error, Millis, OURS, Seq, check_consumer_name, is_host_name, rfc3339, text,
};
use tokio::io::{AsyncBufReadExt, BufReader, Lines, Stdin};
use tokio::time::sleep;

use crate::connection::{ANSWER_LIMIT, Connection, broken, connect};
use crate::layout::{FEED, HOSTS, feed_filters, parse, token, words_of};
use crate::show::{FleetBoard, FleetWatch};
use crate::{FleetFeed, complain, now, print_json};

/// How long to wait before connecting again.
const RETRY: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(30));

/// How many records a reader may have that it has not acknowledged; further ones wait.
const MAX_UNACKNOWLEDGED: i64 = 10_000;

/// When a record is sent again that was not acknowledged. The reader has it already.
pub(crate) const AGAIN_AFTER: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: FleetFeed) -> Result<(), Error> {
    if let Some(name) = &args.consumer {
        check_consumer_name(name).map_err(Error::usage)?;
    }
    let mut reader = FeedReader::begin(&args, None).await?;
    if args.follow {
        return tokio::select! {
            ended = follow(&args, reader) => ended,
            () = stdout_closed() => Ok(()),
        };
    }
    reader.print_gap()?;
    while reader.n_kept > 0 {
        if let Some(record) = reader.next().await? {
            print_json(&record)?;
        }
    }
    Ok(())
}

/// Prints records until the user has enough. Connects again when the connection breaks.
async fn follow(args: &FleetFeed, mut reader: FeedReader) -> Result<(), Error> {
    let stdin = || BufReader::new(tokio::io::stdin()).lines();
    let mut acks = args.consumer.is_some().then(stdin);
    // Since when each host is gone, as it was printed last; `None` for one that is there.
    let mut presence = BTreeMap::new();
    let mut is_sync_printed = false;
    reader.print_hello()?;
    reader.print_gap()?;
    loop {
        let watch = FleetWatch::begin(&reader.connection, &[HOSTS]);
        let watch = reader.connection.unless_refused(watch).await;
        let mut board = FleetBoard::default();
        // Hosts that are here are not news at first.
        let is_first = presence.is_empty();
        let lost = match watch {
            Err(error) => error,
            Ok(mut watch) => loop {
                if !is_sync_printed && reader.n_kept == 0 {
                    is_sync_printed = true;
                    print_json(&json!({ "kind": "sync" }))?;
                }
                let is_back_news = !is_first || watch.is_complete();
                tokio::select! {
                    change = watch.next(&mut board) => match change {
                        Ok(Some(host)) => {
                            let gone_since = board[&host].gone_since;
                            print_presence(&mut presence, host, gone_since, is_back_news)?;
                        }
                        Ok(None) => {}
                        Err(error) => break error,
                    },
                    record = reader.next() => match record {
                        Ok(Some(record)) => print_json(&record)?,
                        Ok(None) => {}
                        Err(error) => break error,
                    },
                    acknowledged = next_ack(&mut acks) => {
                        let ack = acknowledged?;
                        if ack > reader.last {
                            let why = format!("{ack} was acknowledged, but not sent");
                            return Err(Error::failed(why));
                        }
                        if let Err(error) = reader.acknowledge(ack).await {
                            // The record comes again.
                            break error;
                        }
                        print_json(&json!({ "kind": "acked", "acked": ack }))?;
                    }
                }
            },
        };
        let lost = Error::failed(format!("{}; connecting again", lost.message));
        complain(&lost, "fleet feed");
        let mut retry = RETRY;
        let again = loop {
            sleep(retry.next_pause()).await;
            if let Ok(again) = FeedReader::begin(args, Some(&reader)).await {
                break again;
            }
        };
        if again.epoch != reader.epoch {
            again.print_hello()?;
        }
        reader = again;
    }
}

/// Prints whether a host is gone or back, if that has changed.
fn print_presence(
    presence: &mut BTreeMap<String, Option<Millis>>,
    host: String,
    gone_since: Option<Millis>,
    is_back_news: bool,
) -> Result<(), Error> {
    let is_news = presence.insert(host.clone(), gone_since) != Some(gone_since);
    if !is_news || gone_since.is_none() && !is_back_news {
        return Ok(());
    }
    let mut line = json!({ "kind": "hostBack", "host": host, "time": rfc3339(now()) });
    if let Some(since) = gone_since {
        line["kind"] = json!("hostGone");
        line["since"] = json!(rfc3339(since));
    }
    print_json(&line)
}

/// Resolves with the next acknowledgement; never when there will be none.
async fn next_ack(acks: &mut Option<Lines<BufReader<Stdin>>>) -> Result<Seq, Error> {
    #[derive(Deserialize)]
    struct Acknowledgement {
        ack: Seq,
    }
    if let Some(lines) = acks
        && let Ok(Some(line)) = lines.next_line().await
    {
        let given: Result<Acknowledgement, _> = serde_json::from_str(&line);
        let no_ack = |error| format!("standard input has no line like {{\"ack\":12}}: {error}");
        return given
            .map(|given| given.ack)
            .map_err(|error| Error::usage(no_ack(error)));
    }
    *acks = None;
    std::future::pending().await
}

/// Reads records until the connection breaks.
struct FeedReader {
    messages: pull::Stream,
    connection: Connection,
    /// Identifies the feed: another one has another epoch.
    epoch: String,
    /// The places of the first record that was kept when reading began, and of the last one.
    kept: (Seq, Seq),
    /// The place behind which reading began.
    after: Seq,
    /// The last record that was returned.
    last: Seq,
    /// What can be acknowledged, by place; nothing without a consumer.
    open: BTreeMap<Seq, Message>,
    is_consumer: bool,
    /// How many of the records that are kept are still to come.
    n_kept: u64,
}

impl FeedReader {
    /// Connects, and begins to read. `known` is what was read before on another connection: its records do not
    /// come again.
    async fn begin(args: &FleetFeed, known: Option<&Self>) -> Result<Self, Error> {
        let connection = connect().await?;
        let begun = Self::begin_on(&connection, args, known);
        connection.unless_refused(begun).await
    }

    async fn begin_on(
        connection: &Connection,
        args: &FleetFeed,
        known: Option<&Self>,
    ) -> Result<Self, Error> {
        let unreadable = |error: &dyn std::error::Error| connection.unreadable(FEED.name, error);
        let jetstream = &connection.jetstream;
        let stream = jetstream.get_stream(FEED.stream).await;
        let stream = stream.map_err(|error| unreadable(&error))?;
        let info = stream.cached_info();
        let kept = (info.state.first_sequence, info.state.last_sequence);
        let epoch = format!("{:x}", info.created.unix_timestamp_nanos());
        let after = match (known, args.after) {
            (Some(known), _) if known.epoch == epoch => known.last,
            (None, Some(place)) if place > kept.1 => {
                let why = format!("there is no record {place}: the last one is {}", kept.1);
                return Err(Error::failed(why));
            }
            (None, Some(place)) => place,
            (None, None) if args.consumer.is_none() => match args.follow {
                true => kept.1,
                false => kept.0.saturating_sub(1),
            },
            // All that the broker has is of after it had lost its stream, or new to the consumer.
            (Some(_), _) | (None, None) => 0,
        };
        let name = args.consumer.as_deref().map(token);
        let mut is_known = false;
        if let Some(name) = &name {
            let found = jetstream.get_consumer_from_stream(name, FEED.stream).await;
            let found: Option<Consumer<pull::Config>> = found.ok();
            is_known = found.is_some();
            if found.is_some_and(|found| found.cached_info().num_waiting > 0) {
                let why = format!("another process reads as consumer `{name}`");
                return Err(Error::failed(why));
            }
        }
        let is_consumer = name.is_some();
        let mut config = pull::Config {
            deliver_policy: DeliverPolicy::ByStartSequence {
                start_sequence: after + 1,
            },
            ack_policy: AckPolicy::None,
            inactive_threshold: 3 * ANSWER_LIMIT,
            filter_subjects: feed_filters(&args.kind, &args.types),
            ..pull::Config::default()
        };
        if is_consumer {
            // One that exists stays where it is, with the filter of these arguments.
            config = pull::Config {
                durable_name: name,
                ack_wait: AGAIN_AFTER,
                max_ack_pending: MAX_UNACKNOWLEDGED,
                filter_subjects: config.filter_subjects,
                ack_policy: AckPolicy::All,
                ..pull::Config::default()
            };
        }
        let mut consumer = connection.consumer(FEED, config).await?;
        if is_consumer {
            // What was delivered and not acknowledged comes again at once. A broker before 2.14 does
            // that only when the time for the acknowledgement is over.
            drop(consumer.reset(None).await);
        }
        let info = consumer.cached_info();
        // The broker moves it over what it removes: that is not known as a gap then.
        let after = match is_known && known.is_none_or(|known| known.epoch != epoch) {
            true => info.ack_floor.stream_sequence,
            false => after,
        };
        let n_kept = info.num_pending;
        let messages = consumer.stream().max_messages_per_batch(500).messages();
        Ok(Self {
            messages: messages.await.map_err(|error| unreadable(&error))?,
            connection: connection.clone(),
            epoch,
            kept,
            after,
            last: after,
            open: BTreeMap::new(),
            is_consumer,
            n_kept,
        })
    }

    fn print_hello(&self) -> Result<(), Error> {
        print_json(&json!({
            "kind": "hello",
            "v": 1,
            "epoch": self.epoch,
            "lastSeq": self.kept.1,
            "version": OURS,
        }))
    }

    /// Says which records are asked for that the broker has removed.
    fn print_gap(&self) -> Result<(), Error> {
        let (from, to) = (self.after + 1, self.kept.0.saturating_sub(1));
        match from <= to {
            true => print_json(&json!({ "kind": "gap", "from": from, "to": to })),
            false => Ok(()),
        }
    }

    /// Returns the record of the next message, unless it was returned before, or is none.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    async fn next(&mut self) -> Result<Option<Value>, Error> {
        let message = self.connection.next(&mut self.messages).await?;
        let message = message.map_err(|_| broken())?;
        let Ok((place, pending)) = message
            .info()
            .map(|info| (info.stream_sequence, info.pending))
        else {
            return Ok(None);
        };
        self.n_kept = self.n_kept.min(pending);
        let record = record(&message, place);
        if self.is_consumer {
            self.open.insert(place, message);
        }
        // One that was not acknowledged comes again.
        let is_new = place > self.last;
        self.last = self.last.max(place);
        Ok(record.filter(|_| is_new))
    }

    /// Acknowledges the record at this place and all before it. Returns when the broker has it.
    async fn acknowledge(&mut self, place: Seq) -> Result<(), Error> {
        let Some((last, message)) = self.open.range(..=place).next_back() else {
            return Ok(());
        };
        let last = *last;
        self.connection.acknowledge(message).await?;
        self.open = self.open.split_off(&(last + 1));
        Ok(())
    }
}

/// Returns a record as it is passed on. The subject says which host it is of: what the host says of
/// itself does not count. What has not the subject's kind is no record.
fn record(message: &Message, place: Seq) -> Option<Value> {
    let words = words_of(FEED.root, &message.subject)?;
    let (host, kind) = (words.first()?, words.get(2)?);
    let mut fields: Value = parse(&message.payload, "\n")?;
    let object = fields.as_object_mut()?;
    if object.get("kind")? != kind || !is_host_name(host) {
        return None;
    }
    object.insert("host".to_owned(), json!(host));
    object.insert("fleetSeq".to_owned(), json!(place));
    for pointer in ["/text", "/message/content"] {
        if let Some(Value::String(text)) = fields.pointer_mut(pointer) {
            *text = text::from_host(text, host);
        }
    }
    Some(fields)
}

/// Resolves when nobody reads standard output any more.
async fn stdout_closed() {
    use std::os::fd::AsFd;

    use tokio::io::Interest;
    use tokio::net::unix::pipe;

    // Unchecked: a check would make the stream non-blocking for all processes that share it.
    let pipe = io::stdout().as_fd().try_clone_to_owned();
    let pipe = pipe.and_then(pipe::Sender::from_owned_fd_unchecked);
    if let Ok(pipe) = &pipe
        && pipe.ready(Interest::ERROR).await.is_ok()
    {
        return;
    }
    // A file: writing to it fails if it is closed.
    std::future::pending().await
}
