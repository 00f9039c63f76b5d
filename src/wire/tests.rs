use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::diff::diff;
use crate::engine::{Engine, EngineEffect, RestoredState, Settings};
use crate::model::test_notation::{snapshot, task};
use crate::model::{
    Body, Context, DeliveredEvent, Event, EventKind, EventType, Exit, GoneReason, Kind, Level,
    Life, Now, Prompt, PromptKind, Record, ReplacedBy, Seq, Signal, Stop, Task,
};

fn context() -> Context {
    Context {
        epoch: "e1".to_owned(),
        session_name: "work".to_owned(),
        session_id: "conversation".to_owned(),
        checkpoint: None,
    }
}

fn line(record: &Record) -> serde_json::Value {
    serde_json::to_value(record.clone().stamped(0, &context())).unwrap()
}

fn record(body: Body) -> Record {
    Record::new(5, 1_700_000_000_123, body)
}

/// What an event's record has beside what every event's has.
#[track_caller]
fn check_event(kind: EventKind, notation: &str, expected: serde_json::Value) {
    let task = task(notation);
    let record = record(Body::Event(Box::new(Event { kind, task })));
    let mut line = line(&record);
    let fields = line.as_object_mut().unwrap();
    for common in ["v", "seq", "epoch", "time", "sessionName", "task"] {
        assert!(fields.remove(common).is_some(), "{common}");
    }
    assert_eq!(fields.remove("kind"), Some(json!("event")));
    assert_eq!(line, expected);
}

#[test]
fn each_event_has_the_fields_of_its_type() {
    let prompt = || Prompt {
        text: "Password:".to_owned(),
        kind: PromptKind::Password,
        secret: true,
    };
    check_event(
        EventKind::Started { rerun: true },
        "@1 a running",
        json!({"type": "started", "level": "info", "rerun": true}),
    );
    check_event(
        EventKind::Notify { bells: 3 },
        "@1 a running",
        json!({"type": "notify", "level": "info", "bells": 3}),
    );
    check_event(
        EventKind::Exited { replaced: None },
        "@1 a dead 0",
        json!({"type": "exited", "level": "info"}),
    );
    check_event(
        EventKind::Exited {
            replaced: Some(ReplacedBy::Launcher),
        },
        "@1 a dead ?",
        json!({"type": "exited", "level": "warning", "reason": "replaced", "replacedBy": "launcher"}),
    );
    check_event(
        EventKind::Exited {
            replaced: Some(ReplacedBy::Other),
        },
        "@1 a dead ?",
        json!({"type": "exited", "level": "warning", "reason": "replaced", "replacedBy": "other"}),
    );
    check_event(
        EventKind::Exited {
            replaced: Some(ReplacedBy::OtherAgent),
        },
        "@1 a dead ?",
        json!({
            "type": "exited", "level": "warning",
            "reason": "replaced", "replacedBy": "launcher", "endedBy": "otherAgent",
        }),
    );
    check_event(
        EventKind::Disappeared {
            reason: Some(GoneReason::OtherAgentKilled),
        },
        "@1 a running",
        json!({
            "type": "disappeared", "level": "warning",
            "reason": "agentKilled", "endedBy": "otherAgent",
        }),
    );
    check_event(
        EventKind::Input { prompt: prompt() },
        "@1 a running",
        json!({"type": "input", "level": "warning", "prompt": "Password:", "promptKind": "password", "secret": true}),
    );
    check_event(
        EventKind::InputResolved { prompt: prompt() },
        "@1 a running",
        json!({"type": "inputResolved", "level": "info", "prompt": "Password:"}),
    );
    check_event(
        EventKind::Disappeared { reason: None },
        "@1 a running",
        json!({"type": "disappeared", "level": "warning"}),
    );
    check_event(
        EventKind::Disappeared {
            reason: Some(GoneReason::UserKilled),
        },
        "@1 a running asker=x\u{1b}[1my@laptop",
        json!({
            "type": "disappeared", "level": "warning",
            "reason": "userKilled", "askedBy": "xy@laptop",
        }),
    );
    for (reason, name) in [
        (GoneReason::UserKilled, "userKilled"),
        (GoneReason::AgentKilled, "agentKilled"),
        (GoneReason::Moved, "moved"),
    ] {
        check_event(
            EventKind::Disappeared {
                reason: Some(reason),
            },
            "@1 a running",
            json!({"type": "disappeared", "level": "warning", "reason": name}),
        );
    }
}

#[test]
fn every_record_names_its_feed_and_number() {
    let notice = record(Body::Notice {
        level: Level::Warning,
        text: "one\ntwo".to_owned(),
        events: vec![3, 4],
        owner: Some("pi:7".to_owned()),
    });
    let expected = json!({
        "v": 1, "seq": 5, "epoch": "e1", "time": "2023-11-14T22:13:20.123Z",
        "sessionName": "work", "kind": "notice", "level": "warning", "text": "one\ntwo",
        "events": [3, 4], "owner": "pi:7",
    });
    assert_eq!(line(&notice), expected);
    let more = serde_json::to_value(notice.clone().stamped(2, &context())).unwrap();
    assert_eq!(more["more"], 2);
}

#[test]
fn a_follow_up_is_one_call_for_pi() {
    let event = Event {
        kind: EventKind::Exited { replaced: None },
        task: task("@12#1 api dead 2"),
    };
    let actual = DeliveredEvent { seq: 4, event };
    let content = "[tmux-task notification]\ntext".to_owned();
    let line = line(&record(Body::follow_up(
        Level::Warning,
        content,
        vec![actual],
        None,
    )));
    assert_eq!(line["kind"], "followUp");
    assert_eq!(line.get("owner"), Some(&json!(null)));
    assert_eq!(line["events"], json!([4]));
    assert_eq!(
        line["options"],
        json!({"triggerTurn": true, "deliverAs": "followUp"})
    );
    let message = &line["message"];
    assert_eq!(message["customType"], "tmux-task-event");
    assert_eq!(message["content"], "[tmux-task notification]\ntext");
    assert_eq!(message["display"], true);
    let details = &message["details"];
    assert_eq!(details["source"], "extension");
    assert_eq!(details["notUserInput"], true);
    assert_eq!(details["sessionId"], "conversation");
    assert_eq!(details["sessionName"], "work");
    assert_eq!(details["level"], "warning");
    assert_eq!(details["events"][0]["type"], "exited");
    assert_eq!(details["events"][0]["task"]["exitCode"], 2);
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
    for (field, value) in [
        ("exitSignal", json!("SIGKILL")),
        ("durationMs", json!(15)),
        ("outputPreview", json!("x\ny")),
        ("cursorX", json!(1)),
        ("cursorY", json!(0)),
        ("alternateOn", json!(true)),
        ("bellCount", json!(3)),
        ("owner", json!("pi:7")),
        ("shell", json!(true)),
    ] {
        assert_eq!(fields[field], value, "{field}");
    }
}

#[track_caller]
fn read_snapshot(text: &str) -> Result<crate::model::Snapshot, String> {
    let line: SnapshotLine = serde_json::from_str(text).map_err(|error| error.to_string())?;
    line.to_snapshot()
}

#[test]
fn missing_fields_of_a_snapshot_are_null_or_false() {
    let bare = read_snapshot(r#"{"exists":true,"tasks":[{"windowId":"@1"}]}"#).unwrap();
    let task = &bare.tasks[&crate::model::WindowId(1)];
    assert_eq!(task.life, Life::Unknown);
    assert!(task.is_alive());
    assert_eq!((task.bell, task.bell_count, task.run), (false, None, None));
    let dead = r#"{"exists":true,"tasks":[{"windowId":"@1","dead":true,"exitCode":1}]}"#;
    assert!(
        read_snapshot(dead)
            .unwrap()
            .tasks
            .values()
            .all(|task| task.is_alive()),
        "a pane of which nothing is known counts as alive"
    );
    for (word, expected) in [
        ("null", None),
        ("false", None),
        ("true", Some(Stop::BackgroundRead)),
    ] {
        let text = format!(r#"{{"exists":true,"tasks":[{{"windowId":"@1","stopped":{word}}}]}}"#);
        let look = read_snapshot(&text).unwrap();
        assert_eq!(
            look.tasks[&crate::model::WindowId(1)].stopped,
            expected,
            "{word}"
        );
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

#[test]
fn previews_are_bounded_and_the_cursor_moves_along() {
    let preview = |rows: usize, width: usize, alternate: bool| {
        let mut task = task("@1 a running");
        task.screen.rows = (0..rows).map(|n| format!("{n:0>width$}")).collect();
        task.screen.alternate = Some(alternate);
        let y = u32::try_from(rows - 1).unwrap();
        task.screen.cursor = Some(crate::model::CursorPosition { x: 0, y });
        written(&task)
    };
    let lines = |fields: &Written| fields.output_preview.lines().count();
    let usual = preview(100, 4, false);
    assert_eq!((lines(&usual), usual.cursor_y), (20, Some(19)));
    assert!(usual.output_preview.ends_with("0099"));
    assert_eq!(lines(&preview(60, 4, true)), 50);
    for fields in [
        preview(30, 1000, false),
        preview(30, 5000, false),
        preview(50, 4096, true),
    ] {
        assert!(fields.output_preview.len() <= 4096);
        assert!(!fields.output_preview.is_empty());
    }
    let mut wide = task("@1 a running");
    wide.screen.rows = ["日".repeat(3000)].into();
    assert!(written(&wide).output_preview.len() <= 4096);
}

#[test]
fn a_preview_has_the_cursors_row_wherever_it_is() {
    let check = |n: usize, y: u32, width: usize, alternate: bool, first: u32, last: u32| {
        let mut task = task("@1 a running");
        task.screen.rows = (0..n).map(|n| format!("{n:<width$}.")).collect();
        task.screen.alternate = Some(alternate);
        task.screen.cursor = Some(crate::model::CursorPosition { x: 0, y });
        let fields = written(&task);
        let number = |row: Option<&str>| -> u32 {
            let row = row.unwrap().split_whitespace().next();
            row.unwrap().trim_end_matches('.').parse().unwrap()
        };
        let mut lines = fields.output_preview.lines();
        let ends = (number(lines.next()), number(lines.next_back()));
        assert_eq!(ends, (first, last), "{n} rows, the cursor in row {y}");
        assert_eq!(fields.cursor_y, Some(y - first));
    };
    check(200, 180, 4, false, 180, 199);
    check(200, 179, 4, false, 170, 189);
    check(200, 0, 4, false, 0, 10);
    check(200, 199, 4, true, 150, 199);
    check(200, 150, 4, true, 150, 199);
    check(200, 100, 4, true, 76, 125);
    check(60, 0, 4, true, 0, 25);
    // The size of a preview is bounded, too.
    check(50, 48, 1000, true, 46, 49);
    check(50, 30, 1000, true, 27, 30);
    // Blank rows between the cursor and what is far below it are left out.
    let mut task = task("@1 a running");
    let blank = std::iter::repeat_n(String::new(), 100);
    let rows = ["Go?".to_owned()].into_iter().chain(blank);
    task.screen.rows = rows.chain(["status".to_owned()]).collect();
    task.screen.cursor = Some(crate::model::CursorPosition { x: 4, y: 0 });
    let fields = written(&task);
    assert_eq!(
        (fields.output_preview.as_str(), fields.cursor_y),
        ("Go?", Some(0))
    );
}

#[test]
fn live_and_durable_records_are_distinguished() {
    let read = |text: &str| serde_json::from_str::<StreamRecord>(text);
    let hello = r#"{"kind":"hello","v":1,"epoch":"e","lastSeq":3,"version":"0.1.0","sessionName":"w","new":1}"#;
    assert!(matches!(
        read(hello),
        Ok(StreamRecord::Live(LiveRecord::Hello { last_seq: 3, .. }))
    ));
    assert!(matches!(
        read(r#"{"kind":"sync","new":[]}"#),
        Ok(StreamRecord::Live(LiveRecord::Sync))
    ));
    let status = LiveRecord::from(snapshot("missing").counts(|_| false, |_| false));
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"kind": "status", "text": null, "running": 0, "waiting": 0, "dead": 0})
    );
    let status =
        LiveRecord::from(snapshot("@1 a running; @2 b dead 0").counts(|_| true, |_| false));
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({"kind": "status", "text": "tmux: 2 tasks", "running": 0, "waiting": 1, "dead": 1})
    );
    assert!(read(r#"{"kind":"weather"}"#).is_err());
}

#[track_caller]
fn check_wanted(mut filter: Filter, expected: &[Seq]) {
    let events = diff(
        &snapshot("@1 api running; @2 db running"),
        &snapshot("@1 api dead 0 bell; @2 db running; @3 web running"),
    );
    let mut records: Vec<Record> = (1..)
        .zip(events.clone())
        .map(|(seq, event)| Record::new(seq, 0, Body::Event(Box::new(event))))
        .collect();
    let told = (1..).zip(events);
    let told = told.map(|(seq, event)| DeliveredEvent { seq, event });
    let body = Body::follow_up(Level::Info, String::new(), told.take(2).collect(), None);
    records.push(Record::new(4, 0, body));
    let body = Body::Notice {
        level: Level::Info,
        text: String::new(),
        events: vec![3],
        owner: None,
    };
    records.push(Record::new(5, 0, body));
    let body = Body::Notice {
        level: Level::Info,
        text: String::new(),
        events: vec![],
        owner: None,
    };
    records.push(Record::new(6, 0, body));
    let wanted: Vec<Seq> = records
        .iter()
        .filter(|record| {
            let line = Record::clone(record).stamped(0, &context());
            filter.wants(record.seq, &line.body)
        })
        .map(|record| record.seq)
        .collect();
    assert_eq!(wanted, expected, "{filter:?}");
}

#[test]
fn filters_choose_by_kind_type_and_task() {
    let filter = |kinds: &[Kind], types: &[EventType], tasks: &[&str]| {
        let tasks = tasks.iter().map(|task| (*task).to_owned()).collect();
        Filter::new(kinds.to_vec(), types.to_vec(), tasks)
    };
    check_wanted(Filter::default(), &[1, 2, 3, 4, 5, 6]);
    check_wanted(filter(&[Kind::Event], &[], &[]), &[1, 2, 3]);
    check_wanted(
        filter(&[Kind::FollowUp, Kind::Notice], &[], &[]),
        &[4, 5, 6],
    );
    check_wanted(filter(&[], &[EventType::Exited], &[]), &[2]);
    check_wanted(filter(&[Kind::FollowUp], &[EventType::Exited], &[]), &[4]);
    check_wanted(filter(&[Kind::Notice], &[EventType::Started], &[]), &[5]);
    check_wanted(filter(&[], &[], &["api"]), &[1, 2, 4]);
    check_wanted(filter(&[], &[], &["@3"]), &[3, 5]);
    check_wanted(filter(&[], &[EventType::Notify], &["api", "web"]), &[1]);
    check_wanted(filter(&[], &[], &["nobody"]), &[]);
}

#[test]
fn a_filter_by_owner_lets_through_what_is_theirs_or_everybodys() {
    let wants = |owner: Option<&str>, of: Option<&str>| {
        let mut filter = Filter::default().for_owner(owner.map(str::to_owned));
        let body = record(Body::Notice {
            level: Level::Info,
            text: String::new(),
            events: vec![],
            owner: of.map(str::to_owned),
        });
        filter.wants(5, &body.clone().stamped(0, &context()).body)
    };
    assert!(wants(None, Some("pi:1")));
    assert!(wants(Some("pi:1"), Some("pi:1")));
    assert!(wants(Some("pi:1"), None));
    assert!(!wants(Some("pi:1"), Some("pi:2")));
    let mut filter = Filter::default().for_owner(Some("pi:1".to_owned()));
    let kind = EventKind::Started { rerun: false };
    let task = task("@1 a running owner=pi:2");
    let event = record(Body::Event(Box::new(Event { kind, task })));
    assert!(filter.wants(5, &event.clone().stamped(0, &context()).body));
}

/// Text as hostile as it comes.
fn hostile() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        any::<char>().prop_map(String::from),
        Just("\u{1b}[31m".to_owned()),
        Just("\u{1b}]0;x\u{7}".to_owned()),
        Just("\u{9b}2J".to_owned()),
        Just("\n".to_owned()),
        Just("\r\t\0\u{7f}\u{202e}".to_owned()),
        Just("[y/n]".to_owned()),
        Just(" ".to_owned()),
        Just("long".repeat(400)),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn hostile_task() -> impl Strategy<Value = Task> {
    (
        (
            1..4_u32,
            hostile(),
            hostile(),
            proptest::option::of(hostile()),
        ),
        (
            any::<bool>(),
            any::<bool>(),
            any::<Option<i32>>(),
            any::<Option<u64>>(),
        ),
        (
            proptest::option::of(1..100_u8),
            any::<Option<u32>>(),
            proptest::option::of(0..4_000_000_000_000_i64),
            proptest::option::of((0..300_u32, 0..60_u32)),
            any::<Option<bool>>(),
        ),
    )
        .prop_map(
            |(
                (window, name, preview, command),
                (known, dead, exit_code, bell_count),
                (signal, run, at, cursor, alternate_on),
            )| {
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
            },
        )
}

fn any_event() -> impl Strategy<Value = Event> {
    let prompt = || {
        let kind = prop::sample::select(vec![
            PromptKind::Confirm,
            PromptKind::Password,
            PromptKind::Menu,
        ]);
        (hostile(), kind, any::<bool>()).prop_map(|(text, kind, secret)| Prompt {
            text: crate::model::text::one_line(text.as_bytes(), 300),
            kind,
            secret,
        })
    };
    let kind = prop_oneof![
        any::<bool>().prop_map(|rerun| EventKind::Started { rerun }),
        any::<u64>().prop_map(|bells| EventKind::Notify { bells }),
        Just(EventKind::Exited { replaced: None }),
        Just(EventKind::Exited {
            replaced: Some(ReplacedBy::Launcher)
        }),
        Just(EventKind::Exited {
            replaced: Some(ReplacedBy::Other)
        }),
        Just(EventKind::Exited {
            replaced: Some(ReplacedBy::OtherAgent)
        }),
        prompt().prop_map(|prompt| EventKind::Input { prompt }),
        prompt().prop_map(|prompt| EventKind::InputResolved { prompt }),
        Just(EventKind::Disappeared { reason: None }),
        Just(EventKind::Disappeared {
            reason: Some(GoneReason::Moved)
        }),
        Just(EventKind::Disappeared {
            reason: Some(GoneReason::UserKilled)
        }),
        Just(EventKind::Disappeared {
            reason: Some(GoneReason::AgentKilled)
        }),
        Just(EventKind::Disappeared {
            reason: Some(GoneReason::OtherAgentKilled)
        }),
    ];
    (kind, hostile_task()).prop_map(|(kind, task)| Event { kind, task })
}

fn any_record() -> impl Strategy<Value = Record> {
    let level = || prop_oneof![Just(Level::Info), Just(Level::Warning)];
    let owner = || proptest::option::of("[ -~]{1,40}");
    let body = prop_oneof![
        any_event().prop_map(|event| Body::Event(Box::new(event))),
        (level(), hostile(), any::<Vec<Seq>>(), owner()).prop_map(
            |(level, text, events, owner)| Body::Notice {
                level,
                text,
                events,
                owner
            }
        ),
        (
            level(),
            hostile(),
            proptest::collection::vec((any::<Seq>(), any_event()), 0..3),
            owner(),
        )
            .prop_map(|(level, content, events, owner)| {
                let events = events.into_iter();
                let events = events.map(|(seq, event)| DeliveredEvent { seq, event });
                Body::follow_up(level, content, events.collect(), owner)
            }),
    ];
    (any::<Seq>(), 0..253_000_000_000_000_i64, body)
        .prop_map(|(seq, time, body)| Record::new(seq, time, body))
}

fn strings(value: &serde_json::Value, found: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => found.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| strings(item, found)),
        serde_json::Value::Object(fields) => {
            fields.values().for_each(|value| strings(value, found));
        }
        serde_json::Value::Null | serde_json::Value::Bool(_) | serde_json::Value::Number(_) => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_record_survives_the_way_out_and_in(record in any_record(), more: u32) {
        let out = record.stamped(more, &context());
        let json = serde_json::to_string(&out).unwrap();
        prop_assert!(!json.contains('\n'));
        let read: Record = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), json.as_str());
        // What is written is as it is read, also where it was bounded.
        let again = read.clone().stamped(more, &context());
        prop_assert_eq!(&again, &read);
        prop_assert_eq!(
            serde_json::from_str::<StreamRecord>(&json).unwrap(),
            StreamRecord::Durable(Box::new(read))
        );
    }

    #[test]
    fn no_record_of_a_hostile_task_has_a_control_character(
        hostile in hostile_task(),
        name in hostile(),
        dead: bool,
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
                match effect {
                    EngineEffect::Append(more) => records.extend(more),
                    EngineEffect::Status(_) => {}
                }
            }
            if step == 3 && dead {
                task.life = Life::Dead(Exit::default());
                task.bell = true;
            }
        }
        prop_assert!(records.len() >= 2);
        for record in records {
            let json = serde_json::to_value(record.stamped(0, &context)).unwrap();
            let mut found = Vec::new();
            strings(&json, &mut found);
            for text in found {
                let bad = |c: char| c.is_control() && c != '\n' || c == '\u{202e}';
                prop_assert!(!text.contains(bad), "{:?}", text);
            }
        }
    }
}

#[test]
fn whole_lines_are_recorded_where_the_preview_does_not_have_them_and_read_again() {
    let recorded = |rows: &[&str], lines: Option<&[&str]>| {
        let mut task = task("@1 a running");
        task.screen.rows = rows.iter().map(|row| (*row).to_owned()).collect();
        task.screen.last_lines = lines.map(|l| l.iter().map(|line| (*line).to_owned()).collect());
        let fields = written(&task);
        let json = serde_json::to_value(&task).unwrap();
        let read: Task = serde_json::from_value(json).unwrap();
        assert_eq!(read.screen.last_lines(), task.screen.last_lines());
        assert_eq!(fields.output_preview, rows.join("\n"));
        fields.last_lines
    };
    let none: [&str; 0] = [];
    assert_eq!(recorded(&["a", "b"], None), none);
    assert_eq!(recorded(&["a", "b", ""], Some(&["a", "b"])), none);
    assert_eq!(
        recorded(&["a", "b", "c"], Some(&["a b", "c"])),
        ["a b", "c"]
    );
}
