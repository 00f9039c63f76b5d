//! What a task's pane starts.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use super::output;
use crate::model::Slot;
use crate::ops;
pub(super) use crate::tmux::EXEC_PANE;
use crate::tmux::exec_task;

/// The exit code of a task that could not be started, as shells have it.
const NOT_EXECUTED: u8 = 126;

/// Replaces this process with the shell that runs the task of a file.
pub(super) fn run(file: &Path) -> ExitCode {
    let error = exec_task(file, |slot| wait_for_place(file, slot));
    output::complain(&error, "exec", "");
    ExitCode::from(NOT_EXECUTED)
}

/// Waits for a place in the task's slot. Where that is not possible, it runs without one.
fn wait_for_place(file: &Path, slot: &Slot) {
    let say = |text: &str| {
        let mut out = std::io::stdout();
        drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
    };
    let on_wait = || {
        let Slot { name, places } = slot;
        say(&format!(
            "tmux-task: waits for a place in `{name}` ({places} at once)"
        ));
    };
    let waited = ops::wait_for_place(file, slot, on_wait);
    // The line is not of the task; that it goes makes the daemon look.
    say("\r\x1b[K");
    if let Err(error) = waited {
        output::note(&format!(
            "tmux-task: exec: it runs without a place in `{}`: {error}",
            slot.name
        ));
    }
}
