//! A process namespace of our own: what we start ends with us, however we end, and the number of
//! the last process is exactly the number of processes that were created.

use std::ffi::OsString;
use std::process::{Command, Stdio, exit};

/// Set in the part of the bench that runs inside the namespace.
const INSIDE: &str = "TMUX_TASK_BENCH_INSIDE";

/// Whether the counts of processes are ours alone.
pub(crate) fn is_ours() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program again inside a namespace and ends with its code. Returns whether that has
/// been done; `false` when we are inside, or the system allows no namespace.
pub(crate) fn enter(args: &[OsString]) -> bool {
    if is_ours() {
        return false;
    }
    let Some(unshare) = [&[][..], &["--user", "--map-root-user"]]
        .into_iter()
        .find(|more| {
            let tried = unshare(more).arg("true").stderr(Stdio::null()).status();
            tried.is_ok_and(|status| status.success())
        })
    else {
        return false;
    };
    // A shell in front, for the first process of a namespace has to reap the others' children.
    let status = unshare_into(unshare, args).status().unwrap();
    exit(status.code().unwrap_or(1));
}

fn unshare(more: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(more);
    command.args(["--pid", "--fork", "--kill-child", "--mount-proc", "--"]);
    command
}

fn unshare_into(more: &[&str], args: &[OsString]) -> Command {
    let mut command = unshare(more);
    command
        .args(["sh", "-c", "\"$@\"; exit \"$?\"", "sh"])
        .arg(std::env::current_exe().unwrap())
        .args(args)
        .env(INSIDE, "1");
    command
}
