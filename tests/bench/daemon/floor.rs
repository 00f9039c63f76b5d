//! The least that any watcher takes: a bare control client, which reads no screens, writes nothing
//! and knows nothing. It prints what tmux reports, in the shape of the feed.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::{Value, json};
use tmux_task::rules::protocol::{ControlItem, Notification, Parser};

pub(crate) const PART: &str = "part-of-floor";

/// How often the second client waits for a hook: more often than a run of the bench rings and ends.
const ROUNDS: usize = 500;

/// What a hook says, and the hook. The first client reports windows that open and close.
const HOOKS: [(&str, &str); 2] = [
    ("alert-bell[9020]", "notify #{window_id}"),
    ("pane-died[9020]", "exited #{window_id} #{pane_dead_status}"),
];

/// What the second client prints when a hook has woken it.
const WOKEN: &str = "woken ";

pub(crate) fn run(session: &str) {
    tmux(&["set-option", "-gw", "remain-on-exit", "on"]);
    for (hook, says) in HOOKS {
        let note = format!("set-option -gF @floor '{says}' ; wait-for -S floor");
        let scope = if hook.starts_with("pane") {
            "-gw"
        } else {
            "-g"
        };
        tmux(&["set-hook", scope, hook, &note]);
    }
    let (mut hooks, mut stdin, stdout) = attach(session);
    let round = format!("wait-for floor ; display-message -p '{WOKEN}#{{@floor}}'\n");
    stdin.write_all(round.repeat(ROUNDS).as_bytes()).unwrap();
    let woken = thread::spawn(move || items(stdout, print_call));
    let (mut windows, _stdin, stdout) = attach(session);
    print(&json!({"kind": "sync"}));
    items(stdout, print_notice);
    woken.join().unwrap();
    drop((hooks.wait(), windows.wait()));
}

fn attach(session: &str) -> (Child, ChildStdin, ChildStdout) {
    let mut client = Command::new("tmux")
        .args(["-u", "-C", "attach-session", "-f", "no-output,ignore-size"])
        .args(["-t", &format!("={session}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (stdin, stdout) = (client.stdin.take(), client.stdout.take());
    (client, stdin.unwrap(), stdout.unwrap())
}

fn items(mut stdout: ChildStdout, mut take: impl FnMut(ControlItem)) {
    let mut parser = Parser::default();
    let mut buffer = [0; 16 * 1024];
    while let Ok(n @ 1..) = stdout.read(&mut buffer) {
        parser.push(&buffer[..n]);
        parser.by_ref().for_each(&mut take);
    }
}

fn print_call(item: ControlItem) {
    let ControlItem::Frame(frame) = item else {
        return;
    };
    let text = frame.text();
    let mut words = text.trim_end().strip_prefix(WOKEN).unwrap_or("").split(' ');
    if let (Some(event @ ("notify" | "exited")), Some(window)) = (words.next(), words.next()) {
        let code = words.next().and_then(|code| code.parse::<i64>().ok());
        print_event(event, window, code);
    }
}

fn print_notice(item: ControlItem) {
    match item {
        ControlItem::Notification(Notification::WindowAdd(window)) => {
            print_event("started", &window.to_string(), None);
        }
        ControlItem::Notification(Notification::WindowClose(window)) => {
            print_event("disappeared", &window.to_string(), None);
        }
        ControlItem::Notification(_) | ControlItem::Frame(_) => {}
    }
}

fn print_event(event: &str, window: &str, code: Option<i64>) {
    let task = json!({"windowId": window, "exitCode": code});
    print(&json!({"kind": "event", "type": event, "task": task}));
}

fn print(record: &Value) {
    println!("{record}");
}

fn tmux(words: &[&str]) {
    let output = Command::new("tmux").args(words).output().unwrap();
    assert!(output.status.success(), "tmux {words:?}: {output:?}");
}
