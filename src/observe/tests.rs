use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;
use crate::model::{
    Bookmark, Exit, GoneReason, Life, Now, PaneId, Screen, SessionId, SessionLife, Signal,
    Snapshot, WindowId,
};
use crate::protocol::rows::{DeadPane, Death, Look, PaneRow, SessionRow, WindowRow};

const WALL: i64 = 1_000_000;

struct World {
    observer: Observer,
    /// Observes the same look, sharing unchanged rows with the previous look.
    sharing: Observer,
    rows: BTreeMap<WindowId, Arc<WindowRow>>,
    now: Now,
    evidence: Evidence,
}

impl World {
    fn new() -> Self {
        Self {
            observer: Observer::new("s"),
            sharing: Observer::new("s"),
            rows: BTreeMap::new(),
            now: Now {
                mono: Instant::now(),
                wall: WALL,
            },
            evidence: Evidence::default(),
        }
    }

    fn see(&mut self, windows: &[&str], deaths: &str) -> Observation {
        self.observe(Some(&look(windows, deaths)))
    }

    fn observe(&mut self, look: Option<&Look>) -> Observation {
        let observed = self.observer.observe(look, &self.evidence, self.now);
        let mut shared = look.cloned();
        for row in shared.iter_mut().flat_map(|look| &mut look.windows) {
            match self.rows.get(&row.window).filter(|known| *known == row) {
                Some(known) => *row = Arc::clone(known),
                None => drop(self.rows.insert(row.window, Arc::clone(row))),
            }
        }
        let by_sharing = self
            .sharing
            .observe(shared.as_ref(), &self.evidence, self.now);
        assert_eq!(by_sharing, observed);
        observed
    }

    /// Windows as `@1 pid=7 [tty=4] [run=3] [dead|exit=2|signal=9] [nopane] ..`, deaths as
    /// in the record; the snapshot as `@1 run 3 pid 7 alive`, ended runs with a `-`.
    #[track_caller]
    fn check(&mut self, windows: &[&str], deaths: &str, reported: &[&str]) -> Observation {
        let observed = self.see(windows, deaths);
        assert_eq!(report(&observed.snapshot), reported);
        observed
    }

    /// Continues as the next daemon does, from a snapshot and a bookmark.
    fn restart(&mut self, saved: &Snapshot, bookmark: &Bookmark) {
        self.observer = Observer::from_snapshot(saved, bookmark);
        self.sharing = self.observer.clone();
        self.rows.clear();
    }

    fn go_on_from(&mut self, saved: &Snapshot) {
        self.observer = Observer::from_snapshot(saved, &Bookmark::default());
        self.sharing = self.observer.clone();
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
    }
}

fn report(snapshot: &Snapshot) -> Vec<String> {
    let line = |sign: &str, task: &crate::model::Task| {
        let life = match &task.life {
            Life::Unknown => "unknown".to_owned(),
            Life::Alive => "alive".to_owned(),
            Life::Dead(Exit { code, signal }) => match (code, signal) {
                (Some(code), _) => format!("exit {code}"),
                (None, Some(signal)) => signal.to_string(),
                (None, None) => "dead".to_owned(),
            },
        };
        let pid = task.pid.map_or("-".to_owned(), |pid| pid.to_string());
        let run = task.run.unwrap_or(0);
        format!("{sign}{} run {run} pid {pid} {life}", task.window)
    };
    let ended = snapshot.ended.iter().map(|task| line("-", task));
    ended
        .chain(snapshot.tasks.values().map(|task| line("", task)))
        .collect()
}

fn life(server_pid: u32) -> SessionLife {
    SessionLife {
        server_pid,
        server_started: 1,
        id: SessionId(0),
        created: 1,
    }
}

fn look(windows: &[&str], deaths: &str) -> Look {
    Look {
        session: SessionRow {
            life: life(1),
            name: "s".into(),
            root: None,
            title: None,
        },
        windows: windows.iter().map(|text| row(text).into()).collect(),
        is_whole: true,
        deaths: Death::parse_record(deaths),
        death_record: String::new(),
        time: 0,
    }
}

fn row(text: &str) -> WindowRow {
    let mut words = text.split(' ');
    let window: WindowId = words.next().unwrap().parse().unwrap();
    let mut pane = Some(PaneRow {
        pane: PaneId(window.0),
        pid: None,
        dead: None,
        title: String::new(),
        current_command: None,
        in_mode: false,
        tty: None,
        screen: Screen::default(),
    });
    let mut row = WindowRow {
        window,
        name: "api".into(),
        bell: false,
        bell_count: None,
        activity: 0,
        run: None,
        started: None,
        replaced: None,
        owner: None,
        is_bare: false,
        is_stand_in: false,
        command: None,
        cwd: None,
        pane: None,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, pane.as_mut()) {
            ("run", _) => row.run = value.parse().ok(),
            ("started", _) => row.started = value.parse().ok(),
            ("replaced", _) => row.replaced = value.parse().ok(),
            ("recorded", _) => row.command = Some(value.into()),
            ("owner", _) => row.owner = Some(value.into()),
            ("bare", _) => row.is_bare = true,
            ("standin", _) => row.is_stand_in = true,
            ("nopane", _) => pane = None,
            ("pane", Some(pane)) => pane.pane = PaneId(value.parse().unwrap()),
            ("tty", Some(pane)) => pane.tty = Some(format!("/dev/pts/{value}")),
            ("pid", Some(pane)) => pane.pid = value.parse().ok(),
            ("title", Some(pane)) => pane.title = value.into(),
            ("current", Some(pane)) => pane.current_command = Some(value.into()),
            ("dead", Some(pane)) => pane.dead = Some(DeadPane::default()),
            ("exit", Some(pane)) => {
                pane.dead.get_or_insert_default().exit.code = value.parse().ok();
            }
            ("signal", Some(pane)) => {
                pane.dead.get_or_insert_default().exit.signal = Signal::parse(value);
            }
            ("died", Some(pane)) => {
                pane.dead.get_or_insert_default().time = value.parse().ok();
            }
            _ => panic!("{word}"),
        }
    }
    row.pane = pane;
    row
}

#[test]
fn a_window_is_no_task_before_its_launch_is_over() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    let observed = world.check(
        &["@1 pid=7 run=1", "@2 pid=8 standin"],
        "",
        &["@1 run 1 pid 7 alive"],
    );
    assert_eq!(observed.write_runs, []);
    // Another window disappears at the same time.
    world.check(&["@2 pid=8 standin"], "", &[]);
    let observed = world.check(&["@2 pid=9 run=1"], "", &["@2 run 1 pid 9 alive"]);
    assert_eq!(observed.write_runs, []);
}

#[test]
fn runs_are_counted_by_their_processes() {
    let mut world = World::new();
    let observed = world.check(&["@1 pid=7"], "", &["@1 run 1 pid 7 alive"]);
    assert_eq!(observed.write_runs, [(WindowId(1), 1)]);
    let observed = world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    assert_eq!(observed.write_runs, []);
    let observed = world.check(&["@1 pid=8 run=1"], "", &["@1 run 2 pid 8 alive"]);
    assert_eq!(observed.write_runs, [(WindowId(1), 2)]);
    world.check(&["@1 pid=8 run=2 exit=0"], "", &["@1 run 2 pid 8 exit 0"]);
    world.check(&["@1 pid=9 run=2 exit=0"], "", &["@1 run 3 pid 9 exit 0"]);
}

#[test]
fn each_run_has_the_owner_who_asked_for_it() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1 recorded=make owner=pi:1"], "");
    let seen = world.see(
        &["@1 pid=8 run=2 recorded=make owner=pi:2"],
        "@1 %1 7 0  9;",
    );
    let snapshot = seen.snapshot;
    assert_eq!(snapshot.ended[0].owner.as_deref(), Some("pi:1"));
    assert_eq!(snapshot.tasks[&WindowId(1)].owner.as_deref(), Some("pi:2"));
}

#[test]
fn a_window_without_a_command_is_a_shell_unless_a_launcher_marked_it() {
    let mut world = World::new();
    let seen = world.see(
        &["@1 bare pid=7", "@2 bare recorded=make pid=8", "@3 pid=9"],
        "",
    );
    let shells: Vec<bool> = seen
        .snapshot
        .tasks
        .values()
        .map(|task| task.shell)
        .collect();
    assert_eq!(shells, [true, false, false]);
}

#[test]
fn a_larger_count_of_the_launcher_goes() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=4"], "", &["@1 run 4 pid 7 alive"]);
    world.check(&["@1 pid=8 run=9"], "", &["@1 run 9 pid 8 alive"]);
}

#[test]
fn runs_between_two_looks_are_reported_in_order() {
    let mut world = World::new();
    world.check(&["@1 pid=7 run=1"], "", &["@1 run 1 pid 7 alive"]);
    world.check(
        &["@1 pid=10 run=4"],
        "@1 %1 7 3  9;@1 %1 8 4  9;@2 %2 77 0  9;@1 %5 66 0  9;@1 %1 9  9 9;",
        &[
            "-@1 run 1 pid 7 exit 3",
            "-@1 run 2 pid 8 exit 4",
            "-@1 run 3 pid 9 SIGKILL",
            "@1 run 4 pid 10 alive",
        ],
    );
    // Respawned by hand: the counter was not updated.
    world.check(
        &["@1 pid=12 run=4 exit=1"],
        "@1 %1 10 0  9;@1 %1 11 0  9;@1 %1 12 1  9;",
        &[
            "-@1 run 4 pid 10 exit 0",
            "-@1 run 5 pid 11 exit 0",
            "@1 run 6 pid 12 exit 1",
        ],
    );
}

#[test]
fn a_new_window_reports_its_earlier_runs() {
    let mut world = World::new();
    world.see(&[], "");
    world.check(
        &["@1 pid=9 run=3 exit=0"],
        "@1 %1 7 1  9;@1 %1 8 2  9;@1 %1 9 0  9;",
        &[
            "-@1 run 1 pid 7 exit 1",
            "-@1 run 2 pid 8 exit 2",
            "@1 run 3 pid 9 exit 0",
        ],
    );
}

#[test]
fn a_live_run_that_was_replaced_has_no_end() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    let observed = world.check(
        &["@1 pid=8 run=2 replaced=7"],
        "",
        &["@1 run 2 pid 8 alive"],
    );
    let replaced = observed.snapshot.launcher_replaced;
    assert_eq!(replaced, BTreeMap::from([(WindowId(1), 7)]));
}

#[test]
fn a_reported_end_is_not_reported_again() {
    let mut world = World::new();
    world.check(
        &["@1 pid=7 exit=0"],
        "@1 %1 7 0  9;",
        &["@1 run 1 pid 7 exit 0"],
    );
    world.check(&["@1 pid=8"], "@1 %1 7 0  9;", &["@1 run 2 pid 8 alive"]);
}

#[test]
fn a_window_that_went_after_its_end_has_ended() {
    let mut world = World::new();
    world.see(&["@1 pid=7", "@2 pid=17"], "");
    world.evidence.gone = BTreeMap::from([
        (WindowId(2), GoneReason::UserKilled),
        (WindowId(3), GoneReason::Moved),
    ]);
    let observed = world.check(
        &[],
        "@1 %1 7 5  9;@1 %1 8 6  9;",
        &["-@1 run 1 pid 7 exit 5", "-@1 run 2 pid 8 exit 6"],
    );
    let gone = observed.snapshot.gone;
    assert_eq!(
        gone,
        BTreeMap::from([(WindowId(2), GoneReason::UserKilled)])
    );
}

#[test]
fn the_kernel_may_know_the_end() {
    let mut world = World::new();
    world.see(&["@1 pid=7", "@2 pid=17"], "");
    world.evidence.exits.insert(7, Exit::with_code(3));
    world.evidence.exits.insert(17, Exit::with_code(4));
    world.check(
        &["@2 pid=17 dead"],
        "",
        &["-@1 run 1 pid 7 exit 3", "@2 run 1 pid 17 exit 4"],
    );
}

#[test]
fn an_unsettled_end_waits_a_second() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    assert!(observed.nudge && observed.unsettled);
    assert_eq!(observed.next_deadline, Some(world.now.mono + SETTLE_LIMIT));
    world.wait(999);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 alive"]);
    assert!(observed.nudge && observed.unsettled);
    let mut settled = World {
        observer: world.observer.clone(),
        sharing: world.sharing.clone(),
        rows: world.rows.clone(),
        evidence: Evidence::default(),
        now: world.now,
    };
    settled.check(&["@1 pid=7 exit=2"], "", &["@1 run 1 pid 7 exit 2"]);
    world.wait(1);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 dead"]);
    assert!(!observed.unsettled);
    assert_eq!(observed.next_deadline, None);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 dead"]);
    assert!(
        !observed.unsettled,
        "an end that was given up is not reopened"
    );
}

#[test]
fn an_unsettled_end_is_settled_by_the_record() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    let observed = world.check(
        &["@1 pid=7 dead"],
        "@1 %1 7  15 9;",
        &["@1 run 1 pid 7 SIGTERM"],
    );
    assert!(!observed.nudge);
}

#[test]
fn tmux_is_nudged_for_an_end_that_the_kernel_reported() {
    let mut world = World::new();
    world.see(&["@1 pid=7"], "");
    world.evidence.exits.insert(7, Exit::with_code(3));
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 exit 3"]);
    assert!(observed.nudge && !observed.unsettled);
    let observed = world.check(&["@1 pid=7 dead"], "", &["@1 run 1 pid 7 exit 3"]);
    assert!(!observed.nudge, "once");
}

#[test]
fn tmux_may_forget_the_process_of_a_dead_pane() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    world.check(&["@1 run=1 exit=0"], "", &["@1 run 1 pid 7 exit 0"]);
    world.check(
        &["@1 run=2 exit=1"],
        "@1 %1 8 1  9;",
        &["@1 run 2 pid 8 exit 1"],
    );
    world.check(&["@1 run=3 exit=1"], "", &["@1 run 3 pid - exit 1"]);
    world.check(&["@1 pid=9 run=3"], "", &["@1 run 4 pid 9 alive"]);
}

/// As tmux 3.8 records it.
#[test]
fn deaths_without_a_process_belong_to_runs_in_their_order() {
    let mut world = World::new();
    world.check(&["@1 pid=7 tty=1 run=1"], "", &["@1 run 1 pid 7 alive"]);
    // Its own death, also when the record is read again.
    let record = "@1 %1  3  999 1 1;";
    for _ in 0..2 {
        world.check(
            &["@1 tty=1 run=1 exit=3 died=999"],
            record,
            &["@1 run 1 pid 7 exit 3"],
        );
    }
    // A further death in another window keeps the record from being cleared.
    let record = format!("{record}@2 %2  0  999 2 4;@1 %1  3  999 3 1;@1 %1   9 999 4 1;");
    for (row, reported) in [
        (
            "@1 tty=1 run=1 signal=9 died=999",
            &["-@1 run 2 pid - exit 3", "@1 run 3 pid - SIGKILL"][..],
        ),
        ("@1 pid=8 tty=1 run=3", &["@1 run 4 pid 8 alive"]),
        ("@1 pid=8 tty=1 run=4", &["@1 run 4 pid 8 alive"]),
        ("@1 pid=9 tty=2 run=4", &["@1 run 5 pid 9 alive"]),
    ] {
        world.check(&[row], &record, reported);
    }
    // The death of the live run, two runs between the looks, and a live one.
    world.check(
        &["@1 pid=13 tty=2 run=8"],
        "@1 %1  0  1000 5 2;@1 %1  1  1000 6 2;@1 %1  2  1000 7 2;",
        &[
            "-@1 run 5 pid 9 exit 0",
            "-@1 run 6 pid - exit 1",
            "-@1 run 7 pid - exit 2",
            "@1 run 8 pid 13 alive",
        ],
    );
    world.check(
        &["@1 tty=2 run=8 exit=6"],
        "@1 %1  5  1000 8 2;@1 %1  6  1000 9 2;",
        &["-@1 run 8 pid 13 exit 5", "@1 run 9 pid - exit 6"],
    );
}

#[test]
fn a_process_may_be_forgotten_before_its_pane_is_dead() {
    let mut world = World::new();
    world.check(&["@1 tty=1"], "", &["@1 run 1 pid - alive"]);
    let record = "@1 %1 7 3  999 1 1;";
    let reported = ["@1 run 1 pid 7 exit 3"];
    world.check(&["@1 tty=1 exit=3"], record, &reported);
    let mut world = World::new();
    world.check(&["@1 tty=1"], "", &["@1 run 1 pid - alive"]);
    let reported = ["-@1 run 1 pid 7 exit 3", "@1 run 2 pid 8 alive"];
    world.check(&["@1 pid=8 tty=1"], record, &reported);
}

#[test]
fn what_speaks_against_it_makes_a_death_another_runs() {
    let hung_up = |world: &mut World| {
        world.evidence.hung_up.insert(7);
    };
    let ended_with_3 = |world: &mut World| {
        world.evidence.exits.insert(7, Exit::with_code(3));
    };
    let nothing = |_: &mut World| {};
    // The dead pane, its death in the record or none, and other evidence.
    type Knows = fn(&mut World);
    let another: [(&str, &str, Knows); 6] = [
        ("@1 tty=2 exit=4", "@1 %1  4  9 1 2;", nothing),
        ("@1 tty=1 exit=4", "@1 %1  4  9 1 1;", hung_up),
        ("@1 tty=1 exit=4", "@1 %1  4  9 1 1;", ended_with_3),
        ("@1 tty=1 exit=4 replaced=7", "@1 %1  4  9 1 1;", nothing),
        ("@1 tty=2 exit=4", "", nothing),
        ("@1 tty=1 exit=4", "", hung_up),
    ];
    for (row, record, knows) in another {
        let mut world = World::new();
        world.see(&["@1 pid=7 tty=1"], "");
        knows(&mut world);
        let reported = world.see(&[row], record).snapshot;
        let before = reported.ended.iter().map(|task| task.exit().unwrap().code);
        assert!(
            before.eq(world
                .evidence
                .exits
                .get(&7)
                .filter(|_| !row.contains("replaced"))
                .map(|exit| exit.code)),
            "{row}"
        );
        assert_eq!(
            report(&reported).last().unwrap(),
            "@1 run 2 pid - exit 4",
            "{row}"
        );
    }
    let its_own: [(&str, &str, Knows); 4] = [
        ("@1 tty=1 exit=3", "@1 %1  3  9 1 1;", nothing),
        ("@1 tty=1 exit=3", "@1 %1  3  9 1 1;", ended_with_3),
        ("@1 tty=1 signal=1", "@1 %1   1 9 1 1;", hung_up),
        ("@1 exit=3", "@1 %1  3  9;", nothing),
    ];
    for (row, record, knows) in its_own {
        let mut world = World::new();
        world.see(&["@1 pid=7 tty=1"], "");
        knows(&mut world);
        let reported = report(&world.see(&[row], record).snapshot);
        assert_eq!(reported.len(), 1, "{row}: {reported:?}");
        assert!(
            reported[0].starts_with("@1 run 1 pid 7 "),
            "{row}: {reported:?}"
        );
    }
}

#[test]
fn a_death_that_is_recorded_late_is_no_other() {
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1"], "");
    world.check(&["@1 tty=1 exit=3"], "", &["@1 run 1 pid 7 exit 3"]);
    world.check(
        &["@1 tty=1 exit=3"],
        "@1 %1  3  999 1 1;",
        &["@1 run 1 pid 7 exit 3"],
    );
    world.check(
        &["@1 tty=1 exit=3"],
        "@1 %1  3  999 1 1;@1 %1  3  999 2 1;",
        &["@1 run 2 pid - exit 3"],
    );
}

#[test]
fn a_record_left_by_an_earlier_daemon_is_not_reported_twice() {
    let record = "@1 %1  3  990 1 1;@1 %1  4  999 2 1;";
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1"], "");
    let saved = world.see(&["@1 tty=1 exit=4 died=999"], record).snapshot;
    assert_eq!(saved.ended.len(), 1);
    world.go_on_from(&saved);
    world.wait(5000);
    let present = "@1 run 2 pid - exit 4";
    world.check(&["@1 tty=1 run=2 exit=4 died=999"], record, &[present]);
    world.go_on_from(&saved);
    world.check(
        &["@1 tty=1 run=2 exit=4 died=1003"],
        &format!("{record}@1 %1  5  1003 3 1;@1 %1  4  1003 4 1;"),
        &["-@1 run 3 pid - exit 5", "@1 run 4 pid - exit 4"],
    );
    // A live run began after the reported deaths.
    let saved = world.see(&["@1 pid=9 tty=1 run=4"], "").snapshot;
    world.go_on_from(&saved);
    world.check(
        &["@1 tty=1 run=5 exit=6 died=1007"],
        &format!("{record}@1 %1  6  1007 3 1;"),
        &["@1 run 5 pid 9 exit 6"],
    );
}

#[test]
fn deaths_without_a_pid_are_reported_though_the_window_is_gone() {
    let mut world = World::new();
    world.see(&["@1 pid=7 tty=1", "@2 pid=17 tty=2"], "");
    world.check(
        &[],
        "@1 %1  5  999 1 1;@1 %1  6  999 2 1;@2 %2  6  999 3 5;",
        &[
            "-@1 run 1 pid 7 exit 5",
            "-@1 run 2 pid - exit 6",
            "-@2 run 2 pid - exit 6",
        ],
    );
}

#[test]
fn a_window_without_panes_is_unknown() {
    let mut world = World::new();
    world.check(&["@1 nopane"], "", &["@1 run 1 pid - unknown"]);
    world.check(&["@1 pid=7"], "", &["@1 run 1 pid 7 alive"]);
    world.check(&["@1 nopane"], "", &["@1 run 1 pid - unknown"]);
}

#[test]
fn a_missing_session_and_another_life_start_over() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=3"], "");
    let observed = world.observe(None);
    assert!(!observed.snapshot.exists);
    assert_eq!(observed.snapshot.session, "s");
    world.check(&["@1 pid=8"], "", &["@1 run 1 pid 8 alive"]);
    let mut look = look(&["@1 pid=9"], "");
    look.session.life = life(2);
    let observed = world.observe(Some(&look));
    assert_eq!(report(&observed.snapshot), ["@1 run 1 pid 9 alive"]);
    assert_eq!(observed.snapshot.life, Some(life(2)));
}

#[test]
fn a_saved_snapshot_is_gone_on_from() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=3"], "");
    let saved = world.see(&["@1 pid=7 run=3"], "").snapshot;
    world.go_on_from(&saved);
    world.check(&["@1 pid=7 run=3"], "", &["@1 run 3 pid 7 alive"]);
    world.go_on_from(&saved);
    world.check(
        &["@1 pid=8 run=3"],
        "@1 %1 7 1  9;",
        &["-@1 run 3 pid 7 exit 1", "@1 run 4 pid 8 alive"],
    );
}

#[test]
fn the_best_known_command_is_reported() {
    for (text, command) in [
        ("@1 recorded=make title=t current=bash", Some("make")),
        ("@1 title=t current=bash", Some("t")),
        ("@1 title=t current=-zsh", Some("t")),
        ("@1 title=t current=nu", Some("t")),
        ("@1 title=t current=ksh93", Some("t")),
        ("@1 title=t current=busybox", Some("busybox")),
        ("@1 title=t current=vim", Some("vim")),
        ("@1 current=bash", Some("bash")),
        ("@1 title=t", Some("t")),
        ("@1", None),
        ("@1 nopane", None),
    ] {
        let observed = World::new().see(&[text], "");
        let reported = observed.snapshot.tasks[&WindowId(1)].command.clone();
        assert_eq!(reported.as_deref(), command, "{text}");
    }
}

#[test]
fn runs_start_at_the_best_known_time() {
    let start = |world: &mut World, text: &str| {
        let observed = world.see(&[text], "");
        observed.snapshot.tasks[&WindowId(1)].started_at
    };
    let mut world = World::new();
    let launched = WALL - 30_000;
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    world.wait(1000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    // Respawned by hand: the option belongs to the earlier run.
    assert_eq!(
        start(&mut world, &format!("@1 pid=8 started={launched}")),
        Some(WALL + 1000)
    );
    Arc::make_mut(&mut world.evidence.started_at).insert(9, WALL + 400);
    assert_eq!(
        start(&mut world, &format!("@1 pid=9 started={launched}")),
        Some(WALL + 400)
    );
    assert_eq!(
        start(&mut world, "@1 pid=10 started=1000200"),
        Some(WALL + 200)
    );
    // The kernel's ticks are coarse; a launch that is recorded is not later than its process.
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, launched - 10);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched)
    );
    // Respawned by hand two seconds after the launch, before the first look.
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, launched + 2000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(launched + 2000)
    );
    let mut world = World::new();
    Arc::make_mut(&mut world.evidence.started_at).insert(7, WALL - 10_000);
    assert_eq!(
        start(&mut world, &format!("@1 pid=7 started={launched}")),
        Some(WALL - 10_000)
    );
}

#[test]
fn ends_are_dated_by_tmux_when_they_are_old() {
    let end = |world: &mut World, text: &str| {
        let observed = world.see(&[text], "");
        observed.snapshot.tasks[&WindowId(1)].ended_at
    };
    let mut world = World::new();
    assert_eq!(end(&mut world, "@1 pid=7"), None);
    assert_eq!(end(&mut world, "@1 pid=7 exit=0 died=999"), Some(WALL));
    world.wait(5000);
    assert_eq!(
        end(&mut world, "@1 pid=7 exit=0 died=999"),
        Some(WALL),
        "reported once"
    );
    assert_eq!(
        end(&mut World::new(), "@1 pid=7 exit=0 died=998"),
        Some(998_000)
    );
}

#[test]
fn no_run_ends_before_it_began() {
    // Both within the second 997, of which tmux tells only the number.
    let started = 997_600;
    let row = format!("@1 pid=7 started={started} exit=0 died=997");
    let observed = World::new().see(&[&row], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(started), Some(started))
    );
    // Seen alive before.
    let mut world = World::new();
    world.see(&["@1 pid=7 started=999900"], "");
    world.wait(5000);
    let observed = world.see(&["@1 pid=7 started=999900 exit=0 died=999"], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(999_900), Some(999_900))
    );
    // Nothing tells when it began.
    let observed = World::new().see(&["@1 pid=7 exit=0 died=997"], "");
    let task = &observed.snapshot.tasks[&WindowId(1)];
    assert_eq!(
        (task.started_at, task.ended_at),
        (Some(997_000), Some(997_000))
    );
}

/// What may happen to a window's process between two looks.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Exits(i32),
    /// tmux collects the status before the pane is dead.
    IsReaped(i32),
    IsRespawned,
    IsSeen {
        forgets: bool,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        (0..3).prop_map(Happens::Exits),
        (0..3).prop_map(Happens::IsReaped),
        Just(Happens::IsRespawned),
        any::<bool>().prop_map(|forgets| Happens::IsSeen { forgets }),
    ]
}

proptest! {
    /// Whatever processes follow one another, every change is one run more, and a look that
    /// shows no change reports nothing.
    #[test]
    fn runs_only_grow(pids in proptest::collection::vec((1u32..4, any::<bool>()), 1..20)) {
        let mut world = World::new();
        let mut before: Option<(u32, u32)> = None;
        for (pid, is_dead) in pids {
            let text = format!("@1 pid={pid}{}", if is_dead { " exit=0" } else { "" });
            let observed = world.see(&[&text], "");
            let run = observed.snapshot.tasks[&WindowId(1)].run.unwrap();
            if let Some((pid_before, run_before)) = before {
                prop_assert_eq!(run, run_before + u32::from(pid != pid_before));
            }
            prop_assert!(observed.snapshot.ended.is_empty());
            let again = world.see(&[&text], "");
            prop_assert_eq!(again.snapshot.tasks, observed.snapshot.tasks);
            before = Some((pid, run));
        }
    }

    /// tmux 3.8 does not report the pid of a dead pane. As long as either the kernel or the
    /// terminal names show who was respawned while alive, the result is the same without it.
    #[test]
    fn the_order_of_deaths_replaces_their_pids(
        story in proptest::collection::vec(happens(), 1..40),
        by_kernel: bool,
    ) {
        let (mut telling, mut silent) = (World::new(), World::new());
        let (mut pid, mut tty, mut exit, mut reaped, mut number) = (100, 1, None, None, 0);
        let mut records = [String::new(), String::new()];
        for happens in story {
            // A pane that is reaped dies at once.
            let dies = match happens {
                Happens::IsReaped(_) | Happens::IsSeen { .. } => None,
                Happens::Exits(code) => Some(code),
                Happens::IsRespawned => reaped,
            };
            let dies = dies.filter(|_| exit.is_none()).map(|code| reaped.take().unwrap_or(code));
            if let Some(code) = dies {
                number += 1;
                exit = Some(code);
                for (record, pid) in records.iter_mut().zip([pid.to_string(), String::new()]) {
                    *record += &format!("@1 %1 {pid} {code}  999 {number} {tty};");
                }
            }
            match (happens, exit) {
                (Happens::IsReaped(code), None) => reaped = Some(reaped.unwrap_or(code)),
                (Happens::Exits(_) | Happens::IsReaped(_), _) => {}
                (Happens::IsRespawned, _) => {
                    if exit.take().is_none() {
                        telling.evidence.hung_up.insert(pid);
                        if by_kernel {
                            silent.evidence.hung_up.insert(pid);
                        } else {
                            tty += 1;
                        }
                    }
                    pid += 1;
                }
                (Happens::IsSeen { forgets }, _) => {
                    let end = exit.map_or(String::new(), |code| format!(" exit={code} died=999"));
                    let is_silent = exit.or(reaped.filter(|_| !by_kernel)).is_some();
                    let shown = if is_silent { String::new() } else { format!(" pid={pid}") };
                    let reported = [
                        telling.see(&[&format!("@1 tty={tty} pid={pid}{end}")], &records[0]),
                        silent.see(&[&format!("@1 tty={tty}{shown}{end}")], &records[1]),
                    ];
                    let [one, other] = reported.map(|observed| {
                        let mut snapshot = observed.snapshot;
                        for task in snapshot.tasks.values_mut().map(Arc::make_mut).chain(&mut snapshot.ended) {
                            task.pid = None;
                        }
                        report(&snapshot)
                    });
                    prop_assert_eq!(one, other);
                    if forgets {
                        records = [String::new(), String::new()];
                    }
                }
            }
        }
    }
}

#[test]
fn a_launch_that_was_read_by_a_daemon_before_is_not_that_of_a_later_run() {
    let mut world = World::new();
    let launched = WALL - 30_000;
    world.see(&[&format!("@1 pid=7 started={launched}")], "");
    // Respawned by hand, so the note belongs to the previous run.
    let by_hand = format!("@1 pid=8 started={launched}");
    let observed = world.see(&[&by_hand], "");
    let bookmark = world.observer.bookmark();
    world.restart(&observed.snapshot, &bookmark);
    world.wait(3000);
    let observed = world.see(&[&format!("@1 pid=9 started={launched}")], "");
    let started_at = observed.snapshot.tasks[&WindowId(1)].started_at;
    assert_eq!(started_at, Some(WALL + 3000));
}

#[test]
fn deaths_processed_by_an_earlier_daemon_are_not_reported_again() {
    // tmux 3.8 does not report pids: only the numbers are left.
    for [first, second] in [["7", "8"], ["", ""]] {
        let mut world = World::new();
        world.see(&["@1 pid=7 run=1"], "");
        let record = format!("@1 %1 {first} 3  1000 1 5;@1 %1 {second} 4  1000 2 6;");
        let observed = world.check(
            &["@1 pid=9 run=3"],
            &record,
            &[
                "-@1 run 1 pid 7 exit 3",
                if second.is_empty() {
                    "-@1 run 2 pid - exit 4"
                } else {
                    "-@1 run 2 pid 8 exit 4"
                },
                "@1 run 3 pid 9 alive",
            ],
        );
        // Killed before it could clear the record.
        let bookmark = world.observer.bookmark();
        assert_eq!(bookmark.deaths_read, Some(2));
        world.restart(&observed.snapshot, &bookmark);
        world.check(&["@1 pid=9 run=3"], &record, &["@1 run 3 pid 9 alive"]);
        let one_more = format!("{record}@1 %1 9 5  1000 3 7;");
        world.check(
            &["@1 pid=9 run=3 exit=5"],
            &one_more,
            &["@1 run 3 pid 9 exit 5"],
        );
    }
}

#[test]
fn runs_of_windows_that_no_look_contained_are_reported() {
    let mut world = World::new();
    world.see(&["@1 pid=7 run=1"], "");
    let observed = world.check(
        &["@1 pid=7 run=1"],
        "@2 %2 17 3  9 1 5 api 4 claude:1 %2. ;\
         @2 %2 18 0  9 2 5 api 5 claude:1 %2. ;\
         @3 %4 19 1  9 3 5 split  %3.%4. ;\
         @4 %5 20  9 9 4 5    %5.%6. shell;\
         @5 %7 21 2  9 5 5;",
        &[
            "-@2 run 4 pid 17 exit 3",
            "-@2 run 5 pid 18 exit 0",
            "-@4 run 1 pid 20 SIGKILL",
            "@1 run 1 pid 7 alive",
        ],
    );
    let names: Vec<&str> = observed
        .snapshot
        .ended
        .iter()
        .map(|task| &*task.name)
        .collect();
    assert_eq!(names, ["api", "api", ""]);
    let first = &observed.snapshot.ended[0];
    assert_eq!(
        (first.owner.as_deref(), first.shell),
        (Some("claude:1"), false)
    );
    assert!(observed.snapshot.ended[2].shell);
    // The record was not cleared yet.
    world.check(
        &["@1 pid=7 run=1"],
        "@2 %2 17 3  9 1 5 api 4 claude:1 %2. ;",
        &["@1 run 1 pid 7 alive"],
    );
}

#[test]
fn panes_that_were_swapped_or_joined_take_their_runs_along() {
    let mut world = World::new();
    world.see(&["@1 pane=1 pid=7 run=1", "@2 pane=2 pid=17 run=1"], "");
    world.evidence.moved_panes = [PaneId(1), PaneId(2)].into();
    world.check(
        &["@1 pane=2 pid=17 run=1", "@2 pane=1 pid=7 run=1"],
        "",
        &["@1 run 1 pid 17 alive", "@2 run 1 pid 7 alive"],
    );
    world.evidence.moved_panes.clear();
    // Each ends where it is now.
    world.check(
        &["@1 pane=2 pid=17 run=1 exit=3", "@2 pane=1 pid=7 run=1"],
        "@1 %2 17 3  1000 1 5;",
        &["@1 run 1 pid 17 exit 3", "@2 run 1 pid 7 alive"],
    );
}

#[test]
fn a_run_whose_pane_was_closed_has_ended() {
    let closed = "@1 pane=2 pid=17 run=1";
    let check = |evidence: Evidence, deaths: &str, end: &str| {
        let mut world = World::new();
        world.see(&["@1 pane=1 pid=7 run=1"], "");
        world.evidence = evidence;
        world.check(&[closed], deaths, &[end, "@1 run 2 pid 17 alive"]);
    };
    let hung_up = Evidence {
        ended: [7].into(),
        hung_up: [7].into(),
        ..Evidence::default()
    };
    let exited = Evidence {
        ended: [7].into(),
        exits: BTreeMap::from([(7, Exit::with_code(4))]),
        ..Evidence::default()
    };
    let nothing = Evidence::default();
    check(hung_up, "", "-@1 run 1 pid 7 SIGHUP");
    check(exited, "", "-@1 run 1 pid 7 exit 4");
    check(nothing.clone(), "", "-@1 run 1 pid 7 dead");
    check(nothing, "@1 %1 7 5  1000 1 5;", "-@1 run 1 pid 7 exit 5");
}
