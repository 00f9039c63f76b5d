//! The panel of all sessions.

use super::*;
use crate::faces::panel::state::Scope;

const SHOP: SessionKey = SessionKey(1);
const API: SessionKey = SessionKey(2);
const TOOLS: SessionKey = SessionKey(3);
const IDLE: SessionKey = SessionKey(4);

/// Two sessions of this server, one of another, and one without a daemon. Windows of different
/// servers have the same ids.
pub(super) fn all(size: (u16, u16)) -> PanelState {
    let mut state = PanelState::new(None, size, NOW);
    state.on_connected(SHOP, named("task-shop-0a1b2c", None));
    state.on_connected(API, named("api", None));
    state.on_connected(TOOLS, named("api", Some("tools")));
    let shop = vec![
        asking(4000, "deploy", "Proceed? [y/N]"),
        listed(ended(70, "lint", 0)),
    ];
    let api = vec![listed(running(5, "server")), listed(ended(80, "build", 2))];
    state.on_tasks(API, true, true, api, &[]);
    let tools = vec![listed(running(5, "watch")), listed(ended(65, "fmt", 0))];
    state.on_tasks(TOOLS, true, true, tools, &[]);
    state.on_incoming(Incoming::Found);
    // It is the last one to be found, and its first task is selected.
    state.on_tasks(SHOP, true, true, shop, &[]);
    let why = "no daemon runs; `tmux-task -s idle daemon --detach` starts one";
    state.on_incoming(Incoming::Unknown {
        key: IDLE,
        name: named("idle", None),
        why: why.to_owned(),
    });
    state
}

/// The tasks that are listed, with their sessions.
fn rows(state: &PanelState) -> Vec<(SessionKey, &str)> {
    let tasks = state.rows.iter().filter_map(|row| match row {
        ListRow::Task(task) => Some((task.session, name_in(state, task))),
        ListRow::Session(_) => None,
    });
    tasks.collect()
}

#[test]
fn the_first_task_is_selected_until_all_sessions_are_found() {
    let mut state = all((80, 24));
    assert_eq!(state.selected, Some(ListRow::Task(task_of(SHOP, "@4000"))));
    // After that it stays selected.
    let asks = asking(80, "build", "Again?");
    state.on_tasks(API, true, false, vec![asks], &[]);
    assert_eq!(state.rows[0], ListRow::Task(task_of(API, "@80")));
    assert_eq!(state.selected, Some(ListRow::Task(task_of(SHOP, "@4000"))));
}

#[test]
fn keys_are_for_the_session_of_the_selected_task() {
    let mut state = all((80, 24));
    let task = || task_of(TOOLS, "@5");
    state.selected = Some(ListRow::Task(task()));
    let attach = PanelEffect::Attach { task: task() };
    assert_eq!(press(&mut state, "\n"), [attach]);
    let read = PanelEffect::ReadLog { task: task() };
    assert_eq!(press(&mut state, "l"), [read]);
    press(&mut state, "qx");
    let question = "Kill api@tools/watch and remove its window? y/n";
    assert_eq!(state.footer_text(), [question]);
    let (task, name) = (task(), "api@tools/watch".to_owned());
    let kill = PanelEffect::Kill {
        task: task.clone(),
        name: name.clone(),
    };
    assert_eq!(press(&mut state, "y"), [kill]);
    assert_eq!(press(&mut state, "ry"), [PanelEffect::Rerun { task, name }]);
    let sent = press(&mut state, "sgo\n");
    let [
        PanelEffect::Send {
            session, request, ..
        },
    ] = sent.as_slice()
    else {
        panic!("{sent:?}");
    };
    assert_eq!((*session, &*request.task), (TOOLS, "@5"));
}

#[test]
fn ended_tasks_are_removed_from_the_session_of_the_selected_task_alone() {
    let mut state = all((80, 24));
    press(&mut state, "p");
    assert_eq!(state.footer_text(), ["Remove 1 ended task of shop? y/n"]);
    let prune = PanelEffect::Prune { session: SHOP };
    assert_eq!(press(&mut state, "y"), [prune]);
    state.on_tasks(SHOP, true, false, Vec::new(), &["@70"]);
    assert_eq!(press(&mut state, "py"), []);
    assert_eq!(press(&mut state, "Gpy"), [], "a session without a daemon");
}

#[test]
fn a_session_without_a_daemon_says_how_to_start_it_and_has_no_keys() {
    let mut state = all((80, 24));
    let why = "idle: no daemon runs; `tmux-task -s idle daemon --detach` starts one";
    for key in ["\n", "a", "s", "x", "r", "l", "e"] {
        assert_eq!(press(&mut state, &format!("G{key}")), [], "{key}");
        assert_eq!(state.message.as_ref().unwrap().text, why);
    }
    // Its daemon starts.
    state.on_connected(IDLE, named("idle", None));
    state.on_tasks(IDLE, true, true, vec![listed(running(1, "job"))], &[]);
    assert!(state.rows.iter().all(|row| matches!(row, ListRow::Task(_))));
    assert!(rows(&state).contains(&(IDLE, "job")));
}

#[test]
fn sessions_come_and_go_and_the_same_task_stays_selected() {
    let mut state = all((80, 24));
    let watch = Some(ListRow::Task(task_of(TOOLS, "@5")));
    state.selected.clone_from(&watch);
    state.on_incoming(Incoming::Gone(SHOP));
    state.on_tasks(API, false, false, Vec::new(), &["@5", "@80"]);
    assert_eq!(rows(&state), [(TOOLS, "watch"), (TOOLS, "fmt")]);
    assert_eq!(state.selected, watch);
    assert_eq!(state.title(), "2 sessions");
    state.on_incoming(Incoming::Gone(TOOLS));
    state.on_incoming(Incoming::Gone(IDLE));
    assert_eq!((state.rows.len(), state.selected.clone()), (0, None));
    assert_eq!(state.scope, Scope::All);
    assert_eq!(state.title(), "0 sessions");
}

#[test]
fn the_filter_finds_sessions() {
    let mut state = all((80, 24));
    press(&mut state, "/tools\n");
    assert_eq!(rows(&state), [(TOOLS, "watch"), (TOOLS, "fmt")]);
    assert_eq!(state.rows.len(), 2);
    press(&mut state, "\x1b/idle\n");
    assert_eq!(state.rows, [ListRow::Session(IDLE)]);
}
