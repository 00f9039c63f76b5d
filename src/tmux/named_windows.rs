//! The windows with a task's name, as a launch finds them.

use super::client::Connection;
use super::error::TmuxError;
use super::inherited::{names_format, print_inherited};
use super::launch_options::MARK;
use super::launch_rows::{LaunchRow, first_panes, read_rows, row_format, windows_in_order};
use super::respawn::{list_control_clients, read_control_clients};
use super::user_hooks::{N_COMMANDS, UserHooks};
use crate::protocol::{Command, Frame};

/// The window option with the name of a task whose launch has created the window and is not done: a
/// hook of the user may rename the window meanwhile.
pub(super) const NAMING: &str = "@tmux_task_naming";

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
    /// What a new window may run into.
    pub(super) hooks: UserHooks,
    /// Those of [`OWN`] that all windows inherit, in words.
    pub(super) inherited: Option<String>,
    /// Those of [`OWN`] that the session's windows inherit from it, in words.
    pub(super) of_session: Option<String>,
}

impl NamedWindows {
    /// Finds the windows of the name in a session, `=NAME` or `$3`; `None` when the session is missing.
    ///
    /// # Errors
    ///
    /// When tmux fails.
    pub(super) async fn find(
        connection: &mut Connection<'_>,
        session: &str,
        name: &str,
        expected: ExpectedWindows,
    ) -> Result<Option<Self>, TmuxError> {
        let target = format!("{session}:");
        let mut others = vec![list_control_clients(), print_inherited(&names_format(&OWN))];
        others.extend(UserHooks::ask(&target));
        // A format also finds these, but cannot tell whose they are.
        let own = OWN.map(|name| Command::new("show-options").args(["-q", "-t", &target, name]));
        others.extend(own);
        let mut listed = Ok(None);
        let narrow = expected.that_tmux_finds(name);
        if narrow != ExpectedWindows::Any {
            listed = Self::list(connection, session, name, narrow, &others).await;
        }
        if matches!(listed, Ok(None)) {
            let any = ExpectedWindows::Any;
            listed = Self::list(connection, session, name, any, &others).await;
        }
        match listed {
            Err(error) if error.is_missing() => Ok(None),
            listed => listed,
        }
    }

    /// Lists as many windows as are expected, and runs the other commands in the same line; `None` if
    /// another number of windows has the name.
    async fn list(
        connection: &mut Connection<'_>,
        session: &str,
        name: &str,
        expected: ExpectedWindows,
        others: &[Command],
    ) -> Result<Option<Self>, TmuxError> {
        let mut line = expected.list_commands(session, name);
        let n_listing = line.len();
        line.extend(others.iter().cloned());
        let frames = match connection.run(&line).await {
            // No window has the name, or several have.
            Err(TmuxError::Rejected { .. }) if expected != ExpectedWindows::Any => return Ok(None),
            answer => answer?,
        };
        let (listing, others) = frames.split_at_checked(n_listing).unwrap_or_default();
        let Some(rows) = expected.read_list(listing) else {
            return Ok(None);
        };
        let windows = Self::read(rows, others);
        windows
            .map(Some)
            .ok_or_else(|| TmuxError::confused("a frame is missing"))
    }

    /// Reads the list, and the answers to what is asked after it.
    fn read(rows: Vec<LaunchRow>, others: &[Frame]) -> Option<Self> {
        let [clients, inherited, others @ ..] = others else {
            return None;
        };
        let (hooks, of_session) = others.split_at_checked(N_COMMANDS)?;
        let inherited = inherited.text();
        Some(Self {
            named: windows_in_order(&rows),
            slots: first_panes(rows)
                .into_iter()
                .filter(|row| row.is_task)
                .collect(),
            control_clients: read_control_clients(clients),
            hooks: UserHooks::parse(hooks),
            inherited: in_words(&inherited.split_whitespace().collect::<Vec<_>>()),
            of_session: in_words(&read_own(of_session)),
        })
    }
}

/// How many windows of a task's name a session is expected to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpectedWindows {
    /// No window has the name. tmux checks this without a list of windows.
    Zero,
    /// Exactly one window has it. tmux finds it as a target.
    One,
    /// Any number. tmux evaluates a filter for each window of the session, which takes it five times as
    /// long.
    Any,
}

impl ExpectedWindows {
    /// Returns what is expected where so many windows had the name.
    pub(crate) fn from_count(n_windows: usize) -> Self {
        match n_windows {
            0 => Self::Zero,
            1 => Self::One,
            _ => Self::Any,
        }
    }

    /// Returns what is expected as far as tmux can find a window of this name: it takes a name of digits
    /// for an index, and what follows a dot for a pane.
    fn that_tmux_finds(self, name: &str) -> Self {
        let is_digit = |c: char| c.is_ascii_digit();
        if self == Self::One && (name.contains('.') || name.chars().all(is_digit)) {
            Self::Any
        } else {
            self
        }
    }

    /// Returns the commands that list the windows, the first of which fails if the session is missing.
    fn list_commands(self, session: &str, name: &str) -> Vec<Command> {
        let target = format!("{session}:");
        let show =
            |format: &str| Command::new("display-message").args(["-p", "-t", &target, format]);
        let panes = |args: &[&str]| {
            let list = Command::new("list-panes").args(args.iter().copied());
            list.args(["-F", &row_format()])
        };
        match self {
            Self::Zero => vec![
                Command::new("has-session").args(["-t", session]),
                show(&are_named(name, "")),
            ],
            Self::One => vec![
                panes(&["-t", &format!("{target}={name}")]),
                show(&format!("#{{?{},0,1}}", is_noted(name))),
            ],
            // Without the colon tmux would also search for a window of that name.
            Self::Any => vec![panes(&["-s", "-t", &target, "-f", &is_named(name)])],
        }
    }

    /// Reads the answers to these commands; `None` when another number of windows has the name.
    fn read_list(self, frames: &[Frame]) -> Option<Vec<LaunchRow>> {
        let text = |at: usize| frames.get(at).map(Frame::text).unwrap_or_default();
        let is_expected = || text(1).trim() == "1";
        match self {
            Self::Zero => is_expected().then(Vec::new),
            Self::One => is_expected().then(|| read_rows(&text(0))),
            Self::Any => Some(read_rows(&text(0))),
        }
    }
}

/// Returns a format that is true as long as these are the windows of the name, in the session's
/// order; see [`windows_in_order`].
///
/// It is read for all windows of the session at once. Without a window of the name, tmux compares
/// names by itself, which takes it a third of the time.
pub(super) fn are_named(name: &str, named: &str) -> String {
    if named.is_empty() {
        return format!("#{{?#{{||:#{{N/w:{name}}},{}}},0,1}}", is_noted(name));
    }
    let present = format!("#{{W:#{{?{},#{{window_id}}+,}}}}", is_named(name));
    format!("#{{==:{present},{named}}}")
}

/// Returns a format that is true if the name is noted in any window of the session.
fn is_noted(name: &str) -> String {
    format!("#{{m:*+{name}+*,#{{W:+#{{{NAMING}}}+}}}}")
}

/// Returns a format that is true for a window of the name, and for one in which the name is noted
/// because a launch has created it and is not done.
pub(super) fn is_named(name: &str) -> String {
    format!("#{{||:#{{==:#{{window_name}},{name}}},#{{==:#{{{NAMING}}},{name}}}}}")
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
    use super::ExpectedWindows::{Any, One, Zero};
    use super::*;

    #[test]
    fn tmux_finds_no_window_by_a_name_that_means_something_else_to_it() {
        assert_eq!([0, 1, 2].map(ExpectedWindows::from_count), [Zero, One, Any]);
        for (expected, name, asked) in [
            (Zero, "7", Zero),
            (One, "api", One),
            (One, "7b", One),
            (One, "7", Any),
            (One, "api.1", Any),
            (Any, "api", Any),
        ] {
            assert_eq!(expected.that_tmux_finds(name), asked, "{name}");
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_the_expectation_is_none() {
        let frame = Frame::printed;
        let row = frame("1 2 $0 3 @1 %7 11 0 + 1  ");
        let read = |expected: ExpectedWindows, frames: &[Frame]| {
            expected.read_list(frames).map(|rows| rows.len())
        };
        assert_eq!(read(Zero, &[frame(""), frame("1")]), Some(0));
        assert_eq!(read(Zero, &[frame(""), frame("0")]), None);
        assert_eq!(read(One, &[row.clone(), frame("1")]), Some(1));
        assert_eq!(read(One, &[row.clone(), frame("0")]), None);
        assert_eq!(read(Any, &[row]), Some(1));
        assert_eq!(read(Any, &[frame("")]), Some(0));
        assert_eq!(read(One, &[]), None);
    }
}
