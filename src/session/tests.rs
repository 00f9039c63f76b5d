mod endings;
mod looks;
mod output;
mod output_watches;
mod port_looks;
mod requests;
mod restarts;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;
use crate::engine::{Engine, RestoredState, Settings};
use crate::model::{
    Body, Bookmark, Condition, DeliveredEvent, EndReport, Error, Event, EventKind, Now, PaneId,
    StopChoice,
};
use crate::model::{
    StopPlan,
    test_notation::{describe as describe_event, snapshot},
};
use crate::model::{Task, WindowId};
use crate::terminal::{Extent, PaneOutput};
use crate::wire::{
    LaunchedRun, Request, RequestLine, Response, SearchRequest, SendRequest, TaskLog, TypedInput,
    WaitRequest,
};

const PANE: PaneId = PaneId(1);

/// A session whose link does what the test says.
struct Driver {
    session: Session,
    now: Now,
    /// The effects since the last query.
    done: Vec<String>,
    /// The running job, if any.
    job: Option<Job>,
    /// Whether the disk accepts records at once.
    disk_takes: bool,
    connection: u64,
    asks: u64,
    /// The panes that the link was asked to follow.
    followed: BTreeSet<PaneId>,
    /// The runs whose usual duration was asked for.
    begun: Vec<(WindowId, Option<u32>)>,
    /// Whether looks are triggered by a report.
    has_trigger: bool,
    /// Whether the next look finds that tmux has to collect its children.
    needs_nudge: bool,
    /// How often tmux was nudged.
    nudges: usize,
    /// The last look.
    shown: String,
    /// The recorded events.
    told: Vec<String>,
}

impl Driver {
    /// Returns a session after one look with these tasks.
    fn new(notation: &str) -> Self {
        Self::of(RestoredState::default(), Vec::new(), notation)
    }

    /// The same for one whose last daemon saw `before` and recorded the end of `@1` with a restart that
    /// has not happened.
    fn returning(before: &str, notation: &str) -> Self {
        let before = snapshot(before);
        let task = Task::clone(&before.tasks[&WindowId(1)]);
        let event = Event {
            kind: EventKind::Exited { replaced: None },
            task,
        };
        let memory = RestoredState {
            last_look: Some(before),
            last_seq: 7,
            ..RestoredState::default()
        };
        Self::of(memory, vec![DeliveredEvent { seq: 5, event }], notation)
    }

    fn of(memory: RestoredState, announced: Vec<DeliveredEvent>, notation: &str) -> Self {
        Self::with_bookmark(memory, announced, Bookmark::default(), notation)
    }

    fn with_bookmark(
        memory: RestoredState,
        announced: Vec<DeliveredEvent>,
        bookmark: Bookmark,
        notation: &str,
    ) -> Self {
        let now = Now {
            mono: Instant::now(),
            wall: 1_000_000,
        };
        let on_disk = StoreState {
            written: memory.last_seq,
            tried: memory.last_seq,
            is_full: false,
        };
        let setup = Setup {
            engine: Engine::new(Settings::LIVE, memory, now),
            session_name: "work".to_owned(),
            longest_pause: Duration::from_secs(60),
            bookmark,
            stop: StopPlan::default(),
            announced,
            store: on_disk,
        };
        let mut driver = Self {
            session: Session::new(setup, now),
            now,
            done: Vec::new(),
            job: None,
            disk_takes: true,
            connection: 1,
            asks: 0,
            followed: BTreeSet::new(),
            begun: Vec::new(),
            has_trigger: true,
            needs_nudge: false,
            nudges: 0,
            shown: String::new(),
            told: Vec::new(),
        };
        driver.input(Input::Due);
        driver.look(notation);
        driver.finish_chores();
        driver.take();
        driver
    }

    fn input(&mut self, input: Input) {
        let effects = self.session.handle(input, self.now);
        self.perform(effects);
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        let mut stored = None;
        for effect in effects {
            let said = match effect {
                Effect::Run(job) => {
                    assert!(self.job.is_none(), "one job at a time: {job:?}");
                    let said = describe(&job);
                    self.job = Some(job);
                    said
                }
                Effect::Follow(panes) => {
                    self.followed = panes;
                    continue;
                }
                Effect::EndRun(order) => {
                    let over = if order.is_over { " over" } else { "" };
                    let asked = if order.is_asked { " asked" } else { "" };
                    let (window, leader) = (order.window, order.leader);
                    let StopPlan { signal, grace, .. } = order.plan;
                    format!("end {window} {leader} {signal} {grace:?}{over}{asked}")
                }
                Effect::Questions(questions) => {
                    let windows: Vec<String> = questions.keys().map(WindowId::to_string).collect();
                    format!("questions {}", windows.join(" "))
                }
                Effect::Append { records, .. } => {
                    stored = records.last().map(|record| record.seq);
                    let kinds = records.iter().map(|record| match &record.body {
                        Body::Event(event) => {
                            self.told.push(describe_event(event));
                            "event"
                        }
                        Body::Notice { .. } => "notice",
                        Body::FollowUp { .. } => "followUp",
                    });
                    format!("append {}", kinds.collect::<Vec<_>>().join(" "))
                }
                Effect::Reply(RequestId(id), Reply::Answer(answer, _)) => {
                    if let Response::Waited(result) = answer.response {
                        format!("answer {id} {:?}", result.outcome)
                    } else if let Response::Refused(refusal) = answer.response {
                        format!("refuse {id}: {}", refusal.message)
                    } else if let Response::Matches(found) = answer.response {
                        let lines = found.matches.iter().map(|found| found.line.as_str());
                        format!("answer {id} {}", lines.collect::<Vec<_>>().join(" "))
                    } else {
                        format!("answer {id}")
                    }
                }
                Effect::Reply(RequestId(id), Reply::Begun) => format!("begun {id}"),
                Effect::Reply(RequestId(id), Reply::Output(Some(text))) => {
                    format!("output {id} {text}")
                }
                Effect::Reply(RequestId(id), Reply::Output(None)) => format!("end {id}"),
                Effect::Reply(RequestId(id), Reply::Cut) => format!("cut {id}"),
                Effect::FindUsualDuration(task) => {
                    self.begun.push((task.window, task.run));
                    continue;
                }
                Effect::Nudge(_) => {
                    self.nudges += 1;
                    continue;
                }
                Effect::Save(..) | Effect::Status(_) | Effect::Tasks(_) => continue,
                Effect::Log(level, text) => format!("log {level:?} {text}"),
                Effect::Leave => "leave".to_owned(),
            };
            self.done.push(said);
        }
        if let Some(seq) = stored.filter(|_| self.disk_takes) {
            self.store(seq);
        }
    }

    /// The disk has accepted the records up to this sequence number.
    fn store(&mut self, seq: u64) {
        self.input(Input::Stored(StoreState {
            written: seq,
            tried: seq,
            is_full: false,
        }));
    }

    /// The disk has refused so many records that no others should be made.
    fn refuse(&mut self) {
        self.input(Input::Stored(StoreState {
            is_full: true,
            ..StoreState::default()
        }));
    }

    /// The running job is done, and this sets its outcome.
    #[track_caller]
    fn done(&mut self, set: impl FnOnce(Job) -> bool) {
        let job = self.job.take().expect("a job runs");
        let said = describe(&job);
        assert!(set(job), "another job runs: {said}");
        self.input(Input::Done(Ok(())));
    }

    /// The running job has failed.
    #[track_caller]
    fn fail(&mut self, error: &str) {
        assert!(self.job.take().is_some(), "no job runs");
        self.input(Input::Done(Err(Error::failed(error))));
    }

    /// The running job is done. It has no result.
    #[track_caller]
    fn finish(&mut self) {
        self.done(|job| {
            let (Job::Archive(_, _, outcome)
            | Job::ForgetDeaths(_, outcome)
            | Job::ForgetEnvironments(_, _, outcome)
            | Job::Drain(outcome)
            | Job::MarkEndings(_, outcome)
            | Job::Prune(_, outcome)
            | Job::Cleanup(outcome)) = job
            else {
                return false;
            };
            outcome.resolve(());
            true
        });
    }

    /// The running look has this result.
    #[track_caller]
    fn look_finds(&mut self, found: LookOutcome) {
        self.done(|job| {
            let (Job::Look(_, outcome) | Job::Sweep(outcome)) = job else {
                return false;
            };
            outcome.resolve(found);
            true
        });
    }

    /// The running look was not needed.
    #[track_caller]
    fn not_needed(&mut self) {
        self.look_finds(LookOutcome::NotNeeded);
    }

    /// The running launch has this result.
    #[track_caller]
    fn launch_finds(&mut self, found: LaunchOutcome) {
        self.done(|job| {
            let Job::Launch(_, _, outcome) = job else {
                return false;
            };
            outcome.resolve(found);
            true
        });
    }

    /// The running restart has this result.
    #[track_caller]
    fn restarted(&mut self, end: Option<String>) {
        self.done(|job| {
            let Job::Restart(_, _, outcome) = job else {
                return false;
            };
            outcome.resolve(end);
            true
        });
    }

    /// The running job has found out who has a name.
    #[track_caller]
    fn name_is_found(&mut self, present: Option<&str>) {
        let present = present.map(str::to_owned);
        self.done(|job| {
            let Job::FindName(_, outcome) = job else {
                return false;
            };
            outcome.resolve(present);
            true
        });
    }

    /// What the running job types is typed; this is left.
    #[track_caller]
    fn typed(&mut self, left: Option<Typing>) {
        self.done(|job| {
            let Job::Type(mut typing, outcome) = job else {
                return false;
            };
            typing.progress.due = None;
            outcome.resolve(left.unwrap_or(typing));
            true
        });
    }

    /// The running job finds that no window is in another session.
    #[track_caller]
    fn no_window_is_shared(&mut self) {
        self.done(|job| {
            let (Job::FindShared(_, outcome) | Job::KillSession(_, outcome)) = job else {
                return false;
            };
            outcome.resolve(BTreeSet::new());
            true
        });
    }

    /// The running read is of a pane that is followed already: it comes with the output.
    #[track_caller]
    fn read_is_asked(&mut self) {
        self.done(|job| {
            let Job::Read { outcome, .. } = job else {
                return false;
            };
            outcome.resolve(None);
            true
        });
    }

    /// What was asked of a pane has come with its output.
    fn read_comes(&mut self, output: PaneOutput) {
        self.input(Input::Changed(Change::Read(Ok(Box::new(output)))));
    }

    /// The running job has started a run in this window.
    fn launched(&mut self, window: &str) {
        let run = LaunchedRun {
            window_id: window.to_owned(),
            pane_id: window.replace('@', "%"),
            run: 1,
            cursor: String::new(),
            replaced: None,
        };
        self.launch_finds(LaunchOutcome::Started(Box::new(run), Box::new(())));
    }

    /// Whether a look at windows or a slice of a sweep runs.
    fn is_looking(&self) -> bool {
        matches!(self.job, Some(Job::Look(..) | Job::Sweep(_)))
    }

    /// The running look fails.
    #[track_caller]
    fn look_fails(&mut self, error: &str) {
        assert!(self.is_looking(), "{:?}", self.job);
        self.fail(error);
    }

    /// The running look has these tasks.
    #[track_caller]
    fn look(&mut self, notation: &str) {
        self.look_at(true, notation);
    }

    /// The same for a look or a slice after which all windows have been looked at, or not.
    #[track_caller]
    fn look_at(&mut self, is_whole: bool, notation: &str) {
        assert!(self.is_looking(), "{:?}", self.job);
        notation.clone_into(&mut self.shown);
        let snapshot = snapshot(notation);
        let look = Look {
            at: self.now,
            is_whole,
            has_trigger: self.has_trigger,
            is_unsettled: false,
            needs_nudge: std::mem::take(&mut self.needs_nudge),
            death_record: String::new(),
            link: LinkState {
                life: snapshot.life.clone(),
                session_name: Some("work".to_owned()),
                is_connected: true,
                connection: self.connection,
                ..LinkState::default()
            },
            snapshot,
        };
        self.look_finds(LookOutcome::Looked(Box::new(look)));
    }

    /// The running read has these rows.
    #[track_caller]
    fn read(&mut self, rows: &[&str]) {
        let output = output(rows);
        self.done(|job| {
            if let Job::Read { outcome, .. } = job {
                outcome.resolve(Some(Box::new(output)));
                true
            } else if let Job::ReadEnd(_, _, outcome) = job {
                let lines = output.lines_from(0, 0);
                outcome.resolve(Box::new(PaneOutput { lines, ..output }));
                true
            } else {
                false
            }
        });
    }

    /// Finishes jobs that nothing waits for.
    fn finish_chores(&mut self) {
        while matches!(
            self.job,
            Some(
                Job::Archive(..)
                    | Job::ForgetDeaths(..)
                    | Job::ForgetEnvironments(..)
                    | Job::Drain(_)
            )
        ) {
            self.finish();
        }
    }

    fn print(&mut self, text: &str) {
        self.input(Input::Changed(Change::Printed {
            pane: PANE,
            bytes: text.as_bytes().to_vec(),
        }));
    }

    fn ask(&mut self, request: Request) -> RequestId {
        self.ask_session(None, request)
    }

    /// Requests something of the session with this name.
    fn ask_session(&mut self, to: Option<&str>, request: Request) -> RequestId {
        self.asks += 1;
        let request_id = RequestId(self.asks);
        let to = to.map(str::to_owned);
        self.input(Input::Requested(request_id, RequestLine { to, request }));
        request_id
    }

    /// Requests a wait on `@1`, for a text or, without one, for the end.
    fn wait(&mut self, text: Option<&str>) -> RequestId {
        let text = text.map(|text| Condition::Text(text.to_owned()));
        self.ask(Request::Wait(WaitRequest {
            task: "@1".to_owned(),
            conditions: text.into_iter().collect(),
            ..WaitRequest::default()
        }))
    }

    /// Begins a wait for a text on a running `@1` with these rows.
    fn begin(&mut self, text: &str, rows: &[&str]) -> RequestId {
        let request_id = self.wait(Some(text));
        self.look("life 1; @1#1 a running pid=7");
        self.read(rows);
        self.finish_chores();
        self.take();
        request_id
    }

    /// Advances the time; looks show no changes.
    fn after(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
        self.input(Input::Due);
        while self.is_looking() {
            let shown = self.shown.clone();
            self.look(&shown);
        }
        self.done
            .retain(|done| !done.starts_with("look") && done != "sweep");
    }

    /// Returns the effects since the last query.
    fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.done)
    }

    #[track_caller]
    fn did(&mut self, expected: &[&str]) {
        assert_eq!(self.take(), expected);
    }
}

fn describe(job: &Job) -> String {
    match job {
        Job::Look(order, _) => {
            let mut said = "look".to_owned();
            if order.is_barrier {
                said.push_str(" barrier");
            }
            if !order.windows.is_empty() {
                said.push_str(&format!(" {}", list(&order.windows)));
            }
            said
        }
        Job::Sweep(_) => "sweep".to_owned(),
        Job::Read {
            pane,
            extent,
            last_of,
            ..
        } => {
            let rows = match extent.rows == Extent::ALL.rows {
                true => "All",
                false => "LastRow",
            };
            match last_of {
                Some(_) => format!("read last of {pane} {rows}"),
                None => format!("read {pane} {rows}"),
            }
        }
        Job::ReadEnd(pane, ..) => format!("read end of {pane}"),
        Job::Drain(_) => "drain".to_owned(),
        Job::Launch(request, ended, _) if ended.is_empty() => format!("launch {}", request.name),
        Job::Launch(request, ended, _) => format!("launch {} over {ended:?}", request.name),
        Job::MarkEndings(marks, _) => {
            let marks = marks.iter();
            let marks =
                marks.filter_map(|(task, reason)| Some((task.window, task.pid?, (*reason)?)));
            format!("mark {:?}", marks.collect::<Vec<_>>())
        }
        Job::FindShared(windows, _) => format!("find shared {windows:?}"),
        Job::Kill(windows, _) => format!("kill {windows:?}"),
        Job::Archive(task, ..) => format!("archive {}", task.window),
        Job::Type(typing, _) => format!("type {}", typing.task.window),
        Job::Restart(task, number, _) => format!("restart {} {number}", task.window),
        Job::ReadRecord(window, _) => format!("read record of {window}"),
        Job::ReadLog(task, ..) => format!("read log of {}", task.window),
        Job::FindPorts(queries, _) => format!("ports {queries:?}"),
        Job::FindName(name, _) => format!("find name {name}"),
        Job::KillSession(..)
        | Job::Prune(..)
        | Job::Cleanup(_)
        | Job::ForgetDeaths(..)
        | Job::ForgetEnvironments(..) => format!("{job:?}"),
    }
}

fn list<T: ToString>(items: &BTreeSet<T>) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join(" ")
}

/// A pane of five rows, with the others as history.
fn output(rows: &[&str]) -> PaneOutput {
    let height = 5;
    let mut rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
    let y = rows.len().clamp(1, height) - 1;
    while rows.len() < height {
        rows.push(String::new());
    }
    let x = rows[rows.len() - height + y].len();
    PaneOutput {
        history: rows.len() - height,
        rows,
        limit: 2000,
        width: 80,
        height,
        cursor: (x, y),
        pid: Some(7),
        ..PaneOutput::default()
    }
}
