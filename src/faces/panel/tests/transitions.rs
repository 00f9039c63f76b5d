use std::time::{Duration, Instant};

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::faces::panel::mode::{Mode, Subject};
use crate::faces::panel::state::ActionReport;
use crate::wire::{SecretText, SendRequest, TypedInput};

const SIZES: [(u16, u16); 3] = [(40, 10), (80, 24), (200, 50)];

fn names(state: &PanelState) -> Vec<&str> {
    let name = |row: &ListRow| match row {
        ListRow::Task(task) => name_in(state, task),
        ListRow::Session(session) => state.session_name(*session),
    };
    state.rows.iter().map(name).collect()
}

fn name_in<'a>(state: &'a PanelState, task: &TaskKey) -> &'a str {
    &state.board.get(task).unwrap().task.name
}

fn selected(state: &PanelState) -> &str {
    let listed = state.selected_task();
    listed.map_or("", |(_, listed)| &listed.task.name)
}

fn explained(window: &str, secret: bool) -> ActionReport {
    ActionReport::Explained {
        task: task(window),
        result: Ok((secret, vec!["rule      rule".to_owned()])),
    }
}

fn answer(text: &str, secret: bool) -> PanelEffect {
    let text = text.to_owned();
    let input = if secret {
        TypedInput::Secret(SecretText(text))
    } else {
        TypedInput::Text(text)
    };
    PanelEffect::Send {
        session: ONLY,
        name: "deploy".to_owned(),
        request: SendRequest {
            task: "@4000".to_owned(),
            input,
            enter: true,
            if_prompt: Some("Proceed? [y/N]".to_owned()),
            is_guarded: false,
        },
    }
}

fn explain() -> PanelEffect {
    PanelEffect::Explain {
        task: task("@4000"),
    }
}

#[test]
fn what_needs_the_user_is_on_top() {
    let state = state_with((80, 24), mixed());
    // Of those that have ended, the latest is first.
    let expected = ["deploy", "tunnel", "build", "sync", "server", "lint"];
    assert_eq!(names(&state), expected);
    assert_eq!(selected(&state), "deploy");
}

#[test]
fn a_server_that_runs_is_shown_above_all_that_is_done() {
    let done = (1..=14).map(|n| listed(ended(n, &format!("job{n}"), 0)));
    let tasks = done.chain([listed(running(15, "server"))]);
    let state = state_with((100, 24), tasks.collect());
    assert_eq!(state.visible().first(), Some(&ListRow::Task(task("@15"))));
}

#[test]
fn the_same_task_stays_selected_while_others_change() {
    let mut state = state_with((80, 24), mixed());
    press(&mut state, "jj");
    assert_eq!(selected(&state), "build");
    let asks = asking(5, "server", "Name:");
    state.on_tasks(ONLY, true, false, vec![asks], &["@65".to_owned()]);
    assert_eq!(names(&state), ["server", "deploy", "build", "sync", "lint"]);
    assert_eq!(selected(&state), "build");
    // When it goes, the one that has moved into its row is selected; at the end, the last one.
    state.on_tasks(ONLY, true, false, Vec::new(), &["@80".to_owned()]);
    assert_eq!(selected(&state), "sync");
    press(&mut state, "G");
    state.on_tasks(ONLY, true, false, Vec::new(), &["@70".to_owned()]);
    assert_eq!(selected(&state), "sync");
    state.on_tasks(ONLY, false, true, Vec::new(), &[]);
    assert_eq!(selected(&state), "");
}

#[test]
fn the_selected_row_is_always_visible() {
    for size in SIZES {
        let tasks = (0..300).map(|n| listed(running(n, &format!("t{n}"))));
        let mut state = state_with(size, tasks.collect());
        for keys in [
            "G",
            "g",
            "jjjjjjjjjjjjjjjjjjjjjjjj",
            "k",
            "G",
            "kkkkkkkkkkkk",
        ] {
            press(&mut state, keys);
            let window = state.selected.clone().unwrap();
            assert!(state.visible().contains(&window), "{size:?} {keys}");
        }
        press(&mut state, "G");
        state.on_size((40, 10));
        let window = state.selected.clone().unwrap();
        assert!(state.visible().contains(&window));
        state.on_size((200, 200));
        assert_eq!(
            state.visible().len(),
            usize::from(state.layout().list.height)
        );
    }
}

#[test]
fn the_filter_lists_what_matches_while_it_is_typed() {
    let mut state = state_with((80, 24), mixed());
    press(&mut state, "/ER");
    assert_eq!(names(&state), ["server"]);
    assert_eq!(selected(&state), "server");
    press(&mut state, "\n");
    assert_eq!(names(&state), ["server"]);
    press(&mut state, "\x1b");
    assert_eq!(names(&state).len(), 6);
    // By state, and by command.
    press(&mut state, "/failed\n");
    assert_eq!(names(&state), ["tunnel", "build"]);
    press(&mut state, "\x1b/make li");
    assert_eq!(names(&state), ["lint"]);
    // Letters are no commands here.
    assert!(press(&mut state, "xq").is_empty());
    assert_eq!(names(&state), [""; 0]);
}

#[test]
fn an_answer_is_for_the_prompt_that_was_shown() {
    let mut state = state_with((40, 10), mixed());
    assert_eq!(press(&mut state, "a"), [explain()]);
    assert_eq!(state.on_report(explained("@4000", false)), []);
    assert_eq!(press(&mut state, "yes"), []);
    // The task goes on to another question: the answer still names the one that was shown.
    state.on_tasks(
        ONLY,
        true,
        false,
        vec![asking(4000, "deploy", "Delete all?")],
        &[],
    );
    assert_eq!(press(&mut state, "\n"), [answer("yes", false)]);
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn an_answer_waits_until_it_is_known_whether_it_is_secret() {
    for secret in [false, true] {
        let mut state = state_with((40, 10), mixed());
        assert_eq!(press(&mut state, "a"), [explain()]);
        // Nothing that is typed after that is a command.
        assert_eq!(press(&mut state, "qx\nq"), []);
        // An explanation of another task changes nothing.
        assert_eq!(state.on_report(explained("@5", false)), []);
        let sent = state.on_report(explained("@4000", secret));
        assert_eq!(sent, [answer("qx", secret)]);
    }
    let mut state = state_with((40, 10), mixed());
    press(&mut state, "ay\x1b");
    assert_eq!(state.on_report(explained("@4000", false)), []);
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn a_task_that_asks_for_nothing_is_not_answered() {
    let mut state = state_with((40, 10), mixed());
    assert_eq!(press(&mut state, "Ga"), []);
    assert!(state.message.as_ref().unwrap().is_error);
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn a_line_is_sent_to_a_task_that_lives() {
    let mut state = state_with((40, 10), mixed());
    let sent = press(&mut state, "Gksreload\n");
    let request = SendRequest {
        task: "@5".to_owned(),
        input: TypedInput::Text("reload".to_owned()),
        enter: true,
        if_prompt: None,
        is_guarded: false,
    };
    let name = "server".to_owned();
    let session = ONLY;
    let expected = PanelEffect::Send {
        session,
        name,
        request,
    };
    assert_eq!(sent, [expected]);
    assert_eq!(press(&mut state, "sreload\x1b"), []);
    // The one below has ended.
    assert_eq!(press(&mut state, "js"), []);
    assert!(state.message.as_ref().unwrap().is_error);
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn pasted_text_is_never_a_command() {
    let mut state = state_with((40, 10), mixed());
    assert_eq!(state.on_paste("xy"), []);
    assert!(matches!(state.mode, Mode::List));
    press(&mut state, "Gks");
    state.on_paste("one\x1b[31m\u{202e}two\nrm -rf\n");
    let sent = press(&mut state, "\n");
    let [PanelEffect::Send { request, .. }] = sent.as_slice() else {
        panic!("{sent:?}");
    };
    assert_eq!(request.input, TypedInput::Text("onetwo".to_owned()));
}

#[test]
fn only_y_confirms() {
    let kill = PanelEffect::Kill {
        task: task("@4000"),
        name: "deploy".to_owned(),
    };
    for (keys, expected) in [
        ("xy", Some(kill)),
        ("xn", None),
        ("xx", None),
        ("x\n", None),
        ("x\x1b", None),
        ("py", Some(PanelEffect::Prune { session: ONLY })),
        ("p\n", None),
    ] {
        let mut state = state_with((40, 10), mixed());
        let effects = press(&mut state, keys);
        assert_eq!(effects, Vec::from_iter(expected), "{keys:?}");
        assert!(matches!(state.mode, Mode::List), "{keys:?}");
    }
    let mut state = state_with((40, 10), vec![listed(running(1, "a"))]);
    assert_eq!(press(&mut state, "py"), [], "nothing has ended");
}

#[test]
fn a_log_is_scrolled_and_searched() {
    let mut state = state_with((40, 10), mixed());
    let read = PanelEffect::ReadLog {
        task: task("@4000"),
    };
    assert_eq!(press(&mut state, "l"), [read]);
    let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    let report = |window: &str| ActionReport::Log {
        task: task(window),
        result: Ok(lines.clone()),
    };
    // The log of a task that the user has left is not shown.
    state.on_report(report("@5"));
    state.on_report(report("@4000"));
    let at = |state: &PanelState| {
        let Mode::View { view, .. } = &state.mode else {
            panic!("no view");
        };
        (view.top, view.found)
    };
    // The end is shown: eight lines fit.
    assert_eq!(at(&state), (92, None));
    press(&mut state, "kk");
    assert_eq!(at(&state).0, 90);
    press(&mut state, "gj");
    assert_eq!(at(&state).0, 1);
    press(&mut state, "G/LINE 5\n");
    assert_eq!(at(&state).1, Some(59));
    press(&mut state, "n");
    assert_eq!(at(&state).1, Some(58));
    press(&mut state, "NN");
    assert_eq!(at(&state).1, Some(5), "around the end");
    press(&mut state, "/nowhere\n");
    assert!(state.message.as_ref().unwrap().is_error);
    press(&mut state, "q");
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn the_explanation_is_shown_when_it_comes() {
    let mut state = state_with((40, 10), mixed());
    assert_eq!(press(&mut state, "e"), [explain()]);
    state.on_report(explained("@4000", false));
    let Mode::View { of, view } = &state.mode else {
        panic!("no view");
    };
    assert_eq!(*of, Subject::Explanation(task("@4000")));
    assert_eq!(view.lines[0].to_string(), "rule      rule");
    let task = task("@4000");
    let result = Err("no task".to_owned());
    press(&mut state, "qe");
    state.on_report(ActionReport::Explained { task, result });
    assert_eq!(state.message.as_ref().unwrap().text, "no task");
    assert!(matches!(state.mode, Mode::List));
}

#[test]
fn the_help_is_shown_from_every_view_and_q_closes_it() {
    for key in ["e", "l", ""] {
        let mut state = state_with((80, 24), mixed());
        press(&mut state, key);
        press(&mut state, "?");
        assert!(
            matches!(&state.mode, Mode::View { of, .. } if *of == Subject::Help),
            "{key}"
        );
        assert!(press(&mut state, "q").is_empty(), "{key}");
        assert!(matches!(state.mode, Mode::List), "{key}");
    }
}

#[test]
fn every_key_of_the_help_does_something_at_every_size() {
    for size in SIZES {
        let mut state = state_with(size, mixed());
        let asking = vec![asking(5, "server", "Name:"), asking(65, "tunnel", "Again?")];
        state.on_tasks(ONLY, true, false, asking, &[]);
        // One is above it, others are below it.
        state.selected = Some(ListRow::Task(task("@65")));
        let keys = crate::faces::panel::mode::KEYS
            .iter()
            .flat_map(|(keys, _)| keys.split(' '));
        for key in keys {
            let is_mouse = key == "mouse";
            let code = match key {
                "↓" => KeyCode::Down,
                "↑" => KeyCode::Up,
                "Enter" => KeyCode::Enter,
                key => KeyCode::Char(key.chars().next().unwrap()),
            };
            let before = state.selected.clone();
            let mut effects = if is_mouse {
                let mouse = |kind| MouseEvent {
                    kind,
                    column: 3,
                    row: 2,
                    modifiers: KeyModifiers::NONE,
                };
                press(&mut state, "G");
                state.on_mouse(mouse(MouseEventKind::Down(MouseButton::Left)))
            } else {
                state.on_key(KeyEvent::new(code, KeyModifiers::NONE))
            };
            effects.retain(|effect| !matches!(effect, PanelEffect::Preview { .. }));
            let is_list = matches!(state.mode, Mode::List);
            let has_moved = state.selected != before;
            assert!(
                !effects.is_empty() || !is_list || has_moved || state.has_quit,
                "{size:?} {key}"
            );
            press(&mut state, "\x1b");
            state.selected = before;
        }
    }
}

#[test]
fn a_preview_is_read_when_the_selected_task_changes_and_there_is_room() {
    let preview = |number: u32| PanelEffect::Preview {
        task: task(&format!("@{number}")),
        is_full_screen: false,
    };
    let mut state = PanelState::new(Some("work".to_owned()), (80, 24), NOW);
    let tasks = vec![listed(running(1, "a")), listed(running(2, "b"))];
    assert_eq!(
        state.on_tasks(ONLY, true, true, tasks.clone(), &[]),
        [preview(1)]
    );
    // The same again, and a change of another task.
    assert_eq!(state.on_tasks(ONLY, true, true, tasks.clone(), &[]), []);
    let other = printed(running(2, "b"), "more");
    assert_eq!(
        state.on_tasks(ONLY, true, false, vec![listed(other)], &[]),
        []
    );
    let own = printed(running(1, "a"), "more");
    let changed = state.on_tasks(ONLY, true, false, vec![listed(own)], &[]);
    assert_eq!(changed, [preview(1)]);
    let down = KeyEvent::new(KeyCode::Down, KeyModifiers::NONE);
    assert_eq!(state.on_key(down), [preview(2)]);
    let mut low = PanelState::new(Some("work".to_owned()), (80, 10), NOW);
    assert_eq!(low.on_tasks(ONLY, true, true, tasks, &[]), []);
    assert_eq!(low.on_size((80, 24)), [preview(1)]);
}

#[test]
fn a_message_goes_by_itself_and_an_error_later() {
    let mut state = state_with((80, 24), mixed());
    let now = Instant::now();
    let mut shown_for = |said| {
        state.on_report(ActionReport::Said(said));
        assert_eq!(state.message_until(), None);
        state.on_drawn(now);
        // Further frames do not prolong it.
        state.on_drawn(now + Duration::from_secs(1));
        let until = state.message_until().unwrap();
        state.on_message_over();
        assert_eq!(state.message, None);
        assert_eq!(state.message_until(), None);
        until - now
    };
    let result = shown_for(Ok("killed api".to_owned()));
    let error = shown_for(Err("no task".to_owned()));
    assert!(result < error);
    // A later message has a time of its own.
    state.on_report(ActionReport::Said(Ok("killed api".to_owned())));
    state.on_drawn(now);
    state.on_report(ActionReport::Said(Ok("killed web".to_owned())));
    assert_eq!(state.message_until(), None);
}

#[test]
fn questions_and_messages_are_whole_on_a_narrow_terminal() {
    let name = "a-name-of-forty-characters-which-is-long";
    let mut state = state_with((40, 10), vec![listed(ended(1, name, 1))]);
    press(&mut state, "x");
    let question = [
        "Kill",
        "a-name-of-forty-characters-which-is-lo",
        "ng and remove its window? y/n",
    ];
    assert_eq!(state.footer_text(), question);
    assert_eq!(state.layout().footer.height, 3);
    press(&mut state, "na");
    let message = state.footer_text().join(" ");
    assert!(
        message.ends_with("has ended and asks for nothing"),
        "{message}"
    );
    // The selected row is above it.
    let tasks = (0..50).map(|n| listed(running(n, name)));
    state.on_tasks(ONLY, true, true, tasks.collect(), &[]);
    press(&mut state, "Gx");
    let window = state.selected.clone().unwrap();
    assert!(state.visible().contains(&window));
}

#[test]
fn a_task_that_runs_is_ended_for_a_new_run_only_after_y() {
    let again = |number: u32, name: &str| PanelEffect::Rerun {
        task: task(&format!("@{number}")),
        name: name.to_owned(),
    };
    let tasks = vec![listed(ended(1, "build", 2)), listed(running(2, "server"))];
    let mut state = state_with((80, 24), tasks);
    assert_eq!(press(&mut state, "r"), [again(1, "build")]);
    assert_eq!(press(&mut state, "jr"), []);
    let question = "server still runs. End it and run it again? y/n";
    assert_eq!(state.footer_text(), [question]);
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!(press(&mut state, "ry"), [again(2, "server")]);
}

#[test]
fn a_key_right_after_escape_does_nothing() {
    let with_alt = |state: &mut PanelState, code| {
        let effects = state.on_key(KeyEvent::new(code, KeyModifiers::ALT));
        assert_eq!(effects, [], "{code:?}");
    };
    let mut state = state_with((80, 24), mixed());
    for key in ['r', 'x', 'p', 'q'] {
        with_alt(&mut state, KeyCode::Char(key));
        assert!(matches!(state.mode, Mode::List), "{key}");
    }
    press(&mut state, "x");
    with_alt(&mut state, KeyCode::Char('y'));
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!(press(&mut state, "a"), [explain()]);
    state.on_report(explained("@4000", false));
    press(&mut state, "yes");
    with_alt(&mut state, KeyCode::Enter);
    assert_eq!(press(&mut state, "\x1b"), []);
}
