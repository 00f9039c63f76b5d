mod endings;
mod looks;
mod output;
mod output_watches;
mod port_looks;
mod requests;
mod restarts;

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::model::test_notation::{
    at, describe as describe_event, expectation, send_request, snapshot, stories,
};
use crate::model::{
    Body, Bookmark, Condition, DeliveredEvent, EndReport, Error, Event, EventKind, GoneReason,
    Launch, LeftProcess, Now, PaneId, StopChoice, StopPlan, Task, WindowId,
};
use crate::rules::engine::{Engine, RestoredState, Settings};
use crate::rules::terminal::{Extent, PaneOutput};
use crate::rules::wire::{
    Caller, LaunchedRun, Request, RequestLine, Response, SearchRequest, TaskLog, TypedInput,
    WaitRequest,
};

const PANE: PaneId = PaneId(1);

const RUNS: &str = "life 1; @1#1 a running pid=7";

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
        let (memory, bookmark) = (RestoredState::default(), Bookmark::default());
        Self::with_bookmark(memory, Vec::new(), bookmark, notation)
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
        let announced = vec![DeliveredEvent { seq: 5, event }];
        Self::with_bookmark(memory, announced, Bookmark::default(), notation)
    }

    fn with_bookmark(
        memory: RestoredState,
        announced: Vec<DeliveredEvent>,
        bookmark: Bookmark,
        notation: &str,
    ) -> Self {
        let now = at(1_000_000);
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

    /// The running job is done, with this outcome.
    #[track_caller]
    fn finish(&mut self, outcome: &str) {
        let job = self.job.take().expect("a job runs");
        let (words, rest) = outcome.split_once(": ").unwrap_or((outcome, ""));
        match (words.split(' ').collect::<Vec<_>>()[..].as_ref(), job) {
            (
                ["done"],
                Job::Archive(_, _, outcome)
                | Job::ForgetDeaths(_, outcome)
                | Job::ForgetEnvironments(_, _, outcome)
                | Job::Drain(outcome)
                | Job::MarkEndings(_, outcome)
                | Job::Prune(_, outcome)
                | Job::Cleanup(outcome),
            ) => outcome.resolve(()),
            (["not", "needed"], Job::Look(_, outcome) | Job::Sweep(outcome)) => {
                outcome.resolve(LookOutcome::NotNeeded);
            }
            (["nothing", "new"], Job::Look(_, outcome) | Job::Sweep(outcome)) => {
                outcome.resolve(LookOutcome::NothingNew);
            }
            (["launched", window], Job::Launch(_, _, outcome)) => {
                let run = LaunchedRun {
                    window_id: (*window).to_owned(),
                    pane_id: window.replace('@', "%"),
                    run: 1,
                    cursor: String::new(),
                    replaced: None,
                };
                outcome.resolve(LaunchOutcome::Started(Box::new(run), Box::new(())));
            }
            (["live", pid], Job::Launch(_, _, outcome)) => {
                outcome.resolve(LaunchOutcome::Live(WindowId(1), pid.parse().unwrap()));
            }
            (["restarted"], Job::Restart(_, _, outcome)) => outcome.resolve(None),
            (["impossible"], Job::Restart(_, _, outcome)) => {
                outcome.resolve(Some(rest.to_owned()));
            }
            (["named", name], Job::FindName(_, outcome)) => {
                outcome.resolve(Some((*name).to_owned()));
            }
            (["typed"], Job::Type(mut typing, outcome)) => {
                typing.progress.due = None;
                outcome.resolve(typing);
            }
            (["not", "shared"], Job::FindShared(_, outcome) | Job::KillSession(_, outcome)) => {
                outcome.resolve(BTreeSet::new());
            }
            // The pane is followed already: what is read comes with the output.
            (["asked"], Job::Read { outcome, .. }) => outcome.resolve(None),
            (["closed"], Job::Kill(windows, outcome)) => {
                let windows = windows.into_iter().map(|(window, _)| window);
                outcome.resolve((windows.collect(), None));
            }
            (["found"], Job::ReadLog(_, _, outcome)) => outcome.resolve(TaskLog {
                lines: vec![rest.to_owned()],
                ..TaskLog::default()
            }),
            (["ports", ports @ ..], Job::FindPorts(_, outcome)) => {
                let ports = ports.iter().map(|port| port.parse().unwrap());
                outcome.resolve([(7, ports.collect())].into());
            }
            (_, job) => panic!("not the outcome of {}", describe(&job)),
        }
        self.input(Input::Done(Ok(())));
    }

    /// The running job has failed.
    #[track_caller]
    fn fail(&mut self, error: &str) {
        assert!(self.job.take().is_some(), "no job runs");
        self.input(Input::Done(Err(Error::failed(error))));
    }

    /// Plays a text: lines such as `step => effect; effect`, of which `RUNS` is short for one running task.
    ///
    /// All effects since the last line with `=>` have to be named; `.. effect` is one of several, `not
    /// effect` is none that begins so. `told` are the events recorded since the last time, `followed`
    /// the panes that the link was asked to follow, `ending` why `@1` is being ended, or `no`,
    /// `alive` whether its run is shown as alive.
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
            assert!(
                !line.ends_with("=>"),
                "what is expected, or `nothing`: {line}"
            );
            let step = step.replace("RUNS", RUNS);
            let done = match step.as_str() {
                "told" => std::mem::take(&mut self.told),
                "followed" => self.followed.iter().map(PaneId::to_string).collect(),
                "ending" => {
                    let state = self.session.state();
                    let reason = state.task(WindowId(1)).and_then(|task| task.ending);
                    let reason = reason.and_then(GoneReason::word).unwrap_or("yes");
                    let is_ending = state.endings.contain(WindowId(1));
                    vec![if is_ending { reason } else { "no" }.to_owned()]
                }
                "skipped" => vec![self.session.state().counters.skipped_looks.to_string()],
                "waits" => vec![self.session.state().n_waits().to_string()],
                "deadline" => {
                    let deadline = self.session.next_deadline();
                    vec![deadline.map_or("none", |_| "some").to_owned()]
                }
                "problem" => self.session.state().look_problem.iter().cloned().collect(),
                "alive" => {
                    let task = self.session.state().task(WindowId(1)).unwrap();
                    vec![task.is_alive().to_string()]
                }
                step => {
                    self.step(step);
                    if expected.is_empty() {
                        continue;
                    }
                    self.take()
                }
            };
            let is_exact = expected.iter().all(|expected| {
                if let Some(beginning) = expected.strip_prefix("not ") {
                    let mut done = done.iter();
                    let found = done.find(|done| done.starts_with(beginning));
                    assert_eq!(found, None, "{heading}: {line}");
                    false
                } else if let Some(one) = expected.strip_prefix(".. ") {
                    assert!(done.iter().any(|d| d == one), "{heading}: {line}: {done:?}");
                    false
                } else {
                    true
                }
            });
            if is_exact {
                let nothing = expected == ["nothing"];
                let expected = if nothing { &[][..] } else { &expected };
                assert_eq!(done, expected, "{heading}: {line}");
            }
        }
    }

    /// What the steps are is seen here: reports of tmux, outcomes of jobs, requests, and time.
    #[track_caller]
    fn step(&mut self, step: &str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let pipes = || rest.split('|').collect::<Vec<_>>();
        match word {
            // Reports.
            "windows" => self.input(Input::Changed(Change::Windows)),
            "output" => self.input(Input::Changed(Change::Output)),
            "paused" => self.input(Input::Changed(Change::Paused(PANE))),
            "follows" => drop(self.followed.insert(PANE)),
            "reconnected" => self.connection += 1,
            "lost" => self.input(Input::Changed(Change::FollowerLost)),
            "print" => self.print(&rest.replace("\\r", "\r").replace("\\n", "\n")),
            "comes" => {
                let output = Box::new(output(&pipes()));
                self.input(Input::Changed(Change::Read(Ok(output))));
            }
            "ended" => {
                let (window, left) = rest.split_once(' ').unwrap_or((rest, ""));
                let left = (!left.is_empty()).then(|| LeftProcess {
                    pid: 9,
                    name: left.to_owned(),
                    is_anothers: true,
                });
                let left = left.into_iter().collect();
                let report = EndReport::Ended(window.parse().unwrap(), left);
                self.input(Input::Ending(report));
            }
            // The disk.
            "refuses" => self.disk_takes = false,
            "takes" => self.disk_takes = true,
            "stored" => self.store(rest.parse().unwrap()),
            "full" => self.input(Input::Stored(StoreState {
                is_full: true,
                ..StoreState::default()
            })),
            // Jobs.
            "look" => self.look(rest),
            // A look that reports the windows and what they show.
            "shows" => {
                self.step("windows");
                self.look(rest);
            }
            "slice" => self.look_at(false, rest),
            "looks" => {
                while self.is_looking() {
                    self.look(rest);
                }
            }
            "fails" => self.fail(rest),
            "read" => self.read(&pipes()),
            "job" => self.finish(rest),
            "chores" => self.finish_chores(),
            // A kill has begun; the windows of what has ended are closed.
            "killing" => {
                self.step(&format!("kill {rest}"));
                self.look(RUNS);
                self.finish("done");
                self.take();
            }
            "closing" => {
                self.finish_chores();
                self.finish("closed");
                self.look("life 1");
            }
            // Requests.
            "leave" => self.input(Input::Left(RequestId(rest.parse().unwrap()))),
            // A wait for a text has begun, after these rows.
            "begin" => {
                let (text, rows) = rest.split_once(" after ").unwrap_or((rest, ""));
                self.begin(text, &rows.split('|').collect::<Vec<_>>());
            }
            "to" => {
                let (session, asked) = rest.split_once(": ").unwrap();
                self.ask_session(Some(session), request(asked).unwrap());
            }
            // Time.
            "after" => self.after(rest.parse().unwrap()),
            "now" => {
                let pause = Duration::from_millis(rest.parse().unwrap());
                self.now = self.now.after(pause);
                self.input(Input::Due);
            }
            "ignore" => drop(self.take()),
            _ => match request(step) {
                Some(asked) => drop(self.ask(asked)),
                None => panic!("no such step: {step}"),
            },
        }
    }

    /// Whether a look at windows or a slice of a sweep runs.
    fn is_looking(&self) -> bool {
        matches!(self.job, Some(Job::Look(..) | Job::Sweep(_)))
    }

    /// The running look has these tasks.
    #[track_caller]
    fn look(&mut self, notation: &str) {
        self.look_at(true, notation);
    }

    /// The same for a look or a slice after which all windows have been looked at, or not.
    #[track_caller]
    fn look_at(&mut self, is_whole: bool, notation: &str) {
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
        match self.job.take() {
            Some(Job::Look(_, outcome) | Job::Sweep(outcome)) => {
                outcome.resolve(LookOutcome::Looked(Box::new(look)));
            }
            job => panic!("no look runs: {job:?}"),
        }
        self.input(Input::Done(Ok(())));
    }

    /// The running read has these rows.
    #[track_caller]
    fn read(&mut self, rows: &[&str]) {
        let output = output(rows);
        match self.job.take() {
            Some(Job::Read { outcome, .. }) => outcome.resolve(Some(Box::new(output))),
            Some(Job::ReadEnd(_, _, outcome)) => {
                let lines = output.lines_from(0, 0);
                outcome.resolve(Box::new(PaneOutput { lines, ..output }));
            }
            job => panic!("no read runs: {job:?}"),
        }
        self.input(Input::Done(Ok(())));
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
            self.finish("done");
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

    /// Begins a wait for a text on a running `@1` with these rows.
    fn begin(&mut self, text: &str, rows: &[&str]) -> RequestId {
        let request_id = self.ask(request(&format!("wait @1 for {text}")).unwrap());
        self.look(RUNS);
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
}

/// Plays stories, each with a session of its own, which begins after a look that its first line shows.
#[track_caller]
fn check(text: &str) {
    for (heading, lines) in stories(text) {
        let mut driver = Driver::new(&lines[0].replace("RUNS", RUNS));
        driver.play_lines(heading, &lines[1..]);
    }
}

/// Reads a request.
///
/// ```text
/// kill a b                by a user; `kill a by pi:1`: by that agent; `.. at once`: without grace
/// kill all                the session, asked for on another machine
/// run a                   `run a and wait`: as a command that goes on to wait
/// wait @1                 for the end; `.. for TEXT`, `.. for change`, `.. for any port`, `.. for port 80`
/// wait @1#2               for the end of that run
/// list, count, follow @1, send a, search e, search e in a
/// ```
fn request(text: &str) -> Option<Request> {
    let owned = |text: &str| text.to_owned();
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    Some(match word {
        "list" => Request::List,
        "count" => Request::Count,
        "kill" if rest == "all" => Request::KillAll {
            caller: Caller {
                asked_by: Some(owned("laptop")),
                ..Caller::default()
            },
            choice: StopChoice::default(),
        },
        "kill" => {
            let (rest, grace) = match rest.strip_suffix(" at once") {
                Some(rest) => (rest, Some(Duration::ZERO)),
                None => (rest, None),
            };
            let (names, agent) = rest.split_once(" by ").unwrap_or((rest, ""));
            let agent = (!agent.is_empty()).then_some(agent);
            Request::Kill {
                tasks: names.split(' ').map(str::to_owned).collect(),
                caller: Caller {
                    owner: agent.map(str::to_owned),
                    is_agent: agent.is_some(),
                    asked_by: agent.map(|agent| format!("{agent}@laptop")),
                },
                is_repeated: false,
                choice: StopChoice {
                    grace,
                    ..StopChoice::default()
                },
            }
        }
        "run" => {
            let (name, more) = rest.split_once(' ').unwrap_or((rest, ""));
            let started = more.strip_prefix("at ").and_then(|at| at.parse().ok());
            Request::Run(Box::new(Launch {
                name: owned(name),
                will_wait: more == "and wait",
                started: started.unwrap_or_default(),
                ..Launch::default()
            }))
        }
        "wait" => {
            let (task, condition) = rest.split_once(" for ").unwrap_or((rest, ""));
            let (task, run) = task.split_once('#').unwrap_or((task, ""));
            let condition = match condition {
                "" => None,
                "change" => Some(Condition::Change),
                "any port" => Some(Condition::Listen { port: None }),
                text => Some(match text.strip_prefix("port ") {
                    Some(port) => Condition::Listen {
                        port: port.parse().ok(),
                    },
                    None => Condition::Text(owned(text)),
                }),
            };
            Request::Wait(WaitRequest {
                task: owned(task),
                run: run.parse().ok(),
                conditions: condition.into_iter().collect(),
                ..WaitRequest::default()
            })
        }
        "send" => Request::Send(send_request(rest, TypedInput::Text(owned("x")))),
        "follow" => Request::Follow {
            window: owned(rest),
            raw: false,
            lines: 0,
        },
        "search" => {
            let (pattern, task) = rest.split_once(" in ").unwrap_or((rest, ""));
            Request::Search(SearchRequest {
                task: (!task.is_empty()).then(|| owned(task)),
                pattern: owned(pattern),
                regex: false,
                ignore_case: false,
            })
        }
        _ => return None,
    })
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
        Job::Kill(windows, _) => {
            let windows: Vec<WindowId> = windows.iter().map(|(window, _)| *window).collect();
            format!("kill {windows:?}")
        }
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
