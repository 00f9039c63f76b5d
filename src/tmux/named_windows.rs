//! The windows with a task's name, as a launch finds them.

use super::client::Connection;
use super::error::TmuxError;
use super::inherited::{names_format, print_inherited};
use super::launch_rows::{LaunchRow, first_panes, read_rows, row_format, windows_in_order};
use super::respawn::{list_control_clients, read_control_clients};
use super::rows::MARK;
use crate::protocol::{Command, Frame};

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
    /// Those of [`OWN`] that all windows inherit, in words.
    pub(super) inherited: Option<String>,
    /// Those of [`OWN`] that the session's windows inherit from it, in words.
    pub(super) of_session: Option<String>,
}

impl NamedWindows {
    /// Finds the windows for which this format is true in a session, `=NAME` or `$3`; `None` when the
    /// session is missing.
    ///
    /// # Errors
    ///
    /// When tmux fails.
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
        let rows = read_rows(&rows.text());
        let attached = rows.first().map_or("", |row| &row.attached);
        let control_clients = read_control_clients(clients, attached);
        let inherited = inherited.text();
        Ok(Some(Self {
            named: windows_in_order(&rows),
            slots: first_panes(rows)
                .into_iter()
                .filter(|row| row.is_task)
                .collect(),
            control_clients,
            inherited: in_words(&inherited.split_whitespace().collect::<Vec<_>>()),
            of_session: in_words(&read_own(of_session)),
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
