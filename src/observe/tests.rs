mod deaths;
mod ends;
mod runs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::model::{
    Bookmark, Exit, GoneReason, Life, Now, PaneId, Screen, SessionId, SessionLife, Signal,
    Snapshot, WindowId,
};
use crate::protocol::rows::{DeadPane, Death, LookRows, PaneRow, SessionRow, WindowRow};

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

    fn observe(&mut self, look: Option<&LookRows>) -> Observation {
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
            Life::Dead(Exit { code, signal, .. }) => match (code, signal) {
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

fn look(windows: &[&str], deaths: &str) -> LookRows {
    LookRows {
        session: SessionRow {
            life: life(1),
            name: "s".into(),
            root: None,
            title: None,
            n_windows: windows.len(),
        },
        windows: windows.iter().map(|text| row(text).into()).collect(),
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
        name: format!("task-{}", window.0),
        ..WindowRow::new(window)
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        match (key, pane.as_mut()) {
            ("name", _) => row.name = value.into(),
            ("run", _) => row.run = value.parse().ok(),
            ("started", _) => row.started = value.parse().ok(),
            ("replaced", _) => row.replaced = value.parse().ok(),
            ("recorded", _) => row.command = Some(value.into()),
            ("owner", _) => row.owner = Some(value.into()),
            ("bell", _) => row.bell = true,
            ("bells", _) => row.bell_count = value.parse().ok(),
            ("bare", _) => row.is_bare = true,
            ("launching", _) => row.is_launching = true,
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
