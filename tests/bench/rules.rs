//! The pure rules on one processor: the bytes of a look, what it shows, and what changed.
//!
//! `cargo bench --bench rules`; what follows `--` goes to divan, a part of a name for instance.
#![allow(missing_docs, reason = "a bench has no users")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

use divan::{Bencher, counter::BytesCount, counter::ItemsCount};
use tmux_task::model::{
    CursorPosition, Exit, Now, PaneId, Screen, SessionId, SessionLife, Snapshot, WindowId,
};
use tmux_task::rules::diff::diff;
use tmux_task::rules::engine::{Engine, RestoredState, Settings};
use tmux_task::rules::observe::{Evidence, Observer};
use tmux_task::rules::protocol::Parser;
use tmux_task::rules::protocol::rows::{DeadPane, LookRows, PaneRow, SessionRow, WindowRow};

const WINDOWS: [u32; 3] = [10, 100, 1000];

/// Rows of a screen as programs fill them.
const ROWS: usize = 24;
const ROW: &str = "   Compiling something v1.2.3 (/home/somebody/src/something)";

fn main() {
    divan::main();
}

/// The first look at a session: the rows of all its windows and the screens of all its panes.
#[divan::bench(args = WINDOWS)]
fn parse(bencher: Bencher<'_, '_>, windows: u32) {
    let bytes = bytes_of_look(windows);
    bencher.counter(BytesCount::of_slice(&bytes)).bench(|| {
        let mut parser = Parser::default();
        // As it is read from the pipe.
        for part in black_box(&bytes).chunks(16 * 1024) {
            parser.push(part);
        }
        parser.count()
    });
}

/// A look in which one task of ten has changed.
#[divan::bench(args = WINDOWS)]
fn observe(bencher: Bencher<'_, '_>, windows: u32) {
    let (before, after) = (look(windows, 0), look(windows, 1));
    let now = now();
    let evidence = Evidence {
        started_at: (0..windows)
            .map(|n| (1000 + n, now.wall))
            .collect::<std::collections::BTreeMap<_, _>>()
            .into(),
        ..Evidence::default()
    };
    let mut observer = Observer::new("work");
    drop(observer.observe(Some(&before), &evidence, now));
    bencher
        .counter(ItemsCount::new(windows))
        .with_inputs(|| observer.clone())
        .bench_local_values(|mut observer| observer.observe(Some(&after), &evidence, now));
}

/// The same look against the one before.
#[divan::bench(args = WINDOWS)]
fn diff_changed(bencher: Bencher<'_, '_>, windows: u32) {
    let (before, after) = snapshots(windows);
    bencher
        .counter(ItemsCount::new(windows))
        .bench(|| diff(black_box(&before), black_box(&after)));
}

/// A look that shows nothing new, as nearly all do.
#[divan::bench(args = WINDOWS)]
fn diff_same(bencher: Bencher<'_, '_>, windows: u32) {
    let (before, _) = snapshots(windows);
    bencher
        .counter(ItemsCount::new(windows))
        .bench(|| diff(black_box(&before), black_box(&before)));
}

/// What `replay` does with one snapshot: each task is new, and all events are one delivery. The time for
/// a task must not grow with their number.
#[divan::bench(args = [1000, 10_000, 100_000], sample_count = 5)]
fn replay_new_tasks(bencher: Bencher<'_, '_>, tasks: u32) {
    let (_, all) = snapshots(tasks);
    let none = Snapshot {
        tasks: BTreeMap::new(),
        ..all.clone()
    };
    bencher
        .counter(ItemsCount::new(tasks))
        .with_inputs(|| {
            let mut engine = Engine::new(Settings::REPLAY, RestoredState::default(), now());
            drop(engine.look(none.clone(), now()));
            (engine, all.clone())
        })
        .bench_local_values(|(mut engine, all)| {
            let mut effects = engine.look(all, now());
            effects.extend(engine.deliver(now()));
            (engine, effects)
        });
}

fn now() -> Now {
    Now {
        mono: Instant::now(),
        wall: 1_795_167_259_000,
    }
}

fn snapshots(windows: u32) -> (Snapshot, Snapshot) {
    let mut observer = Observer::new("work");
    let evidence = Evidence::default();
    let mut see = |turn| {
        let look = look(windows, turn);
        observer.observe(Some(&look), &evidence, now()).snapshot
    };
    (see(0), see(1))
}

/// In the second look every tenth task has ended, and the next one rang.
fn look(windows: u32, turn: u32) -> LookRows {
    let row = |n: u32| {
        let has_ended = turn > 0 && n.is_multiple_of(10);
        let pane = PaneRow {
            pane: PaneId(n),
            pid: Some(1000 + n),
            tty: Some(format!("/dev/pts/{n}")),
            dead: has_ended.then(|| DeadPane {
                exit: Exit::with_code(2),
                time: Some(1_795_167_259),
            }),
            title: "host".to_owned(),
            current_command: None,
            in_mode: false,
            screen: Screen {
                rows: vec![ROW.to_owned(); ROWS].into(),
                cursor: Some(CursorPosition { x: 0, y: 23 }),
                alternate: Some(false),
                ..Screen::default()
            },
        };
        WindowRow {
            name: format!("task-{n}"),
            bell_count: Some(u64::from(turn > 0 && n % 10 == 1)),
            activity: 1_795_167_259,
            run: Some(1),
            started: Some(1_795_167_000_000),
            command: Some("cargo test --workspace".to_owned()),
            cwd: Some("/home/somebody/src/something".to_owned()),
            pane: Some(pane),
            ..WindowRow::new(WindowId(n))
        }
    };
    LookRows {
        time: 0,
        session: SessionRow {
            life: SessionLife {
                server_pid: 1,
                server_started: 1,
                id: SessionId(0),
                created: 1,
            },
            name: "work".to_owned(),
            root: None,
            title: None,
            n_windows: windows as usize,
        },
        windows: (0..windows).map(|n| row(n).into()).collect(),
        deaths: Vec::new(),
        death_record: String::new(),
    }
}

/// What tmux answers: a frame of windows, one of the session, one of panes, and one for each
/// screen.
fn bytes_of_look(windows: u32) -> Vec<u8> {
    let mut bodies: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let fields = "0123456789abcdef| 1795167259 0123456789abcdef| cargo test --workspace";
    bodies.insert(
        0,
        (0..windows)
            .map(|n| format!("@{n} {fields} {fields}"))
            .collect(),
    );
    bodies.insert(1, vec![format!("$0 {fields}")]);
    bodies.insert(
        2,
        (0..windows)
            .map(|n| format!("%{n} {fields} {fields}"))
            .collect(),
    );
    for n in 0..windows {
        bodies.insert(3 + n, vec![ROW.to_owned(); ROWS]);
    }
    let frame = |(number, lines): (u32, Vec<String>)| {
        let guard = format!("1795167259 {number} 1");
        let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
        format!("%begin {guard}\n{lines}%end {guard}\n")
    };
    bodies
        .into_iter()
        .map(frame)
        .collect::<String>()
        .into_bytes()
}
