//! A bare control client that hears of output as cheaply as tmux can tell it: tmux pauses a pane for
//! it that prints faster than tmux reports. It reads what it gets and does nothing else.

use std::io::Read;
use std::process::{Command, Stdio};

pub(crate) const PART: &str = "part-of-listener";

pub(crate) fn run(session: &str) {
    let mut client = Command::new("tmux")
        .args(["-u", "-C", "attach-session"])
        .args(["-f", "pause-after=0,ignore-size"])
        .args(["-t", &format!("={session}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _stdin = client.stdin.take();
    let mut stdout = client.stdout.take().unwrap();
    println!("{}", serde_json::json!({"kind": "sync"}));
    let mut buffer = [0; 16 * 1024];
    while let Ok(1..) = stdout.read(&mut buffer) {}
    drop(client.wait());
}
