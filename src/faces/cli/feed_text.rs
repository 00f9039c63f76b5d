//! Records of the feed and of its streams as they are printed.

use super::args::FeedFormat;
use super::output;
use crate::model::{Body, Error, Record, Seq, rfc3339};
use crate::store::feed::{Frame, UnknownRecord};
use crate::wire::{LiveRecord, StreamRecord};

/// Prints a line of a stream as the daemon sent it, or in another format.
pub(super) fn print_live(text: &str, format: FeedFormat) -> Result<(), Error> {
    if format == FeedFormat::Json {
        return output::line(text);
    }
    match serde_json::from_str::<StreamRecord>(text) {
        Ok(StreamRecord::Durable(record)) => output::line(&durable(&record, format)),
        Ok(StreamRecord::Live(record)) => match (format, live_text(&record)) {
            (FeedFormat::Text, Some(text)) => output::line(&text),
            (FeedFormat::Text | FeedFormat::Json, _) => Ok(()),
        },
        Err(error) => match serde_json::from_str::<Frame>(text) {
            // Of a kind unknown to this version.
            Ok(_) => Ok(()),
            Err(_) => Err(Error::of(&error)),
        },
    }
}

pub(super) fn durable(record: &Record, format: FeedFormat) -> String {
    match format {
        FeedFormat::Json => serde_json::to_string(record).unwrap_or_default(),
        FeedFormat::Text => {
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
    }
}

/// A record of a later version, displayed as far as possible.
pub(super) fn unknown(record: &UnknownRecord, format: FeedFormat) -> String {
    match format {
        FeedFormat::Json => record.fields.to_string(),
        FeedFormat::Text => format!("#{} of a later version", record.frame.seq),
    }
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
        LiveRecord::Gap { from, to } => missing(&[(*from, *to)], 0),
        LiveRecord::Acked { acked } => Some(format!("acknowledged up to #{acked}")),
        LiveRecord::Replaced => Some("another process reads as this consumer now".to_owned()),
        LiveRecord::Hello { .. } | LiveRecord::Sync | LiveRecord::Tasks { .. } => None,
    }
}

/// Reports which records behind the number `first` are missing, if any.
pub(super) fn missing(lost: &[(Seq, Seq)], first: Seq) -> Option<String> {
    let stretches: Vec<String> = lost
        .iter()
        .filter(|(_, to)| *to > first)
        .map(|(from, to)| ((*from).max(first + 1), *to))
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
