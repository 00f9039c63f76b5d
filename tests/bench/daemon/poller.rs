//! The usual way to watch a tmux session, as a measure: every two seconds a process for each
//! question, two for each window, and the difference between two answers.
//!
//! It does what the extension pi-tmux-task does, in its order and as concurrently, without the cost
//! of a language that is interpreted. Events are printed in the shape of the feed.

use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) const PART: &str = "part-of-poller";

const EVERY: Duration = Duration::from_secs(2);

/// How a bell is counted: by a shell and another tmux.
const BELL_HOOK: &str = "run-shell 'tmux set-option -w -t \"#{hook_window}\" @pi_tmux_task_bell_count \
    \"#{e|+:#{?@pi_tmux_task_bell_count,#{@pi_tmux_task_bell_count},0},1}\" >/dev/null 2>&1'";

const ASKS: [&str; 8] = [
    "[y/n]",
    "(y/n)",
    "password:",
    "press enter to continue",
    "select an option",
    "choice:",
    "continue?",
    "proceed",
];

#[derive(Debug, Clone, Default)]
struct Task {
    is_dead: bool,
    code: Option<i64>,
    rings: bool,
    bells: Option<u64>,
    output: String,
    told: Option<String>,
}

type Tasks = BTreeMap<String, Task>;

pub(crate) fn run(session: &str) {
    asked(&["set-hook", "-t", session, "alert-bell[9010]", BELL_HOOK]);
    let mut before: Option<Tasks> = None;
    let mut next = Instant::now();
    loop {
        let mut now = look(session);
        match &before {
            None => print(&json!({"kind": "sync"})),
            Some(before) => tell(before, &mut now),
        }
        before = Some(now);
        // A tick that comes while a look is under way is left out.
        while next <= Instant::now() {
            next += EVERY;
        }
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

fn look(session: &str) -> Tasks {
    let mut tasks = Tasks::new();
    if asked(&["has-session", "-t", session]).is_none() {
        return tasks;
    }
    let windows = ask(&[
        "list-windows",
        "-t",
        session,
        "-F",
        "#{window_name}\t#{window_id}\t#{window_active}\t#{window_panes}\t#{window_bell_flag}\t\
         #{@pi_tmux_task_bell_count}\t#{@pi_task_command}\t#{@pi_task_cwd}",
    ]);
    let panes = ask(&[
        "list-panes",
        "-s",
        "-t",
        session,
        "-F",
        "#{window_id}\t#{window_name}\t#{pane_id}\t#{pane_dead}\t#{pane_dead_status}\t\
         #{pane_current_command}\t#{pane_title}",
    ]);
    let (windows, panes) = (answer(windows), answer(panes));
    let panes = panes.unwrap_or_default();
    let mut under_way = Vec::new();
    for line in windows.unwrap_or_default().lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[_, window, _, _, rings, bells, ..] = fields.as_slice() else {
            continue;
        };
        let pane: Vec<&str> = panes
            .lines()
            .find(|line| line.split('\t').next() == Some(window))
            .unwrap_or("")
            .split('\t')
            .collect();
        let &[_, _, id, is_dead, code, ..] = pane.as_slice() else {
            continue;
        };
        let task = Task {
            is_dead: is_dead == "1",
            code: code.parse().ok(),
            rings: rings == "1",
            bells: bells.parse().ok(),
            ..Task::default()
        };
        let keeps = ask(&["setw", "-t", window, "remain-on-exit", "on"]);
        let capture = ask(&["capture-pane", "-p", "-t", id, "-S", "-20"]);
        under_way.push((window.to_owned(), task, keeps, capture));
    }
    for (window, mut task, keeps, capture) in under_way {
        answer(keeps);
        task.output = answer(capture).unwrap_or_default().trim_end().to_owned();
        tasks.insert(window, task);
    }
    tasks
}

fn tell(before: &Tasks, now: &mut Tasks) {
    for (window, task) in now.iter_mut() {
        let was = before.get(window);
        if was.is_none() && !task.is_dead {
            event("started", window, task, json!({}));
        }
        let rung = match (was.and_then(|was| was.bells), task.bells) {
            (before, Some(bells)) => bells.saturating_sub(before.unwrap_or(0)),
            (_, None) => u64::from(task.rings && !was.is_some_and(|was| was.rings)),
        };
        if rung > 0 {
            event("notify", window, task, json!({"bells": rung}));
        }
        if task.is_dead && was.is_none_or(|was| !was.is_dead) {
            event("exited", window, task, json!({}));
        }
        let asks = |task: &Task| prompt(&task.output);
        let same = was.filter(|was| !task.is_dead && was.output == task.output);
        if let Some(was) = same {
            let asked = asks(was).filter(|asked| asks(task).as_ref() == Some(asked));
            if asked.is_some() && asked != was.told {
                event("input", window, task, json!({"prompt": asked}));
            }
            task.told = asked;
        }
    }
    for (window, task) in before {
        if !task.is_dead && !now.contains_key(window) {
            event("disappeared", window, task, json!({}));
        }
    }
}

fn prompt(output: &str) -> Option<String> {
    let lines = output.lines().rev().filter(|line| !line.trim().is_empty());
    lines
        .take(8)
        .find(|line| {
            let line = line.to_lowercase();
            ASKS.iter().any(|asks| line.contains(asks))
        })
        .map(|line| line.trim().to_owned())
}

fn event(name: &str, window: &str, task: &Task, more: Value) {
    let mut record = json!({
        "kind": "event",
        "type": name,
        "task": {"windowId": window, "exitCode": task.code},
    });
    if let (Value::Object(record), Value::Object(more)) = (&mut record, more) {
        record.extend(more);
    }
    print(&record);
}

fn print(record: &Value) {
    println!("{record}");
}

fn ask(words: &[&str]) -> Child {
    Command::new("tmux")
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn answer(child: Child) -> Option<String> {
    let output = child.wait_with_output().unwrap();
    let text = || String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(text)
}

fn asked(words: &[&str]) -> Option<String> {
    answer(ask(words))
}
