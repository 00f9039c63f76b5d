use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::test_notation::{self, delivered, events_of, notice, number, snapshot, task};
use crate::model::{
    Body, Context, Event, EventKind, EventType, Exit, GoneReason, Kind, Level, Life, Now, Prompt,
    PromptKind, Record, ReplacedBy, Seq, Signal, Stop, Task,
};
use crate::rules::diff::diff;
use crate::rules::engine::{Engine, EngineEffect, RestoredState, Settings};

fn context() -> Context {
    Context {
        session_id: "conversation".to_owned(),
        ..test_notation::context()
    }
}

fn line(record: &Record) -> serde_json::Value {
    serde_json::to_value(record.clone().stamped(0, &context())).unwrap()
}

fn record(body: Body) -> Record {
    Record::new(5, 1_700_000_000_123, body)
}

#[test]
fn each_event_has_the_fields_of_its_type() {
    use GoneReason::{AgentKilled, Moved, OtherAgentKilled, UserKilled};
    use ReplacedBy::{Launcher, Other, OtherAgent};
    let prompt = || Prompt {
        text: "Password:".to_owned(),
        kind: PromptKind::Password,
        secret: true,
    };
    let exited = |replaced| EventKind::Exited { replaced };
    let gone = |reason| EventKind::Disappeared { reason };
    let asker = "running asker=x\u{1b}[1my@laptop";
    let events = [
        (EventKind::Started { rerun: true }, "running"),
        (EventKind::Notify { bells: 3 }, "running"),
        (exited(None), "dead 0"),
        (exited(Some(Launcher)), "dead ?"),
        (exited(Some(Other)), "dead ?"),
        (exited(Some(OtherAgent)), "dead ?"),
        (EventKind::Input { prompt: prompt() }, "running"),
        (EventKind::InputResolved { prompt: prompt() }, "running"),
        (gone(None), "running"),
        (gone(Some(UserKilled)), asker),
        (gone(Some(UserKilled)), "running"),
        (gone(Some(AgentKilled)), "running"),
        (gone(Some(Moved)), "running"),
        (gone(Some(OtherAgentKilled)), "running"),
    ];
    // Beside what every event's record has.
    let shown = events.map(|(kind, notation)| {
        let task = task(&format!("@1 a {notation}"));
        let record = record(Body::Event(Box::new(Event { kind, task })));
        let mut line = line(&record);
        let fields = line.as_object_mut().unwrap();
        for common in ["v", "seq", "epoch", "time", "sessionName", "task"] {
            assert!(fields.remove(common).is_some(), "{common}");
        }
        assert_eq!(fields.remove("kind"), Some(json!("event")));
        line.to_string()
    });
    let expected = [
        r#"{"level":"info","rerun":true,"type":"started"}"#,
        r#"{"bells":3,"level":"info","type":"notify"}"#,
        r#"{"level":"info","type":"exited"}"#,
        r#"{"level":"warning","reason":"replaced","replacedBy":"launcher","type":"exited"}"#,
        r#"{"level":"warning","reason":"replaced","replacedBy":"other","type":"exited"}"#,
        r#"{"endedBy":"otherAgent","level":"warning","reason":"replaced","replacedBy":"launcher","type":"exited"}"#,
        r#"{"level":"warning","prompt":"Password:","promptKind":"password","secret":true,"type":"input"}"#,
        r#"{"level":"info","prompt":"Password:","type":"inputResolved"}"#,
        r#"{"level":"warning","type":"disappeared"}"#,
        r#"{"askedBy":"xy@laptop","level":"warning","reason":"userKilled","type":"disappeared"}"#,
        r#"{"level":"warning","reason":"userKilled","type":"disappeared"}"#,
        r#"{"level":"warning","reason":"agentKilled","type":"disappeared"}"#,
        r#"{"level":"warning","reason":"moved","type":"disappeared"}"#,
        r#"{"endedBy":"otherAgent","level":"warning","reason":"agentKilled","type":"disappeared"}"#,
    ];
    assert_eq!(shown, expected);
}

#[test]
fn every_record_names_its_feed_and_number() {
    let notice = record(Body::Notice {
        level: Level::Warning,
        text: "one\ntwo".to_owned(),
        events: vec![3, 4],
        owner: Some("pi:7".to_owned()),
    });
    let line = serde_json::to_string(&notice.clone().stamped(0, &context()));
    let expected = r#"{"v":1,"seq":5,"epoch":"e1","time":"2023-11-14T22:13:20.123Z","sessionName":"work","kind":"notice","level":"warning","text":"one\ntwo","events":[3,4],"owner":"pi:7"}"#;
    assert_eq!(line.unwrap(), expected);
    let more = serde_json::to_value(notice.clone().stamped(2, &context())).unwrap();
    assert_eq!(more["more"], 2);
}

#[test]
fn a_follow_up_is_one_call_for_pi() {
    let events = events_of("@12#1 api running -> @12#1 api dead 2");
    let content = "[tmux-task notification]\ntext".to_owned();
    let body = Body::follow_up(Level::Warning, content, delivered(4, events), None);
    let line = line(&record(body));
    let events = &line["message"]["details"]["events"];
    assert_eq!(events[0]["type"], "exited");
    assert_eq!(events[0]["task"]["exitCode"], 2);
    let expected = json!({
        "v": 1, "seq": 5, "epoch": "e1", "time": "2023-11-14T22:13:20.123Z",
        "sessionName": "work", "kind": "followUp", "level": "warning", "owner": null, "events": [4],
        "options": {"triggerTurn": true, "deliverAs": "followUp"},
        "message": {
            "customType": "tmux-task-event", "display": true,
            "content": "[tmux-task notification]\ntext",
            "details": {"source": "extension", "notUserInput": true, "level": "warning",
                "sessionId": "conversation", "sessionName": "work", "events": events},
        },
    });
    assert_eq!(line, expected);
}

#[test]
fn unknown_values_of_a_task_are_null() {
    let fields = serde_json::to_value(task("@1 a running nopane")).unwrap();
    let expected = json!({
        "windowId": "@1", "windowName": "a", "paneId": null, "panePid": null,
        "paneStateKnown": true, "currentCommand": null, "taskCwd": null, "dead": false,
        "exitCode": null, "exitSignal": null, "bell": false, "bellCount": null, "run": null,
        "owner": null, "shell": false, "startedAt": null, "endedAt": null, "durationMs": null, "stopped": false,
        "outputPreview": "",
    });
    assert_eq!(fields, expected);
    let mut known =
        task("@1#2 a dead SIGKILL pid=7 bells=3 bell alt cursor=1,0 owner=pi:7 shell : x|y");
    known.started_at = Some(10);
    known.ended_at = Some(25);
    let fields = serde_json::to_value(&known).unwrap();
    let expected = json!({
        "exitSignal": "SIGKILL", "durationMs": 15, "outputPreview": "x\ny", "cursorX": 1, "cursorY": 0,
        "alternateOn": true, "bellCount": 3, "owner": "pi:7", "shell": true,
    });
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(fields[field], *value, "{field}");
    }
}

#[track_caller]
fn read_snapshot(text: &str) -> Result<crate::model::Snapshot, String> {
    let line: SnapshotLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    line.to_snapshot()
}

#[test]
fn missing_fields_of_a_snapshot_are_null_or_false() {
    let only = |fields: &str| {
        let text = format!(r#"{{"exists":true,"tasks":[{{"windowId":"@1"{fields}}}]}}"#);
        let look = read_snapshot(&text).unwrap();
        Task::clone(&look.tasks[&crate::model::WindowId(1)])
    };
    let task = only("");
    assert_eq!(task.life, Life::Unknown);
    assert!(task.is_alive());
    assert_eq!((task.bell, task.bell_count, task.run), (false, None, None));
    // A pane of which nothing is known counts as alive.
    assert!(only(r#","dead":true,"exitCode":1"#).is_alive());
    for (word, expected) in [
        ("null", None),
        ("false", None),
        ("true", Some(Stop::BackgroundRead)),
    ] {
        let task = only(&format!(r#","stopped":{word}"#));
        assert_eq!(task.stopped, expected, "{word}");
    }
    assert!(!read_snapshot("{}").unwrap().exists);
    assert!(read_snapshot(r#"{"exists":true,"later":[{}],"tasks":[]}"#).is_ok());
}

#[test]
fn what_cannot_be_read_is_named() {
    let error = |text: &str| read_snapshot(text).unwrap_err();
    let task = |fields: &str| error(&format!(r#"{{"exists":true,"tasks":[{{{fields}}}]}}"#));
    assert!(task("").contains("windowId"));
    assert!(task(r#""windowId":"%1""#).contains("windowId"));
    assert!(task(r#""windowId":"@1","paneId":"@1""#).contains("paneId"));
    assert!(task(r#""windowId":"@1","exitSignal":"rm -rf""#).contains("exitSignal"));
    assert!(error(r#"{"tasks":[{"windowId":"@1"}]}"#).contains("tasks"));
}

#[test]
fn a_window_listed_twice_in_a_snapshot_had_two_runs() {
    let text = r#"{"exists":true,"tasks":[
        {"windowId":"@1","run":1,"paneStateKnown":true,"dead":true,"exitCode":1},
        {"windowId":"@1","run":2,"paneStateKnown":true,"dead":true,"exitCode":2},
        {"windowId":"@1","run":3,"paneStateKnown":true}]}"#;
    let look = read_snapshot(text).unwrap();
    assert_eq!(look.ended.len(), 2);
    assert_eq!(look.tasks[&crate::model::WindowId(1)].run, Some(3));
    let actual = diff(&snapshot(""), &look);
    assert_eq!(actual.len(), 3);
}

/// A task's output as it is written.
#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    output_preview: String,
    #[serde(default)]
    last_lines: Vec<String>,
    cursor_y: Option<u32>,
}

fn written(task: &Task) -> Written {
    serde_json::from_value(serde_json::to_value(task).unwrap()).unwrap()
}

/// A task with rows of this width, numbered from 0, and the cursor in one of them.
fn numbered(n: u32, width: usize, alternate: bool, y: u32) -> Task {
    let mut task = task("@1 a running");
    task.screen.rows = (0..n).map(|n| format!("{n:<width$}.")).collect();
    task.screen.alternate = Some(alternate);
    task.screen.cursor = Some(crate::model::CursorPosition { x: 0, y });
    task
}

#[test]
fn previews_are_bounded() {
    let lines = |n, alternate| {
        let shown = written(&numbered(n, 4, alternate, n - 1));
        (shown.output_preview.lines().count(), shown.cursor_y)
    };
    assert_eq!(lines(100, false), (20, Some(19)));
    assert_eq!(lines(60, true), (50, Some(49)));
    let mut wide = task("@1 a running");
    wide.screen.rows = ["日".repeat(3000)].into();
    for task in [
        numbered(30, 1000, false, 29),
        numbered(30, 5000, false, 29),
        numbered(50, 4095, true, 49),
        wide,
    ] {
        let length = written(&task).output_preview.len();
        assert!((1..=4096).contains(&length), "{length}");
    }
}

#[test]
fn a_preview_has_the_cursors_row_wherever_it_is() {
    for (n, y, width, alternate, first, last) in [
        (200, 180, 4, false, 180, 199),
        (200, 179, 4, false, 170, 189),
        (200, 0, 4, false, 0, 10),
        (200, 199, 4, true, 150, 199),
        (200, 150, 4, true, 150, 199),
        (200, 100, 4, true, 76, 125),
        (60, 0, 4, true, 0, 25),
        // The size of a preview is bounded, too.
        (50, 48, 1000, true, 46, 49),
        (50, 30, 1000, true, 27, 30),
    ] {
        let fields = written(&numbered(n, width, alternate, y));
        let numbers = fields.output_preview.lines().map(|row| {
            let number = row.trim_end_matches('.').trim_end();
            number.parse::<u32>().unwrap()
        });
        let numbers: Vec<u32> = numbers.collect();
        let ends = (numbers[0], numbers[numbers.len() - 1]);
        assert_eq!(ends, (first, last), "{n} rows, the cursor in row {y}");
        assert_eq!(fields.cursor_y, Some(y - first));
    }
    // Blank rows between the cursor and what is far below it are left out.
    let rows = format!("Go?{}|status", "|".repeat(100));
    let fields = written(&task(&format!("@1 a running cursor=4,0 : {rows}")));
    assert_eq!((&*fields.output_preview, fields.cursor_y), ("Go?", Some(0)));
}

#[test]
fn live_and_durable_records_are_distinguished() {
    let read = |text: &str| serde_json::from_str::<StreamRecord>(text);
    let hello = r#"{"kind":"hello","v":1,"epoch":"e","lastSeq":3,"version":"0.1.0","sessionName":"w","new":1}"#;
    let hello = read(hello).unwrap();
    assert!(matches!(
        hello,
        StreamRecord::Live(LiveRecord::Hello { last_seq: 3, .. })
    ));
    let sync = read(r#"{"kind":"sync","new":[]}"#).unwrap();
    assert!(matches!(sync, StreamRecord::Live(LiveRecord::Sync)));
    assert!(read(r#"{"kind":"weather"}"#).is_err());
    for (notation, text, waiting) in [
        ("missing", json!(null), 0),
        ("@1 a running; @2 b dead 0", json!("tmux: 2 tasks"), 1),
    ] {
        let status = LiveRecord::from(snapshot(notation).counts(|_| true, |_| false));
        let expected = json!({"kind": "status", "text": text, "running": 0, "waiting": waiting, "dead": waiting});
        assert_eq!(serde_json::to_value(status).unwrap(), expected);
    }
}

#[track_caller]
fn check_wanted(mut filter: Filter, expected: &[Seq]) {
    let events = diff(
        &snapshot("@1 api running; @2 db running"),
        &snapshot("@1 api dead 0 bell; @2 db running; @3 web running"),
    );
    let told = delivered(1, events[..2].to_vec());
    let body = Body::follow_up(Level::Info, String::new(), told, None);
    let mut records = number(1, events);
    records.extend([Record::new(4, 0, body), notice(5, &[3]), notice(6, &[])]);
    let wanted = records.into_iter().filter_map(|record| {
        let line = record.stamped(0, &context());
        filter.wants(line.seq, &line.body).then_some(line.seq)
    });
    let wanted: Vec<Seq> = wanted.collect();
    assert_eq!(wanted, expected, "{filter:?}");
}

#[test]
fn filters_choose_by_kind_type_and_task() {
    use EventType::{Exited, Notify, Started};
    let check = |kinds: &[Kind], types: &[EventType], tasks: &[&str], expected: &[Seq]| {
        let tasks = tasks.iter().map(|task| (*task).to_owned()).collect();
        check_wanted(Filter::new(kinds.to_vec(), types.to_vec(), tasks), expected);
    };
    check_wanted(Filter::default(), &[1, 2, 3, 4, 5, 6]);
    check(&[Kind::Event], &[], &[], &[1, 2, 3]);
    check(&[Kind::FollowUp, Kind::Notice], &[], &[], &[4, 5, 6]);
    check(&[], &[Exited], &[], &[2]);
    check(&[Kind::FollowUp], &[Exited], &[], &[4]);
    check(&[Kind::Notice], &[Started], &[], &[5]);
    check(&[], &[], &["api"], &[1, 2, 4]);
    check(&[], &[], &["@3"], &[3, 5]);
    check(&[], &[Notify], &["api", "web"], &[1]);
    check(&[], &[], &["nobody"], &[]);
}

#[test]
fn a_filter_by_owner_lets_through_what_is_theirs_or_everybodys() {
    let check = |mut filter: Filter, of: Option<&str>, level, expected| {
        let notice = Body::Notice {
            level,
            text: String::new(),
            events: vec![],
            owner: of.map(str::to_owned),
        };
        assert_eq!(filter.wants(5, &notice), expected, "{filter:?} {of:?}");
    };
    let for_owner = |owner: Option<&str>| Filter::default().for_owner(owner.map(str::to_owned));
    // Those of a sink are patterns.
    let for_owners = |owners: &[&str]| {
        let mut filter = Filter::default();
        filter.owners = owners.iter().map(ToString::to_string).collect();
        filter
    };
    for (filter, of, expected) in [
        (for_owner(None), Some("pi:1"), true),
        (for_owner(Some("pi:1")), Some("pi:1"), true),
        (for_owner(Some("pi:1")), None, true),
        (for_owner(Some("pi:1")), Some("pi:2"), false),
        (for_owners(&["pi:1"]), Some("pi:1"), true),
        (for_owners(&["pi:1"]), Some("pi:12"), false),
        (for_owners(&["x", "pi:*"]), Some("pi:12"), true),
        (for_owners(&["pi:1"]), None, true),
    ] {
        check(filter, of, Level::Info, expected);
    }
    for (level, expected) in [(Level::Info, false), (Level::Warning, true)] {
        let mut filter = Filter::default();
        filter.only_warnings = true;
        check(filter, None, level, expected);
    }
    let kind = EventKind::Started { rerun: false };
    let task = task("@1 a running owner=pi:2");
    let event = Body::Event(Box::new(Event { kind, task }));
    assert!(for_owner(Some("pi:1")).wants(5, &event));
}

/// Text as hostile as it comes.
fn hostile() -> impl Strategy<Value = String> {
    let odd = [
        "\u{1b}[31m",
        "\u{1b}]0;x\u{7}",
        "\u{9b}2J",
        "\n",
        "\r\t\0\u{7f}\u{202e}",
        "[y/n]",
        " ",
    ];
    let piece = prop_oneof![
        1 => any::<char>().prop_map(String::from),
        7 => prop::sample::select(odd.to_vec()).prop_map(str::to_owned),
        1 => Just("long".repeat(400)),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn hostile_task() -> impl Strategy<Value = Task> {
    use proptest::option::of;
    let texts = (1..4_u32, hostile(), hostile(), of(hostile()));
    let state = any::<(bool, bool, Option<i32>, Option<u64>)>();
    let rest = (
        of(1..100_u8),
        any::<(Option<u32>, Option<bool>)>(),
        of(0..4_000_000_000_000_i64),
        of((0..300_u32, 0..60_u32)),
    );
    (texts, state, rest).prop_map(|(texts, state, rest)| {
        let (window, name, preview, command) = texts;
        let (known, dead, exit_code, bell_count) = state;
        let (signal, (run, alternate_on), at, cursor) = rest;
        let fields = json!({
            "windowId": format!("@{window}"),
            "windowName": name,
            "paneId": format!("%{window}"),
            "paneStateKnown": known,
            "taskCwd": command,
            "currentCommand": command,
            "dead": dead,
            "exitCode": exit_code,
            "exitSignal": signal.map(|n| Signal::from_number(n).to_string()),
            "bellCount": bell_count,
            "run": run,
            "startedAt": at,
            "endedAt": at.map(|at| at + 5),
            "outputPreview": preview,
            "cursorX": cursor.map(|(x, _)| x),
            "cursorY": cursor.map(|(_, y)| y),
            "alternateOn": alternate_on,
        });
        serde_json::from_value(fields).unwrap()
    })
}

fn strings(value: &serde_json::Value) -> Vec<&str> {
    use serde_json::Value;
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_record_survives_the_way_out_and_in_and_has_no_control_character(
        hostile in hostile_task(),
        name in hostile(),
        dead: bool,
        more: u32,
    ) {
        let now = Now { mono: std::time::Instant::now(), wall: 0 };
        let mut engine = Engine::new(Settings::REPLAY, RestoredState::default(), now);
        let context = Context { session_name: name.clone(), session_id: name, ..context() };
        let mut task = Task { life: Life::Alive, ..hostile };
        let mut look = snapshot("");
        let mut records = Vec::new();
        for step in 0..5 {
            if step > 0 {
                look.tasks.insert(task.window, task.clone().into());
            }
            let mut effects = engine.look(look.clone(), now);
            effects.extend(engine.deliver(now));
            for effect in effects {
                if let EngineEffect::Append(more) = effect {
                    records.extend(more);
                }
            }
            if step == 3 && dead {
                task.life = Life::Dead(Exit::default());
                task.bell = true;
            }
        }
        prop_assert!(records.len() >= 2);
        for record in records {
            let out = record.stamped(more, &context);
            let json = serde_json::to_string(&out).unwrap();
            prop_assert!(!json.contains('\n'));
            let read: Record = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(serde_json::to_string(&read).unwrap(), json.as_str());
            // What is written is as it is read, also where it was bounded.
            let again = read.clone().stamped(more, &context);
            prop_assert_eq!(&again, &read);
            let streamed: StreamRecord = serde_json::from_str(&json).unwrap();
            prop_assert_eq!(streamed, StreamRecord::Durable(Box::new(read)));
            for text in strings(&serde_json::from_str(&json).unwrap()) {
                let bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
                prop_assert!(!text.contains(bad), "{:?}", text);
            }
        }
    }
}

#[test]
fn whole_lines_are_recorded_where_the_preview_does_not_have_them_and_read_again() {
    for (rows, lines, expected) in [
        ("a|b", None, ""),
        ("a|b|", Some("a|b"), ""),
        ("a|b|c", Some("a b|c"), "a b|c"),
    ] {
        let split = |text: &str| text.split('|').map(str::to_owned).collect();
        let mut task = task("@1 a running");
        task.screen.rows = split(rows);
        task.screen.last_lines = lines.map(split);
        let fields = written(&task);
        let json = serde_json::to_value(&task).unwrap();
        let read: Task = serde_json::from_value(json).unwrap();
        assert_eq!(read.screen.last_lines(), task.screen.last_lines());
        assert_eq!(fields.output_preview, rows.replace('|', "\n"));
        assert_eq!(fields.last_lines.join("|"), expected);
    }
}
