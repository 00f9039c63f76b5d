use super::*;
use crate::model::{GoneReason, Life, PaneId, PromptKind, Signal};
use crate::terminal::Terminal;

const WINDOW: WindowId = WindowId(1);

fn now() -> Now {
    Now {
        mono: Instant::now(),
        wall: 0,
    }
}

fn task(life: Life, run: u32) -> Task {
    Task {
        pane: Some(PaneId(1)),
        pid: Some(100 + run),
        life,
        run: Some(run),
        ..Task::new(WINDOW, "api".into())
    }
}

fn dead(code: i32) -> Life {
    Life::Dead(Exit::with_code(code))
}

fn look(tasks: Vec<Task>, ended: Vec<Task>) -> Snapshot {
    Snapshot {
        exists: true,
        tasks: tasks
            .into_iter()
            .map(|task| (task.window, task.into()))
            .collect(),
        ended,
        ..Snapshot::missing("s", 0)
    }
}

fn text(text: &str) -> Condition {
    Condition::Text(Pattern::literal(text, false))
}

fn wait(conditions: Vec<Condition>) -> Wait {
    let spec = Spec {
        conditions,
        stops: Vec::new(),
        timeout: None,
        through_prompts: false,
        is_final: false,
    };
    let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, now());
    wait.count_from(5);
    wait
}

#[test]
fn each_wait_learns_whether_its_own_text_is_there() {
    let output = PaneOutput {
        rows: ["first", " second"].map(str::to_owned).to_vec(),
        width: 5,
        height: 2,
        ..PaneOutput::default()
    };
    let lines = OnceCell::new();
    let texts: [&[&str]; 5] = [&["first"], &["second"], &[], &["x", "irst se"], &["third"]];
    let is_there = texts.map(|texts| {
        let mut wait = wait(texts.iter().map(|one| text(one)).collect());
        assert!(wait.read_entry(&output, &lines, now()).is_none());
        wait.matched_at_entry
    });
    assert_eq!(is_there, [true, true, false, true, false]);
}

/// Writes a line whose first `old` bytes were there when the wait began.
fn say(wait: &mut Wait, line: &str, old: usize) -> Option<WaitResult> {
    let runs = [(old, 5), (line.len(), 6)];
    wait.line(&Line::new(line, &runs, true));
    wait.on_output(now())
}

fn asking(text: &str) -> Prompt {
    Prompt {
        text: text.to_owned(),
        kind: PromptKind::Text,
        secret: false,
    }
}

#[track_caller]
fn check_look(
    condition: Condition,
    seen: &Snapshot,
    prompt: Option<&str>,
    expected: Option<WaitOutcome>,
) -> Option<WaitResult> {
    let prompt = prompt.map(asking);
    let found = wait(vec![condition]).look(seen, prompt.as_ref(), None);
    assert_eq!(found.as_ref().map(|verdict| verdict.outcome), expected);
    found
}

/// Checks the verdict on a run that has ended, and how it has.
#[track_caller]
fn check_end(condition: Condition, seen: &Snapshot, outcome: WaitOutcome, exit: Exit) {
    let known = check_look(condition, seen, None, Some(outcome)).unwrap();
    let expected = known.clone().with_exit(Some(&exit));
    assert_eq!(known, expected);
    assert_eq!(
        (known.exit_code, known.exit_signal.is_some()),
        (exit.code, exit.signal.is_some())
    );
}

#[test]
fn only_what_was_written_after_entry_counts() {
    let mut old = wait(vec![text("READY")]);
    assert_eq!(say(&mut old, "READY> unrelated", 7), None);
    let verdict = say(&mut old, "now READY", 0).unwrap();
    assert_eq!(verdict.outcome, WaitOutcome::Matched);
    assert_eq!(
        (verdict.line.as_deref(), verdict.matched_index),
        (Some("now READY"), Some(0))
    );
}

#[test]
fn a_match_that_begins_in_old_text_and_ends_in_new_counts() {
    let mut split = wait(vec![text("READY")]);
    assert!(say(&mut split, "READY", 3).is_some());
}

#[test]
fn the_first_of_several_texts_is_reported_by_its_index() {
    let mut several = wait(vec![text("one"), Condition::Exit, text("two")]);
    assert_eq!(
        say(&mut several, "it is two", 0).unwrap().matched_index,
        Some(1)
    );
}

#[test]
fn a_stop_wins_over_a_match_of_the_same_output() {
    let spec = Spec {
        conditions: vec![text("ok")],
        stops: vec![Pattern::literal("panic", false)],
        timeout: None,
        through_prompts: false,
        is_final: false,
    };
    let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, now());
    wait.line(&Line::new("ok", &[(2, 1)], true));
    wait.line(&Line::new("panic", &[(5, 1)], true));
    let verdict = wait.on_output(now()).unwrap();
    assert_eq!(verdict.outcome, WaitOutcome::Stopped);
    assert_eq!(verdict.line.as_deref(), Some("panic"));
}

#[test]
fn any_output_is_a_change() {
    let mut change = wait(vec![Condition::Change]);
    assert_eq!(
        say(&mut change, "x", 0).map(|v| v.outcome),
        Some(WaitOutcome::Changed)
    );
}

#[test]
fn the_end_of_the_run_is_waited_for_or_ends_the_wait() {
    let over = look(vec![task(dead(3), 1)], vec![]);
    check_end(
        Condition::Exit,
        &over,
        WaitOutcome::Exited,
        Exit::with_code(3),
    );
    check_end(text("x"), &over, WaitOutcome::Died, Exit::with_code(3));
    check_look(
        Condition::Exit,
        &look(vec![task(Life::Alive, 1)], vec![]),
        None,
        None,
    );
    let killed = Exit::with_signal(Signal::parse("KILL"));
    let killed_look = look(vec![task(Life::Dead(killed.clone()), 1)], vec![]);
    check_end(Condition::Bell, &killed_look, WaitOutcome::Died, killed);
}

#[test]
fn another_run_ends_the_wait_with_the_known_end_of_the_first() {
    let known = look(vec![task(Life::Alive, 2)], vec![task(dead(4), 1)]);
    check_end(
        Condition::Exit,
        &known,
        WaitOutcome::Exited,
        Exit::with_code(4),
    );
    check_end(text("x"), &known, WaitOutcome::Died, Exit::with_code(4));
    let unknown = look(vec![task(Life::Alive, 2)], vec![]);
    let found = wait(vec![Condition::Exit]).look(&unknown, None, None);
    let respawned = WaitResult {
        old_pid: Some(101),
        new_pid: Some(102),
        ..WaitResult::new(WaitOutcome::Respawned)
    };
    assert_eq!(found, Some(respawned));
}

#[test]
fn a_run_that_was_ended_on_purpose_has_not_succeeded() {
    let mut killed = look(vec![], vec![task(dead(0), 1)]);
    killed.gone.insert(WINDOW, GoneReason::TimedOut);
    let mut replaced = look(vec![task(Life::Alive, 2)], vec![task(dead(0), 1)]);
    replaced.launcher_replaced.insert(WINDOW, 101);
    for condition in [Condition::Exit, text("x")] {
        let gone = WaitResult {
            reason: Some(GoneReason::TimedOut),
            exit_code: Some(0),
            ..WaitResult::new(WaitOutcome::Disappeared)
        };
        assert_eq!(
            wait(vec![condition.clone()]).look(&killed, None, None),
            Some(gone)
        );
        let respawned = WaitResult {
            old_pid: Some(101),
            new_pid: Some(102),
            exit_code: Some(0),
            ..WaitResult::new(WaitOutcome::Respawned)
        };
        assert_eq!(
            wait(vec![condition]).look(&replaced, None, None),
            Some(respawned)
        );
    }
    // An earlier run was replaced, and this one has ended by itself since.
    replaced.launcher_replaced.insert(WINDOW, 100);
    let exit = Exit::with_code(0);
    check_end(Condition::Exit, &replaced, WaitOutcome::Exited, exit);
}

#[test]
fn a_window_that_has_gone_ends_every_wait() {
    let gone = look(vec![], vec![]);
    let disappeared = WaitOutcome::Disappeared;
    check_look(text("x"), &gone, None, Some(disappeared));
    check_look(
        Condition::Exit,
        &Snapshot::missing("s", 0),
        None,
        Some(disappeared),
    );
    let known = look(vec![], vec![task(dead(0), 1)]);
    check_end(
        Condition::Exit,
        &known,
        WaitOutcome::Exited,
        Exit::with_code(0),
    );
}

#[test]
fn a_bell_is_one_that_rang_after_entry() {
    let rung = |count| {
        let task = Task {
            bell_count: count,
            ..task(Life::Alive, 1)
        };
        look(vec![task], vec![])
    };
    check_look(Condition::Bell, &rung(None), None, None);
    check_look(
        Condition::Bell,
        &rung(Some(1)),
        None,
        Some(WaitOutcome::Bell),
    );
}

/// The end cannot come before the question is answered.
#[test]
fn a_wait_for_the_end_ends_with_a_question_unless_it_is_to_go_on() {
    let seen = look(vec![task(Life::Alive, 1)], vec![]);
    let prompt = asking("Name?");
    for (conditions, through_prompts, expected) in [
        (vec![Condition::Exit], false, Some(None)),
        (vec![text("x"), Condition::Exit], false, Some(None)),
        (vec![Condition::Exit], true, None),
        (vec![text("x")], false, None),
        (
            vec![Condition::Exit, Condition::Input],
            false,
            Some(Some("input")),
        ),
    ] {
        let mut wait = wait(conditions);
        wait.spec.through_prompts = through_prompts;
        let verdict = wait.look(&seen, Some(&prompt), None);
        let found = verdict.as_ref().map(|verdict| verdict.condition.as_deref());
        assert_eq!(found, expected);
        if let Some(verdict) = verdict {
            assert_eq!(verdict.outcome, WaitOutcome::Input);
            assert_eq!(verdict.line.as_deref(), Some("Name?"));
        }
    }
    // A run that has ended asks nothing.
    let over = look(vec![task(dead(3), 1)], vec![]);
    check_look(
        Condition::Exit,
        &over,
        Some("Name?"),
        Some(WaitOutcome::Exited),
    );
}

#[test]
fn a_reported_prompt_is_input_at_once() {
    let alive = look(vec![task(Life::Alive, 1)], vec![]);
    check_look(
        Condition::Input,
        &alive,
        Some("Go?"),
        Some(WaitOutcome::Input),
    );
    check_look(Condition::Input, &alive, None, None);
    check_look(text("x"), &alive, Some("Go?"), None);
}

#[test]
fn idle_counts_from_entry_and_again_from_every_output() {
    let start = now();
    let spec = Spec {
        conditions: vec![Condition::Idle {
            limit: Duration::from_secs(2),
        }],
        stops: Vec::new(),
        timeout: Some(Duration::from_secs(9)),
        through_prompts: false,
        is_final: false,
    };
    let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, start);
    let at = |seconds| start.after(Duration::from_secs(seconds));
    assert_eq!(wait.next_deadline(), Some(at(2).mono));
    assert_eq!(wait.tick(at(1)), None);
    assert_eq!(wait.on_output(at(1)), None);
    assert_eq!(wait.tick(at(2)), None);
    assert_eq!(wait.tick(at(3)).map(|v| v.outcome), Some(WaitOutcome::Idle));
}

#[test]
fn a_port_that_the_run_listens_on_ends_the_wait() {
    let listens = |port, ports: &[u16]| {
        let spec = Spec {
            conditions: vec![Condition::Exit, Condition::Listen { port }],
            stops: Vec::new(),
            timeout: None,
            through_prompts: false,
            is_final: false,
        };
        let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, now());
        let verdict = wait.listens(&ports.iter().copied().collect())?;
        assert_eq!(verdict.outcome, WaitOutcome::Listening);
        Some(verdict.ports)
    };
    assert_eq!(listens(Some(80), &[80, 443]), Some(vec![80, 443]));
    assert_eq!(listens(Some(80), &[443]), None);
    assert_eq!(listens(None, &[443]), Some(vec![443]));
    assert_eq!(listens(None, &[]), None);
}

#[test]
fn time_is_over_when_it_is() {
    let start = now();
    let timeout = Some(Duration::from_secs(1));
    let spec = Spec {
        conditions: vec![text("x")],
        stops: Vec::new(),
        timeout,
        through_prompts: false,
        is_final: false,
    };
    let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, start);
    assert_eq!(wait.tick(start), None);
    let over = wait.tick(start.after(Duration::from_secs(1)));
    assert_eq!(over.map(|v| v.outcome), Some(WaitOutcome::Timeout));
}

/// Checks what a wait for `listening` or the stop `in use` says to each of these events, in their order:
/// output that came together, the time since the start, the end of the run, or a loss of output.
#[track_caller]
fn check_lines(timeout_ms: u64, events: &[&str], expected: Option<(WaitOutcome, &str)>) {
    let start = now();
    let spec = Spec {
        conditions: vec![text("listening"), Condition::Change],
        stops: vec![Pattern::literal("in use", false)],
        timeout: Some(Duration::from_millis(timeout_ms)),
        through_prompts: false,
        is_final: false,
    };
    let mut wait = Wait::begin(spec, task(Life::Alive, 1), None, start);
    let mut terminal = Terminal::new(80, 5);
    let (mut at, mut verdict) = (start, None);
    for (stamp, event) in (1..).zip(events) {
        assert_eq!(verdict, None, "before {event:?}");
        verdict = if let Some(Ok(ms)) = event.strip_suffix(" ms").map(str::parse) {
            at = start.after(Duration::from_millis(ms));
            wait.tick(at)
        } else if *event == "end" {
            wait.look(&look(vec![task(dead(0), 1)], vec![]), None, None)
        } else if *event == "loss" {
            Some(wait.on_loss())
        } else {
            terminal.write(event.as_bytes(), stamp, &mut |line| wait.line(line));
            wait.on_output(at)
        };
    }
    let found = verdict.map(|verdict| (verdict.outcome, verdict.line.unwrap_or_default()));
    let found = found
        .as_ref()
        .map(|(outcome, line)| (*outcome, line.as_str()));
    assert_eq!(found, expected, "{events:?}");
}

#[test]
fn a_line_is_reported_when_it_is_complete() {
    let matched = |line| Some((WaitOutcome::Matched, line));
    let check = |events: &[&str], expected| check_lines(10_000, events, expected);
    check(&["listening on 80\r\n"], matched("listening on 80"));
    check(&["listening on", " 80"], None);
    check(
        &["listening on", " ", "80", "\r\n"],
        matched("listening on 80"),
    );
    check(
        &["listening on", "99 ms", "100 ms"],
        matched("listening on"),
    );
    // The time counts from its beginning.
    check(
        &["listening on", "60 ms", " 80", "100 ms"],
        matched("listening on 80"),
    );
    // The next line ends it, and so does what overwrites it.
    check(&["listening on", "\x1b[5;1Hclock"], matched("listening on"));
    check(&["listening 1%", "\rlistening 2%"], matched("listening 1%"));
    check(&["listening", "end"], matched("listening"));
    check(&["listening", "loss"], matched("listening"));
    check(&["loss"], Some((WaitOutcome::AnchorLost, "")));
    check_lines(50, &["listening", "50 ms"], matched("listening"));
}

#[test]
fn a_stop_text_in_the_line_or_in_the_output_that_completes_it_wins() {
    let stopped = |line| Some((WaitOutcome::Stopped, line));
    let check = |events: &[&str], expected| check_lines(10_000, events, expected);
    check(
        &["listening on 80:", " in use", " by 7\r\n"],
        stopped("listening on 80: in use by 7"),
    );
    check(
        &["listening\r\nin use", " by 7\r\n"],
        stopped("in use by 7"),
    );
    check(&["listening", "\r\nin use", "end"], stopped("in use"));
    check(&["in use", "100 ms"], stopped("in use"));
}

#[test]
fn of_a_whole_run_all_that_is_left_counts() {
    let rows: Vec<String> = (3000..4900).map(|n| format!("line {n}")).collect();
    let output = PaneOutput {
        history: 1880,
        rows,
        limit: 2000,
        width: 80,
        height: 20,
        cursor: (0, 19),
        is_dead: true,
        ..PaneOutput::default()
    };
    let check = |anchor: Option<Anchor>, line: &str, stops: &[&str], expected: WaitOutcome| {
        let mut wait = wait(vec![text(line)]);
        wait.anchor = anchor;
        let stops = stops.iter().map(|stop| Pattern::literal(stop, false));
        wait.spec.stops = stops.collect();
        for anchor in [Some(&Anchor::START), None] {
            let verdict = wait.clone().read_since(anchor, &output, now());
            assert_eq!(verdict.map(|verdict| verdict.outcome), Some(expected));
        }
    };
    let whole = || Some(Anchor::START);
    check(whole(), "line 4899", &[], WaitOutcome::Matched);
    check(whole(), "line 1", &["line 4000"], WaitOutcome::Stopped);
    check(whole(), "line 1 ", &[], WaitOutcome::AnchorLost);
    // The stop text may have come before.
    check(whole(), "line 4899", &["stop"], WaitOutcome::AnchorLost);
    // What is left may be old.
    check(None, "line 4899", &[], WaitOutcome::AnchorLost);
}
