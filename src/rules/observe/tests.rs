mod deaths;
mod ends;
mod runs;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::model::test_notation::{at, expectation, life, stories};
use crate::model::{
    Bookmark, Exit, GoneReason, Life, Now, PaneId, Screen, Signal, Snapshot, WindowId,
};
use crate::rules::protocol::rows::{DeadPane, Death, LookRows, PaneRow, SessionRow, WindowRow};

const WALL: i64 = 1_000_000;

struct World {
    /// What was observed last.
    last: Observation,
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
            last: Observation::default(),
            observer: Observer::new("s"),
            sharing: Observer::new("s"),
            rows: BTreeMap::new(),
            now: at(WALL),
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
        self.last = observed.clone();
        observed
    }

    /// Plays looks and what is known besides, with what is reported then:
    ///
    /// ```text
    /// @1 pid=7 [tty=4] [run=3] [dead|exit=2|signal=9] [nopane] .., @2 .. with DEATHS => @1 run 3 pid 7 alive
    /// life 2: @1 pid=7    the same in another life of the session; `missing`: there is none
    /// exits 7 3           the kernel reports this end; `ends 7`: without a code; `hangs up 7`
    /// gone @1 moved       why a window is not there; `bells @1 3`; `began 7 1000`: when a process began
    /// moved %1 %2         panes that have been in another window, `moved` none
    /// wait 1000           so many milliseconds
    /// restart             the next daemon goes on from the last look, with the bookmark or `without`
    /// writes => @1 4      the numbers of runs that the last look has to write to tmux
    /// nudge => yes        whether it nudges tmux, or is `unsettled`
    /// last api => 3       the number of the last run of that name
    /// named => a 1; b 2   the names under which the runs count
    /// owner @1 => pi:1    an attribute of a task, `owner -@1` of a run that has ended, `owner of ROW` of the
    ///                     task in the next look
    /// ```
    #[track_caller]
    fn play(&mut self, text: &str) {
        for (heading, lines) in stories(text) {
            self.play_lines(heading, &lines);
        }
    }

    #[track_caller]
    fn play_lines(&mut self, heading: &str, lines: &[String]) {
        for line in lines {
            let (step, expected) = expectation(line);
            let reported = self.step(step);
            let is_right = !line.contains("=>") || reported == expected;
            assert!(is_right, "{heading}: {line}: {reported:?}");
        }
    }

    #[track_caller]
    fn step(&mut self, step: &str) -> Vec<String> {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let (first, second) = rest.split_once(' ').unwrap_or((rest, ""));
        let of_number = |text: &str| text.parse::<u32>().unwrap();
        let evidence = &mut self.evidence;
        match word {
            "exits" => {
                let exit = Exit::with_code(second.parse().unwrap());
                evidence.exits.insert(of_number(first), exit);
            }
            "hangs" => drop(evidence.hung_up.insert(of_number(second))),
            "gone" => {
                let reason = match second {
                    "moved" => GoneReason::Moved,
                    _ => GoneReason::of_word(second).unwrap(),
                };
                evidence.gone.insert(first.parse().unwrap(), reason);
            }
            "bells" => {
                let count = second.parse().unwrap();
                evidence.bells.insert(first.parse().unwrap(), count);
            }
            "began" => {
                let began = Arc::make_mut(&mut evidence.started_at);
                began.insert(of_number(first), second.parse().unwrap());
            }
            "moved" => {
                let panes = rest.split_whitespace().map(|pane| pane.parse().unwrap());
                evidence.moved_panes = panes.collect();
            }
            "wait" => self.wait(rest.parse().unwrap()),
            "restart" => {
                let bookmark = match rest {
                    "without" => Bookmark::default(),
                    _ => self.observer.bookmark(),
                };
                self.observer = Observer::from_snapshot(&self.last.snapshot, &bookmark);
                self.sharing = self.observer.clone();
                self.rows.clear();
            }
            "writes" => {
                let writes = self.last.write_runs.iter();
                return writes
                    .map(|(window, run)| format!("{window} {run}"))
                    .collect();
            }
            "nudge" | "unsettled" => {
                let is = match word {
                    "nudge" => self.last.nudge,
                    _ => self.last.unsettled,
                };
                return vec![if is { "yes" } else { "no" }.to_owned()];
            }
            "ends" => drop(evidence.ended.insert(of_number(rest))),
            "missing" => drop(self.observe(None)),
            "last" => return vec![self.observer.last_run(rest).to_string()],
            "named" => {
                let tasks = self.last.snapshot.tasks.values();
                let named = tasks.map(|task| {
                    let run = task.run.unwrap();
                    format!("{} {run}", self.observer.name_of_run(task))
                });
                return named.collect();
            }
            "away" => {
                let away = &self.observer.bookmark().runs_away[&rest.parse().unwrap()];
                return vec![format!("{} {}", away.pane, away.pid.unwrap())];
            }
            "life" => {
                let (server, windows) = rest.split_once(": ").unwrap();
                let mut look = look(&windows.split(", ").collect::<Vec<_>>(), "");
                look.session.life = life(of_number(server));
                self.observe(Some(&look));
            }
            _ if word.starts_with('@') || matches!(word, "" | "with") => {
                let (windows, deaths) = step.split_once("with ").unwrap_or((step, ""));
                let windows = windows.trim().split(", ").filter(|one| !one.is_empty());
                let deaths = deaths.replace("; @", ";@");
                self.see(&windows.collect::<Vec<_>>(), &deaths);
            }
            attribute => {
                let rest = match rest.strip_prefix("of ") {
                    Some(row) => {
                        self.see(&[row], "");
                        row.split(' ').next().unwrap()
                    }
                    None => rest,
                };
                let snapshot = &self.last.snapshot;
                let task = match rest.strip_prefix('-') {
                    Some(window) => {
                        let window: WindowId = window.parse().unwrap();
                        let mut ended = snapshot.ended.iter();
                        ended.find(|task| task.window == window).unwrap()
                    }
                    None => &snapshot.tasks[&rest.parse().unwrap()],
                };
                let number = |number: Option<i64>| number.map(|number| number.to_string());
                let value = match attribute {
                    "owner" => task.owner.clone(),
                    "name" => Some(task.name.clone()).filter(|name| !name.is_empty()),
                    "command" => task.command.clone(),
                    "shell" => Some(if task.shell { "yes" } else { "no" }.to_owned()),
                    "started" => number(task.started_at),
                    "ended" => number(task.ended_at),
                    "rang" => task.bell_count.map(|count| count.to_string()),
                    _ => panic!("no such step: {step}"),
                };
                return vec![value.unwrap_or("none".to_owned())];
            }
        }
        match word.starts_with('@') || matches!(word, "" | "with" | "life" | "missing") {
            true => report(&self.last.snapshot),
            false => Vec::new(),
        }
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
    }
}

/// Plays stories, each with an observer of its own.
#[track_caller]
fn check(text: &str) {
    for (heading, lines) in stories(text) {
        World::new().play_lines(heading, &lines);
    }
}

/// The snapshot as `@1 run 3 pid 7 alive`, ended runs with a `-`.
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
