//! What a task is said to run.

use crate::protocol::rows::WindowRow;

/// Programs that say little by being there: what runs in them is better told by the title.
const SHELLS: [&str; 10] = [
    "ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "sh", "tcsh", "zsh",
];

/// Returns the recorded command, else the pane's title when a shell runs in it, else the pane's
/// command, else the title.
pub(super) fn command(window: &WindowRow) -> Option<String> {
    if window.command.is_some() {
        return window.command.clone();
    }
    let pane = window.pane.as_ref()?;
    let title = (!pane.title.is_empty()).then(|| pane.title.clone());
    let current = pane.current_command.clone();
    let is_shell = current
        .as_deref()
        .is_some_and(|name| SHELLS.contains(&name.trim_start_matches('-')));
    if is_shell {
        title.or(current)
    } else {
        current.or(title)
    }
}
