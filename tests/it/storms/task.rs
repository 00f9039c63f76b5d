//! The tasks of a storm. Each run does one action and writes it to its journal.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use super::Storm;
use super::consumer::Consumer;
use crate::support::{Dice, World, show};

/// How long anything may take on a busy machine.
pub(super) const DEADLINE: Duration = Duration::from_secs(90);

/// A task: notes what it does in its journal before it does it, and after what others do to it.
const SCRIPT: &str = r#"#!/bin/bash
journal=$1 token=$2 deed=$3 code=$4 rings=$5
note() { printf '%s %s %s\n' "$EPOCHREALTIME" "$token" "$*" >>"$journal"; }
note began
case $deed in
    exit) ;;
    ring)
        # Nothing is ever written to it.
        exec 8<> <(:)
        for ((n = 0; n < rings; n++)); do
            # Bursts of bells, with pauses.
            if ((n > 0 && RANDOM % 4)); then read -rt 0.2 -u 8 _; fi
            note rings
            printf '\a'
            # Once the terminal answers, tmux has read the bell and counts it by itself.
            IFS= read -rs -d n -t 60 -p $'\e[5n' _ </dev/tty 2>/dev/tty || note unanswered
        done
        ;;
    ask)
        note asks
        printf 'Proceed with %s? [y/N] ' "$token"
        read -r _
        note answered
        ;;
    stay) exec sleep 100000 ;;
    kill)
        # Its shell, as tmux reports the signal of that one.
        note killed
        kill -KILL "$PPID"
        exit
        ;;
esac
note ended "$code"
exit "$code"
"#;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    Exit,
    Ring,
    Ask,
    /// It runs until it is replaced, or its window is closed.
    Stay,
    Kill,
}

impl Deed {
    const ALL: [(Self, &str); 5] = [
        (Self::Exit, "exit"),
        (Self::Ring, "ring"),
        (Self::Ask, "ask"),
        (Self::Stay, "stay"),
        (Self::Kill, "kill"),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(deed, _)| *deed == self).unwrap().1
    }
}

/// What tmux shows of the windows.
struct TmuxLook {
    began: Instant,
    /// By name, whether the primary process has ended, and its command.
    windows: BTreeMap<String, (bool, String)>,
}

/// The windows of a storm, by the names of their tasks.
pub(super) struct Slots {
    names: Vec<String>,
    journals: PathBuf,
    script: PathBuf,
    shown: Mutex<TmuxLook>,
    is_stopped: AtomicBool,
}

impl Slots {
    pub(super) fn new(world: &World, n: usize) -> Self {
        let journals = world.path("journals");
        fs::create_dir(&journals).unwrap();
        Self {
            names: (0..n).map(|number| format!("task{number}")).collect(),
            script: world.script("deeds", SCRIPT),
            journals,
            shown: Mutex::new(TmuxLook {
                began: Instant::now(),
                windows: BTreeMap::new(),
            }),
            is_stopped: AtomicBool::new(false),
        }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// The lines that the runs of a task have written, each with its time.
    pub(super) fn noted(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.journals.join(name)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What the runs of a task have done: the token of a run and its deed.
    pub(super) fn journal(&self, name: &str) -> Vec<String> {
        let without_time = |line: String| Some(line.split_once(' ')?.1.to_owned());
        self.noted(name)
            .into_iter()
            .filter_map(without_time)
            .collect()
    }

    /// Waits until a run of each task has begun.
    pub(super) fn until_each_has_run(&self) {
        let deadline = Instant::now() + DEADLINE;
        let has_run = |name: &String| !self.journal(name).is_empty();
        while !self.names.iter().all(has_run) {
            assert!(Instant::now() < deadline, "a task never runs");
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Looks at tmux again and again, for all workers.
    pub(super) fn watch(&self, storm: &Storm<'_>) {
        let format = "#{window_name} #{pane_dead}#{pane_dead_status}#{pane_dead_signal} \
                      #{@tmux_task_command}";
        while !self.is_stopped.load(Ordering::Relaxed) {
            let began = Instant::now();
            let listed = storm
                .world
                .tmux(["list-windows", "-t", "=work", "-F", format]);
            let mut windows = BTreeMap::new();
            let mut has_lost_signal = false;
            for line in listed.lines() {
                let mut words = line.splitn(3, ' ');
                let mut word = || words.next().unwrap_or_default().to_owned();
                let (name, state, command) = (word(), word(), word());
                // tmux can lose the signal that its child has ended.
                has_lost_signal |= state == "1";
                windows.insert(name, (state.len() > 1, command));
            }
            if has_lost_signal {
                kill_process(storm.world.server(), Signal::CHILD).unwrap();
            }
            *self.look() = TmuxLook { began, windows };
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn look(&self) -> MutexGuard<'_, TmuxLook> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    /// Starts one run after another in every n-th window, until the storm is over.
    pub(super) fn work(&self, storm: &Storm<'_>, number: usize, reader: &Consumer) {
        let mut dice = Dice::new(storm.size.seed, 1000 + number as u64);
        let own = self.names.iter().skip(number).step_by(storm.size.workers);
        let own: Vec<&String> = own.collect();
        let mut runs = 0;
        loop {
            // Bursts: one run in each window, and then a rest.
            for name in &own {
                if storm.is_over() {
                    return;
                }
                runs += 1;
                Worker {
                    storm,
                    slots: self,
                    name,
                    token: format!("{name}-{runs}"),
                    reader,
                    // What was in the feed before this run is not about it.
                    next: Cell::new(reader.next()),
                }
                .run(&mut dice);
            }
            thread::sleep(Duration::from_millis(dice.below(100)));
        }
    }
}

/// One run of a task, and what is done to it.
struct Worker<'a> {
    storm: &'a Storm<'a>,
    slots: &'a Slots,
    name: &'a str,
    token: String,
    /// The consumer by which it knows what is in the feed.
    reader: &'a Consumer,
    /// The first record that it has not searched yet.
    next: Cell<u64>,
}

impl Worker<'_> {
    fn run(&self, dice: &mut Dice) {
        let deed = Deed::ALL[usize::try_from(dice.below(5)).unwrap()].0;
        let code = dice.below(100).to_string();
        let by_script = dice.below(4) == 0;
        // The daemon may have been killed before it answered: then the task runs or does not.
        if !self.launch(deed, &code, by_script) && !self.was_launched() {
            return;
        }
        self.until("it begins", || self.has_noted("began"));
        match deed {
            Deed::Exit | Deed::Ring | Deed::Kill => self.until_ended(),
            Deed::Ask => {
                self.until("its question is in the feed", || {
                    self.has_record("input", "prompt")
                });
                let target = format!("=work:={}", self.name);
                self.storm
                    .world
                    .tmux(["send-keys", "-t", &target, "y", "Enter"]);
                self.until_ended();
            }
            Deed::Stay => {
                self.until("its start is in the feed", || {
                    self.has_record("started", "task")
                });
                self.vanish(dice);
            }
        }
    }

    fn launch(&self, deed: Deed, code: &str, by_script: bool) -> bool {
        let world = self.storm.world;
        let mut command = if by_script {
            world.command(World::helper())
        } else {
            let mut command = world.command(World::program());
            command.arg("run");
            command
        };
        command
            .args([self.name, "--"])
            .arg(&self.slots.script)
            .arg(self.slots.journals.join(self.name))
            .args([&self.token, deed.name(), code])
            .arg(self.storm.size.rings.to_string());
        crate::support::Output::of(command).code == 0
    }

    /// Whether tmux has launched it although the command failed. What a daemon that was killed has
    /// sent arrives soon or never.
    fn was_launched(&self) -> bool {
        let sent = Instant::now() + Duration::from_millis(300);
        let mut was_launched = false;
        self.until("tmux shows whether it was launched", || {
            let look = self.slots.look();
            let command = look
                .windows
                .get(self.name)
                .map(|(_, command)| command.as_str());
            was_launched = has_token(&command.unwrap_or_default().into(), &self.token);
            was_launched || look.began > sent
        });
        was_launched
    }

    /// Closes the window, or leaves the run to be replaced by the next one.
    fn vanish(&self, dice: &mut Dice) {
        let world = self.storm.world;
        match dice.below(3) {
            0 => {}
            1 => {
                let target = format!("=work:={}", self.name);
                world.tmux(["kill-window", "-t", &target]);
            }
            _ => {
                // The daemon may be killed meanwhile, and the window is there or not.
                drop(world.task(["kill", self.name]));
            }
        }
    }

    fn has_noted(&self, what: &str) -> bool {
        let line = format!("{} {what}", self.token);
        let journal = self.slots.journal(self.name);
        journal.iter().rev().any(|noted| noted.starts_with(&line))
    }

    /// Whether the feed has this event of this run, which names it in this field. Each record is
    /// searched once, for one event.
    fn has_record(&self, event_type: &str, field: &str) -> bool {
        let state = self.reader.state();
        let of_run = |record: &Value| {
            let text = match field {
                "prompt" => &record["prompt"],
                _ => &record["task"]["currentCommand"],
            };
            record["type"] == event_type && has_token(text, &self.token)
        };
        let first = self.next.replace(state.next());
        state
            .records
            .range(first..)
            .map(|(_, record)| record)
            .any(of_run)
    }

    fn until_ended(&self) {
        self.until("it notes its end", || {
            self.has_noted("ended") || self.has_noted("killed")
        });
        let noted = Instant::now();
        self.until("it has ended", || {
            let look = self.slots.look();
            let lives = look.windows.get(self.name).is_some_and(|(ended, _)| !ended);
            look.began > noted && !lives
        });
    }

    #[track_caller]
    fn until(&self, what: &str, mut is_true: impl FnMut() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_true() {
            if Instant::now() >= deadline {
                let journal = self.slots.journal(self.name);
                let state = self.reader.state();
                let of_task = state.records.values();
                let of_task = of_task.filter(|record| record["task"]["windowName"] == self.name);
                let of_task: Vec<Value> = of_task.cloned().collect();
                panic!(
                    "{}: {what}: never; its journal: {:?}\n{}\n{:?}",
                    self.token,
                    &journal[journal.len().saturating_sub(9)..],
                    show(&of_task[of_task.len().saturating_sub(15)..]),
                    self.slots.look().windows.get(self.name)
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Whether a text has this word.
pub(super) fn has_token(text: &Value, token: &str) -> bool {
    let text = text.as_str().unwrap_or_default();
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
    text.split(is_end).any(|word| word == token)
}
