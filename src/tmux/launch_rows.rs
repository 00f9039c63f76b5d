//! What a launch reads before it changes anything, and by which it recognises what it has started; what
//! comes of it, and errors of several of its steps.

use std::collections::BTreeMap;

use super::client::Connection;
use super::error::TmuxError;
use super::pane_origin::{HAS_NO_RUN, IS_BARE, IS_OWN_PANE};
use super::respawn::{ATTACHED_CLIENTS, list_control_clients, read_control_clients};
use super::rows::{IS_FLOATING, IS_LINKED, IS_MARKED, IS_NAMED_BY_TMUX, PaneOrder};
use super::window_options::{MARK, names_format, print_inherited};
use crate::model::{
    Error, PaneId, ReplacedRun, SessionLife, TASK_NAME_RULE, WindowId, is_task_name, is_token, text,
};
use crate::protocol::{Command, Frame};

/// How often a launch starts over before it gives up.
pub(super) const ATTEMPTS: usize = 20;

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewRun {
    /// The life of the session.
    pub life: SessionLife,
    /// The task's window.
    pub window: WindowId,
    /// Its primary pane.
    pub pane: PaneId,
    /// The number of the run, from 1.
    pub run: u32,
    /// The previous run in the window; `None` when the window was created for this one.
    pub replaced: Option<ReplacedRun>,
}

/// What came of a launch.
#[derive(Debug)]
pub(crate) enum LaunchAnswer {
    Started(NewRun),
    /// Nothing was started: the run of this window with this first process has to be ended first. The window
    /// stays when it ends.
    Live(WindowId, u32),
}

/// Returns the error that the session had changed at each attempt since it was read.
pub(crate) fn contended() -> Error {
    Error::failed(format!(
        "the session changed during each of {ATTEMPTS} attempts; run the command again"
    ))
}

/// Returns the error that a slot is ambiguous.
pub(crate) fn two_windows(name: &str, first: WindowId, second: WindowId) -> Error {
    Error::failed(format!(
        "two windows are named `{name}`: {first} and {second}"
    ))
    .with_hint("rename or close one of them")
}

/// Checks a task's name: 1 to 40 of `A-Za-z0-9._-`, the first a letter or digit.
///
/// # Errors
///
/// When it is not; the error contains the rule.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    if is_task_name(name) {
        Ok(())
    } else {
        let shown = text::one_line(name.as_bytes(), 60);
        Err(Error::usage(format!(
            "`{shown}` is not a task name: {TASK_NAME_RULE}"
        )))
    }
}

/// Checks a launch's token, which is used in formats.
pub(super) fn check_token(token: &str) -> Result<(), Error> {
    let wrong = || Error::usage("the launch has a token that tmux cannot be asked for");
    is_token(token).then_some(()).ok_or_else(wrong)
}

/// A pane of the list.
#[derive(Debug)]
pub(super) struct LaunchRow {
    pub(super) life: SessionLife,
    pub(super) window: WindowId,
    pub(super) pane: PaneId,
    is_floating: bool,
    /// The number of its last run; 0 if another launch has made it, and has not described it yet.
    pub(super) run: u32,
    /// Whether it has no run that would have to be ended; see [`HAS_NO_RUN`].
    pub(super) is_dead: bool,
    /// Its process; `None` where tmux has forgotten that of a dead pane.
    pub(super) pid: Option<u32>,
    /// The attached clients of the server; see [`ATTACHED_CLIENTS`].
    pub(super) attached: String,
    /// Whether it is a task, and not a shell that tmux has named after its program.
    pub(super) is_task: bool,
    /// The token of the last launch in the window; empty if there was none.
    pub(super) token: String,
}

/// Returns the format for a pane in the list.
pub(super) fn row_format() -> String {
    // A task was marked by a launcher, or opened with a command and named by a user. Of windows
    // that are linked into further sessions only marked ones: the others belong there.
    let is_bare = &*IS_BARE;
    let is_users = format!("#{{||:#{{||:{is_bare},{IS_NAMED_BY_TMUX}}},{IS_LINKED}}}");
    let is_task = format!("#{{?{IS_MARKED},1,#{{?{is_users},0,1}}}}");
    let is_task = format!("#{{?{},{is_task},0}}", *IS_OWN_PANE);
    // A window that was never counted had its first run.
    let has_no_run = &*HAS_NO_RUN;
    let run = format!(
        "#{{?@tmux_task_run,#{{@tmux_task_run}},#{{?pane_dead,1,#{{?{has_no_run},0,1}}}}}}"
    );
    format!(
        "#{{pid}} #{{start_time}} #{{session_id}} #{{session_created}} \
         #{{window_id}} #{{pane_id}} {has_no_run} #{{pane_pid}} {} {is_task} \
         {} {run} #{{{MARK}}}",
        *ATTACHED_CLIENTS, *IS_FLOATING
    )
}

/// Parses the list. Lines of another form are skipped.
pub(super) fn read_rows(text: &str) -> Vec<LaunchRow> {
    text.lines().filter_map(read_row).collect()
}

fn read_row(line: &str) -> Option<LaunchRow> {
    let mut fields = line.splitn(13, ' ');
    let life = SessionLife {
        server_pid: fields.next()?.parse().ok()?,
        server_started: fields.next()?.parse().ok()?,
        id: fields.next()?.parse().ok()?,
        created: fields.next()?.parse().ok()?,
    };
    Some(LaunchRow {
        life,
        window: fields.next()?.parse().ok()?,
        pane: fields.next()?.parse().ok()?,
        is_dead: fields.next()? == "1",
        pid: fields.next()?.parse().ok(),
        attached: fields.next()?.to_owned(),
        is_task: fields.next()? == "1",
        is_floating: fields.next()? == "1",
        run: fields.next()?.parse().unwrap_or(1),
        token: fields.next()?.to_owned(),
    })
}

/// Returns one row per window: that of its primary pane.
pub(super) fn first_panes(all: Vec<LaunchRow>) -> Vec<LaunchRow> {
    let order = |row: &LaunchRow| -> PaneOrder { (row.is_floating, row.pane) };
    let mut rows: Vec<LaunchRow> = Vec::new();
    for row in all {
        match rows.iter_mut().find(|known| known.window == row.window) {
            Some(known) if order(&row) < order(&*known) => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

/// Returns the windows of a list of panes in its order: their ids, each followed by `+`. A window that
/// is linked into the session twice is listed twice, with all of its panes.
fn windows_in_order(rows: &[LaunchRow]) -> String {
    let mut first_panes = BTreeMap::new();
    let is_first =
        |row: &&LaunchRow| row.pane == *first_panes.entry(row.window).or_insert(row.pane);
    let windows = rows.iter().filter(is_first);
    windows.map(|row| format!("{}+", row.window)).collect()
}

/// Options that a window may not inherit when a task is launched: with the first two any shell would
/// count as a task, and be replaced; the last one would hide which window this launch has created.
const OWN: [&str; 3] = ["@tmux_task_command", "@pi_task_command", MARK];

/// The windows with the task's name.
pub(super) struct NamedWindows {
    /// Those that are tasks.
    pub(super) slots: Vec<LaunchRow>,
    /// All of them, as [`are_named`] compares them.
    pub(super) named: String,
    /// The names of the server's control clients.
    pub(super) control_clients: Vec<String>,
}

impl NamedWindows {
    /// Finds the windows for which this format is true in a session, `=NAME` or `$3`; `None` when the
    /// session is missing.
    ///
    /// # Errors
    ///
    /// When tmux fails, and when all windows, or the session's, inherit one of [`OWN`].
    pub(super) async fn find(
        connection: &mut Connection<'_>,
        session: &str,
        is_slot: &str,
    ) -> Result<Option<Self>, TmuxError> {
        // Without the colon tmux would also search for a window of that name.
        let target = format!("{session}:");
        let list = Command::new("list-panes").args(["-s", "-t", &target, "-f", is_slot]);
        let mut line = vec![
            list.args(["-F", &row_format()]),
            list_control_clients(),
            print_inherited(&names_format(&OWN)),
        ];
        // A format also finds these, but cannot tell whose they are.
        let own = OWN.map(|name| Command::new("show-options").args(["-q", "-t", &target, name]));
        line.extend(own);
        let frames = match connection.run(&line).await {
            Err(error) if error.is_missing() => return Ok(None),
            answer => answer?,
        };
        let [rows, clients, inherited, of_session @ ..] = frames.as_slice() else {
            return Err(TmuxError::confused("a frame is missing"));
        };
        let inherited = inherited.text();
        let inherited: Vec<&str> = inherited.split_whitespace().collect();
        for (names, scope, hint) in [
            (
                inherited,
                "for all windows: any shell would",
                "`tmux set-option -gu NAME` unsets an option (-gwu or -su, where it was set so)",
            ),
            (
                read_own(of_session),
                "on the session: any shell in it would",
                "`tmux set-option -t SESSION -u NAME` unsets an option",
            ),
        ] {
            if let Some(names) = in_words(&names) {
                let refusal = Error::failed(format!("{names} set {scope} count as a task"));
                return Err(refusal.with_hint(hint).into());
            }
        }
        let rows = read_rows(&rows.text());
        let attached = rows.first().map_or("", |row| &row.attached);
        let control_clients = read_control_clients(clients, attached);
        Ok(Some(Self {
            named: windows_in_order(&rows),
            slots: first_panes(rows)
                .into_iter()
                .filter(|row| row.is_task)
                .collect(),
            control_clients,
        }))
    }
}

/// Returns a format that is true as long as these are the windows of the name, in the session's
/// order; see [`windows_in_order`].
///
/// It is read for all windows of the session at once. Without a window of the name, tmux compares
/// names by itself, which takes it a third of the time.
pub(super) fn are_named(name: &str, named: &str) -> String {
    if named.is_empty() {
        return format!("#{{?#{{N/w:{name}}},0,1}}");
    }
    let present = format!("#{{W:#{{?{},#{{window_id}}+,}}}}", is_named(name));
    format!("#{{==:{present},{named}}}")
}

/// Returns a format that is true for a window of the name.
pub(super) fn is_named(name: &str) -> String {
    format!("#{{==:#{{window_name}},{name}}}")
}

/// Returns those of [`OWN`] that have a value, given what `show-options` prints of each.
fn read_own(frames: &[Frame]) -> Vec<&'static str> {
    let own = OWN.into_iter().zip(frames);
    let is_set = |(name, frame): &(&str, &Frame)| {
        let text = frame.text();
        let value = text.strip_prefix(name).map(str::trim);
        value.is_some_and(|value| !matches!(value, "" | "''"))
    };
    own.filter(is_set).map(|(name, _)| name).collect()
}

/// Lists options: `@a is` or `@a, @b are`; `None` without any.
fn in_words(names: &[&str]) -> Option<String> {
    match names {
        [] => None,
        [name] => Some(format!("{name} is")),
        names => Some(format!("{} are", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["a", "9", "api-server", "A.b_c-9", &"x".repeat(40)] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in [
            "",
            ".a",
            "-a",
            "_a",
            "a b",
            "a:b",
            "é",
            "a\n",
            "a#{q}",
            &"x".repeat(41),
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        assert_eq!(
            check_name("a b").unwrap_err().to_string(),
            "`a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit"
        );
    }

    #[test]
    fn of_each_window_the_lowest_pane_counts() {
        let rows = first_panes(read_rows(
            "1 2 $0 3 @1 %7 0 9 +a,b+ 0 0 3 m\n1 2 $0 3 @1 %2 1  +a,b+ 1 0 3 m\n\
             1 2 $0 3 @1 %1 0 9 +a,b+ 0 1 3 m\n1 2 $0 3 @4 %5 0 41 +a,b+ 0 1  \nrubbish",
        ));
        let list: Vec<_> = rows
            .iter()
            .map(|row| (row.window.0, row.pane.0, row.run, row.token.as_str()))
            .collect();
        assert_eq!(list, [(1, 2, 3, "m"), (4, 5, 1, "")]);
        let list: Vec<_> = rows.iter().map(|row| (row.is_dead, row.is_task)).collect();
        assert_eq!(list, [(true, true), (false, false)]);
        assert_eq!((rows[0].pid, rows[1].pid), (None, Some(41)));
        assert!(rows.iter().all(|row| row.attached == "+a,b+"));
    }

    #[test]
    fn windows_are_in_the_order_of_the_list_and_there_as_often_as_they_are_linked() {
        let row = |(window, pane): &(u32, u32)| format!("1 2 $0 3 @{window} %{pane} 0 9 + 0 0  \n");
        let windows = |panes: &[(u32, u32)]| {
            let text: String = panes.iter().map(row).collect();
            windows_in_order(&read_rows(&text))
        };
        assert_eq!(windows(&[]), "");
        assert_eq!(windows(&[(7, 9), (2, 3)]), "@7+@2+");
        assert_eq!(windows(&[(7, 9), (7, 8), (2, 3)]), "@7+@2+");
        let linked_twice = [(7, 9), (7, 8), (2, 3), (7, 9), (7, 8)];
        assert_eq!(windows(&linked_twice), "@7+@2+@7+");
        assert_eq!(windows(&[(7, 9), (7, 9)]), "@7+@7+");
    }
}
