//! What a panic does to the daemon: a daemon that lacks one of its threads is worse than none, because
//! the next one carries on from what is on the disk.

use std::panic::{self, PanicHookInfo};
use std::thread;

/// Threads on which a panic ends what it happened in, and no more:
/// - on `main`, the connection, whose client is told by the end of it; anything else unwinds and ends the
///   daemon;
/// - on `readers` and `sinks`, one stream or one sink, which its client or the log sees end;
/// - on `stale-sessions`, the scan, which the next daemon makes again;
/// - on the threads of the runtime's pool, the work, whose caller gets an error.
const ISOLATED: [&str; 5] = [
    "main",
    "readers",
    "sinks",
    "stale-sessions",
    "tokio-rt-worker",
];

/// From here on each panic is logged, and one on a thread that the daemon cannot do without ends the
/// daemon at once, after `write_log`.
pub(super) fn end_the_daemon(write_log: impl Fn() + Send + Sync + 'static) {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        print(panic);
        note(panic, &write_log);
    }));
}

fn note(panic: &PanicHookInfo<'_>, write_log: &impl Fn()) {
    let thread = thread::current();
    let name = thread.name().unwrap_or("unnamed");
    let what = panic.payload_as_str().unwrap_or("unknown");
    let place = panic.location().map(ToString::to_string);
    tracing::error!(thread = name, what, place, "a thread panicked");
    if ISOLATED.contains(&name) {
        return;
    }
    tracing::error!(
        thread = name,
        "the daemon ends, and the next one carries on"
    );
    write_log();
    std::process::abort();
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, Output};

    use rustix::process::Signal;

    use super::*;

    /// Names the thread that the child is to let panic.
    const THREAD: &str = "TMUX_TASK_TEST_PANIC";

    /// Runs [`a_child_lets_a_thread_panic`] in a process of its own.
    fn child(thread: &str) -> Output {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let test = "daemon::panics::tests::a_child_lets_a_thread_panic";
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        command.env(THREAD, thread).output().unwrap()
    }

    #[test]
    fn a_child_lets_a_thread_panic() {
        let Ok(name) = std::env::var(THREAD) else {
            return;
        };
        end_the_daemon(|| ());
        let thread = thread::Builder::new().name(name);
        let ended = thread.spawn(|| panic!("injected")).unwrap().join();
        assert!(ended.is_err());
    }

    #[test]
    fn a_daemon_that_would_lack_a_thread_ends() {
        for thread in [
            "tmux-link",
            "store",
            "consumers",
            "archiver",
            "process-ends",
            "log",
            "new",
        ] {
            let output = child(thread);
            let signal = output.status.signal();
            assert_eq!(signal, Some(Signal::ABORT.as_raw()), "{thread}: {output:?}");
        }
    }

    #[test]
    fn a_panic_in_what_can_be_done_without_ends_only_that() {
        for thread in ISOLATED {
            let output = child(thread);
            assert!(output.status.success(), "{thread}: {output:?}");
        }
    }
}
