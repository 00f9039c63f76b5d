//! Records of the feed and of its streams as they are printed.

use serde::Deserialize;

use super::args::FeedFormat;
use super::output;
use crate::model::{Body, Error, Record, Seq, rfc3339};
use crate::wire::{LiveRecord, StreamRecord};

/// Prints a line of a stream as the daemon sent it, or in another format.
pub(super) fn print_live(text: &str, format: FeedFormat) -> Result<(), Error> {
    if format == FeedFormat::Json {
        return output::line(text);
    }
    match serde_json::from_str::<StreamRecord>(text) {
        Ok(StreamRecord::Durable(record)) => output::line(&durable(&record)),
        Ok(StreamRecord::Live(record)) => {
            live_text(&record).map_or(Ok(()), |text| output::line(&text))
        }
        // Of a kind unknown to this version.
        Err(error) => number(text).map_err(|_| Error::of(&error)).map(drop),
    }
}

/// Returns how a stored record is printed.
pub(super) fn record_text(text: String, format: FeedFormat) -> Result<String, Error> {
    if format == FeedFormat::Json {
        return Ok(text);
    }
    match serde_json::from_str(&text) {
        Ok(StreamRecord::Durable(record)) => Ok(durable(&record)),
        Ok(StreamRecord::Live(_)) | Err(_) => Ok(format!("#{} of a later version", number(&text)?)),
    }
}

/// Returns the number of a record, of whatever kind.
fn number(text: &str) -> Result<Seq, Error> {
    #[derive(Deserialize)]
    struct Numbered {
        seq: Seq,
    }
    let record = serde_json::from_str::<Numbered>(text).map_err(Error::of)?;
    Ok(record.seq)
}

fn durable(record: &Record) -> String {
    let (kind, text) = match &record.body {
        Body::Event(event) => (
            format!("event {}", event.event_type()),
            crate::route::text_of(event),
        ),
        Body::Notice { text, .. } => ("notice".to_owned(), text.clone()),
        Body::FollowUp { message, .. } => ("followUp".to_owned(), message.content.clone()),
    };
    let text = text.replace('\n', "\n    ");
    format!("{} #{} {kind}: {text}", rfc3339(record.time), record.seq)
}

fn live_text(record: &LiveRecord) -> Option<String> {
    match record {
        LiveRecord::Status {
            text,
            running,
            waiting,
            dead,
            problem,
        } => {
            let counts = match text {
                Some(text) => {
                    format!("{text} ({running} running, {waiting} waiting, {dead} exited)")
                }
                None => "tmux: no session".to_owned(),
            };
            let problem = problem.as_ref().map(|problem| format!("; {problem}"));
            Some(counts + &problem.unwrap_or_default())
        }
        LiveRecord::Gap { from, to } => missing(&[(*from, *to)]),
        LiveRecord::Acked { acked } => Some(format!("acknowledged up to #{acked}")),
        LiveRecord::Replaced => Some("another process reads as this consumer now".to_owned()),
        LiveRecord::Hello { .. } | LiveRecord::Sync | LiveRecord::Tasks { .. } => None,
    }
}

/// Reports which records are missing, if any.
pub(super) fn missing(lost: &[(Seq, Seq)]) -> Option<String> {
    let stretches: Vec<String> = lost
        .iter()
        .map(|(from, to)| match to - from {
            0 => format!("{from}"),
            _ => format!("{from} to {to}"),
        })
        .collect();
    match stretches.as_slice() {
        [] => None,
        [one] if !one.contains(' ') => Some(format!("record {one} is gone")),
        several => Some(format!("records {} are gone", several.join(", "))),
    }
}
