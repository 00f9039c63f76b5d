use std::time::{Duration, Instant};

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::*;
use crate::faces::panel::mode::{Mode, Subject};
use crate::faces::panel::state::ActionReport;
use crate::rules::wire::{SecretText, SendRequest, TypedInput};

const SIZES: [(u16, u16); 3] = [(40, 10), (80, 24), (200, 50)];

fn names(state: &PanelState) -> Vec<&str> {
    let name = |row: &ListRow| match row {
        ListRow::Task(task) => name_in(state, task),
        ListRow::Session(session) => state.session_name(*session),
    };
    state.rows.iter().map(name).collect()
}

fn is_list(state: &PanelState) -> bool {
    matches!(state.mode, Mode::List)
}

/// A panel of 40 columns and 10 rows with tasks of each kind.
fn small() -> PanelState {
    state_with((40, 10), mixed())
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
    sent("@4000", "deploy", input, Some("Proceed? [y/N]"))
}

fn sent(task: &str, name: &str, input: TypedInput, prompt: Option<&str>) -> PanelEffect {
    PanelEffect::Send {
        session: ONLY,
        name: name.to_owned(),
        request: SendRequest {
            if_prompt: prompt.map(str::to_owned),
            ..test_notation::send_request(task, input)
        },
    }
}

fn explain() -> PanelEffect {
    PanelEffect::Explain {
        task: task("@4000"),
    }
}

#[test]
fn the_same_task_stays_selected_while_others_change() {
    let mut state = state_with((80, 24), mixed());
    press(&mut state, "jj");
    assert_eq!(selected(&state), "build");
    change(&mut state, vec![asking(5, "server", "Name:")], &["@65"]);
    assert_eq!(names(&state), ["server", "deploy", "build", "sync", "lint"]);
    assert_eq!(selected(&state), "build");
    // When it goes, the one that has moved into its row is selected; at the end, the last one.
    change(&mut state, Vec::new(), &["@80"]);
    assert_eq!(selected(&state), "sync");
    press(&mut state, "G");
    change(&mut state, Vec::new(), &["@70"]);
    assert_eq!(selected(&state), "sync");
    state.on_tasks(ONLY, false, true, Vec::new(), &[]);
    assert_eq!(selected(&state), "");
}

#[test]
fn the_selected_row_is_always_visible() {
    let is_visible = |state: &PanelState| {
        let row = state.selected.clone().unwrap();
        state.visible().contains(&row)
    };
    for size in SIZES {
        let tasks = (0..300).map(|n| listed(running(n, &format!("t{n}"))));
        let mut state = state_with(size, tasks.collect());
        for keys in ["G", "g", &"j".repeat(24), "k", "G", &"k".repeat(12)] {
            press(&mut state, keys);
            assert!(is_visible(&state), "{size:?} {keys}");
        }
        press(&mut state, "G");
        state.on_size((40, 10));
        assert!(is_visible(&state));
        state.on_size((200, 200));
        let height = usize::from(state.layout().list.height);
        assert_eq!(state.visible().len(), height);
    }
}

#[test]
fn the_filter_lists_what_matches_while_it_is_typed() {
    let mut state = state_with((80, 24), mixed());
    // By name, state and command.
    for (keys, expected) in [
        ("/ER", "server"),
        ("\n", "server"),
        ("\x1b", "deploy tunnel build sync server lint"),
        ("/failed\n", "tunnel build"),
        ("\x1b/make li", "lint"),
        // Letters are no commands here.
        ("xq", ""),
    ] {
        assert_eq!(press(&mut state, keys), [], "{keys}");
        assert_eq!(names(&state).join(" "), expected, "{keys}");
        assert!(expected.contains(selected(&state)), "{keys}");
    }
}

#[test]
fn an_answer_is_for_the_prompt_that_was_shown() {
    let mut state = small();
    assert_eq!(press(&mut state, "a"), [explain()]);
    assert_eq!(state.on_report(explained("@4000", false)), []);
    assert_eq!(press(&mut state, "yes"), []);
    // The task goes on to another question: the answer still names the one that was shown.
    let asks = asking(4000, "deploy", "Delete all?");
    change(&mut state, vec![asks], &[]);
    assert_eq!(press(&mut state, "\n"), [answer("yes", false)]);
    assert!(is_list(&state));
}

#[test]
fn an_answer_waits_until_it_is_known_whether_it_is_secret() {
    for secret in [false, true] {
        let mut state = small();
        assert_eq!(press(&mut state, "a"), [explain()]);
        // Nothing that is typed after that is a command.
        assert_eq!(press(&mut state, "qx\nq"), []);
        // An explanation of another task changes nothing.
        assert_eq!(state.on_report(explained("@5", false)), []);
        let sent = state.on_report(explained("@4000", secret));
        assert_eq!(sent, [answer("qx", secret)]);
    }
    let mut state = small();
    press(&mut state, "ay\x1b");
    assert_eq!(state.on_report(explained("@4000", false)), []);
    assert!(is_list(&state));
}

#[test]
fn a_line_is_sent_to_a_task_that_lives() {
    let mut state = small();
    let reload = TypedInput::Text("reload".to_owned());
    let expected = sent("@5", "server", reload, None);
    assert_eq!(press(&mut state, "Gksreload\n"), [expected]);
    assert_eq!(press(&mut state, "sreload\x1b"), []);
    // The one below has ended.
    assert_eq!(press(&mut state, "js"), []);
    assert!(has_error(&state) && is_list(&state));
    // It asks for nothing.
    let mut state = small();
    assert_eq!(press(&mut state, "Ga"), []);
    assert!(has_error(&state) && is_list(&state));
}

#[test]
fn pasted_text_is_never_a_command() {
    let mut state = small();
    assert_eq!(state.on_paste("xy"), []);
    assert!(is_list(&state));
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
    let prune = PanelEffect::Prune { session: ONLY };
    for (keys, expected) in [("xy", vec![kill]), ("py", vec![prune])] {
        let mut state = small();
        assert_eq!(press(&mut state, keys), expected, "{keys:?}");
        assert!(is_list(&state), "{keys:?}");
    }
    for keys in ["xn", "xx", "x\n", "x\x1b", "p\n"] {
        let mut state = small();
        assert_eq!(press(&mut state, keys), [], "{keys:?}");
        assert!(is_list(&state), "{keys:?}");
    }
    let mut state = state_with((40, 10), vec![listed(running(1, "a"))]);
    assert_eq!(press(&mut state, "py"), [], "nothing has ended");
}

#[test]
fn a_log_is_scrolled_and_searched() {
    let mut state = small();
    let task_read = task("@4000");
    let read = PanelEffect::ReadLog { task: task_read };
    assert_eq!(press(&mut state, "l"), [read]);
    let lines: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
    // The log of a task that the user has left is not shown.
    for window in ["@5", "@4000"] {
        state.on_report(ActionReport::Log {
            task: task(window),
            result: Ok(lines.clone()),
        });
    }
    // The end is shown: eight lines fit.
    for (keys, top, found) in [
        ("", Some(92), None),
        ("kk", Some(90), None),
        ("gj", Some(1), None),
        ("G/LINE 5\n", None, Some(59)),
        ("n", None, Some(58)),
        // Around the end.
        ("NN", None, Some(5)),
    ] {
        press(&mut state, keys);
        let Mode::View { view, .. } = &state.mode else {
            panic!("no view");
        };
        assert!(
            top.is_none_or(|top| view.top == top),
            "{keys}: {}",
            view.top
        );
        assert_eq!(view.found, found, "{keys}");
    }
    press(&mut state, "/nowhere\n");
    assert!(has_error(&state));
    press(&mut state, "q");
    assert!(is_list(&state));
}

#[test]
fn the_explanation_is_shown_when_it_comes() {
    let mut state = small();
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
    assert!(is_list(&state));
}

#[test]
fn the_help_is_shown_from_every_view_and_q_closes_it() {
    for key in ["e", "l", ""] {
        let mut state = state_with((80, 24), mixed());
        press(&mut state, key);
        press(&mut state, "?");
        let is_help = matches!(&state.mode, Mode::View { of, .. } if *of == Subject::Help);
        assert!(is_help, "{key}");
        assert!(press(&mut state, "q").is_empty(), "{key}");
        assert!(is_list(&state), "{key}");
    }
}

#[test]
fn every_key_of_the_help_does_something_at_every_size() {
    for size in SIZES {
        let mut state = state_with(size, mixed());
        let asking = vec![asking(5, "server", "Name:"), asking(65, "tunnel", "Again?")];
        change(&mut state, asking, &[]);
        // One is above it, others are below it.
        state.selected = Some(ListRow::Task(task("@65")));
        let keys = crate::faces::panel::mode::KEYS;
        for key in keys.iter().flat_map(|(keys, _)| keys.split(' ')) {
            let before = state.selected.clone();
            let press_one = |code| KeyEvent::new(code, KeyModifiers::NONE);
            let mut effects = match key {
                "mouse" => {
                    press(&mut state, "G");
                    state.on_mouse(MouseEvent {
                        kind: MouseEventKind::Down(MouseButton::Left),
                        column: 3,
                        row: 2,
                        modifiers: KeyModifiers::NONE,
                    })
                }
                "↓" => state.on_key(press_one(KeyCode::Down)),
                "↑" => state.on_key(press_one(KeyCode::Up)),
                "Enter" => state.on_key(press_one(KeyCode::Enter)),
                key => state.on_key(press_one(KeyCode::Char(key.chars().next().unwrap()))),
            };
            effects.retain(|effect| !matches!(effect, PanelEffect::Preview { .. }));
            let has_moved = state.selected != before;
            let has_done = !effects.is_empty() || !is_list(&state) || state.has_quit;
            assert!(has_done || has_moved, "{size:?} {key}");
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
    let tasks = || vec![listed(running(1, "a")), listed(running(2, "b"))];
    let mut low = PanelState::new(Some("work".to_owned()), (80, 10), NOW);
    assert_eq!(low.on_tasks(ONLY, true, true, tasks(), &[]), []);
    assert_eq!(low.on_size((80, 24)), [preview(1)]);
    let all = |state: &mut PanelState| state.on_tasks(ONLY, true, true, tasks(), &[]);
    assert_eq!(all(&mut state), [preview(1)]);
    // The same again, and a change of another task.
    assert_eq!(all(&mut state), []);
    let [own, other] = [(1, "a"), (2, "b")].map(|(number, name)| running(number, name));
    let changed = change(&mut state, vec![listed(printed(other, "more"))], &[]);
    assert_eq!(changed, []);
    let changed = change(&mut state, vec![listed(printed(own, "more"))], &[]);
    assert_eq!(changed, [preview(1)]);
    let down = KeyEvent::new(KeyCode::Down, KeyModifiers::NONE);
    assert_eq!(state.on_key(down), [preview(2)]);
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
    let end = "has ended and asks for nothing";
    assert!(message.ends_with(end), "{message}");
    // The selected row is above it.
    let tasks = (0..50).map(|n| listed(running(n, name)));
    state.on_tasks(ONLY, true, true, tasks.collect(), &[]);
    press(&mut state, "Gx");
    let window = state.selected.clone().unwrap();
    assert!(state.visible().contains(&window));
}

#[test]
fn a_task_that_runs_is_ended_for_a_new_run_only_after_y() {
    let again = |window: &str, name: &str| PanelEffect::Rerun {
        task: task(window),
        name: name.to_owned(),
    };
    let tasks = vec![listed(ended(1, "build", 2)), listed(running(2, "server"))];
    let mut state = state_with((80, 24), tasks);
    assert_eq!(press(&mut state, "r"), [again("@1", "build")]);
    assert_eq!(press(&mut state, "jr"), []);
    let question = "server still runs. End it and run it again? y/n";
    assert_eq!(state.footer_text(), [question]);
    assert_eq!(press(&mut state, "n"), []);
    assert_eq!(press(&mut state, "ry"), [again("@2", "server")]);
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
        assert!(is_list(&state), "{key}");
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
