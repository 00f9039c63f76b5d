//! `ls`, `status` and what `tmux-task doctor` says of the broker.

use std::io::{self, IsTerminal};

use serde_json::{Value, json};
use tmux_task::model::{Error, Millis, age, rfc3339, text};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::board::{FleetBoard, FleetHost, FleetSession, Presence};
use crate::buckets::{BucketNews, BucketWatch};
use crate::connection::{Connection, SINGLE, StreamUse, connect_as_configured, stream_uses};
use crate::feed::stdout_closed;
use crate::machine::now;
use crate::wakes::WakeReader;
use crate::{FleetLs, print, print_json};

/// The maximum width of the command and of the last line in the table, in columns.
const COLUMN: usize = 52;

/// The columns.
const TITLES: [&str; 7] = ["ID", "NAME", "STATE", "CODE", "AGE", "COMMAND", "LAST LINE"];

pub(crate) async fn ls(args: &FleetLs) -> Result<(), Error> {
    let (connection, ..) = connect_as_configured().await?;
    if args.follow {
        return tokio::select! {
            ended = follow(&connection) => ended,
            () = stdout_closed() => Ok(()),
        };
    }
    let board = board(&connection).await?;
    if args.json {
        let hosts = board.hosts.iter().map(|(name, host)| host.json(name));
        return print_json(&json!({ "hosts": hosts.collect::<Vec<_>>() }));
    }
    print_lines(&table_of_hosts(&board, now(), args.wide))
}

/// Prints each host when it changes, at first all of them and a line that says so.
async fn follow(connection: &Connection) -> Result<(), Error> {
    let watch = BucketWatch::begin(connection, false);
    let mut watch = connection.unless_refused(watch).await?;
    let mut board = FleetBoard::default();
    let mut is_complete = false;
    loop {
        match watch.next().await? {
            BucketNews::Entry(entry) => {
                drop(board.apply(&entry));
                let name = entry.host().filter(|_| is_complete).unwrap_or_default();
                if let Some(host) = board.hosts.get(&name) {
                    print_json(&host.json(&name))?;
                }
            }
            BucketNews::Complete => {
                is_complete = true;
                for (name, host) in &board.hosts {
                    print_json(&host.json(name))?;
                }
                print_json(&json!({ "kind": "sync" }))?;
            }
        }
    }
}

/// Returns what the hosts have published last.
async fn board(connection: &Connection) -> Result<FleetBoard, Error> {
    let watch = BucketWatch::begin(connection, false);
    let mut watch = connection.unless_refused(watch).await?;
    let mut board = FleetBoard::default();
    loop {
        match watch.next().await? {
            BucketNews::Entry(entry) => drop(board.apply(&entry)),
            BucketNews::Complete => return Ok(board),
        }
    }
}

/// Returns the tasks of each session below its host and name.
fn table_of_hosts(board: &FleetBoard, now: Millis, is_wide: bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, host) in &board.hosts {
        let presence = presence(host, now);
        let existing = || host.sessions.values().filter(|session| session.exists());
        if existing().next().is_none() {
            push_section(
                &mut lines,
                format!("{name} (no session{presence})"),
                Vec::new(),
            );
        }
        for session in existing() {
            let session_name = session.name().unwrap_or_default();
            let tasks = text::counted(session.tasks().len(), "task");
            let heading = format!("{name}: {session_name} ({tasks}{presence})");
            push_section(&mut lines, heading, table_of(session, now, is_wide));
        }
    }
    match terminal_columns().filter(|_| !is_wide) {
        Some(columns) => lines.iter().map(|line| fitted(line, columns)).collect(),
        None => lines,
    }
}

fn push_section(lines: &mut Vec<String>, heading: String, table: Vec<String>) {
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(heading);
    lines.extend(table);
}

fn presence(host: &FleetHost, now: Millis) -> String {
    match &host.presence {
        Presence::Here(_) => String::new(),
        Presence::Gone(since) => format!(", {}", gone_since(*since, now)),
        Presence::Unknown => ", not known to be there".to_owned(),
    }
}

fn table_of(session: &FleetSession, now: Millis, is_wide: bool) -> Vec<String> {
    let tasks = session.tasks();
    if tasks.is_empty() {
        return Vec::new();
    }
    let titles = TITLES.map(str::to_owned);
    let rows = tasks.into_iter().map(|task| row(task, now, is_wide));
    let rows: Vec<[String; 7]> = std::iter::once(titles).chain(rows).collect();
    let widths: [usize; 7] = std::array::from_fn(|column| {
        let widths = rows.iter().map(|row| row[column].width());
        widths.max().unwrap_or_default()
    });
    let line = |row: &[String; 7]| {
        let cells = row.iter().zip(widths);
        let padded =
            cells.map(|(cell, width)| format!("{cell}{}  ", " ".repeat(width - cell.width())));
        padded.collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(task: &Value, now: Millis, is_wide: bool) -> [String; 7] {
    let word = |field: &str| task[field].as_str().unwrap_or("-").trim().to_owned();
    let code = match (
        &task["dead"],
        task["exitCode"].as_i64(),
        task["exitSignal"].as_str(),
    ) {
        (Value::Bool(true), _, Some(signal)) => signal.to_owned(),
        (Value::Bool(true), Some(code), None) => code.to_string(),
        (Value::Bool(true), None, None) => "?".to_owned(),
        _ => "-".to_owned(),
    };
    let started = task["startedAt"].as_i64();
    let last = task["waitingFor"]
        .as_str()
        .or(task["outputPreview"].as_str());
    let short = |text: String| match is_wide {
        true => text,
        false => fitted(&text, COLUMN),
    };
    [
        word("windowId"),
        word("windowName"),
        word("state"),
        code,
        started.map_or_else(|| "-".to_owned(), |at| age(now - at)),
        short(word("command")),
        short(last.unwrap_or_default().trim().to_owned()),
    ]
}

/// Returns as much of a line as these columns take.
fn fitted(line: &str, columns: usize) -> String {
    if line.width() <= columns {
        return line.to_owned();
    }
    let mut width = 1;
    let is_within = |c: &char| {
        width += c.width().unwrap_or_default();
        width <= columns
    };
    let cut: String = line.chars().take_while(is_within).collect();
    format!("{cut}…")
}

fn terminal_columns() -> Option<usize> {
    let stdout = io::stdout();
    let size = stdout
        .is_terminal()
        .then(|| rustix::termios::tcgetwinsize(&stdout));
    let columns = usize::from(size?.ok()?.ws_col);
    (columns > 0).then_some(columns)
}

/// Says since when a host is gone.
fn gone_since(since: Millis, now: Millis) -> String {
    format!("gone since {}, {} ago", rfc3339(since), age(now - since))
}

pub(crate) async fn status(is_json: bool) -> Result<(), Error> {
    let (connection, host, config) = connect_as_configured().await?;
    let version = connection.client.server_info().version;
    let streams = connection.unless_refused(stream_uses(&connection)).await?;
    let hosts = board(&connection).await?.hosts;
    let gone = hosts.iter().filter_map(|(name, host)| match host.presence {
        Presence::Gone(since) => Some((name, since)),
        Presence::Here(_) | Presence::Unknown => None,
    });
    let gone: Vec<(&String, Millis)> = gone.collect();
    if is_json {
        let since = |(host, since): &(&String, Millis)| json!({"host": host, "goneSince": since});
        return print_json(&json!({
            "broker": config.url.0,
            "serverVersion": version,
            "host": host,
            "streams": streams,
            "hosts": hosts.len(),
            "gone": gone.iter().map(since).collect::<Vec<_>>(),
        }));
    }
    let now = now();
    let url = config.url.0.join(", ");
    let n_here = hosts.len() - gone.len();
    let mut lines = vec![
        format!("broker:  {url}, nats-server {version}"),
        format!("host:    {host} (this machine)"),
        format!("hosts:   {n_here} here, {} gone", gone.len()),
    ];
    for (name, since) in &gone {
        lines.push(format!("         {name} is {}", gone_since(*since, now)));
    }
    lines.extend(streams.iter().map(|stream| stream_line(stream, now)));
    if streams.iter().any(StreamUse::is_single) {
        lines.push(format!("note:    {SINGLE}"));
    }
    print_lines(&lines)
}

fn print_lines(lines: &[String]) -> Result<(), Error> {
    print(
        &lines
            .iter()
            .map(|line| format!("{line}\n"))
            .collect::<String>(),
    )
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

/// Checks whether the broker is reached, how it stores, and whether conversations hear of their tasks. Each
/// line is a result: `{"result":"warn","message":"...","hint":"..."}`.
pub(crate) async fn doctor(has_wakes: bool) -> Result<(), Error> {
    let say = |result: &str, message: String, hint: Option<&str>| {
        print_json(&json!({ "result": result, "message": message, "hint": hint }))
    };
    let (connection, host, _) = match connect_as_configured().await {
        Ok(connected) => connected,
        Err(error) => {
            let hint = "records wait in the feed until it is reached; see docs/fleet.md";
            return say("fail", error.message, Some(hint));
        }
    };
    let version = connection.client.server_info().version;
    say(
        "ok",
        format!("nats-server {version}, where this machine is {host}"),
        None,
    )?;
    if !connection.client.is_server_compatible(2, 11, 0) {
        let why = format!(
            "nats-server {version} removes no single values: the tasks of a host that is gone stay"
        );
        say("warn", why, Some("nats-server 2.11 or later removes them"))?;
    }
    // Credentials of a machine need not permit this.
    let uses = connection.unless_refused(stream_uses(&connection)).await;
    if uses.unwrap_or_default().iter().any(StreamUse::is_single) {
        say("ok", SINGLE.to_owned(), None)?;
    }
    if has_wakes {
        let reading = WakeReader::may_read(&connection);
        if let Err(error) = connection.unless_refused(reading).await {
            let why = format!("conversations here do not hear of their tasks elsewhere: {error}");
            let hint = "docs/fleet.md lists what the credentials of their machine need";
            say("warn", why, Some(hint))?;
        }
    }
    Ok(())
}
