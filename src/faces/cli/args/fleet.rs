//! Arguments of the commands about the machines of a fleet.

use clap::{Args, Subcommand};

use super::Json;
use crate::model::{EventType, Kind, Seq};

#[derive(Debug, Args)]
pub(crate) struct Fleet {
    #[command(subcommand)]
    pub(crate) command: FleetCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// List the tasks of all hosts, as each has published them last
    ///
    /// A host that has stopped publishing is shown with the time since which it is gone.
    Ls(FleetLs),
    /// Print the records of all hosts as JSON lines
    ///
    /// Each has `host`, and `fleetSeq`, its place among the records of all hosts. With --follow, `hostGone`
    /// and `hostBack` say which hosts stop publishing and begin again.
    Feed(FleetFeed),
    /// Show the broker, what it stores, and the hosts
    Status(Json),
}

#[derive(Debug, Args)]
pub(crate) struct FleetLs {
    /// Do not cut commands and lines
    #[arg(short, long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct FleetFeed {
    /// Stream new records, from now unless --after or --consumer says where it starts
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start after the record with this fleetSeq; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<Seq>,
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":FLEETSEQ} on standard input acknowledges a record and all before it; {"acked":FLEETSEQ}
    /// confirms that the broker has it. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after"
    )]
    pub(crate) consumer: Option<String>,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    pub(crate) kind: Vec<Kind>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    pub(crate) types: Vec<EventType>,
}
