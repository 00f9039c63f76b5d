//! The broker of many machines: NATS with JetStream.

mod board;
mod bucket;
mod connection;
mod feed_reader;
pub(crate) mod layout;
mod membership;
mod request;
mod service;
mod uplink;
mod verbs;

pub(crate) use board::{BucketEntry, FleetBoard, FleetChange, FleetHost, FleetSession, Presence};
pub(crate) use bucket::{BucketNews, BucketWatch};
pub(crate) use connection::{
    Connection, FleetError, SINGLE, StreamUse, connect, host_name, stream_uses,
};
pub(crate) use feed_reader::{FeedReader, FeedRequest, FeedStart, Wake, WakeReader};
pub(crate) use membership::Membership;
pub(crate) use request::{Absent, HostAnswers, absence};
#[cfg(feature = "mcp")]
pub(crate) use verbs::verb_of_tool;
