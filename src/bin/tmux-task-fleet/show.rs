//! `ls`, `status` and what `tmux-task doctor` says of the broker.

use std::io;

use async_nats::jetstream::stream::Info;
use serde_json::{Value, json};
use tmux_task::model::{Error, Millis, age, rfc3339, text};
use unicode_width::UnicodeWidthStr;

use crate::board::{FleetBoard, FleetWatch};
use crate::connection::{Connection, connect};
use crate::layout::{HOSTS, STATE, STORES, Store};
use crate::machine::{millis, now};
use crate::wakes;
use crate::{FleetLs, print, print_json};

/// The maximum width of the command and of the last line in the table, in characters.
const COLUMN: usize = 52;

/// The columns.
const TITLES: [&str; 7] = ["ID", "NAME", "STATE", "CODE", "AGE", "COMMAND", "LAST LINE"];

pub(crate) async fn ls(args: &FleetLs) -> Result<(), Error> {
    let connection = connect().await?;
    if args.follow {
        return follow(&connection).await;
    }
    let (board, _) = read(&connection).await?;
    if args.json {
        let hosts = board.iter().map(|(name, host)| host.json(name));
        return print_json(&json!({ "hosts": hosts.collect::<Vec<_>>() }));
    }
    let lines = table_of_hosts(&board, now(), args.wide);
    lines.iter().try_for_each(|line| print(line))
}

/// Prints each host when it changes, at first all of them and a line that says so.
async fn follow(connection: &Connection) -> Result<(), Error> {
    let (mut board, mut watch) = read(connection).await?;
    for (name, host) in &board {
        print_json(&host.json(name))?;
    }
    print_json(&json!({ "kind": "sync" }))?;
    loop {
        if let Some(host) = watch.next(&mut board).await? {
            print_json(&board[&host].json(&host))?;
        }
    }
}

/// Returns what the hosts have published last, and what reads on.
async fn read(connection: &Connection) -> Result<(FleetBoard, FleetWatch), Error> {
    let watch = FleetWatch::begin(connection, &[HOSTS, STATE]);
    let mut watch = connection.unless_refused(watch).await?;
    let mut board = FleetBoard::default();
    while !watch.is_complete() {
        watch.next(&mut board).await?;
    }
    Ok((board, watch))
}

/// Returns the tasks of each session below its host and name.
fn table_of_hosts(board: &FleetBoard, now: Millis, is_wide: bool) -> Vec<String> {
    let longest = if is_wide { usize::MAX } else { COLUMN };
    let mut sections = Vec::new();
    for (name, host) in board {
        let presence = match (host.gone_since, &host.here) {
            (Some(since), _) => format!(", {}", gone_since(since, now)),
            (None, Some(_)) => String::new(),
            (None, None) => ", not known to be there".to_owned(),
        };
        let mut existing = host
            .sessions()
            .filter(|(_, session, _)| session.exists)
            .peekable();
        if existing.peek().is_none() {
            sections.push(vec![format!("{name} (no session{presence})")]);
        }
        for (_, session, tasks) in existing {
            let n_tasks = text::counted(tasks.len(), "task");
            let session = &session.session_name;
            let mut section = vec![format!("{name}: {session} ({n_tasks}{presence})")];
            section.extend(table_of(&tasks, now, longest));
            sections.push(section);
        }
    }
    let lines = sections.join(&String::new());
    match terminal_columns().filter(|_| !is_wide) {
        Some(columns) => lines
            .iter()
            .map(|line| text::bounded(line, columns))
            .collect(),
        None => lines,
    }
}

fn table_of(tasks: &[&Value], now: Millis, longest: usize) -> Vec<String> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let titles = TITLES.map(str::to_owned);
    let rows = tasks.iter().map(|task| row(task, now, longest));
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

fn row(task: &Value, now: Millis, longest: usize) -> [String; 7] {
    let word = |field: &str| task[field].as_str().unwrap_or("-").trim().to_owned();
    let code = match (task["exitSignal"].as_str(), task["exitCode"].as_i64()) {
        _ if task["dead"] != true => "-".to_owned(),
        (Some(signal), _) => signal.to_owned(),
        (None, Some(code)) => code.to_string(),
        (None, None) => "?".to_owned(),
    };
    let started = task["startedAt"].as_i64();
    let last = task["waitingFor"]
        .as_str()
        .or(task["outputPreview"].as_str());
    [
        word("windowId"),
        word("windowName"),
        word("state"),
        code,
        started.map_or_else(|| "-".to_owned(), |at| age(now - at)),
        text::bounded(&word("command"), longest),
        text::bounded(last.unwrap_or_default().trim(), longest),
    ]
}

fn terminal_columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
    (size.ws_col > 0).then_some(size.ws_col.into())
}

/// Says since when a host is gone.
fn gone_since(since: Millis, now: Millis) -> String {
    format!("gone since {}, {} ago", rfc3339(since), age(now - since))
}

pub(crate) async fn status(is_json: bool) -> Result<(), Error> {
    let connection = connect().await?;
    let config = &connection.config;
    let version = connection.client.server_info().version;
    let streams = connection.unless_refused(streams(&connection)).await?;
    let (hosts, _) = read(&connection).await?;
    let gone = hosts.iter();
    let gone = gone.filter_map(|(name, host)| Some((name, host.gone_since?)));
    let gone: Vec<(&String, Millis)> = gone.collect();
    if is_json {
        let since = |(host, since): &(&String, Millis)| json!({"host": host, "goneSince": since});
        return print_json(&json!({
            "broker": config.url,
            "serverVersion": version,
            "host": config.host,
            "streams": streams.iter().map(|(name, info)| json!({
                "name": name,
                "messages": info.state.messages,
                "bytes": info.state.bytes,
                "replicas": info.config.num_replicas,
                "consumers": info.state.consumer_count,
            })).collect::<Vec<_>>(),
            "hosts": hosts.len(),
            "gone": gone.iter().map(since).collect::<Vec<_>>(),
        }));
    }
    let now = now();
    let url = config.url.join(", ");
    let n_here = hosts.len() - gone.len();
    let mut lines = vec![
        format!("broker:  {url}, nats-server {version}"),
        format!("host:    {} (this machine)", config.host),
        format!("hosts:   {n_here} here, {} gone", gone.len()),
    ];
    for (name, since) in &gone {
        lines.push(format!("         {name} is {}", gone_since(*since, now)));
    }
    lines.extend(
        streams
            .iter()
            .map(|(name, info)| stream_line(name, info, now)),
    );
    lines.iter().try_for_each(|line| print(line))
}

/// Returns what the broker stores, by the names of the documentation.
async fn streams(connection: &Connection) -> Result<Vec<(&'static str, Info)>, Error> {
    let mut all = Vec::new();
    for Store { name, stream, .. } in STORES {
        let found = connection.jetstream.get_stream(stream).await;
        let found = found.map_err(|error| connection.unreadable(name, &error))?;
        all.push((name, found.cached_info().clone()));
    }
    Ok(all)
}

fn stream_line(name: &str, info: &Info, now: Millis) -> String {
    let state = &info.state;
    let since = match state.messages {
        0 => String::new(),
        _ => format!(
            ", the first {} ago",
            age(now - millis(state.first_timestamp))
        ),
    };
    let replicas = text::counted(info.config.num_replicas, "replica");
    format!(
        "{:<8} {} messages, {}{since}; {replicas}",
        format!("{name}:"),
        state.messages,
        text::size(state.bytes)
    )
}

/// Checks whether the broker is reached, and whether conversations hear of their tasks. Each line is a result: `{"result":"warn","message":"...","hint":"..."}`.
pub(crate) async fn doctor(has_wakes: bool) -> Result<(), Error> {
    let say = |result: &str, message: String, hint: Option<&str>| {
        print_json(&json!({ "result": result, "message": message, "hint": hint }))
    };
    let connection = match connect().await {
        Ok(connected) => connected,
        Err(error) => {
            let hint = "records wait in the feed until it is reached; see docs/fleet.md";
            return say("fail", error.message, Some(hint));
        }
    };
    let version = connection.client.server_info().version;
    say(
        "ok",
        format!(
            "nats-server {version}, where this machine is {}",
            connection.config.host
        ),
        None,
    )?;
    if has_wakes {
        let reading = wakes::may_read(&connection);
        if let Err(error) = connection.unless_refused(reading).await {
            let why = format!("conversations here do not hear of their tasks elsewhere: {error}");
            let hint = "docs/fleet.md lists what the credentials of their machine need";
            say("warn", why, Some(hint))?;
        }
    }
    Ok(())
}
