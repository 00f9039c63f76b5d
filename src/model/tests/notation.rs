//! Snapshots and events in a few words, for tests.
//!
//! A snapshot is a list of entries, parted by `;`:
//!
//! ```text
//! @1 api running                 a task; also `unknown`, `dead 2`, `dead SIGKILL`, `dead ?`
//! @1#2 api running pid=7 pane=9 bells=3 bell nopane alt cursor=0,1 : row|row
//! @1 api running owner=pi:7 shell
//! @1 api running notifies=ERROR                  notifies of lines with this text
//! @1 api dead 1 ended=5000 restarts=5,1000,0   run again 5 times, after 1000 ms, 0 used
//! ended @1#2 api dead 0          a run that ended and is not the window's present one
//! gone @4 userKilled             why a window is not there
//! launcher @1 7                  the launcher replaced the run with pid 7
//! life 2                         which life of the session this is
//! missing                        the session does not exist
//! ```

use std::ffi::OsString;
use std::time::{Duration, Instant};

use crate::rules::diff::diff;
use crate::rules::wire::{
    ConsumerAudience, ConsumerStatus, LsTask, LsView, SavedConsumer, SendRequest, TypedInput,
};

use super::{
    Body, Context, CursorPosition, DeliveredEvent, Event, EventKind, Exit, GoneReason, Level, Life,
    Millis, NotifyOn, Now, PaneId, Prompt, PromptKind, Record, ReplacedBy, RestartPolicy, Screen,
    Seq, SessionId, SessionLife, Signal, Snapshot, Stop, Task, TaskRestarts, WindowId,
};

/// Reads a table: a row each line, with columns that are parted by ` | `. A line that begins with `| `
/// continues the row above it. `⏎` in a column is the end of a line.
pub(crate) fn rows<const N: usize>(table: &str) -> Vec<[String; N]> {
    let lines = table.lines().map(str::trim).filter(|line| !line.is_empty());
    let lines: Vec<&str> = lines.collect();
    let text = lines.join("\n").replace("\n| ", " | ");
    let columns = text.lines().map(|row| {
        let row = format!("{row} ");
        let columns = row.split(" | ").map(|text| text.trim().replace('⏎', "\n"));
        let columns = <[String; N]>::try_from(columns.collect::<Vec<_>>());
        columns.unwrap_or_else(|_| panic!("no {N} columns: {row}"))
    });
    columns.collect()
}

/// Returns an environment of `NAME=VALUE`s.
pub(crate) fn env(variables: &str) -> impl Fn(&str) -> Option<OsString> {
    |name| {
        let mut variables = variables.split(' ').filter_map(|text| text.split_once('='));
        let found = variables.find(|(known, _)| *known == name);
        found.map(|(_, value)| value.into())
    }
}

/// An instant from which tests count.
pub(crate) fn at(wall: Millis) -> Now {
    Now {
        mono: Instant::now(),
        wall,
    }
}

/// What the records of tests are written with.
pub(crate) fn context() -> Context {
    Context {
        epoch: "e1".to_owned(),
        session_name: "work".to_owned(),
        session_id: "work".to_owned(),
        checkpoint: None,
    }
}

/// A consumer of the feed `e` that is at this record.
pub(crate) fn saved_consumer(name: &str, cursor: Seq) -> SavedConsumer {
    SavedConsumer {
        v: 1,
        name: name.to_owned(),
        epoch: "e".to_owned(),
        cursor,
        first_left_out: None,
        created_at: 1,
        used_at: 2,
        used_after: 2,
        audience: ConsumerAudience::default(),
    }
}

/// The state of a consumer for all follow-ups that was last used then.
pub(crate) fn consumer_status(
    name: &str,
    cursor: Seq,
    lag: u64,
    used_at: Millis,
) -> ConsumerStatus {
    ConsumerStatus {
        name: name.to_owned(),
        cursor,
        lag,
        held_bytes: lag << 20,
        reader: None,
        created_at: 0,
        used_at,
        audience: ConsumerAudience::default(),
    }
}

/// The request to type this into a task, with Enter.
pub(crate) fn send_request(task: &str, input: TypedInput) -> SendRequest {
    SendRequest {
        task: task.to_owned(),
        input,
        enter: true,
        if_prompt: None,
        is_guarded: false,
    }
}

/// These events as they are delivered, numbered from `first` on.
pub(crate) fn delivered(first: Seq, events: Vec<Event>) -> Vec<DeliveredEvent> {
    let events = (first..).zip(events);
    events
        .map(|(seq, event)| DeliveredEvent { seq, event })
        .collect()
}

/// The list of these tasks in the session `s`.
pub(crate) fn listed(tasks: Vec<LsTask>) -> LsView {
    LsView {
        session_name: "s".to_owned(),
        exists: true,
        supervised: true,
        captured_at: 0,
        tasks,
    }
}

/// Reads a snapshot.
pub(crate) fn snapshot(notation: &str) -> Snapshot {
    let mut snapshot = Snapshot {
        exists: true,
        ..Snapshot::missing("work", 0)
    };
    for entry in notation.split(';').map(str::trim).filter(|e| !e.is_empty()) {
        let (word, rest) = entry.split_once(' ').unwrap_or((entry, ""));
        match word {
            "missing" => snapshot.exists = false,
            "life" => snapshot.life = Some(life(rest.parse().unwrap())),
            "ended" => snapshot.ended.push(task(rest)),
            "gone" => {
                let (window, reason) = rest.split_once(' ').unwrap();
                let reason = match GoneReason::of_word(reason) {
                    None if reason == "moved" => GoneReason::Moved,
                    found => found.unwrap_or_else(|| panic!("no reason `{reason}`")),
                };
                snapshot.gone.insert(window.parse().unwrap(), reason);
            }
            "launcher" => {
                let (window, pid) = rest.split_once(' ').unwrap();
                let (window, pid) = (window.parse().unwrap(), pid.parse().unwrap());
                snapshot.launcher_replaced.insert(window, pid);
            }
            _ => {
                let task = task(entry);
                let twice = snapshot.tasks.insert(task.window, task.into());
                assert_eq!(twice, None, "one present run a window: `{notation}`");
            }
        }
    }
    snapshot
}

/// The life of a session whose server has this pid.
pub(crate) fn life(number: u32) -> SessionLife {
    SessionLife {
        server_pid: number,
        server_started: 0,
        id: SessionId(0),
        created: 0,
    }
}

/// Reads a task.
pub(crate) fn task(notation: &str) -> Task {
    let (words, rows) = notation.split_once(" : ").unwrap_or((notation, ""));
    let mut words = words.split_whitespace();
    let id = words.next().unwrap();
    let (window, run) = match id.split_once('#') {
        Some((window, run)) => (window, Some(run.parse().unwrap())),
        None => (id, None),
    };
    let window: WindowId = window.parse().unwrap();
    let name = words.next().expect("a task has a name").to_owned();
    let life = match words.next() {
        Some("running") => Life::Alive,
        Some("unknown") => Life::Unknown,
        Some("dead") => Life::Dead(exit(words.next().expect("dead how?"))),
        other => panic!("no state: {other:?} in `{notation}`"),
    };
    let mut task = Task {
        pane: Some(PaneId(window.0)),
        life,
        run,
        ..Task::new(window, name)
    };
    if !rows.is_empty() {
        task.screen.rows = rows.split('|').map(str::to_owned).collect();
    }
    for word in words {
        match word.split_once('=') {
            None if word == "bell" => task.bell = true,
            None if word == "nopane" => task.pane = None,
            None if word == "alt" => task.screen.alternate = Some(true),
            None if word == "ours" => match &mut task.life {
                Life::Dead(exit) => exit.by_us = true,
                Life::Alive | Life::Unknown => panic!("not ended: `{notation}`"),
            },
            None if word == "shell" => task.shell = true,
            None if word == "stopped" => task.stopped = Some(Stop::BySignal),
            None if word == "background" => task.stopped = Some(Stop::BackgroundRead),
            Some(("owner", owner)) => task.owner = Some(owner.to_owned()),
            Some(("group", group)) => task.settings.group = Some(group.to_owned()),
            Some(("wake", wake)) => {
                task.settings.wake = Some(serde_json::from_value(wake.into()).unwrap())
            }
            Some(("ended", ms)) => task.ended_at = Some(ms.parse().unwrap()),
            Some(("started", ms)) => task.started_at = Some(ms.parse().unwrap()),
            Some(("limit", ms)) => {
                task.settings.stop.kill_after = Some(Duration::from_millis(ms.parse().unwrap()));
            }
            Some(("ending", reason)) => task.ending = GoneReason::of_word(reason),
            Some(("asker", by)) => task.asked_by = Some(by.to_owned()),
            Some(("notifies", text)) => {
                task.settings.notify_on = Some(NotifyOn {
                    patterns: vec![text.to_owned()],
                    ..NotifyOn::default()
                });
            }
            Some(("restarts", numbers)) => task.settings.restarts = Some(restarts(numbers)),
            Some(("pane", pane)) => task.pane = Some(PaneId(pane.parse().unwrap())),
            Some(("pid", pid)) => task.pid = Some(pid.parse().unwrap()),
            Some(("bells", count)) => task.bell_count = Some(count.parse().unwrap()),
            Some(("cursor", at)) => {
                let (x, y) = at.split_once(',').unwrap();
                let (x, y) = (x.parse().unwrap(), y.parse().unwrap());
                task.screen.cursor = Some(CursorPosition { x, y });
            }
            None | Some(_) => panic!("what is `{word}` in `{notation}`?"),
        }
    }
    task
}

/// Reads `LIMIT,BACKOFF_MS,USED`.
fn restarts(numbers: &str) -> TaskRestarts {
    let mut numbers = numbers.split(',').map(|number| number.parse().unwrap());
    let mut next = || numbers.next().unwrap();
    TaskRestarts {
        policy: RestartPolicy {
            limit: next(),
            backoff: Duration::from_millis(next().into()),
        },
        used: next(),
        token: "7-1".to_owned(),
    }
}

fn exit(how: &str) -> Exit {
    match how.parse() {
        Ok(code) => Exit::with_code(code),
        Err(_) => Exit::with_signal((how != "?").then(|| Signal::parse(how).unwrap())),
    }
}

/// Writes an event: `started @1`, `rerun @1#2`, `exited @1 2`, `notify @1 x3`, `input @1: Go?`.
pub(crate) fn describe(event: &Event) -> String {
    let task = &event.task;
    let window = match task.run {
        Some(run) => format!("{}#{run}", task.window),
        None => task.window.to_string(),
    };
    match &event.kind {
        EventKind::InputResolved { prompt } => {
            let secret = if prompt.secret { "!" } else { "" };
            format!("resolved {window}{secret}: {}", prompt.text)
        }
        EventKind::Started { rerun: false } => format!("started {window}"),
        EventKind::Started { rerun: true } => format!("rerun {window}"),
        EventKind::Notify { bells } => format!("notify {window} x{bells}"),
        EventKind::Output(found) => {
            let gap = if found.has_gap { " gap" } else { "" };
            let line = found.line.as_deref().unwrap_or("?");
            format!("output {window} x{}{gap}: {line}", found.matches)
        }
        EventKind::Exited { replaced } => {
            let exit = task.exit().expect("a run that ended is dead");
            let how = match (&exit.signal, exit.code) {
                (Some(signal), _) => signal.to_string(),
                (None, Some(code)) => code.to_string(),
                (None, None) => "?".to_owned(),
            };
            let by = match replaced {
                None => "",
                Some(ReplacedBy::Launcher) => " replaced by launcher",
                Some(ReplacedBy::OtherAgent) => " replaced by other agent",
                Some(ReplacedBy::Other) => " replaced",
            };
            format!("exited {window} {how}{by}")
        }
        EventKind::Input { prompt } if prompt.secret => format!("input {window}!: {}", prompt.text),
        EventKind::Input { prompt } => format!("input {window}: {}", prompt.text),
        EventKind::Disappeared { reason } => {
            let word = |reason: GoneReason| {
                let is_moved = reason == GoneReason::Moved;
                let of_others = if is_moved { "moved" } else { "replaced" };
                reason.word().unwrap_or(of_others)
            };
            let why = reason.map(|reason| format!(" {}", word(reason)));
            let by = task.asked_by.as_ref().map(|by| format!(" for {by}"));
            let (why, by) = (why.unwrap_or_default(), by.unwrap_or_default());
            format!("disappeared {window}{why}{by}")
        }
    }
}

/// A screen with these rows, parted by line feeds.
pub(crate) fn screen(rows: &str) -> Screen {
    Screen {
        rows: rows.split('\n').map(str::to_owned).collect(),
        ..Screen::default()
    }
}

/// The same with rows that are parted by `|`.
pub(crate) fn screen_of(rows: &str) -> Screen {
    screen(&rows.replace('|', "\n"))
}

/// Returns a question that this text asks.
pub(crate) fn prompt(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        kind: PromptKind::Confirm,
        secret: false,
    }
}

/// Returns the event of a task that asks this.
pub(crate) fn asked(notation: &str, text: &str) -> Event {
    Event {
        kind: EventKind::Input {
            prompt: prompt(text),
        },
        task: task(notation),
    }
}

/// Returns the event of a task that no longer asks this.
pub(crate) fn answered(notation: &str, text: &str) -> Event {
    Event {
        kind: EventKind::InputResolved {
            prompt: prompt(text),
        },
        task: task(notation),
    }
}

/// The events of a story: those between its looks, which are parted by `->`, and in between
/// `asks TASK ? PROMPT` and `answers TASK ? PROMPT`.
pub(crate) fn events_of(story: &str) -> Vec<Event> {
    let mut before: Option<Snapshot> = None;
    let mut events = Vec::new();
    for step in story.split("->").map(str::trim) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        match (word, rest.split_once(" ? ")) {
            ("asks", Some((task, text))) => events.push(asked(task, text)),
            ("answers", Some((task, text))) => events.push(answered(task, text)),
            _ => {
                let after = snapshot(step);
                events.extend(before.iter().flat_map(|before| diff(before, &after)));
                before = Some(after);
            }
        }
    }
    events
}

/// Returns events as records, numbered from `first` on.
pub(crate) fn number(first: Seq, events: Vec<Event>) -> Vec<Record> {
    let bodies = events.into_iter().map(|event| Body::Event(Box::new(event)));
    (first..)
        .zip(bodies)
        .map(|(seq, body)| Record::new(seq, 0, body))
        .collect()
}

/// Returns a notice of these events.
pub(crate) fn notice(seq: Seq, events: &[Seq]) -> Record {
    let body = Body::Notice {
        level: Level::Info,
        text: "text".to_owned(),
        events: events.to_vec(),
        owner: None,
    };
    Record::new(seq, 0, body)
}

/// The stories of a text: lines that belong together, with blank lines between the stories, and each
/// with the last heading above it.
///
/// ```text
/// ## what the stories below show
/// @1 a running
/// # A comment. What is indented more than the first line of the text continues the line above.
/// @1 a dead 0
///     => exited @1 0
/// ```
pub(crate) fn stories(text: &str) -> Vec<(&str, Vec<String>)> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let outer = text.lines().find(|line| !line.trim().is_empty());
    let outer = outer.map_or(0, indent);
    let mut stories: Vec<(&str, Vec<String>)> = Vec::new();
    let (mut heading, mut goes_on) = ("", false);
    let is_comment = |line: &&str| line.trim_start().starts_with("# ");
    for line in text.lines().filter(|line| !is_comment(line)) {
        let words = line.trim();
        if let Some(words) = words.strip_prefix("## ") {
            (heading, goes_on) = (words, false);
        } else if words.is_empty() {
            goes_on = false;
        } else if !goes_on {
            stories.push((heading, vec![words.to_owned()]));
            goes_on = true;
        } else if let Some((_, lines)) = stories.last_mut() {
            match lines.last_mut() {
                Some(last) if indent(line) > outer => *last += &format!(" {words}"),
                _ => lines.push(words.to_owned()),
            }
        }
    }
    stories
}

/// Splits `what => one; two`. Where there is no arrow nothing is expected.
pub(crate) fn expectation(line: &str) -> (&str, Vec<&str>) {
    let (what, expected) = line.split_once("=>").unwrap_or((line, ""));
    let expected = expected.split(';').map(str::trim);
    let expected = expected.filter(|one| !one.is_empty());
    (what.trim(), expected.collect())
}
