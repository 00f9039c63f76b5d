//! The broker of many machines: NATS with JetStream.

mod board;
mod bucket;
mod connection;
mod feed_reader;
mod frame;
pub(crate) mod layout;
mod membership;
mod request;
mod service;
mod streams;
mod task_states;
mod uplink;
mod verbs;
mod wake_reader;

pub(crate) use board::{BucketEntry, FleetBoard, FleetChange, FleetHost, FleetSession, Presence};
pub(crate) use bucket::{BucketNews, BucketWatch};
pub(crate) use connection::{Connection, FleetError, connect, host_name};
pub(crate) use feed_reader::{FeedReader, FeedRequest, FeedStart};
pub(crate) use membership::Membership;
pub(crate) use request::{Absent, HostAnswers, absence};
pub(crate) use streams::{SINGLE, StreamUse, stream_uses};
#[cfg(feature = "mcp")]
pub(crate) use verbs::verb_of_tool;
pub(crate) use wake_reader::{Wake, WakeReader};
