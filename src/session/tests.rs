use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use super::*;
use crate::engine::{Engine, Memory, Settings};
use crate::model::test_notation::snapshot;
use crate::model::{Body, DeliveredEvent, Event, EventKind, Now, PaneId, Task, WindowId};
use crate::terminal::PaneOutput;
use crate::wire::{
    ConditionFields, Request, Response, RunRequest, SearchMatch, SearchRequest, SendRequest,
    TypedInput, WaitRequest, Whereabouts,
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
    /// The last look.
    shown: String,
}

impl Driver {
    /// Returns a session after one look with these tasks.
    fn new(notation: &str) -> Self {
        Self::of(Memory::default(), Vec::new(), notation)
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
        let memory = Memory {
            before: Some(before),
            last_seq: 7,
            ..Memory::default()
        };
        Self::of(memory, vec![DeliveredEvent { seq: 5, event }], notation)
    }

    fn of(memory: Memory, announced: Vec<DeliveredEvent>, notation: &str) -> Self {
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
            bookmark: crate::model::Bookmark::default(),
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
            shown: String::new(),
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
                Effect::Waiting(windows) => format!("waiting {}", list(&windows)),
                Effect::Append { records, .. } => {
                    stored = records.last().map(|record| record.seq);
                    let kinds = records.iter().map(|record| match &record.body {
                        Body::Event(_) => "event",
                        Body::Notice { .. } => "notice",
                        Body::FollowUp { .. } => "followUp",
                    });
                    format!("append {}", kinds.collect::<Vec<_>>().join(" "))
                }
                Effect::Answer(ask, Response::Waited(result)) => {
                    format!("answer {} {:?}", ask.0, result.outcome)
                }
                Effect::Answer(ask, Response::Refused(refusal)) => {
                    format!("refuse {}: {}", ask.0, refusal.message)
                }
                Effect::Answer(ask, Response::Matches { matches }) => {
                    let lines = matches.iter().map(|found| found.line.as_str());
                    format!("answer {} {}", ask.0, lines.collect::<Vec<_>>().join(" "))
                }
                Effect::Answer(ask, Response::Elsewhere { asked }) => {
                    format!("answer {} elsewhere: {asked}", ask.0)
                }
                Effect::Answer(ask, _) => format!("answer {}", ask.0),
                Effect::Begun(ask) => format!("begun {}", ask.0),
                Effect::Following(ask) => format!("following {}", ask.0),
                Effect::Output(ask, text) => format!("output {} {text}", ask.0),
                Effect::OutputEnd(ask) => format!("end {}", ask.0),
                Effect::OutputCut(ask) => format!("cut {}", ask.0),
                Effect::FindUsualDuration(task) => {
                    self.begun.push((task.window, task.run));
                    continue;
                }
                Effect::Save(..) | Effect::Status(_) | Effect::Tasks(_) | Effect::Nudge(_) => {
                    continue;
                }
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

    /// The running job has this result.
    fn outcome(&mut self, outcome: Outcome) {
        assert!(self.job.take().is_some(), "no job runs");
        self.input(Input::Done(Ok(outcome)));
    }

    /// The running look has these tasks.
    #[track_caller]
    fn look(&mut self, notation: &str) {
        self.look_at(Coverage::Whole, notation);
    }

    /// The same for a look at some of the windows.
    #[track_caller]
    fn look_at(&mut self, coverage: Coverage, notation: &str) {
        assert!(matches!(self.job, Some(Job::Look(_))), "{:?}", self.job);
        notation.clone_into(&mut self.shown);
        let snapshot = snapshot(notation);
        let look = Look {
            at: self.now,
            coverage,
            was_called_for: true,
            is_any_doubtful: false,
            is_unsettled: false,
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
        self.outcome(Outcome::Looked(Some(Box::new(look))));
    }

    /// The running read has these rows.
    #[track_caller]
    fn read(&mut self, rows: &[&str]) {
        let output = output(rows);
        match self.job.as_mut() {
            Some(Job::Read { entries, .. }) => {
                let mut entries = std::mem::take(entries);
                judge_entries(&mut entries, &output);
                self.outcome(Outcome::Read(Box::new(output), entries));
            }
            Some(Job::ReadEnd(..)) => self.outcome(Outcome::End(Box::new(output))),
            job => panic!("no reading runs: {job:?}"),
        }
    }

    /// Finishes jobs that nothing waits for.
    fn finish_chores(&mut self) {
        while matches!(
            self.job,
            Some(Job::Archive(_) | Job::ForgetDeaths(_) | Job::ForgetEnvironments(..) | Job::Drain)
        ) {
            self.outcome(Outcome::Finished);
        }
    }

    fn print(&mut self, text: &str) {
        self.input(Input::Changed(Change::Printed {
            pane: PANE,
            bytes: text.as_bytes().to_vec(),
        }));
    }

    fn ask(&mut self, request: Request) -> AskId {
        self.asks += 1;
        let ask = AskId(self.asks);
        self.input(Input::Asked(ask, request));
        ask
    }

    /// Requests a wait on `@1`, for a text or, without one, for the end.
    fn wait(&mut self, text: Option<&str>) -> AskId {
        let text = text.map(|text| ConditionFields::Text(text.to_owned()));
        self.ask(Request::Wait(WaitRequest {
            window: "@1".to_owned(),
            conditions: text.into_iter().collect(),
            ..WaitRequest::default()
        }))
    }

    /// Begins a wait for a text on a running `@1` with these rows.
    fn begin(&mut self, text: &str, rows: &[&str]) -> AskId {
        let ask = self.wait(Some(text));
        self.look("life 1; @1#1 a running pid=7");
        self.read(rows);
        self.finish_chores();
        self.take();
        ask
    }

    /// Advances the time; looks show no changes.
    fn after(&mut self, ms: u64) {
        self.now = self.now.after(Duration::from_millis(ms));
        self.input(Input::Due);
        while matches!(self.job, Some(Job::Look(_))) {
            let shown = self.shown.clone();
            self.look(&shown);
        }
        self.done.retain(|done| !done.starts_with("look"));
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
        Job::Look(order) => {
            let new = if order.is_new_sweep { "new " } else { "" };
            let mut said = format!("look {new}{:?}", order.scope);
            if order.is_barrier {
                said.push_str(" barrier");
            }
            if !order.windows.is_empty() {
                said.push_str(&format!(" {}", list(&order.windows)));
            }
            said
        }
        Job::Read {
            pane,
            history,
            entries,
            last_of,
            ..
        } => match last_of {
            Some(_) => format!("read last of {pane} {history:?}"),
            None => format!("read {pane} {history:?} for {}", entries.len()),
        },
        Job::ReadEnd(pane, _) => format!("read end of {pane}"),
        Job::Drain => "drain".to_owned(),
        Job::Launch(request) => format!("launch {}", request.name),
        Job::Kill(windows) => format!("kill {windows:?}"),
        Job::Archive(task) => format!("archive {}", task.window),
        Job::Type(task, ..) => format!("type {}", task.window),
        Job::Restart(due) => format!("restart {} {}", due.task.window, due.number),
        Job::ReadRecord(task) => format!("read record of {}", task.window),
        Job::ReadLog(task, _) => format!("read log of {}", task.window),
        Job::Search(task, _) => format!("search {}", task.window),
        Job::KillSession
        | Job::Prune(_)
        | Job::Cleanup
        | Job::Whereabouts
        | Job::ForgetDeaths(_)
        | Job::ForgetEnvironments(..)
        | Job::ScanOthers => format!("{job:?}"),
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
        is_alternate: false,
        is_dead: false,
        pid: Some(7),
    }
}

#[test]
fn output_counts_before_the_end_of_its_run() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &[""]);
    driver.input(Input::Changed(Change::Task));
    driver.did(&["look Reported"]);
    // The look shows the end; the last output of the run has not arrived yet.
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "read last of %1 LastRow"]);
    driver.print("all done\r\n");
    driver.did(&[]);
    driver.read(&["all done"]);
    // The wait was answered by the text, and the output for its answer is read before archiving.
    driver.did(&["read end of %1"]);
    driver.read(&["all done"]);
    driver.did(&["answer 1 Matched", "archive @1"]);
    assert!(driver.followed.is_empty());
}

#[test]
fn what_tmux_threw_away_at_the_end_is_read() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["begin"]);
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    // The pane contains more than has arrived: only then the whole history is read.
    driver.read(&["begin", "all done"]);
    driver.did(&["read last of %1 Whole"]);
    driver.read(&["begin", "all done"]);
    driver.read(&["begin", "all done"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Matched".to_owned()), "{did:?}");
}

#[test]
fn a_run_that_ends_without_the_text_is_an_outcome_of_its_own() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["begin"]);
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 3 pid=7");
    driver.read(&["begin"]);
    driver.take();
    driver.read(&["begin"]);
    driver.did(&["answer 1 Died", "archive @1"]);
}

#[test]
fn a_pane_that_was_paused_is_read_from_where_it_was() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.print("\r\ntwo");
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.did(&["look Reported @1"]);
    // Output that arrives while it is paused has a gap before it.
    driver.print("done");
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["read %1 Whole for 0"]);
    driver.read(&["one", "two", "three", "done"]);
    driver.did(&["read end of %1"]);
    driver.read(&["one", "two", "three", "done"]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Matched".to_owned()), "{did:?}");
}

#[test]
fn a_pane_whose_place_is_not_found_again_has_lost_output() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&["something", "else", "stands", "here"]);
    driver.read(&[""]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 AnchorLost".to_owned()), "{did:?}");
}

#[test]
fn a_pane_that_was_respawned_before_it_was_read_is_looked_at_again() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=6");
    driver.take();
    driver.read(&["one"]);
    driver.did(&["look Sure @1"]);
}

#[test]
fn another_connection_may_have_lost_output() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.begin("done", &[""]);
    driver.connection = 2;
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&[""]);
    let did = driver.take();
    assert!(did.contains(&"answer 1 AnchorLost".to_owned()), "{did:?}");
}

#[test]
fn a_look_that_is_out_says_nothing_to_a_wait_that_begins_meanwhile() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.did(&["look Reported"]);
    driver.wait(None);
    driver.did(&[]);
    // For the previous run: it was requested before the wait.
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "look Reported @1"]);
    driver.look("life 1; @1#2 a running pid=8");
    let did = driver.take();
    assert!(did.contains(&"begun 1".to_owned()), "{did:?}");
    assert!(!did.iter().any(|did| did.starts_with("answer")), "{did:?}");
}

#[test]
fn waits_that_begin_at_once_share_one_look_and_one_reading() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    for n in 0..40 {
        driver.wait(Some(&format!("text {n}")));
    }
    // The first look is running when the others arrive.
    driver.did(&["look Reported @1"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["look Reported @1", "read %1 Whole for 40"]);
    driver.read(&["text 3"]);
    let did = driver.take();
    let begun = did.iter().filter(|did| did.starts_with("begun")).count();
    assert_eq!((begun, did.len()), (40, 40), "{did:?}");
    assert_eq!(driver.session.n_waits(), 40);
    driver.print("text 30\r\n");
    // The texts 3 and 30.
    driver.did(&["read end of %1"]);
    driver.read(&[""]);
    driver.did(&["answer 4 Matched", "answer 31 Matched"]);
}

#[test]
fn a_wait_that_needs_no_history_reads_none() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::Wait(WaitRequest {
        window: "@1".to_owned(),
        conditions: vec![ConditionFields::Change],
        ..WaitRequest::default()
    }));
    driver.take();
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["read %1 LastRow for 1"]);
    assert_eq!(driver.followed, BTreeSet::from([PANE]));
}

#[test]
fn whoever_leaves_takes_everything_along() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    // While the pane is being read.
    let ask = driver.wait(Some("text"));
    driver.look("life 1; @1#1 a running pid=7");
    driver.take();
    driver.input(Input::Left(ask));
    driver.read(&[""]);
    driver.did(&[]);
    assert!(driver.followed.is_empty());
    // While it waits.
    let ask = driver.begin("text", &[""]);
    driver.input(Input::Left(ask));
    assert!(driver.followed.is_empty());
    driver.print("text");
    driver.did(&[]);
    // While the output for its answer is being read.
    let ask = driver.begin("text", &[""]);
    driver.print("text");
    driver.input(Input::Left(ask));
    driver.read(&["text"]);
    let did = driver.take();
    assert!(!did.iter().any(|did| did.starts_with("answer")), "{did:?}");
    assert_eq!(driver.session.n_waits(), 0);
}

#[test]
fn an_answer_waits_for_the_disk_and_a_delivery_for_the_answer() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.wait(None);
    driver.look("life 1; @1#1 a running pid=7");
    driver.disk_takes = false;
    driver.input(Input::Changed(Change::Task));
    driver.take();
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["append event", "read end of %1"]);
    driver.read(&[""]);
    driver.did(&["archive @1"]);
    driver.outcome(Outcome::Finished);
    driver.after(120);
    driver.did(&[]);
    driver.disk_takes = true;
    driver.store(1);
    // The waiting client has the event: the delivery is a notice.
    driver.did(&["answer 1 Exited", "append notice"]);
}

#[test]
fn a_launch_that_goes_on_to_wait_holds_the_delivery() {
    let mut driver = Driver::new("life 1; @1#1 a dead 0 pid=7");
    driver.ask(Request::Run(RunRequest {
        name: "a".to_owned(),
        token: "t".to_owned(),
        words: Vec::new(),
        command: "true".to_owned(),
        record: None,
        cwd: "/".to_owned(),
        owner: None,
        started: 0,
        if_absent: false,
        restarts: None,
        will_wait: true,
    }));
    driver.did(&["look Reported barrier @1"]);
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["launch a"]);
    // The run has begun and ended between two looks.
    driver.outcome(Outcome::Answered(
        Box::new(Response::Done),
        Some("@1".parse().unwrap()),
    ));
    driver.did(&["look Reported @1"]);
    driver.look("life 1; @1#2 a dead 1 pid=8");
    driver.finish_chores();
    driver.after(100);
    driver.did(&["append event", "archive @1", "answer 1"]);
    driver.wait(None);
    driver.look("life 1; @1#2 a dead 1 pid=8");
    driver.read(&[""]);
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"answer 2 Exited".to_owned()), "{did:?}");
    assert!(did.contains(&"append notice".to_owned()), "{did:?}");
}

#[test]
fn a_wait_for_a_run_whose_window_is_closed_knows_its_end() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=9");
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; ended @1#1 a dead 3 pid=7; @2#1 b running pid=9");
    driver.take();
    let wait = |run| {
        Request::Wait(WaitRequest {
            window: "@1".to_owned(),
            run: Some(run),
            ..WaitRequest::default()
        })
    };
    driver.ask(wait(1));
    driver.look("life 1; @2#1 b running pid=9");
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"answer 1 Exited".to_owned()), "{did:?}");
    driver.ask(wait(2));
    driver.look("life 1; @2#1 b running pid=9");
    driver.did(&[
        "look Reported @1",
        "refuse 2: run 2 of @1 is over and its window is closed",
    ]);
}

#[test]
fn changes_during_a_look_call_for_another_one() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Windows));
    driver.input(Input::Changed(Change::Windows));
    driver.input(Input::Changed(Change::Windows));
    driver.did(&["look Reported"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["look Reported"]);
    // All of them were in the previous one.
    driver.outcome(Outcome::Looked(None));
    driver.did(&[]);
    assert_eq!(driver.session.counts().skipped_looks, 1);
}

#[test]
fn while_too_much_waits_for_the_disk_only_requests_take_looks() {
    let shown = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(shown);
    driver.refuse();
    driver.input(Input::Changed(Change::Task));
    driver.after(60_000);
    assert_eq!(driver.session.next_deadline(), None);
    driver.did(&[]);
    driver.ask(Request::List);
    driver.did(&["look Whole"]);
    driver.look(shown);
    driver.did(&["answer 1"]);
    driver.input(Input::Changed(Change::Windows));
    driver.did(&[]);
    driver.store(0);
    driver.did(&["look Reported"]);
}

#[test]
fn a_list_asks_for_what_is_reported_when_there_are_many_windows() {
    let many: Vec<String> = (1..50)
        .map(|n| format!("@{n}#1 a running pid={n}"))
        .collect();
    let many = format!("life 1; {}; @60#1 b dead 0", many.join("; "));
    let mut driver = Driver::new(&many);
    driver.ask(Request::List);
    driver.did(&["look Reported barrier @60"]);
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::List);
    driver.did(&["look Whole"]);
}

#[test]
fn a_look_that_fails_answers_with_what_is_known() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::List);
    driver.job = None;
    driver.input(Input::Done(Err("tmux hangs".to_owned())));
    let did = driver.take();
    assert!(did.contains(&"answer 1".to_owned()), "{did:?}");
    assert_eq!(
        driver.session.problem(),
        Some("tasks cannot be looked at: tmux hangs")
    );
}

#[test]
fn an_answer_without_records_is_sent_at_once() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::Look {
        launching: Some("b".to_owned()),
        will_wait: false,
        owner: None,
    });
    driver.did(&["look Whole"]);
    driver.look("life 1; @1#1 a running pid=7");
    driver.did(&["answer 1"]);
}

#[test]
fn output_is_archived_before_a_command_changes_its_window() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Task));
    driver.ask(Request::Kill {
        tasks: vec!["a".to_owned()],
        owner: None,
        by_agent: false,
    });
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.did(&["archive @1"]);
    driver.outcome(Outcome::Finished);
    driver.did(&["kill [WindowId(1)]"]);
}

#[test]
fn stopping_delivers_and_saves_while_a_job_is_out() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    assert!(matches!(driver.job, Some(Job::Archive(_))));
    driver.take();
    let effects = driver.session.deliver_all(driver.now);
    assert!(
        matches!(effects[..], [Effect::Append { .. }]),
        "{effects:?}"
    );
    let effects = driver.session.save_all();
    assert!(matches!(effects[..], [Effect::Save(..)]), "{effects:?}");
}

#[test]
fn a_reader_sees_all_output_and_then_the_end() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    driver.ask(Request::Follow {
        window: "@1".to_owned(),
        raw: false,
    });
    driver.look("life 1; @1#1 a running pid=7");
    driver.read(&["old"]);
    let did = driver.take();
    assert_eq!(did.last().map(String::as_str), Some("following 1"));
    driver.print("\r\nnew\r\nlast");
    driver.did(&["output 1 new"]);
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 0 pid=7");
    driver.take();
    driver.read(&["old", "new", "last"]);
    let did = driver.take();
    let of_reader: Vec<&String> = did
        .iter()
        .filter(|did| did.ends_with("last") || did.starts_with("end"))
        .collect();
    assert_eq!(of_reader, ["output 1 last", "end 1"], "{did:?}");
}

#[test]
fn a_pane_that_was_read_is_followed_only_if_it_has_a_listener() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    let ask = driver.begin("done", &["one"]);
    driver.input(Input::Changed(Change::Paused(PANE)));
    driver.look("life 1; @1#1 a running pid=7");
    driver.input(Input::Left(ask));
    assert!(driver.followed.is_empty());
    // The read itself makes the link follow the pane.
    driver.followed.insert(PANE);
    driver.read(&["one"]);
    assert!(driver.followed.is_empty());
}

#[test]
fn other_jobs_run_between_the_parts_of_a_sweep() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new(shown);
    let pass = |driver: &mut Driver, ms| {
        driver.now = driver.now.after(Duration::from_millis(ms));
        driver.input(Input::Due);
    };
    pass(&mut driver, 60_000);
    driver.did(&["look Part"]);
    driver.look_at(Coverage::Sweeping, shown);
    // The next part is not due yet.
    driver.wait(Some("ready"));
    driver.did(&["look Reported @1"]);
    driver.look_at(Coverage::Sweeping, shown);
    driver.did(&["read %1 Whole for 1"]);
    pass(&mut driver, 5);
    // One that is due waits for the job that runs.
    driver.did(&[]);
    driver.read(&["working"]);
    driver.did(&["begun 1", "look Part"]);
    driver.look_at(Coverage::Whole, shown);
    pass(&mut driver, 5);
    driver.did(&[]);
}

#[test]
fn what_is_reported_goes_before_a_part_of_a_sweep_that_is_due() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new(shown);
    driver.wait(Some("ready"));
    driver.look_at(Coverage::Reported, shown);
    driver.take();
    driver.now = driver.now.after(Duration::from_mins(1));
    driver.input(Input::Due);
    driver.input(Input::Changed(Change::Windows));
    driver.did(&[]);
    driver.read(&["working"]);
    driver.did(&["begun 1", "look Reported"]);
    driver.outcome(Outcome::Looked(None));
    driver.did(&["look Part"]);
    // While the part runs, another one is not ordered, and what is reported waits for this one only.
    driver.now = driver.now.after(Duration::from_millis(50));
    driver.input(Input::Due);
    driver.input(Input::Changed(Change::Windows));
    driver.did(&[]);
    driver.outcome(Outcome::NothingNew);
    driver.did(&["look Reported"]);
}

#[test]
fn a_report_that_no_look_explains_leads_to_a_sweep_in_parts() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new(shown);
    // A look that found nothing at all.
    driver.input(Input::Changed(Change::Windows));
    driver.look_at(Coverage::Reported, shown);
    driver.take();
    for is_taken in [true, false] {
        driver.input(Input::Changed(Change::Task));
        driver.did(&["look Reported"]);
        if is_taken {
            driver.look_at(Coverage::Reported, shown);
        } else {
            driver.outcome(Outcome::Looked(None));
        }
        driver.input(Input::Due);
        driver.did(&["look new Part"]);
        driver.outcome(Outcome::NothingNew);
        driver.now = driver.now.after(Duration::from_millis(1));
        driver.input(Input::Due);
        driver.did(&["look Part"]);
        driver.look_at(Coverage::Whole, shown);
        driver.now = driver.now.after(Duration::from_millis(1));
        driver.input(Input::Due);
        driver.did(&[]);
        driver.input(Input::Changed(Change::Windows));
        driver.look_at(Coverage::Reported, shown);
        driver.take();
    }
    // A task that has another name now explains the report.
    driver.input(Input::Changed(Change::Task));
    driver.look_at(
        Coverage::Reported,
        "life 1; @1#1 renamed running pid=7; @2#1 b running pid=8",
    );
    driver.take();
    driver.input(Input::Due);
    driver.did(&[]);
}

#[test]
fn a_prompt_that_may_be_reported_leads_to_a_look_at_its_window() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8 cursor=15,0 : Proceed? [y/N] ";
    let mut driver = Driver::new(shown);
    driver.now = driver.now.after(Duration::from_millis(199));
    driver.input(Input::Due);
    driver.did(&[]);
    driver.now = driver.now.after(Duration::from_millis(1));
    driver.input(Input::Due);
    driver.did(&["look Sure @2"]);
}

#[test]
fn looks_go_between_the_tasks_of_a_search() {
    let shown = "life 1; @1#1 a running pid=7; @2#1 b running pid=8; @3#1 c running pid=9";
    let mut driver = Driver::new(shown);
    driver.ask(Request::Search(SearchRequest {
        task: None,
        pattern: "x".to_owned(),
        regex: false,
        ignore_case: false,
    }));
    driver.did(&["look Reported barrier"]);
    driver.outcome(Outcome::Looked(None));
    driver.did(&["search @1"]);
    let found = |line: &str| {
        Outcome::Matches(vec![SearchMatch {
            window_id: String::new(),
            window_name: String::new(),
            run: None,
            line_number: 1,
            line: line.to_owned(),
        }])
    };
    driver.input(Input::Changed(Change::Windows));
    driver.outcome(found("one"));
    driver.did(&["look Reported"]);
    driver.look_at(
        Coverage::Reported,
        "life 1; @1#1 a running pid=7; @3#1 c running pid=9",
    );
    driver.take();
    // A window that was closed meanwhile has no lines.
    assert!(driver.job.take().is_some());
    driver.input(Input::Done(Err("can't find pane: %2".to_owned())));
    driver.did(&["search @3"]);
    driver.outcome(found("three"));
    driver.did(&["answer 1 one three"]);
    // A task that still exists was not searched: the answer would not be complete.
    driver.ask(Request::Search(SearchRequest {
        task: Some("a".to_owned()),
        pattern: "x".to_owned(),
        regex: false,
        ignore_case: false,
    }));
    driver.outcome(Outcome::Looked(None));
    driver.take();
    assert!(driver.job.take().is_some());
    driver.input(Input::Done(Err("tmux does not answer".to_owned())));
    driver.did(&["refuse 2: tmux does not answer"]);
}

#[test]
fn a_request_that_names_another_session_does_nothing() {
    let shown = "life 1; @1#1 a running pid=7";
    let mut driver = Driver::new(shown);
    let ask = |driver: &mut Driver, session: &str| {
        driver.ask(Request::To {
            session: session.to_owned(),
            request: Box::new(Request::Send(SendRequest {
                task: "a".to_owned(),
                input: TypedInput::Text("x".to_owned()),
                enter: true,
                if_prompt: None,
            })),
        });
        driver.outcome(Outcome::Looked(None));
        driver.take()
    };
    let whereabouts = |name: &str, elsewhere: Option<&str>| {
        Outcome::Whereabouts(Whereabouts {
            name: Some(name.to_owned()),
            elsewhere: elsewhere.map(str::to_owned),
            version: None,
        })
    };
    assert_eq!(
        ask(&mut driver, "work"),
        ["look Reported barrier", "type @1"]
    );
    driver.outcome(Outcome::Answered(Box::new(Response::Done), None));
    driver.did(&["answer 1"]);
    assert_eq!(
        ask(&mut driver, "former"),
        ["look Reported barrier", "Whereabouts"]
    );
    driver.outcome(whereabouts("work", Some("other")));
    driver.did(&["answer 2 elsewhere: other"]);
    // The former name of this session, which no other one has.
    ask(&mut driver, "former");
    driver.outcome(whereabouts("work", None));
    driver.did(&["type @1"]);
}

#[test]
fn sweeps_that_need_not_be_taken_grow_seldom_as_well() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7");
    let mut pauses = Vec::new();
    for _ in 0..4 {
        let due = driver.session.schedule.next_look();
        pauses.push((due - driver.now.mono).as_millis());
        driver.now = driver.now.after(due - driver.now.mono);
        driver.input(Input::Due);
        driver.did(&["look Part"]);
        driver.outcome(Outcome::Unchanged);
        driver.did(&[]);
    }
    assert_eq!(pauses, [200, 400, 800, 1600]);
}

#[test]
fn soon_after_an_end_only_what_has_just_ended_is_looked_at() {
    let shown = "life 1; @1#1 a dead 0 pid=7; @2#1 b running pid=8";
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b running pid=8");
    driver.input(Input::Changed(Change::Task));
    driver.look_at(Coverage::Reported, shown);
    driver.finish_chores();
    driver.take();
    let mut looks = Vec::new();
    for _ in 0..300 {
        driver.now = driver.now.after(Duration::from_millis(1));
        driver.input(Input::Due);
        if matches!(driver.job, Some(Job::Look(_))) {
            let done = driver.take().into_iter();
            looks.extend(done.filter(|done| done.starts_with("look")));
            driver.look_at(Coverage::Reported, shown);
        }
    }
    assert_eq!(
        looks[..3],
        ["look Reported @1", "look Reported @1", "look Reported @1"]
    );
}

#[test]
fn a_task_that_failed_is_restarted_after_its_pause() {
    let mut driver = Driver::new("life 1; @1#1 a running restarts=2,1000,0");
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 1 ended=1000000 restarts=2,1000,0");
    driver.finish_chores();
    let shown = |driver: &Driver| {
        let next = driver
            .session
            .restarts
            .next("@1".parse().unwrap(), driver.now);
        next.map(|next| (next.in_ms, next.number, next.limit))
    };
    driver.after(400);
    assert_eq!(shown(&driver), Some((600, 1, 2)));
    assert!(!driver.take().iter().any(|did| did.starts_with("restart")));
    driver.after(600);
    assert!(driver.take().contains(&"restart @1 1".to_owned()));
    // Once, also while it takes long.
    driver.after(5000);
    assert_eq!(shown(&driver), Some((0, 1, 2)));
    driver.outcome(Outcome::Restarted(RestartEnd::Started));
    driver.look("life 1; @1#2 a running restarts=2,1000,1");
    assert_eq!(shown(&driver), None);
}

#[test]
fn what_a_person_does_to_a_task_that_waits_for_a_restart_ends_the_wait() {
    for meanwhile in [
        "life 1",
        "life 1; @1#2 a running",
        "life 1; @1#2 a dead 1",
        "life 1; @1#2 a dead 0 restarts=2,1000,0",
        "life 1; @1#1 a dead 1",
        "missing",
    ] {
        let mut driver = Driver::new("life 1; @1#1 a running restarts=2,1000,0");
        driver.input(Input::Changed(Change::Task));
        driver.look("life 1; @1#1 a dead 1 ended=1000000 restarts=2,1000,0");
        driver.finish_chores();
        driver.input(Input::Changed(Change::Task));
        driver.look(meanwhile);
        driver.finish_chores();
        driver.take();
        driver.after(2000);
        let did = driver.take();
        assert!(
            !did.iter().any(|did| did.starts_with("restart")),
            "{meanwhile}: {did:?}"
        );
    }
}

#[test]
fn a_restart_that_tmux_refuses_is_tried_again_and_an_impossible_one_is_reported() {
    let mut driver = Driver::new("life 1; @1#1 a running restarts=2,0,0");
    driver.input(Input::Changed(Change::Task));
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0";
    driver.look(dead);
    driver.finish_chores();
    assert!(driver.take().contains(&"restart @1 1".to_owned()));
    driver.job = None;
    driver.input(Input::Done(Err("no".to_owned())));
    driver.look(dead);
    driver.finish_chores();
    driver.after(4999);
    assert!(!driver.take().contains(&"restart @1 1".to_owned()));
    driver.after(1);
    assert!(driver.take().contains(&"restart @1 1".to_owned()));
    let why = "its directory is gone".to_owned();
    driver.outcome(Outcome::Restarted(RestartEnd::Impossible(why)));
    driver.after(100);
    let did = driver.take();
    assert!(did.contains(&"append notice".to_owned()), "{did:?}");
    assert!(did.contains(&"append followUp".to_owned()), "{did:?}");
    driver.after(10_000);
    assert!(!driver.take().contains(&"restart @1 1".to_owned()));
}

#[test]
fn a_restart_that_seemed_superseded_is_tried_again_if_its_window_has_not_changed() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0";
    for (found, again) in [
        (dead, Some("restart @1 1")),
        ("life 1; @1#2 a running restarts=2,0,1", None),
        ("life 1; @1#1 a dead 1 ended=1000000", None),
        ("life 1", None),
    ] {
        let mut driver = Driver::new("life 1; @1#1 a running restarts=2,0,0");
        driver.input(Input::Changed(Change::Task));
        driver.look(dead);
        driver.finish_chores();
        assert!(driver.take().contains(&"restart @1 1".to_owned()));
        driver.outcome(Outcome::Restarted(RestartEnd::Superseded));
        assert_eq!(driver.take().last().unwrap(), "look Reported @1", "{found}");
        driver.look(found);
        driver.finish_chores();
        driver.after(4999);
        let is_restart = |did: &String| did.starts_with("restart");
        assert!(!driver.take().iter().any(is_restart), "{found}");
        driver.after(1);
        let restarts: Vec<String> = driver.take().into_iter().filter(is_restart).collect();
        assert_eq!(restarts.first().map(String::as_str), again, "{found}");
    }
}

/// How many messages were recorded since the last query.
fn n_messages(driver: &mut Driver) -> usize {
    let did = driver.take();
    did.iter().filter(|did| *did == "append followUp").count()
}

#[test]
fn an_end_whose_restart_is_prevented_is_delivered_as_a_failure() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,90000,0";
    for (meanwhile, expected) in [
        ("life 1; @1#1 a dead 1 ended=1000000", 1),
        // Another policy, which is used up.
        ("life 1; @1#1 a dead 1 ended=1000000 restarts=2,90000,2", 1),
        ("life 1; @1#1 a dead 1 ended=1000000 restarts=3,90000,0", 0),
        (dead, 0),
        // Whoever prunes or kills it, or runs it again, has seen it.
        ("life 1", 0),
        ("life 1; @1#2 a running", 0),
        ("missing", 0),
        // The same ids on another server.
        ("life 2; @1#1 a running", 0),
    ] {
        let mut driver = Driver::new("life 1; @1#1 a running restarts=2,90000,0");
        driver.input(Input::Changed(Change::Task));
        driver.look(dead);
        driver.finish_chores();
        driver.after(100);
        let did = driver.take();
        assert!(did.contains(&"append notice".to_owned()), "{did:?}");
        for expected in [expected, 0] {
            driver.input(Input::Changed(Change::Task));
            driver.look(meanwhile);
            driver.finish_chores();
            driver.after(100);
            assert_eq!(n_messages(&mut driver), expected, "{meanwhile}");
        }
        // The same while no daemon runs.
        let mut driver = Driver::returning(dead, meanwhile);
        driver.after(100);
        assert_eq!(n_messages(&mut driver), expected, "{meanwhile}");
        driver.input(Input::Changed(Change::Task));
        driver.look(meanwhile);
        driver.finish_chores();
        driver.after(100);
        assert_eq!(n_messages(&mut driver), 0, "{meanwhile}");
    }
}

#[test]
fn an_end_that_an_earlier_daemon_recorded_is_delivered_if_its_restart_is_impossible() {
    let dead = "life 1; @1#1 a dead 1 ended=1000000 restarts=2,0,0";
    let mut driver = Driver::returning(dead, dead);
    assert!(matches!(driver.job, Some(Job::Restart(_))));
    let why = "its directory is gone".to_owned();
    driver.outcome(Outcome::Restarted(RestartEnd::Impossible(why)));
    driver.after(100);
    assert_eq!(n_messages(&mut driver), 1);
    driver.input(Input::Changed(Change::Task));
    driver.look("life 1; @1#1 a dead 1 ended=1000000");
    driver.after(100);
    assert_eq!(n_messages(&mut driver), 0);
}

#[test]
fn a_usual_duration_is_asked_for_once_for_each_run_and_shown_while_it_lives() {
    let mut driver = Driver::new("life 1; @1#1 a running pid=7; @2#1 b dead 0 pid=8");
    let (one, two) = (WindowId(1), WindowId(2));
    assert_eq!(std::mem::take(&mut driver.begun), [(one, Some(1))]);
    let look = |driver: &mut Driver, notation: &str| {
        driver.input(Input::Changed(Change::Task));
        driver.look(notation);
        driver.finish_chores();
        std::mem::take(&mut driver.begun)
    };
    let running = "life 1; @1#1 a running pid=7; @2#2 b running pid=9";
    assert_eq!(look(&mut driver, running), [(two, Some(2))]);
    assert_eq!(look(&mut driver, running), []);
    let usual = |driver: &Driver| -> Vec<_> {
        let view = driver.session.view(driver.now);
        view.tasks.iter().map(|task| task.usual_ms).collect()
    };
    assert_eq!(usual(&driver), [None, None]);
    for (window, run, millis) in [(one, 1, 40_000), (two, 1, 5), (two, 2, 900)] {
        let run = Some(run);
        driver.input(Input::UsualDuration {
            window,
            run,
            millis,
        });
    }
    assert_eq!(usual(&driver), [Some(40_000), Some(900)]);
    let ended = "life 1; @1#1 a dead 0 pid=7; @2#3 b running pid=10";
    assert_eq!(look(&mut driver, ended), [(two, Some(3))]);
    assert_eq!(usual(&driver), [None, None]);
}
