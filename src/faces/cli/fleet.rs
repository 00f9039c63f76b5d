//! `fleet`: the machines of a fleet, by its broker.

use super::args::{Fleet as FleetArgs, FleetCommand, FleetLs, Json};
use super::context::Context;
use super::ls::{Style, age, push_section};
use super::{fleet_feed, output};
use crate::clock;
use crate::fleet::{FleetBoard, FleetHost, Presence, SINGLE, StreamUse, stream_uses};
use crate::model::{Error, Millis, rfc3339, text};
use crate::ops::Fleet;
use serde_json::{Value, json};

pub(super) async fn run(context: &Context, args: FleetArgs) -> Result<(), Error> {
    // The broker has time limits of its own.
    context.limit.lift();
    match args.command {
        FleetCommand::Ls(args) => ls(args).await,
        FleetCommand::Feed(args) => fleet_feed::run(args).await,
        FleetCommand::Status(args) => status(args).await,
    }
}

async fn ls(args: FleetLs) -> Result<(), Error> {
    let fleet = Fleet::connect().await?;
    let board = fleet.board().await?;
    if args.json.json {
        let hosts: Vec<Value> = board.hosts.iter().map(host_json).collect();
        return output::json(&json!({ "hosts": hosts }));
    }
    let lines = table_of_hosts(&board, clock::now().wall, Style::of(args.wide));
    output::lines(&lines)
}

fn host_json((name, host): (&String, &FleetHost)) -> Value {
    let sessions: Vec<Value> = host
        .sessions
        .iter()
        .filter_map(|(key, session)| {
            Some(json!({
                "key": key,
                "sessionName": session.name()?,
                "exists": session.exists(),
                "tasks": session.tasks(),
            }))
        })
        .collect();
    let mut value = json!({ "host": name, "sessions": sessions });
    match &host.presence {
        Presence::Here(state) => {
            value["version"] = json!(state.version);
            value["allow"] = json!(state.allow);
        }
        Presence::Gone(since) => value["goneSince"] = json!(since),
        Presence::Unknown => {}
    }
    value
}

/// Returns the tasks of each session below its host and name.
fn table_of_hosts(board: &FleetBoard, now: Millis, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, host) in &board.hosts {
        let presence = match &host.presence {
            Presence::Here(_) => String::new(),
            Presence::Gone(since) => format!(", {}", gone_since(*since, now)),
            Presence::Unknown => ", not known to be there".to_owned(),
        };
        let existing = || host.sessions.values().filter(|session| session.exists());
        if existing().next().is_none() {
            let heading = format!("{name} (no session{presence})");
            push_section(&mut lines, &heading, None, now, style);
        }
        for view in existing().map(|session| session.view(now)) {
            let tasks = text::counted(view.tasks.len(), "task");
            let heading = format!("{name}: {} ({tasks}{presence})", view.session_name);
            push_section(&mut lines, &heading, Some(&view), now, style);
        }
    }
    lines
}

/// Says since when a host is gone.
fn gone_since(since: Millis, now: Millis) -> String {
    format!("gone since {}, {} ago", rfc3339(since), age(now - since))
}

async fn status(args: Json) -> Result<(), Error> {
    let fleet = Fleet::connect().await?;
    let version = fleet.connection.client.server_info().version;
    let streams = fleet
        .connection
        .unless_refused(stream_uses(&fleet.connection));
    let streams = streams.await?;
    let hosts = fleet.board().await?.hosts;
    let gone = hosts.iter().filter_map(|(name, host)| match host.presence {
        Presence::Gone(since) => Some((name, since)),
        Presence::Here(_) | Presence::Unknown => None,
    });
    let gone: Vec<(&String, Millis)> = gone.collect();
    if args.json {
        let since = |(host, since): &(&String, Millis)| json!({"host": host, "goneSince": since});
        return output::json(&json!({
            "broker": fleet.config.url,
            "serverVersion": version,
            "host": fleet.host,
            "streams": streams,
            "hosts": hosts.len(),
            "gone": gone.iter().map(since).collect::<Vec<_>>(),
        }));
    }
    let now = clock::now().wall;
    let url = fleet.config.url.join(", ");
    let n_here = hosts.len() - gone.len();
    let mut lines = vec![
        format!("broker:  {url}, nats-server {version}"),
        format!("host:    {} (this machine)", fleet.host),
        format!("hosts:   {n_here} here, {} gone", gone.len()),
    ];
    for (name, since) in &gone {
        lines.push(format!("         {name} is {}", gone_since(*since, now)));
    }
    lines.extend(streams.iter().map(|stream| stream_line(stream, now)));
    if streams.iter().any(StreamUse::is_single) {
        lines.push(format!("note:    {SINGLE}"));
    }
    output::lines(&lines)
}

fn stream_line(stream: &StreamUse, now: Millis) -> String {
    let since = stream
        .since
        .map(|since| format!(", the first {} ago", age(now - since)));
    let replicas = text::counted(stream.replicas, "replica");
    format!(
        "{:<8} {} messages, {}{}; {replicas}",
        format!("{}:", stream.name),
        stream.messages,
        text::size(stream.bytes),
        since.unwrap_or_default()
    )
}
