//! The list of panes that a launch reads before it changes anything, and by which it recognises what it
//! has started.

use std::collections::BTreeMap;

use super::pane_origin::{HAS_NO_RUN, IS_BARE, IS_OWN_PANE};
use super::respawn::ATTACHED_CLIENTS;
use super::rows::{IS_FLOATING, IS_LINKED, IS_MARKED, IS_NAMED_BY_TMUX, MARK, PaneOrder};
use crate::model::{PaneId, SessionLife, WindowId};

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

impl LaunchRow {
    fn order(&self) -> PaneOrder {
        (self.is_floating, self.pane)
    }
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
    let mut rows: Vec<LaunchRow> = Vec::new();
    for row in all {
        match rows.iter_mut().find(|known| known.window == row.window) {
            Some(known) if row.order() < known.order() => *known = row,
            Some(_) => {}
            None => rows.push(row),
        }
    }
    rows
}

/// Returns the windows of a list of panes in its order: their ids, each followed by `+`. A window that
/// is linked into the session twice is listed twice, with all of its panes.
pub(super) fn windows_in_order(rows: &[LaunchRow]) -> String {
    let mut first_panes = BTreeMap::new();
    let is_first =
        |row: &&LaunchRow| row.pane == *first_panes.entry(row.window).or_insert(row.pane);
    let windows = rows.iter().filter(is_first);
    windows.map(|row| format!("{}+", row.window)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
