//! The windows with a task's name, as a launch finds them.

use super::client::Connection;
use super::error::TmuxError;
use super::inherited::{names_format, print_inherited};
use super::launch_options::MARK;
use super::launch_rows::{LaunchRow, first_panes, read_rows, row_format, windows_in_order};
use super::look_memory::confused;
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
        expected: Expected,
    ) -> Result<Option<Self>, TmuxError> {
        let target = format!("{session}:");
        let mut others = vec![list_control_clients(), print_inherited(&names_format(&OWN))];
        others.extend(UserHooks::ask(&target));
        // A format also finds these, but cannot tell whose they are.
        let own = OWN.map(|name| Command::new("show-options").args(["-q", "-t", &target, name]));
        others.extend(own);
        for list in LISTS.into_iter().filter(|list| list.fits(expected, name)) {
            let mut line = list.commands(session, name);
            let n_listing = line.len();
            line.extend(others.iter().cloned());
            let frames = match connection.run(&line).await {
                Err(error) if error.is_missing() => return Ok(None),
                // No window has the name, or several have.
                Err(TmuxError::Rejected { .. }) if list != List::All => continue,
                answer => answer?,
            };
            let (listing, others) = frames.split_at_checked(n_listing).unwrap_or_default();
            if let Some(rows) = list.read(listing) {
                let windows = Self::read(rows, others);
                return windows
                    .map(Some)
                    .ok_or_else(|| confused("a frame is missing"));
            }
        }
        Err(confused("no list of windows"))
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
pub(crate) enum Expected {
    None,
    One,
    /// Any number, or nothing is known.
    Unknown,
}

impl Expected {
    /// Returns what is expected where so many windows had the name.
    pub(crate) fn of(n_windows: usize) -> Self {
        match n_windows {
            0 => Self::None,
            1 => Self::One,
            _ => Self::Unknown,
        }
    }
}

/// How the windows of the name are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum List {
    /// Not at all: tmux says that none has the name.
    None,
    /// tmux finds the only one that has it.
    One,
    /// tmux expands a format for each window of the session, which takes it five times as long.
    All,
}

/// The lists in the order in which they are tried.
const LISTS: [List; 3] = [List::None, List::One, List::All];

impl List {
    /// Whether it may answer where so many windows are expected.
    fn fits(self, expected: Expected, name: &str) -> bool {
        match self {
            Self::None => expected == Expected::None,
            // A name of digits would be an index, and what follows a dot a pane.
            Self::One => {
                expected == Expected::One
                    && !name.contains('.')
                    && name.contains(|c: char| !c.is_ascii_digit())
            }
            Self::All => true,
        }
    }

    /// Returns its commands, the first of which fails if the session is missing.
    fn commands(self, session: &str, name: &str) -> Vec<Command> {
        let target = format!("{session}:");
        let show =
            |format: &str| Command::new("display-message").args(["-p", "-t", &target, format]);
        let panes = |args: &[&str]| {
            let list = Command::new("list-panes").args(args.iter().copied());
            list.args(["-F", &row_format()])
        };
        match self {
            Self::None => vec![
                Command::new("has-session").args(["-t", session]),
                show(&are_named(name, "")),
            ],
            Self::One => vec![
                panes(&["-t", &format!("{target}={name}")]),
                show(&format!("#{{?{},0,1}}", is_noted(name))),
            ],
            // Without the colon tmux would also search for a window of that name.
            Self::All => vec![panes(&["-s", "-t", &target, "-f", &is_named(name)])],
        }
    }

    /// Reads the answers to its commands; `None` when another number of windows has the name.
    fn read(self, frames: &[Frame]) -> Option<Vec<LaunchRow>> {
        let text = |at: usize| frames.get(at).map(Frame::text).unwrap_or_default();
        match self {
            Self::None => (text(1).trim() == "1").then(Vec::new),
            Self::One => (text(1).trim() == "1").then(|| read_rows(&text(0))),
            Self::All => Some(read_rows(&text(0))),
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
    use super::*;

    #[test]
    fn what_is_expected_is_looked_for_first() {
        let lists = |expected, name: &str| -> Vec<List> {
            let all = LISTS.into_iter();
            all.filter(|list| list.fits(expected, name)).collect()
        };
        assert_eq!(lists(Expected::of(0), "api"), [List::None, List::All]);
        assert_eq!(lists(Expected::of(1), "api"), [List::One, List::All]);
        assert_eq!(lists(Expected::of(2), "api"), [List::All]);
        // tmux would take it for the index of a window, or for a pane of window `api`.
        assert_eq!(lists(Expected::One, "7"), [List::All]);
        assert_eq!(lists(Expected::One, "api.1"), [List::All]);
        assert_eq!(lists(Expected::One, "7b"), [List::One, List::All]);
    }

    #[test]
    fn an_answer_that_does_not_fit_the_expectation_is_none() {
        let frame = |text: &str| Frame {
            time: 0,
            number: 1,
            flags: 1,
            ok: true,
            body: text.lines().map(|line| line.as_bytes().to_vec()).collect(),
        };
        let row = frame("1 2 $0 3 @1 %7 11 0 + 1  ");
        let read = |list: List, frames: &[Frame]| list.read(frames).map(|rows| rows.len());
        assert_eq!(read(List::None, &[frame(""), frame("1")]), Some(0));
        assert_eq!(read(List::None, &[frame(""), frame("0")]), None);
        assert_eq!(read(List::One, &[row.clone(), frame("1")]), Some(1));
        assert_eq!(read(List::One, &[row.clone(), frame("0")]), None);
        assert_eq!(read(List::All, &[row]), Some(1));
        assert_eq!(read(List::All, &[frame("")]), Some(0));
        assert_eq!(read(List::One, &[]), None);
    }
}
