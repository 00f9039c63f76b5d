//! The first steps that `docs/hosts.md` shows, as they are written there: with nothing but ssh to another
//! machine, three commands wake a conversation here.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::hosts::{HOST, Machines};
use crate::support::{Output, Running, World, blocks, has};

#[test]
fn three_commands_lead_from_nothing_to_a_message_from_another_machine() {
    let mut machines = Machines::new();
    fs::remove_file(machines.program("tmux-task")).unwrap();
    machines.install(&[("python", Some("#!/bin/sh\necho epoch 1: nan\nexit 3\n"))]);
    let near = &mut machines.near;
    near.install("claude", "");
    symlink(World::program(), near.path("bin/tmux-task")).unwrap();
    near.set("TMUX_TASK_SESSION", "");
    let near = &machines.near;
    let shell = |line: &str| {
        let mut shell = near.command("sh");
        shell.args(["-c", line]);
        shell
    };
    let block = &blocks("hosts.md", "sh")[0];
    let [adapter, host, task] = *block.lines().collect::<Vec<_>>() else {
        panic!("three commands: {block}");
    };
    near.shell(adapter).ok();
    near.shell(host).ok();
    // What the client does when it starts, by the hooks that it has got.
    let hooks = near.path("xdg/tmux-task/adapters/claude-code/hooks/hooks.json");
    let hooks: Value = serde_json::from_slice(&fs::read(hooks).unwrap()).unwrap();
    let hooks = &hooks["hooks"]["SessionStart"][0]["hooks"];
    let mut hooks = hooks.as_array().unwrap().iter();
    let hook = hooks.find(|hook| hook["asyncRewake"] == true).unwrap();
    let client = Running::start({
        let mut client = near.command("sleep");
        client.arg("1000");
        client
    });
    let mut waiter = shell(hook["command"].as_str().unwrap());
    waiter
        .env("CLAUDE_PID", client.pid().as_raw_nonzero().to_string())
        .env("CLAUDE_PROJECT_DIR", near.project())
        .stdin(Stdio::piped());
    let mut waiter = Running::start(waiter);
    let transcript = near.path("transcript.jsonl");
    let input = json!({"session_id": "c1", "transcript_path": transcript,
        "hook_event_name": "SessionStart", "source": "startup"});
    waiter.write(&input.to_string());
    waiter.close_stdin();
    let mut task = shell(task);
    task.env("CLAUDECODE", "1")
        .env("CLAUDE_CODE_SESSION_ID", "c1");
    Output::of(task).ok();
    let mut message = String::new();
    while !message.contains("epoch 1: nan") {
        message.push_str(&waiter.complaint());
        message.push('\n');
    }
    has(&message, format!("\ntmux task {HOST}:@"));
    has(&message, "(train) exited with code 3\n");
    assert_eq!(waiter.wait(), 2);
}
