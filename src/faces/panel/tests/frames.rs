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

/// Checks a frame against the file with this name.
#[track_caller]
fn check(state: &PanelState, file: &str) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/faces/panel/tests/frames");
    let expected = std::fs::read_to_string(format!("{folder}/{file}.txt")).unwrap();
    let found = frame(state);
    assert!(found == expected, "found:\n{found}\nexpected:\n{expected}");
}

fn with_usage(size: (u16, u16)) -> PanelState {
    let mut state = state_with(size, mixed());
    let usage = Usage {
        cpu: Some(12),
        memory: 345 << 20,
    };
    state.usage.insert(1005, usage);
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
fn a_frame_at_each_size() {
    for (width, height) in [(40, 10), (80, 24), (200, 50)] {
        let size = (width, height);
        check(&with_usage(size), &format!("{width}x{height}"));
        check(&super::all::all(size), &format!("all-{width}x{height}"));
    }
}

#[test]
fn a_task_that_is_stopped_says_so() {
    let stopped = [(1, None), (2, Some("Go?"))].map(|(number, prompt)| {
        let task = Task {
            stopped: Some(Stop::BySignal),
            ..running(number, "api")
        };
        LsTask::new(task, prompt.map(str::to_owned))
    });
    for (size, word) in [((80, 24), "STOPPED "), ((40, 10), "STOP ")] {
        let shown = frame(&state_with(size, stopped.to_vec()));
        assert_eq!(shown.matches(word).count(), 2, "{shown}");
    }
}

#[test]
fn each_view_at_40_by_10() {
    let state = || with_usage((40, 10));
    let mut answers = state();
    // Until it is known whether it may be shown, it is not.
    press(&mut answers, "asecret");
    check(&answers, "answer");

    let mut helps = state();
    press(&mut helps, "?");
    check(&helps, "help");

    let mut reads = state();
    press(&mut reads, "l");
    let line = |n| format!("\x1b[3{}mline {n}", n % 8);
    reads.on_report(ActionReport::Log {
        task: task("@4000"),
        result: Ok((0..20).map(line).collect()),
    });
    press(&mut reads, "/line 17\n");
    check(&reads, "log");

    // The last known tasks stay.
    let mut loses = state();
    loses.on_lost("the daemon has stopped; connecting again".to_owned());
    check(&loses, "lost");

    let mut ends = state();
    ends.on_tasks(ONLY, false, false, Vec::new(), &["@5"]);
    ends.on_tasks(ONLY, false, true, Vec::new(), &[]);
    check(&ends, "no-session");

    let mut finds = PanelState::new(None, (40, 10), NOW);
    check(&finds, "all-looking");
    finds.on_incoming(Incoming::Found);
    check(&finds, "all-none");
}

#[test]
fn ports_are_in_front_of_the_command_and_the_usual_duration_is_shown() {
    let mut state = with_usage((200, 50));
    state.ports = [(1005, vec![80, 3000]), (1001, Vec::new())].into();
    let shown = frame(&state);
    assert!(shown.contains(":80, 3000 make server"), "{shown}");
    let usual = LsTask {
        usual_ms: Some(40_000),
        ..listed(running(12, "build"))
    };
    let shown = frame(&state_with((80, 24), vec![usual]));
    let title = "build · run 1 · @12 · usually 40s";
    assert!(shown.contains(title), "{shown}");
}

#[test]
fn groups_and_the_preview_have_their_colours() {
    let state = with_usage((80, 24));
    let backend = terminal(&state);
    let buffer = backend.buffer();
    assert_eq!(buffer[(1, 2)].symbol(), "A");
    assert_eq!(buffer[(1, 2)].fg, Color::Yellow);
    assert_eq!(buffer[(1, 3)].fg, Color::Red);
    let rows = frame(&state);
    let y = rows.lines().position(|row| row.starts_with("Deploying"));
    let cell = &buffer[(10, u16::try_from(y.unwrap()).unwrap())];
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

#[test]
fn names_and_commands_are_whole_where_there_is_room() {
    let name = "integration-tests-postgres-replica-sets";
    let command = format!("make integration-tests {name}");
    let task = Task {
        command: Some(command.clone()),
        ..printed(running(5, name), &"x".repeat(300))
    };
    for (size, expected) in [
        ((240, 50), &*format!(" {command} ")),
        ((240, 50), &format!(" {name} ")),
        ((200, 50), &format!(" {name} ")),
        ((160, 50), &format!(" {name} ")),
        ((80, 24), " integration-tes… "),
    ] {
        let shown = frame(&state_with(size, vec![listed(task.clone())]));
        let row = shown.lines().nth(2).unwrap();
        assert!(row.contains(expected), "{row}");
    }
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
