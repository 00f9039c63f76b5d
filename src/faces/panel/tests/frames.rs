use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::faces::panel::board::Usage;
use crate::faces::panel::draw::draw;
use crate::faces::panel::state::ActionReport;
use crate::model::Stop;

fn terminal(state: &PanelState) -> TestBackend {
    let (width, height) = state.size;
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state)).unwrap();
    terminal.backend().clone()
}

/// The frame's rows, without blanks at their ends.
fn frame(state: &PanelState) -> String {
    let backend = terminal(state);
    let buffer = backend.buffer();
    let row = |y| {
        let cells = (0..buffer.area.width).map(|x| buffer[(x, y)].symbol());
        let row: String = cells.collect();
        row.trim_end().to_owned()
    };
    let rows: Vec<String> = (0..buffer.area.height).map(row).collect();
    rows.join("\n") + "\n"
}

#[track_caller]
fn check(state: &PanelState, expected: &str) {
    let found = frame(state);
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
}

fn with_usage(size: (u16, u16)) -> PanelState {
    let mut state = state_with(size, mixed());
    let usage = Usage {
        cpu: Some(12),
        memory: 345 << 20,
    };
    state.usage.insert(task("@5"), usage);
    state.on_report(ActionReport::Preview {
        task: task("@4000"),
        lines: vec![
            "Deploying \x1b[1;32mapi\x1b[m to production".to_owned(),
            "  3 machines".to_owned(),
            "Proceed? [y/N]".to_owned(),
        ],
    });
    state
}

#[test]
fn at_40_by_10() {
    check(&with_usage((40, 10)), include_str!("frames/40x10.txt"));
}

#[test]
fn at_80_by_24() {
    check(&with_usage((80, 24)), include_str!("frames/80x24.txt"));
}

#[test]
fn at_200_by_50() {
    check(&with_usage((200, 50)), include_str!("frames/200x50.txt"));
}

#[test]
fn a_task_that_is_stopped_says_so() {
    let stopped = |number, prompt: Option<&str>| {
        let task = Task {
            stopped: Some(Stop::BySignal),
            ..running(number, "api")
        };
        LsTask::new(task, prompt.map(Into::into))
    };
    let tasks = || vec![stopped(1, None), stopped(2, Some("Go?"))];
    let wide = frame(&state_with((80, 24), tasks()));
    assert_eq!(wide.matches("STOPPED ").count(), 2, "{wide}");
    let narrow = frame(&state_with((40, 10), tasks()));
    assert_eq!(narrow.matches("STOP ").count(), 2, "{narrow}");
}

#[test]
fn an_answer_at_40_by_10() {
    let mut state = with_usage((40, 10));
    press(&mut state, "asecret");
    // Until it is known whether it may be shown, it is not.
    check(&state, include_str!("frames/answer.txt"));
}

#[test]
fn the_help_at_40_by_10() {
    let mut state = with_usage((40, 10));
    press(&mut state, "?");
    check(&state, include_str!("frames/help.txt"));
}

#[test]
fn a_log_at_40_by_10() {
    let mut state = with_usage((40, 10));
    press(&mut state, "l");
    state.on_report(ActionReport::Log {
        task: task("@4000"),
        result: Ok((0..20)
            .map(|n| format!("\x1b[3{}mline {n}", n % 8))
            .collect()),
    });
    press(&mut state, "/line 17\n");
    check(&state, include_str!("frames/log.txt"));
}

#[test]
fn without_a_daemon_the_last_known_tasks_and_the_trouble_are_shown() {
    let mut state = with_usage((40, 10));
    state.on_lost("the daemon has stopped; connecting again".to_owned());
    check(&state, include_str!("frames/lost.txt"));
}

#[test]
fn without_a_session_it_says_how_to_start_one() {
    let mut state = with_usage((40, 10));
    state.on_tasks(ONLY, false, false, Vec::new(), &["@5".to_owned()]);
    state.on_tasks(ONLY, false, true, Vec::new(), &[]);
    check(&state, include_str!("frames/no-session.txt"));
}

#[test]
fn the_ports_of_a_task_are_in_front_of_its_command() {
    let mut state = with_usage((200, 50));
    state.ports = [(1005, vec![80, 3000]), (1001, Vec::new())].into();
    let shown = frame(&state);
    assert!(shown.contains(":80, 3000 make server"), "{shown}");
}

#[test]
fn groups_and_the_preview_have_their_colours() {
    let backend = terminal(&with_usage((80, 24)));
    let buffer = backend.buffer();
    assert_eq!(buffer[(1, 2)].symbol(), "A");
    assert_eq!(buffer[(1, 2)].fg, Color::Yellow);
    assert_eq!(buffer[(1, 3)].fg, Color::Red);
    let find = |text: &str| {
        let rows = frame(&with_usage((80, 24)));
        let y = rows.lines().position(|row| row.starts_with(text)).unwrap();
        u16::try_from(y).unwrap()
    };
    let cell = &buffer[(10, find("Deploying"))];
    assert_eq!((cell.symbol(), cell.fg), ("a", Color::Indexed(2)));
    assert!(cell.modifier.contains(Modifier::BOLD));
}

#[test]
fn a_secret_is_never_drawn() {
    for size in [(40, 10), (200, 50)] {
        let mut state = with_usage(size);
        press(&mut state, "ahunter2");
        assert!(!frame(&state).contains("hunter2"));
        assert!(frame(&state).contains("•••••••"));
    }
}

#[test]
fn no_size_is_too_small_and_no_text_too_hostile() {
    let hostile = Task {
        name: "日本語\u{301}👩‍👩‍👧 name that is long".to_owned(),
        command: Some("👍🏽".repeat(100)),
        ..printed(running(7, ""), &"ÄÖ\u{200d}한".repeat(100))
    };
    let mut tasks = mixed();
    tasks.push(listed(hostile));
    for width in [1, 2, 20, 39, 61, 120] {
        for height in [1, 2, 5, 16] {
            for keys in ["", "a", "s", "x", "?", "/7", "l", "G"] {
                let mut state = state_with((width, height), tasks.clone());
                press(&mut state, keys);
                terminal(&state);
                state.on_lost("trouble".to_owned());
                terminal(&state);
                let mut state = super::all::all((width, height));
                press(&mut state, keys);
                terminal(&state);
            }
        }
    }
}

/// A task whose runs usually take so long, in milliseconds.
fn usual(task: Task, millis: i64) -> LsTask {
    LsTask {
        usual_ms: Some(millis),
        ..listed(task)
    }
}

#[test]
fn a_run_says_how_long_it_usually_takes() {
    let state = state_with((80, 24), vec![usual(running(12, "build"), 40_000)]);
    assert!(frame(&state).contains("build · run 1 · @12 · usually 40s"));
}

#[test]
fn all_sessions_at_three_sizes() {
    for (size, expected) in [
        ((40, 10), include_str!("frames/all-40x10.txt")),
        ((80, 24), include_str!("frames/all-80x24.txt")),
        ((200, 50), include_str!("frames/all-200x50.txt")),
    ] {
        check(&super::all::all(size), expected);
    }
}

#[test]
fn names_and_commands_are_whole_where_there_is_room() {
    let name = "integration-tests-postgres-replica-sets";
    let command = format!("make integration-tests {name}");
    let task = Task {
        command: Some(command.clone()),
        ..printed(running(5, name), &"x".repeat(300))
    };
    let shown = |size| frame(&state_with(size, vec![listed(task.clone())]));
    let row = |shown: &str| shown.lines().nth(2).unwrap().to_owned();
    let wide = row(&shown((240, 50)));
    assert!(wide.contains(&format!(" {command} ")), "{wide}");
    for columns in [160, 200, 240] {
        let row = row(&shown((columns, 50)));
        assert!(row.contains(&format!(" {name} ")), "{row}");
    }
    assert!(row(&shown((80, 24))).contains(" integration-tes… "));
}

#[test]
fn a_shell_is_marked_and_faint() {
    let shell = Task {
        shell: true,
        ..running(3, "zsh")
    };
    let tasks = vec![listed(shell), listed(running(5, "server"))];
    let state = state_with((80, 24), tasks);
    let shown = frame(&state);
    assert!(shown.starts_with(" work  1 running · 1 shell\n"), "{shown}");
    let rows: Vec<&str> = shown.lines().skip(2).take(2).collect();
    assert!(rows[0].starts_with(">RUNNING server "), "{shown}");
    assert!(rows[1].starts_with(" SHELL   zsh "), "{shown}");
    let backend = terminal(&state);
    let is_faint = |y| backend.buffer()[(9, y)].modifier.contains(Modifier::DIM);
    assert!(is_faint(3) && !is_faint(2));
}

#[test]
fn without_any_session_it_says_how_to_start_one() {
    let mut state = PanelState::new(None, (40, 10), NOW);
    check(&state, include_str!("frames/all-looking.txt"));
    state.on_found();
    check(&state, include_str!("frames/all-none.txt"));
}
