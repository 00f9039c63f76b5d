//! Arguments of the commands about the feed and its consumers.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::Json;
use crate::config::read_time;
use crate::model::{EventType, Kind};
use crate::ops::{number, task_names};
use crate::wire::After;

#[derive(Debug, Args)]
pub(crate) struct Feed {
    /// Stream new records, from now unless --after, --lines, --since or --consumer says where it starts
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start after this record, SEQ or EPOCH:SEQ; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<After>,
    /// Only the last N records of those that the other options select; with --follow, new ones follow
    #[arg(short = 'n', long, value_name = "N", value_parser = number::<usize>("not a number of records, like 20"), allow_negative_numbers = true, conflicts_with = "consumer")]
    pub(crate) lines: Option<usize>,
    /// Only records that are not older than this, like 90s, 10m or 2h; with --follow, new ones follow
    #[arg(long, value_name = "D", value_parser = read_time, conflicts_with = "consumer")]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) consume: Consume,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    pub(crate) kind: Vec<Kind>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    pub(crate) types: Vec<EventType>,
    /// Only this task, by name or window id; may be given more than once
    #[arg(long, value_name = "NAME", add = task_names::candidates())]
    pub(crate) task: Vec<String>,
    /// Only notices and follow-ups for this owner, CLIENT:ID, and for everyone; events of all
    #[arg(long, hide = true, value_name = "ID")]
    pub(crate) owner: Option<String>,
    /// How to print a record [default: json; text on a terminal, where each event is printed once
    /// unless --kind says what to print]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FeedFormat>,
}

/// Reading as a consumer.
#[derive(Debug, Args)]
pub(crate) struct Consume {
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":SEQ} on standard input acknowledges a record and all before it; {"acked":SEQ}
    /// confirms that this is on the disk. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after",
        add = task_names::consumer_candidates()
    )]
    pub(crate) consumer: Option<String>,
    /// Acknowledge each record after printing it; standard input is not read
    #[arg(long, requires = "consumer")]
    pub(crate) auto_ack: bool,
    /// Where a new consumer starts, instead of at the first record: after the existing ones
    #[arg(long, hide = true, value_name = "WHERE", value_parser = ["now"], requires = "consumer")]
    pub(crate) from: Option<String>,
    /// End the stream of the process that reads as this consumer now, if there is one
    #[arg(long, hide = true, requires = "consumer")]
    pub(crate) take_over: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConsumerCommand {
    /// List the consumers with their positions and readers
    Ls(Json),
    /// Remove consumers
    Rm {
        /// Their names
        #[arg(required = true, add = task_names::consumer_candidates())]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FeedFormat {
    /// JSON lines as stored
    Json,
    /// For people
    Text,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The file of snapshots [default: standard input]
    pub(crate) file: Option<PathBuf>,
    /// No effect: records are always JSON lines
    #[command(flatten)]
    pub(crate) json: Json,
}
