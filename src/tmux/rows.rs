//! The rows of a look: what tmux is asked for each window and pane, and how the answer is read.
//!
//! To print everything of a window costs tmux some 30 microseconds, a sign of whether it has moved
//! 6 of them: the sign is printed for every window, everything only of those that are wanted.

use std::collections::{BTreeMap, BTreeSet};

use super::capture::Shape;
use super::nonce::nonce;
use crate::model::{Exit, Millis, PaneId, Screen, SessionLife, Signal, WindowId, text};
use crate::protocol::Command;
use crate::protocol::rows::{DeadPane, PaneRow, SessionRow, WindowRow};

/// Of which windows everything is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// Of all.
    All,
    /// Of these, if they are there.
    Windows(BTreeSet<WindowId>),
}

/// One window with its primary pane, as a list shows it.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) pane: PaneId,
    /// Whether the window has no other pane.
    pub(super) is_only: bool,
    /// Differs when anything has moved that is worth a look: the process, its end, output, bells,
    /// the count of runs, tmux's modes, the length of the history.
    pub(super) sign: String,
    /// What was wanted.
    pub(super) found: Option<Found>,
}

/// Everything of a window and its primary pane but for the screen.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) window: WindowRow,
    pub(super) pane: PaneRow,
    pub(super) shape: Shape,
}

/// Lists the panes of the session.
pub(super) fn list_command(target: &str, wanted: &Wanted) -> Command {
    Command::new("list-panes")
        .args(["-s", "-t", target, "-F"])
        .arg(pane_format(wanted))
}

/// Asks for the session itself. It must come behind a command that fails when the session is
/// missing: this one takes another session then.
pub(super) fn session_command(target: &str) -> Command {
    Command::new("display-message")
        .args(["-p", "-t", target])
        .arg(session_format())
}

/// Reads the list of panes; of each window the pane with the lowest id.
pub(super) fn read_list(text: &str) -> Option<BTreeMap<WindowId, Listed>> {
    let mut windows: BTreeMap<WindowId, Listed> = BTreeMap::new();
    for (window, listed) in read_rows(text, read_listed)? {
        let Some(first) = windows.get_mut(&window) else {
            windows.insert(window, listed);
            continue;
        };
        // A window that is linked twice is listed twice.
        first.is_only &= first.pane == listed.pane;
        if listed.pane < first.pane {
            *first = Listed {
                is_only: false,
                ..listed
            };
        }
    }
    Some(windows)
}

/// Reads the session and its record of deaths.
pub(super) fn read_session(text: &str) -> Option<(SessionRow, String)> {
    read_rows(text, session_row)?.pop()
}

/// A row is `NONCE! field NONCE| field NONCE.`, without the blanks.
fn row_format(fields: &[&str]) -> String {
    let nonce = nonce();
    format!("{nonce}!{}{nonce}.", fields_format(fields))
}

fn fields_format(fields: &[&str]) -> String {
    fields.join(&format!("{}|", nonce()))
}

fn read_rows<T>(text: &str, read: impl Fn(&mut Fields<'_>) -> Option<T>) -> Option<Vec<T>> {
    let nonce = nonce();
    let (start, end, separator) = (
        format!("{nonce}!"),
        format!("{nonce}."),
        format!("{nonce}|"),
    );
    text.split(&start)
        .skip(1)
        .map(|row| {
            let (row, _) = row.split_once(&end)?;
            let fields: Vec<&str> = row.split(separator.as_str()).collect();
            read(&mut Fields(fields.into_iter()))
        })
        .collect()
}

struct Fields<'a>(std::vec::IntoIter<&'a str>);

impl Fields<'_> {
    fn text(&mut self) -> Option<String> {
        self.0
            .next()
            .map(|field| text::one_line(field.as_bytes(), 4096))
    }

    /// A text that may be empty, which says nothing.
    fn some_text(&mut self) -> Option<Option<String>> {
        self.text().map(|text| (!text.is_empty()).then_some(text))
    }

    fn parse<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    /// A number that may be missing; what is no number is missing.
    fn maybe<T: std::str::FromStr>(&mut self) -> Option<Option<T>> {
        self.0.next().map(|field| field.trim().parse().ok())
    }

    fn flag(&mut self) -> Option<bool> {
        self.0.next().map(|field| field == "1")
    }
}

/// An option's text. `=` bounds it but changes runs of `#` and drops newlines, so it is used
/// only where the bound is passed.
fn bounded(option: &str) -> String {
    format!("#{{?#{{e|>:#{{n:{option}}},4096}},#{{=4096:{option}}},#{{{option}}}}}")
}

fn first_of(ours: &str, other: &str) -> String {
    format!("#{{?{ours},{},{}}}", bounded(ours), bounded(other))
}

/// What a sign is made of.
const SIGN: &str = "#{pane_pid} #{pane_dead}#{pane_dead_status} #{pane_dead_signal} \
                    #{window_activity} #{window_bell_flag} #{=20:@tmux_task_bell_count} \
                    #{=20:@pi_tmux_task_bell_count} #{=20:@tmux_task_run} #{pane_in_mode} \
                    #{history_size}";

fn pane_format(wanted: &Wanted) -> String {
    let everything = everything_format();
    let of_wanted = match wanted {
        Wanted::All => everything,
        Wanted::Windows(windows) if windows.is_empty() => String::new(),
        Wanted::Windows(windows) => {
            let windows: String = windows.iter().map(|window| format!("<{window}>")).collect();
            format!("#{{?#{{m:*<#{{window_id}}>*,{windows}}},{everything},}}")
        }
    };
    row_format(&["#{window_id}", "#{pane_id}", SIGN, &of_wanted])
}

fn everything_format() -> String {
    fields_format(&[
        "#{window_bell_flag}",
        "#{window_activity}",
        "#{=20:@tmux_task_bell_count}",
        "#{=20:@pi_tmux_task_bell_count}",
        "#{=20:@tmux_task_run}",
        "#{=20:@tmux_task_started}",
        "#{=20:@tmux_task_replaced}",
        "#{window_name}",
        &first_of("@tmux_task_command", "@pi_task_command"),
        &first_of("@tmux_task_cwd", "@pi_task_cwd"),
        "#{pane_pid}",
        "#{pane_dead}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{pane_dead_time}",
        "#{pane_width}",
        "#{pane_height}",
        "#{history_size}",
        "#{cursor_x}",
        "#{cursor_y}",
        "#{alternate_on}",
        "#{pane_in_mode}",
        "#{pane_tty}",
        "#{pane_title}",
        // Asked only where nothing is recorded: it makes the server read in /proc.
        "#{?@tmux_task_command,,#{?@pi_task_command,,#{pane_current_command}}}",
    ])
}

fn read_listed(fields: &mut Fields<'_>) -> Option<(WindowId, Listed)> {
    let window = fields.parse()?;
    let pane = fields.parse()?;
    let sign = fields.0.next()?.to_owned();
    let found = if fields.0.as_slice() == [""] {
        None
    } else {
        Some(read_found(window, pane, fields)?)
    };
    let listed = Listed {
        pane,
        is_only: true,
        sign,
        found,
    };
    Some((window, listed))
}

fn read_found(window: WindowId, pane: PaneId, fields: &mut Fields<'_>) -> Option<Found> {
    let bell = fields.flag()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let counts: [Option<u64>; 2] = [fields.maybe()?, fields.maybe()?];
    let window = WindowRow {
        window,
        bell,
        activity,
        bell_count: counts.into_iter().flatten().reduce(u64::saturating_add),
        run: fields.maybe()?,
        started: fields.maybe::<Millis>()?,
        replaced: fields.maybe()?,
        name: fields.text()?,
        command: fields.some_text()?,
        cwd: fields.some_text()?,
        pane: None,
    };
    let pid = fields.maybe()?;
    let is_dead = fields.flag()?;
    let dead = DeadPane {
        exit: Exit {
            code: fields.maybe()?,
            signal: Signal::parse(fields.0.next()?),
        },
        time: fields.maybe()?,
    };
    let shape = Shape {
        activity,
        pid,
        is_dead,
        width: fields.parse()?,
        height: fields.parse()?,
        history: fields.parse()?,
        cursor_x: fields.parse()?,
        cursor_y: fields.parse()?,
        is_alternate: fields.flag()?,
    };
    let pane = PaneRow {
        pane,
        pid,
        dead: is_dead.then_some(dead),
        in_mode: fields.flag()?,
        tty: fields.some_text()?,
        title: fields.text()?,
        current_command: fields.some_text()?,
        screen: Screen::default(),
    };
    Some(Found {
        window,
        pane,
        shape,
    })
}

fn session_format() -> String {
    row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        "#{session_name}",
        &bounded("@tmux_task_root"),
        &bounded("@tmux_task_title"),
        "#{@tmux_task_deaths}",
    ])
}

fn session_row(fields: &mut Fields<'_>) -> Option<(SessionRow, String)> {
    let session = SessionRow {
        life: SessionLife {
            server_pid: fields.parse()?,
            server_started: fields.parse()?,
            id: fields.parse()?,
            created: fields.parse()?,
        },
        name: fields.text()?,
        root: fields.some_text()?,
        title: fields.some_text()?,
    };
    Some((session, fields.0.next()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(window: &str, pane: &str, rest: &[&str]) -> String {
        let nonce = nonce();
        let fields = [&[window, pane, "sign"], rest].concat();
        format!("{nonce}!{}{nonce}.", fields_format(&fields))
    }

    fn full(window: &str, pane: &str, name: &str) -> String {
        let of_window = ["0", "5", "2", "x", "3", "", "", name, "", ""];
        let of_pane = [
            "41", "0", "", "", "", "80", "24", "0", "0", "0", "0", "0", "", "", "sh",
        ];
        row(window, pane, &[&of_window[..], &of_pane].concat())
    }

    #[test]
    fn a_field_cannot_make_rows_or_fields() {
        let nonce = nonce();
        let text = [full("@1", "%1", "a\t\n@9|!."), full("@2", "%2", "web")].join("\n");
        let windows = read_list(&text).unwrap();
        assert_eq!(windows.len(), 2);
        let found = |id: u32| windows[&WindowId(id)].found.as_ref().unwrap();
        assert_eq!(found(1).window.name, "a  @9|!.");
        assert_eq!(found(1).window.bell_count, Some(2));
        assert_eq!(
            (found(2).window.run, found(2).window.started),
            (Some(3), None)
        );
        assert_eq!(found(2).pane.pid, Some(41));
        assert!(!text.contains(&format!("{nonce}{nonce}")));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_told() {
        let nonce = nonce();
        assert!(read_list(&format!("{nonce}!@1{nonce}.")).is_none());
        assert!(read_list(&format!("{nonce}!@1")).is_none());
        assert!(read_list(&row("@1", "%1", &["0", "5"])).is_none());
        assert!(read_list("").unwrap().is_empty());
    }

    #[test]
    fn a_window_is_its_pane_with_the_lowest_id() {
        let text = [
            row("@1", "%3", &[""]),
            row("@1", "%2", &[""]),
            row("@2", "%9", &[""]),
            row("@2", "%9", &[""]),
        ]
        .concat();
        let windows = read_list(&text).unwrap();
        let of = |id: u32| (windows[&WindowId(id)].pane, windows[&WindowId(id)].is_only);
        assert_eq!(of(1), (PaneId(2), false));
        assert_eq!(of(2), (PaneId(9), true), "linked twice");
        assert!(windows.values().all(|listed| listed.found.is_none()));
    }
}
