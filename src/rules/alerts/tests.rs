use super::*;
use crate::model::PromptKind;
use crate::model::test_notation::{asked, events_of, rows, stories};

fn rules() -> AlertRules {
    AlertRules::default()
}

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

    /// Takes the events of a story.
    fn take(&mut self, story: &str) {
        for event in events_of(story) {
            self.alerts.add(&event, self.now);
        }
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

#[test]
fn what_needs_a_person_is_displayed_with_what_to_do() {
    let cases = "
        @1 build running -> @1 build dead 2 : one|two|three|error: no such file
            => @1! build failed with code 2; two; three; error: no such file;
            See: tmux-task logs build -s work
        @1 build running -> @1 build dead SIGKILL
            => @1! build was killed by SIGKILL (not by tmux-task; out of memory?);
            See: tmux-task logs build -s work
        @1 build running -> @1 build dead ?
            => @1! build exited with unknown code; See: tmux-task logs build -s work
        @1 build running bells=1 -> @1 build running bells=3 : done
            => @1 build rang the bell (2 times); done; See: tmux-task logs build -s work
        @1 build running ->
            => @1! build disappeared; Its window was closed while it was running.;
            Start it again: tmux-task run build -s work -- COMMAND
        -> @1 build running =>
        @1 build running -> @1 build dead 0 =>
        @1 build running -> gone @1 userKilled =>
        @1 build running -> gone @1 agentKilled =>
        @1#1 a running -> @1#2 a running; ended @1#1 a dead 2
            => @1! a failed with code 2; See: tmux-task logs a -s work
        ";
    let lines = stories(cases).into_iter().flat_map(|(_, lines)| lines);
    for line in lines {
        play(&rules(), &line.replace("=>", "\n+250 =>"));
    }
}

#[test]
fn a_question_says_how_to_answer() {
    use PromptKind::{Confirm, Debugger, Dialog, Pager, Password};
    // A field of a dialog is a secret too, and a debugger reads lines.
    let kinds = [Confirm, Pager, Password, Dialog, Debugger];
    let table = "
        Go? [y/N] | asks: Go? [y/N]; Answer: tmux-task send api TEXT
        # | waits for input; Answer: tmux-task attach api
        PIN: | asks: PIN:; Answer: tmux-task send api --secret
        PIN | asks: PIN; Answer: tmux-task send api --secret
        (gdb) | asks: (gdb); Answer: tmux-task send api TEXT";
    for (kind, [question, expected]) in kinds.into_iter().zip(rows(table)) {
        let question = question.trim_matches('#');
        let mut event = asked("@1 api running", question);
        if let EventKind::Input { prompt } = &mut event.kind {
            prompt.kind = kind;
            prompt.secret = matches!(kind, Password | Dialog);
        }
        let mut desk = Desk::new(rules());
        desk.alerts.add(&event, desk.now);
        assert_eq!(desk.after(250), [format!("@1! api {expected} -s work")]);
    }
    let hostile = "asks @7 my$(x) running ? Go?";
    let expected = "@7! my$(x) asks: Go?; Answer: tmux-task send @7 TEXT -s work";
    play(&rules(), &format!("{hostile}\n+250 => {expected}"));
}

/// Plays stories: events, time with what is displayed then (`+250 => alert & alert`), and `deadline`, in
/// milliseconds since the beginning.
fn play(rules: &AlertRules, text: &str) {
    for (heading, lines) in stories(text) {
        let mut desk = Desk::new(rules.clone());
        for line in lines {
            let (step, expected) = line.split_once("=>").unwrap_or((&line, ""));
            let found = match step.trim().strip_prefix('+') {
                Some(ms) => desk.after(ms.parse().unwrap()).join(" & "),
                None if step.trim() == "deadline" => desk
                    .deadline()
                    .map_or("none".to_owned(), |ms| ms.to_string()),
                None => {
                    desk.take(step);
                    continue;
                }
            };
            assert_eq!(found, expected.trim(), "{heading}: {line}");
        }
    }
}

#[test]
fn what_happens_to_a_task_in_a_while_is_one_alert() {
    play(
        &rules(),
        "
        ## a bell and an exit
        @1 a running bells=0 -> @1 a running bells=1
        +249 =>
        @1 a running bells=1 -> @1 a dead 2 bells=1
        +1 => @1! a failed with code 2; Also: rang the bell.; See: tmux-task logs a -s work
        deadline => none

        ## the most urgent event is the title
        @1 a running -> @1 a dead 3
        asks @1 a running ? Go?
        @1 a running bells=0 -> @1 a running bells=2
        +250 => @1! a asks: Go?; Also: failed, rang the bell (2 times).;
            Answer: tmux-task send a TEXT -s work

        ## an answered question is withdrawn or never displayed
        asks @1 a running ? Go?
        answers @1 a running ? Go?
        deadline => none
        +250 =>
        asks @1 a running ? Go?
        +250 => @1! a asks: Go?; Answer: tmux-task send a TEXT -s work
        +60000 =>
        answers @1 a running ? Go?
        +0 => withdraw @1
        answers @1 a running ? Go?
        +0 =>

        ## the end of a shell is not displayed and its bell is
        @1 sh running shell -> @1 sh dead 1 shell
        @1 sh running shell ->
        @2 sh running shell bells=0 -> @2 sh running shell bells=1
        +250 => @2 sh rang the bell; See: tmux-task logs sh -s work

        ## a failure is displayed when no restart follows
        @1#1 a running restarts=1,1000,0 -> @1#1 a dead 1 restarts=1,1000,0
        +60000 =>
        @1#2 a running restarts=1,1000,1 -> @1#2 a dead 1 restarts=1,1000,1
        +60000 => @1! a failed with code 1; See: tmux-task logs a -s work
        ",
    );
}

#[test]
fn a_task_has_one_alert_in_a_while_and_the_rest_is_counted() {
    let ring = "@1 a running bells=0 -> @1 a running bells=1";
    let mut desk = Desk::new(rules());
    desk.take(ring);
    assert_eq!(desk.deadline(), Some(250));
    assert_eq!(desk.after(250).len(), 1);
    for _ in 0..40 {
        desk.take(ring);
        assert_eq!(desk.after(100), [""; 0]);
    }
    // Another task does not wait for it.
    desk.take("@2 b running -> @2 b dead 1");
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
fn each_task_may_have_its_own_events() {
    use AlertEvent::{Exited, Started};
    let tasks = [
        ("quiet".to_owned(), [].into()),
        ("loud".to_owned(), [Started, Exited].into()),
        ("@3".to_owned(), [Exited].into()),
    ];
    let rules = AlertRules {
        tasks: tasks.into(),
        ..rules()
    };
    play(
        &rules,
        "
        @1 quiet running; @2 loud running; @3 c running
            -> @1 quiet dead 2; @2 loud dead 0; @3 c dead 0; @4 loud running
        +250 => @2 loud finished; See: tmux-task logs loud -s work
            & @3 c finished; See: tmux-task logs c -s work
            & @4 loud started; See: tmux-task attach loud -s work
        ",
    );
}

#[test]
fn many_tasks_at_once_are_a_few_alerts_and_a_summary() {
    let look = |n: u32| {
        let all = |state: &str| {
            (1..=n)
                .map(|i| format!("@{i} t{i} {state}; "))
                .collect::<String>()
        };
        format!("{} -> {}", all("running"), all("dead 1"))
    };
    let mut desk = Desk::new(rules());
    desk.take(&look(5));
    assert_eq!(desk.after(250).len(), 5);
    let mut desk = Desk::new(rules());
    desk.take(&look(300));
    desk.take("asks @301 ask running ? Go?");
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
