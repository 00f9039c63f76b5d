//! Whether the hooks of a supervised session can run: checks for `doctor`. Changes nothing.

use super::client::Connection;
use super::error::TmuxError;
use super::hooks::{BELL_HOOK, DEATH_HOOK, LINK_HOOK};
use super::pane_origin::IS_BARE;
use crate::model::{SessionId, WindowId};
use crate::protocol::{Command, Frame};

/// What keeps events of a session from being reported at once, and what the user can do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HookFault {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl HookFault {
    /// A hook of ours is not set on the server: it was removed, or replaced by `set-hook` without an
    /// index.
    fn missing(hook: &str) -> Self {
        Self {
            message: format!("the hook `{hook}` of tmux-task is gone: events come late"),
            hint: format!(
                "`set-hook -g {hook}` without an index removes it: give yours an index, such as \
                 `{hook}[0]`; then `tmux-task daemon stop`, and the next command starts one that \
                 sets it again"
            ),
        }
    }

    /// A hook of the same name is set on a window, or on the session, where it hides ours.
    fn hidden(hook: &str, window: Option<WindowId>) -> Self {
        let (place, scope) = match window {
            Some(window) => (format!("window {window}"), format!("-w -t {window}")),
            None => ("the session".to_owned(), "-t SESSION".to_owned()),
        };
        Self {
            message: format!(
                "a hook `{hook}` on {place} hides that of tmux-task: events come late"
            ),
            hint: format!(
                "set it for all with `set-hook -g`, and remove it here: `tmux set-hook -u {scope} \
                 {hook}`"
            ),
        }
    }
}

/// How many windows are asked for hooks of their own. A line of tmux's holds no more.
const MOST_WINDOWS: usize = 200;

/// Returns the faults of the hooks of a session that a daemon supervises.
///
/// # Errors
///
/// When tmux fails, or the session is gone.
pub(crate) async fn check_hooks(
    connection: &mut Connection<'_>,
    session: SessionId,
) -> Result<Vec<HookFault>, TmuxError> {
    let target = format!("{session}:");
    let global = |scope: &str, hook: &str| Command::new("show-options").args([scope, hook]);
    let is_bare = &*IS_BARE;
    let format = format!("#{{window_id}} #{{monitor-bell}} #{{remain-on-exit}} {is_bare}");
    let commands = [
        global("-gqv", BELL_HOOK),
        global("-gwqv", DEATH_HOOK),
        global("-gqv", LINK_HOOK),
        Command::new("show-hooks").args(["-t", &target]),
        Command::new("display-message").args(["-p", "-t", &target, "#{bell-action}"]),
        Command::new("list-windows").args(["-t", &target, "-F", &format]),
    ];
    let frames = connection.run(&commands).await?;
    let text = |index: usize| frames.get(index).map(Frame::text).unwrap_or_default();
    let mut faults = Vec::new();
    for (index, hook) in [BELL_HOOK, DEATH_HOOK, LINK_HOOK].into_iter().enumerate() {
        if text(index).trim().is_empty() {
            faults.push(HookFault::missing(name_of(hook)));
        }
    }
    faults.extend(hidden(&text(3), &[BELL_HOOK, LINK_HOOK], None));
    if !["any", "current", "other"].contains(&text(4).trim()) {
        faults.push(HookFault {
            message: "bells of the session are off".to_owned(),
            hint: "`tmux set-option -t SESSION bell-action any`".to_owned(),
        });
    }
    let windows = text(5);
    let windows: Vec<WindowOptions> = windows.lines().filter_map(WindowOptions::read).collect();
    faults.extend(windows.iter().flat_map(WindowOptions::faults));
    let ids: Vec<WindowId> = windows.iter().map(|window| window.id).collect();
    for ids in ids.chunks(MOST_WINDOWS) {
        let ask = |id: &WindowId| Command::new("show-hooks").args(["-w", "-t", &id.to_string()]);
        let commands: Vec<Command> = ids.iter().map(ask).collect();
        // A window that is gone ends the line. The others were asked in vain, not wrongly.
        let frames = connection.frames(&commands).await?;
        for (id, frame) in ids.iter().zip(frames.iter().filter(|frame| frame.ok)) {
            faults.extend(hidden(&frame.text(), &[DEATH_HOOK], Some(*id)));
        }
    }
    Ok(faults)
}

/// Returns the version of the running server; `None` when it has no session.
///
/// # Errors
///
/// When tmux fails, or there is no server.
pub(crate) async fn server_version(
    connection: &mut Connection<'_>,
) -> Result<Option<String>, TmuxError> {
    let list = Command::new("list-sessions").args(["-F", "#{version}"]);
    let frames = match connection.run(&[list]).await {
        Err(TmuxError::NoSuchSession { .. }) => return Ok(None),
        answer => answer?,
    };
    let text = frames.last().map(Frame::text).unwrap_or_default();
    let first = text.lines().next().map(str::trim);
    Ok(first.filter(|text| !text.is_empty()).map(ToOwned::to_owned))
}

/// The options of a task's window that events depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WindowOptions {
    id: WindowId,
    rings: bool,
    keeps_dead_pane: bool,
    is_shell: bool,
}

impl WindowOptions {
    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split(' ');
        Some(Self {
            id: fields.next()?.parse().ok()?,
            rings: is_on(fields.next()?),
            keeps_dead_pane: is_on(fields.next()?),
            is_shell: fields.next()? == "1",
        })
    }

    /// The options of a shell belong to its user.
    fn faults(&self) -> Vec<HookFault> {
        let window = self.id;
        let mut faults = Vec::new();
        if !self.is_shell && !self.rings {
            faults.push(HookFault {
                message: format!("bells of window {window} are off"),
                hint: format!("`tmux set-option -w -t {window} monitor-bell on`"),
            });
        }
        // The end of a run is found later, and without its output.
        if !self.is_shell && !self.keeps_dead_pane {
            faults.push(HookFault {
                message: format!(
                    "window {window} closes when its run ends, and its last output with it"
                ),
                hint: format!("`tmux set-option -w -t {window} remain-on-exit on`"),
            });
        }
        faults
    }
}

/// Whether an option is on: some versions of tmux print words, some numbers.
fn is_on(value: &str) -> bool {
    !["off", "0", ""].contains(&value)
}

/// Returns those of our hooks that the output of `show-hooks` contains.
fn hidden(shown: &str, ours: &[&'static str], window: Option<WindowId>) -> Vec<HookFault> {
    let names = ours.iter().map(|hook| name_of(hook));
    names
        .filter(|name| {
            shown.lines().any(|line| {
                let rest = line.strip_prefix(name);
                rest.is_some_and(|rest| rest.starts_with('['))
            })
        })
        .map(|hook| HookFault::hidden(hook, window))
        .collect()
}

/// Returns the name of a hook without its index.
fn name_of(hook: &'static str) -> &'static str {
    hook.split_once('[').map_or(hook, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_of_the_session_hides_ours_of_the_same_name() {
        let shown = "alert-bell[0] display-message x\nafter-new-window[0] run-shell y\n";
        let expected = [HookFault::hidden("alert-bell", None)];
        assert_eq!(hidden(shown, &[BELL_HOOK, LINK_HOOK], None), expected);
        // Older versions list the names of hooks that are not set.
        assert_eq!(hidden("alert-bell\n", &[BELL_HOOK], None), []);
        assert_eq!(hidden("", &[BELL_HOOK], None), []);
    }

    #[test]
    fn options_of_shells_are_their_users() {
        let faults = |line: &str| {
            let faults = WindowOptions::read(line).unwrap().faults();
            let messages = faults.into_iter().map(|fault| fault.message);
            messages.collect::<Vec<_>>()
        };
        assert!(faults("@3 1 on 0").is_empty());
        assert!(faults("@3 on failed 0").is_empty());
        assert!(faults("@3 0 off 1").is_empty());
        let both = [
            "bells of window @3 are off",
            "window @3 closes when its run ends, and its last output with it",
        ];
        assert_eq!(faults("@3 0 off 0"), both);
        assert_eq!(WindowOptions::read("odd"), None);
    }
}
