//! What all machines have published: the machines and their tasks, as the broker's buckets have them; `ls`,
//! `status`, and what `tmux-task doctor` says of the broker.

use std::collections::BTreeMap;
use std::io;
use std::time::SystemTime;

use async_nats::jetstream::consumer::DeliverPolicy;
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use futures_util::stream::SelectAll;
use serde_json::{Value, json};
use tmux_task::model::{Error, Millis, age, is_host_name, rfc3339, text};
use unicode_width::UnicodeWidthStr;

use crate::connection::{Connection, PRESENT, broken, connect};
use crate::layout::{
    HOSTS, HostState, MARKER, OPERATION, SESSION, STATE, STORES, SessionState, Store, parse,
    words_of,
};
use crate::{FleetLs, MAX_CHARS, millis, now, print, print_json, wakes};

/// Reads buckets until the connection breaks.
pub(crate) struct FleetWatch {
    connection: Connection,
    messages: SelectAll<Ordered>,
    /// What the subjects of those buckets begin with of which not all was read that they had at first.
    incomplete: Vec<&'static str>,
}

impl FleetWatch {
    /// Begins to read these buckets.
    pub(crate) async fn begin(connection: &Connection, buckets: &[Store]) -> Result<Self, Error> {
        let mut watch = Self {
            connection: connection.clone(),
            messages: SelectAll::new(),
            incomplete: Vec::new(),
        };
        for store in buckets {
            let Store { name, root, .. } = store;
            let config = OrderedConfig {
                deliver_subject: connection.client.new_inbox(),
                deliver_policy: DeliverPolicy::LastPerSubject,
                filter_subject: format!("{root}.>"),
                ..OrderedConfig::default()
            };
            let consumer = connection.consumer(*store, config).await?;
            if consumer.cached_info().num_pending > 0 {
                watch.incomplete.push(root);
            }
            let messages = consumer.messages().await;
            let messages = messages.map_err(|error| connection.unreadable(name, &error))?;
            watch.messages.push(messages);
        }
        Ok(watch)
    }

    /// Whether all that the buckets had at first has been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Takes what comes next. Returns the host of which it says something; `None` if it cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self, board: &mut FleetBoard) -> Result<Option<String>, Error> {
        let message = self.connection.next(&mut self.messages).await?;
        let message = message.map_err(|_| broken())?;
        let Ok(info) = message.info() else {
            return Ok(None);
        };
        if info.pending == 0 {
            self.incomplete
                .retain(|root| !message.subject.starts_with(root));
        }
        let headers = message.headers.clone().unwrap_or_default();
        let is_removed = headers.get(OPERATION).is_some() || headers.get(MARKER).is_some();
        let value = (!is_removed).then_some(&*message.payload);
        let at = millis(SystemTime::from(info.published) - PRESENT);
        Ok(apply(board, &message.subject, value, at))
    }
}

/// All hosts that have published anything, by their names.
pub(crate) type FleetBoard = BTreeMap<String, FleetHost>;

/// A host.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetHost {
    /// What it says of itself while it beats.
    pub(crate) here: Option<HostState>,
    /// When it beat last, in milliseconds since 1970, if it has stopped.
    pub(crate) gone_since: Option<Millis>,
    /// By the key of the session's files.
    sessions: BTreeMap<String, FleetSession>,
}

/// A task session of a host.
#[derive(Debug, Clone, Default)]
struct FleetSession {
    state: Option<SessionState>,
    /// By the numbers of their windows, as `ls --json` has them.
    tasks: BTreeMap<u64, Value>,
}

/// Takes a value; `None`: it was removed, and if it was a host's presence, the host beat last at this time.
/// Returns the host; `None` for what cannot be read, which changes nothing.
fn apply(
    board: &mut FleetBoard,
    subject: &str,
    value: Option<&[u8]>,
    beat_at: Millis,
) -> Option<String> {
    let words = words_of(HOSTS.root, subject).or_else(|| words_of(STATE.root, subject))?;
    // The subject is what the broker's permissions are about: the value may say anything.
    let host = words.first().filter(|host| is_host_name(host))?.clone();
    let known = board.entry(host.clone()).or_default();
    match (&words[1..], value) {
        ([], Some(value)) => {
            known.here = Some(parse(value, " ")?);
            known.gone_since = None;
        }
        ([], None) => {
            known.here = None;
            known.gone_since.get_or_insert(beat_at);
        }
        ([session, what], Some(value)) if what == SESSION => {
            let state = parse(value, " ")?;
            known.sessions.entry(session.clone()).or_default().state = Some(state);
        }
        ([session, what], None) if what == SESSION => drop(known.sessions.remove(session)),
        ([session, window], value) => {
            let number = window.strip_prefix('w')?.parse().ok()?;
            let tasks = &mut known.sessions.entry(session.clone()).or_default().tasks;
            let Some(value) = value else {
                tasks.remove(&number);
                return Some(host);
            };
            let task = parse::<Value>(value, " ")?["task"].take();
            if task["windowId"] != format!("@{number}") {
                return None;
            }
            tasks.insert(number, task);
        }
        _ => return None,
    }
    Some(host)
}

impl FleetHost {
    /// Returns its sessions: the key of each, what it says of itself, and its tasks, those with the lowest ids
    /// first. Tasks that the session does not name are left from before.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&str, &SessionState, Vec<&Value>)> {
        self.sessions.iter().filter_map(|(key, session)| {
            let state = session.state.as_ref()?;
            let is_named =
                |number: &u64| state.exists && state.windows.contains(&format!("@{number}"));
            let named = session.tasks.iter().filter(|(number, _)| is_named(number));
            Some((key.as_str(), state, named.map(|(_, task)| task).collect()))
        })
    }

    /// Returns what is known of the host of this name.
    pub(crate) fn json(&self, name: &str) -> Value {
        let sessions = self.sessions().map(|(key, state, tasks)| {
            json!({
                "key": key,
                "sessionName": state.session_name,
                "exists": state.exists,
                "tasks": tasks,
            })
        });
        let mut value = json!({ "host": name, "sessions": sessions.collect::<Vec<_>>() });
        if let Some(state) = &self.here {
            value["version"] = json!(state.version);
            value["allow"] = json!(state.allow);
        }
        if let Some(since) = self.gone_since {
            value["goneSince"] = json!(since);
        }
        value
    }
}

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
    // No width is known of what is no terminal.
    let size = rustix::termios::tcgetwinsize(io::stdout());
    match size.map(|size| size.ws_col.into()) {
        Ok(columns @ 1..) if !is_wide => lines
            .iter()
            .map(|line| text::bounded(line, columns))
            .collect(),
        _ => lines,
    }
}

fn table_of(tasks: &[&Value], now: Millis, longest: usize) -> Vec<String> {
    if tasks.is_empty() {
        return Vec::new();
    }
    let rows = tasks.iter().map(|task| row(task, now, longest));
    let titles = TITLES.map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(titles).chain(rows).collect();
    let mut lines = vec![String::new(); rows.len()];
    for column in 0..TITLES.len() {
        let widths = rows.iter().map(|row| row[column].width());
        let width = widths.max().unwrap_or_default();
        for (line, row) in lines.iter_mut().zip(&rows) {
            let cell = &row[column];
            *line += &format!("{cell}{}  ", " ".repeat(width - cell.width()));
        }
    }
    let trimmed = lines.iter().map(|line| line.trim_end().to_owned());
    trimmed.collect()
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

/// Says since when a host is gone.
fn gone_since(since: Millis, now: Millis) -> String {
    format!("gone since {}, {} ago", rfc3339(since), age(now - since))
}

pub(crate) async fn status() -> Result<(), Error> {
    let connection = connect().await?;
    let config = &connection.config;
    let version = connection.client.server_info().version;
    let streams = async {
        let mut all = Vec::new();
        for Store { name, stream, .. } in STORES {
            let found = connection.jetstream.get_stream(stream).await;
            let found = found.map_err(|error| connection.unreadable(name, &error))?;
            all.push((name, found.cached_info().state.clone()));
        }
        Ok(all)
    };
    let streams = connection.unless_refused(streams).await?;
    let (hosts, _) = read(&connection).await?;
    let gone = hosts.iter();
    let gone = gone.filter_map(|(name, host)| Some((name, host.gone_since?)));
    let gone: Vec<(&String, Millis)> = gone.collect();
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
    for (name, state) in streams {
        let (name, size) = (format!("{name}:"), text::size(state.bytes));
        lines.push(format!("{name:<8} {} messages, {size}", state.messages));
    }
    lines.iter().try_for_each(|line| print(line))
}

/// Checks whether the broker is reached, and whether conversations hear of their tasks. Each line is a result: `{"result":"warn","message":"...","hint":"..."}`.
pub(crate) async fn doctor(has_wakes: bool) -> Result<(), Error> {
    let say = |result: &str, message: String, hint: Option<&str>| {
        let message = text::one_line(message.as_bytes(), MAX_CHARS);
        print_json(&json!({ "result": result, "message": message, "hint": hint }))
    };
    let connection = match connect().await {
        Ok(connection) => connection,
        Err(error) => {
            let hint = "records wait in the feed until it is reached; see docs/fleet.md";
            return say("fail", error.message, Some(hint));
        }
    };
    let version = connection.client.server_info().version;
    let host = &connection.config.host;
    let reached = format!("nats-server {version}, where this machine is {host}");
    say("ok", reached, None)?;
    let reading = wakes::may_read(&connection);
    if has_wakes && let Err(error) = connection.unless_refused(reading).await {
        let why = format!("conversations here do not hear of their tasks elsewhere: {error}");
        let hint = "docs/fleet.md lists what the credentials of their machine need";
        say("warn", why, Some(hint))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{subject, window_word};

    /// Takes a value, or that it was removed.
    fn take(
        board: &mut FleetBoard,
        subject: &str,
        value: Option<Value>,
        at: Millis,
    ) -> Option<String> {
        let value = value.map(|value| value.to_string().into_bytes());
        apply(board, subject, value.as_deref(), at)
    }

    fn here(host: &str) -> Value {
        json!({"v": 1, "host": host, "version": "1", "allow": ["ls"]})
    }

    fn task(window: &str, name: &str) -> Value {
        let task = json!({"windowId": window, "windowName": name, "state": "running"});
        json!({"v": 1, "host": "gpu1", "sessionName": "work", "task": task})
    }

    fn subject_of(what: &str) -> String {
        subject(STATE.root, &["gpu1", "k", what])
    }

    #[test]
    fn a_host_is_gone_since_its_last_beat_until_it_beats_again() {
        let mut board = FleetBoard::default();
        let mut beat = |value: Option<Value>, at| {
            let host = take(&mut board, "$KV.TT_HOSTS.gpu1", value, at);
            // Whatever the value says, it is the subject's host.
            assert_eq!(host.as_deref(), Some("gpu1"));
            let host = &board["gpu1"];
            (host.here.is_some(), host.gone_since)
        };
        assert_eq!(beat(Some(here("gpu1")), 0), (true, None));
        assert_eq!(beat(Some(here("gpu1")), 20_000), (true, None));
        assert_eq!(beat(None, 80_000), (false, Some(80_000)));
        assert_eq!(beat(None, 90_000), (false, Some(80_000)));
        assert_eq!(beat(Some(here("other")), 95_000), (true, None));
        assert_eq!(board.len(), 1);
    }

    #[test]
    fn a_session_has_the_tasks_that_it_names() {
        let mut board = FleetBoard::default();
        for (window, name) in [("@10", "b\nc"), ("@9", "a"), ("@3", "old")] {
            let subject = subject_of(&window_word(window));
            take(&mut board, &subject, Some(task(window, name)), 0).unwrap();
        }
        let names = |board: &FleetBoard| -> Vec<String> {
            let sessions = board["gpu1"].json("gpu1")["sessions"].take();
            let tasks = sessions[0]["tasks"].as_array().cloned().unwrap_or_default();
            let name = |task: &Value| task["windowName"].as_str().unwrap().to_owned();
            tasks.iter().map(name).collect()
        };
        assert!(names(&board).is_empty());
        let state = |exists: bool| {
            json!({"v": 1, "host": "gpu1", "sessionName": "work", "exists": exists,
                "windows": ["@9", "@10", "@11"]})
        };
        let session = subject_of(SESSION);
        take(&mut board, &session, Some(state(true)), 0).unwrap();
        assert_eq!(names(&board), ["a", "b c"]);
        let json = board["gpu1"].json("gpu1");
        assert_eq!(json["sessions"][0]["sessionName"], "work");
        take(&mut board, &session, Some(state(false)), 0).unwrap();
        assert!(names(&board).is_empty());
        // A value that is another window's, and one that is none.
        let other = take(&mut board, &subject_of("w10"), Some(task("@9", "x")), 0);
        assert_eq!(other, None);
        assert_eq!(apply(&mut board, &subject_of("w10"), Some(b"{"), 0), None);
        take(&mut board, &session, None, 0).unwrap();
        assert!(board["gpu1"].sessions.is_empty());
    }
}
