use super::*;
use crate::diff::diff;
use crate::model::test_notation::{snapshot, task};
use crate::model::{Prompt, PromptKind};

/// Alerts, with a clock.
struct Desk {
    alerts: Alerts,
    start: Instant,
    now: Instant,
}

impl Desk {
    fn new(rules: AlertRules) -> Self {
        let start = Instant::now();
        Self {
            alerts: Alerts::new(rules),
            start,
            now: start,
        }
    }

    /// Takes the events between two looks.
    fn look(&mut self, before: &str, after: &str) {
        for event in diff(&snapshot(before), &snapshot(after)) {
            self.alerts.add(&event, self.now);
        }
    }

    fn input(&mut self, notation: &str, text: &str) {
        self.alerts.add(&input(notation, text), self.now);
    }

    fn resolve(&mut self, notation: &str) {
        let Event { kind, task } = input(notation, "Go?");
        let EventKind::Input { prompt } = kind else {
            unreachable!("it was made one")
        };
        let kind = EventKind::InputResolved { prompt };
        self.alerts.add(&Event { kind, task }, self.now);
    }

    /// Waits, and returns what is displayed then: `@1! title; details; advice`.
    fn after(&mut self, ms: u64) -> Vec<String> {
        self.now += Duration::from_millis(ms);
        let actions = self.alerts.take_due(self.now, "work");
        actions.into_iter().map(describe).collect()
    }

    /// The next deadline, in milliseconds since the beginning.
    fn deadline(&self) -> Option<u128> {
        let due = self.alerts.next_deadline()?;
        Some(due.duration_since(self.start).as_millis())
    }
}

fn input(notation: &str, text: &str) -> Event {
    asking(notation, text, PromptKind::Confirm, false)
}

fn asking(notation: &str, text: &str, kind: PromptKind, secret: bool) -> Event {
    let prompt = Prompt {
        text: text.to_owned(),
        kind,
        secret,
    };
    Event {
        kind: EventKind::Input { prompt },
        task: task(notation),
    }
}

fn describe(action: AlertAction) -> String {
    match action {
        AlertAction::Withdraw(window) => format!("withdraw {window}"),
        AlertAction::Show(Alert {
            subject,
            level,
            text,
        }) => {
            let subject = match subject {
                AlertSubject::Task(window) => window.to_string(),
                AlertSubject::Many => "many".to_owned(),
                AlertSubject::Notice => "notice".to_owned(),
            };
            let mark = if level == Level::Warning { "!" } else { "" };
            let texts: Vec<String> = [text.title]
                .into_iter()
                .chain(text.details)
                .chain(text.advice)
                .collect();
            format!("{subject}{mark} {}", texts.join("; "))
        }
    }
}

const RUNNING: &str = "@1 build running";

#[test]
fn what_needs_a_person_is_displayed_with_what_to_do() {
    let check = |before: &str, after: &str, expected: &[&str]| {
        let mut desk = Desk::new(AlertRules::default());
        desk.look(before, after);
        assert_eq!(desk.after(250), expected, "{before} -> {after}");
    };
    check(
        RUNNING,
        "@1 build dead 2 : one|two|three|error: no such file",
        &[
            "@1! build failed with code 2; two; three; error: no such file; See: tmux-task logs build -s work",
        ],
    );
    check(
        RUNNING,
        "@1 build dead SIGKILL",
        &[
            "@1! build was killed by SIGKILL (not by tmux-task; out of memory?); See: tmux-task logs build -s work",
        ],
    );
    check(
        RUNNING,
        "@1 build dead ?",
        &["@1! build exited with unknown code; See: tmux-task logs build -s work"],
    );
    check(
        "@1 build running bells=1",
        "@1 build running bells=3 : done",
        &["@1 build rang the bell (2 times); done; See: tmux-task logs build -s work"],
    );
    check(
        RUNNING,
        "",
        &[
            "@1! build disappeared; Its window was closed while it was running.; Start it again: tmux-task run build -s work -- COMMAND",
        ],
    );
    check("", RUNNING, &[]);
    check(RUNNING, "@1 build dead 0", &[]);
    check(RUNNING, "gone @1 userKilled", &[]);
    check(RUNNING, "gone @1 agentKilled", &[]);
    check(
        "@1#1 a running",
        "@1#2 a running; ended @1#1 a dead 2",
        &["@1! a failed with code 2; See: tmux-task logs a -s work"],
    );
}

#[test]
fn a_question_says_how_to_answer() {
    let check = |event: &Event, expected: &str| {
        let mut desk = Desk::new(AlertRules::default());
        desk.alerts.add(event, desk.now);
        assert_eq!(desk.after(250), [expected]);
    };
    let api = "@1 api running";
    check(
        &input(api, "Proceed? [y/N]"),
        "@1! api asks: Proceed? [y/N]; Answer: tmux-task send api TEXT -s work",
    );
    check(
        &asking(api, "", PromptKind::Pager, false),
        "@1! api waits for input; Answer: tmux-task attach api -s work",
    );
    check(
        &asking(api, "Password:", PromptKind::Password, true),
        "@1! api asks: Password:; Answer: tmux-task send api --secret -s work",
    );
    // A field of a dialog is a secret too, and a debugger reads lines.
    check(
        &asking(api, "PIN", PromptKind::Dialog, true),
        "@1! api asks: PIN; Answer: tmux-task send api --secret -s work",
    );
    check(
        &asking(api, "(gdb)", PromptKind::Debugger, false),
        "@1! api asks: (gdb); Answer: tmux-task send api TEXT -s work",
    );
    check(
        &input("@7 my$(x) running", "Go?"),
        "@7! my$(x) asks: Go?; Answer: tmux-task send @7 TEXT -s work",
    );
}

#[test]
fn a_bell_and_an_exit_are_one_alert() {
    let mut desk = Desk::new(AlertRules::default());
    desk.look("@1 a running bells=0", "@1 a running bells=1");
    assert_eq!(desk.after(249), [""; 0]);
    desk.look("@1 a running bells=1", "@1 a dead 2 bells=1");
    assert_eq!(
        desk.after(1),
        ["@1! a failed with code 2; Also: rang the bell.; See: tmux-task logs a -s work"]
    );
    assert_eq!(desk.deadline(), None);
}

#[test]
fn a_task_has_one_alert_in_a_while_and_the_rest_is_counted() {
    let mut desk = Desk::new(AlertRules::default());
    let ring = |desk: &mut Desk| desk.look("@1 a running bells=0", "@1 a running bells=1");
    ring(&mut desk);
    assert_eq!(desk.deadline(), Some(250));
    assert_eq!(desk.after(250).len(), 1);
    for _ in 0..40 {
        ring(&mut desk);
        assert_eq!(desk.after(100), [""; 0]);
    }
    // Another task does not wait for it.
    desk.look("@2 b running", "@2 b dead 1");
    assert_eq!(desk.after(250).len(), 1);
    assert_eq!(desk.deadline(), Some(5250));
    assert_eq!(
        desk.after(750),
        ["@1 a rang the bell (40 times); See: tmux-task logs a -s work"]
    );
    assert_eq!(desk.after(60_000), [""; 0]);
    assert!(desk.alerts.tasks.is_empty());
}

#[test]
fn the_most_urgent_event_is_the_title() {
    let mut desk = Desk::new(AlertRules::default());
    desk.look("@1 a running", "@1 a dead 3");
    desk.input("@1 a running", "Go?");
    desk.look("@1 a running bells=0", "@1 a running bells=2");
    assert_eq!(
        desk.after(250),
        [
            "@1! a asks: Go?; Also: failed, rang the bell (2 times).; Answer: tmux-task send a TEXT -s work"
        ]
    );
}

#[test]
fn an_answered_question_is_withdrawn_or_never_displayed() {
    let mut desk = Desk::new(AlertRules::default());
    desk.input("@1 a running", "Go?");
    desk.resolve("@1 a running");
    assert_eq!(desk.deadline(), None);
    assert_eq!(desk.after(250), [""; 0]);
    desk.input("@1 a running", "Go?");
    assert_eq!(desk.after(250).len(), 1);
    assert_eq!(desk.after(60_000), [""; 0]);
    desk.resolve("@1 a running");
    assert_eq!(desk.after(0), ["withdraw @1"]);
    desk.resolve("@1 a running");
    assert_eq!(desk.after(0), [""; 0]);
    assert!(desk.alerts.tasks.is_empty());
}

#[test]
fn each_task_may_have_its_own_events() {
    use AlertEvent::{Exited, Started};
    let tasks = [
        ("quiet".to_owned(), [].into()),
        ("loud".to_owned(), [Started, Exited].into()),
        ("@3".to_owned(), [Exited].into()),
    ];
    let mut desk = Desk::new(AlertRules {
        tasks: tasks.into(),
        ..AlertRules::default()
    });
    desk.look(
        "@1 quiet running; @2 loud running; @3 c running",
        "@1 quiet dead 2; @2 loud dead 0; @3 c dead 0; @4 loud running",
    );
    assert_eq!(
        desk.after(250),
        [
            "@2 loud finished; See: tmux-task logs loud -s work",
            "@3 c finished; See: tmux-task logs c -s work",
            "@4 loud started; See: tmux-task attach loud -s work",
        ]
    );
}

#[test]
fn the_end_of_a_shell_is_not_displayed_and_its_bell_is() {
    let end = ("@1 sh running shell", "@1 sh dead 1 shell");
    let bell = ("@2 sh running shell bells=0", "@2 sh running shell bells=1");
    let mut desk = Desk::new(AlertRules::default());
    desk.look(end.0, end.1);
    desk.look(end.0, "");
    desk.look(bell.0, bell.1);
    assert_eq!(
        desk.after(250),
        ["@2 sh rang the bell; See: tmux-task logs sh -s work"]
    );
}

#[test]
fn many_tasks_at_once_are_a_few_alerts_and_a_summary() {
    let look = |state: &str, n: u32| {
        let tasks: Vec<String> = (1..=n).map(|i| format!("@{i} t{i} {state}")).collect();
        tasks.join("; ")
    };
    let mut desk = Desk::new(AlertRules::default());
    desk.look(&look("running", 5), &look("dead 1", 5));
    assert_eq!(desk.after(250).len(), 5);
    let mut desk = Desk::new(AlertRules::default());
    desk.look(&look("running", 300), &look("dead 1", 300));
    desk.input("@301 ask running", "Go?");
    let shown = desk.after(250);
    assert_eq!(shown.len(), 5);
    assert!(shown[0].starts_with("@301! ask asks: Go?"), "{shown:?}");
    assert_eq!(
        shown[4],
        "many! 297 more tasks: 297 failed; See: tmux-task ls -s work"
    );
}

#[test]
fn notices_without_events_are_displayed_if_they_are_asked_for() {
    let mut desk = Desk::new(AlertRules::default());
    desk.alerts.add_notice(Level::Info, "killed api");
    assert_eq!(desk.after(0), [""; 0]);
    let mut desk = Desk::new(AlertRules {
        events: [AlertEvent::Other].into(),
        ..AlertRules::default()
    });
    desk.alerts
        .add_notice(Level::Info, "Still active:\n- other");
    assert_eq!(desk.after(0), ["notice Still active:; - other"]);
}

#[test]
fn a_failure_is_displayed_when_no_restart_follows() {
    let mut desk = Desk::new(AlertRules::default());
    desk.look(
        "@1#1 a running restarts=1,1000,0",
        "@1#1 a dead 1 restarts=1,1000,0",
    );
    assert_eq!(desk.after(60_000), [""; 0]);
    desk.look(
        "@1#2 a running restarts=1,1000,1",
        "@1#2 a dead 1 restarts=1,1000,1",
    );
    assert_eq!(desk.after(60_000).len(), 1);
}
