//! The program's promises to users, tested from outside.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and says where"
)]

mod agents;
mod alerts;
mod answers;
mod architecture;
mod attaching;
mod beginnings;
mod book;
mod codex;
mod commands;
mod configuration;
mod consumers;
mod control_clients;
mod crashes;
mod daemon;
mod descriptors;
mod doctor;
#[cfg(target_os = "linux")]
mod endings;
mod endpoint;
mod environment;
mod events;
#[cfg(target_os = "linux")]
mod far_conversations;
mod faults;
mod feed;
#[cfg(target_os = "linux")]
mod first_steps;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(feature = "fleet")]
mod fleet_faces;
#[cfg(feature = "fleet")]
mod fleet_hosts;
#[cfg(feature = "fleet")]
mod fleet_wakes;
mod followed;
mod following;
#[cfg(target_os = "linux")]
mod full_disk;
mod fuzz;
mod guide;
mod heights;
mod helper;
mod history;
mod hooks;
mod hostile;
#[cfg(target_os = "linux")]
mod hosts;
mod inherited;
mod launching;
mod logs;
mod long_feed;
mod lost_daemon;
#[cfg(feature = "mcp")]
mod mcp;
#[cfg(feature = "notice")]
mod notices;
mod notify_on;
mod order;
mod owners;
mod ownership;
#[cfg(feature = "panel")]
mod panel;
mod panes;
mod ports;
mod project_file;
mod prompts;
#[cfg(target_os = "linux")]
mod prompts_live;
mod qwen;
#[cfg(target_os = "linux")]
mod reach;
mod recipes;
mod renames;
mod replay;
mod requests;
mod reruns;
mod respawns;
mod restart;
mod restarts;
mod retention;
mod runs;
mod scan;
mod security;
mod servers;
mod service;
mod session;
mod shell_setup;
mod shells;
mod silence;
mod sinks;
mod slots;
#[cfg(target_os = "linux")]
mod slow_disk;
mod socket;
mod stopping;
#[cfg(target_os = "linux")]
mod storms;
mod support;
mod terminals;
mod typing;
mod undelivered;
mod up;
mod upgrades;
mod waits;
mod wakes;
mod widths;
mod wire;
