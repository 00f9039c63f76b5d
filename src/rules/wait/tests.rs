use serde_json::Value;

use super::*;
use crate::model::test_notation::{at, prompt, snapshot, stories};
use crate::model::{Life, PaneId};
use crate::rules::terminal::Terminal;

const WINDOW: WindowId = WindowId(1);

fn now() -> Now {
    at(0)
}

fn text(text: &str) -> Condition {
    Condition::Text(Pattern::literal(text, false))
}

fn spec(conditions: Vec<Condition>) -> Spec {
    Spec {
        conditions,
        stops: Vec::new(),
        timeout: None,
        through_prompts: false,
        is_final: false,
    }
}

/// A wait for the first run of `@1`, whose process is 101.
fn begin(spec: Spec, now: Now) -> Wait {
    let task = Task {
        pane: Some(PaneId(1)),
        pid: Some(101),
        life: Life::Alive,
        run: Some(1),
        ..Task::new(WINDOW, "api".into())
    };
    Wait::begin(spec, task, None, now)
}

fn wait(conditions: Vec<Condition>) -> Wait {
    let mut wait = begin(spec(conditions), now());
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

/// A result as its outcome and all that it says besides: `exited condition=exit exitCode=3`.
fn describe(result: &WaitResult) -> String {
    let result = serde_json::to_value(result).unwrap();
    let mut said = result["outcome"].as_str().unwrap().to_owned();
    for (key, value) in result.as_object().unwrap() {
        let is_empty = matches!(value, Value::Null | Value::Bool(false))
            || value.as_array().is_some_and(Vec::is_empty);
        if !is_empty && !["outcome", "elapsedMs"].contains(&key.as_str()) {
            said += &format!(" {key}={}", value.to_string().trim_matches('"'));
        }
    }
    said
}

#[test]
fn a_look_at_the_task_may_end_a_wait() {
    let cases = "
        ## the end of the run is waited for or ends the wait
        exit, @1#1 a dead 3 pid=101 => exited condition=exit exitCode=3
        text, @1#1 a dead 3 pid=101 => died exitCode=3
        exit, @1#1 a running pid=101 =>
        bell, @1#1 a dead SIGKILL ours pid=101 => died exitSignal=SIGKILL

        ## another run ends the wait with the known end of the first
        exit, @1#2 a running pid=102; ended @1#1 a dead 4 pid=101 => exited condition=exit exitCode=4
        text, @1#2 a running pid=102; ended @1#1 a dead 4 pid=101 => died exitCode=4
        exit, @1#2 a running pid=102 => respawned newPid=102 oldPid=101

        ## a run that was ended on purpose has not succeeded
        exit, ended @1#1 a dead 0 pid=101; gone @1 timedOut => disappeared exitCode=0 reason=timedOut
        text, ended @1#1 a dead 0 pid=101; gone @1 timedOut => disappeared exitCode=0 reason=timedOut
        exit, @1#2 a running pid=102; ended @1#1 a dead 0 pid=101; launcher @1 101
            => respawned exitCode=0 newPid=102 oldPid=101
        text, @1#2 a running pid=102; ended @1#1 a dead 0 pid=101; launcher @1 101
            => respawned exitCode=0 newPid=102 oldPid=101
        # An earlier run was replaced, and this one has ended by itself since.
        exit, @1#2 a running pid=102; ended @1#1 a dead 0 pid=101; launcher @1 100 => exited condition=exit exitCode=0

        ## a window that has gone ends every wait
        text, => disappeared
        exit, missing => disappeared
        exit, ended @1#1 a dead 0 pid=101 => exited condition=exit exitCode=0

        ## a bell is one that rang after entry
        bell, @1#1 a running pid=101 =>
        bell, @1#1 a running pid=101 bells=1 => bell condition=bell

        ## a wait for the end ends with a question, which has to be answered first
        exit asked, @1#1 a running pid=101 => input line=Name? promptKind=confirm
        text exit asked, @1#1 a running pid=101 => input line=Name? promptKind=confirm
        exit through asked, @1#1 a running pid=101 =>
        text asked, @1#1 a running pid=101 =>
        exit input asked, @1#1 a running pid=101 => input condition=input line=Name? promptKind=confirm
        # A run that has ended asks nothing.
        exit asked, @1#1 a dead 3 pid=101 => exited condition=exit exitCode=3

        ## a reported prompt is input at once
        input asked, @1#1 a running pid=101 => input condition=input line=Name? promptKind=confirm
        input, @1#1 a running pid=101 =>
        ";
    let prompt = prompt("Name?");
    let mut wrong = Vec::new();
    for (heading, lines) in stories(cases) {
        for line in lines {
            let (asked, expected) = line.split_once("=>").unwrap();
            let (words, look) = asked.split_once(',').unwrap();
            let has = |word: &str| words.split(' ').any(|one| one == word);
            let conditions = words.split(' ').filter_map(|word| match word {
                "exit" => Some(Condition::Exit),
                "text" => Some(text("x")),
                "bell" => Some(Condition::Bell),
                "input" => Some(Condition::Input),
                _ => None,
            });
            let mut wait = wait(conditions.collect());
            wait.spec.through_prompts = has("through");
            let found = wait.look(
                &snapshot(look),
                Some(&prompt).filter(|_| has("asked")),
                None,
            );
            let found = found.as_ref().map(describe).unwrap_or_default();
            if found != expected.trim() {
                wrong.push(format!("{heading}: {line}: {found}"));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}

#[test]
fn output_since_entry_may_end_a_wait() {
    let mut old = wait(vec![text("READY")]);
    assert_eq!(say(&mut old, "READY> unrelated", 7), None);
    let found = say(&mut old, "now READY", 0).unwrap();
    let expected = "matched condition=text line=now READY matchedIndex=0";
    assert_eq!(describe(&found), expected);
    // A match that begins in old text and ends in new.
    let mut split = wait(vec![text("READY")]);
    assert!(say(&mut split, "READY", 3).is_some());
    // The first of several texts is reported by its index.
    let mut several = wait(vec![text("one"), Condition::Exit, text("two")]);
    let found = say(&mut several, "it is two", 0).unwrap();
    assert_eq!(found.matched_index, Some(1));
    // Any output is a change.
    let mut change = wait(vec![Condition::Change]);
    let found = say(&mut change, "x", 0).unwrap();
    assert_eq!(found.outcome, WaitOutcome::Changed);
}

#[test]
fn a_stop_wins_over_a_match_of_the_same_output() {
    let spec = Spec {
        stops: vec![Pattern::literal("panic", false)],
        ..spec(vec![text("ok")])
    };
    let mut wait = begin(spec, now());
    wait.line(&Line::new("ok", &[(2, 1)], true));
    wait.line(&Line::new("panic", &[(5, 1)], true));
    let verdict = wait.on_output(now()).unwrap();
    assert_eq!(verdict.outcome, WaitOutcome::Stopped);
    assert_eq!(verdict.line.as_deref(), Some("panic"));
}

#[test]
fn idle_counts_from_entry_and_again_from_every_output() {
    let start = now();
    let limit = Duration::from_secs(2);
    let spec = Spec {
        timeout: Some(Duration::from_secs(9)),
        ..spec(vec![Condition::Idle { limit }])
    };
    let mut wait = begin(spec, start);
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
        let spec = spec(vec![Condition::Exit, Condition::Listen { port }]);
        let mut wait = begin(spec, now());
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
    let spec = Spec {
        timeout: Some(Duration::from_secs(1)),
        ..spec(vec![text("x")])
    };
    let mut wait = begin(spec, start);
    assert_eq!(wait.tick(start), None);
    let over = wait.tick(start.after(Duration::from_secs(1)));
    assert_eq!(over.map(|v| v.outcome), Some(WaitOutcome::Timeout));
}

/// What a wait for `listening` or the stop `in use` says to each of these events, with `|` between them:
/// output that came together, the time since the start, the end of the run, or a loss of output.
#[test]
fn a_line_is_reported_when_it_is_complete() {
    let cases = r"
        listening on 80\r\n => matched listening on 80
        listening on| 80 =>
        listening on| |80|\r\n => matched listening on 80
        listening on|99 ms|100 ms => matched listening on
        # The time counts from its beginning.
        listening on|60 ms| 80|100 ms => matched listening on 80
        # The next line ends it, and so does what overwrites it.
        listening on|\e[5;1Hclock => matched listening on
        listening 1%|\rlistening 2% => matched listening 1%
        listening|end => matched listening
        listening|loss => matched listening
        loss => anchorLost

        ## a time limit that is shorter
        listening|50 ms limit => matched listening

        ## a stop text in the line or in the output that completes it wins
        listening on 80:| in use| by 7\r\n => stopped listening on 80: in use by 7
        listening\r\nin use| by 7\r\n => stopped in use by 7
        listening|\r\nin use|end => stopped in use
        in use|100 ms => stopped in use
        ";
    let lines = stories(cases).into_iter().flat_map(|(_, lines)| lines);
    for line in lines {
        let (events, expected) = line.split_once(" =>").unwrap();
        let start = now();
        let timeout_ms = if events.ends_with(" limit") {
            50
        } else {
            10_000
        };
        let spec = Spec {
            stops: vec![Pattern::literal("in use", false)],
            timeout: Some(Duration::from_millis(timeout_ms)),
            ..spec(vec![text("listening"), Condition::Change])
        };
        let mut wait = begin(spec, start);
        let mut terminal = Terminal::new(80, 5);
        let (mut at, mut verdict) = (start, None);
        for (stamp, event) in (1..).zip(events.split('|')) {
            assert_eq!(verdict, None, "before {event:?} in {line}");
            let event = event.trim_end_matches(" limit");
            verdict = if let Some(Ok(ms)) = event.strip_suffix(" ms").map(str::parse) {
                at = start.after(Duration::from_millis(ms));
                wait.tick(at)
            } else if event == "end" {
                wait.look(&snapshot("@1#1 a dead 0 pid=101"), None, None)
            } else if event == "loss" {
                Some(wait.on_loss())
            } else {
                let output = event.replace(r"\r", "\r").replace(r"\n", "\n");
                let output = output.replace(r"\e", "\x1b");
                terminal.write(output.as_bytes(), stamp, &mut |line| wait.line(line));
                wait.on_output(at)
            };
        }
        let found = verdict.map_or(String::new(), |verdict| {
            let outcome = serde_json::to_value(verdict.outcome).unwrap();
            let line = verdict.line.unwrap_or_default();
            format!("{} {line}", outcome.as_str().unwrap())
        });
        assert_eq!(found.trim(), expected.trim(), "{line}");
    }
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
