//! The rows of a look: which formats tmux expands for each window and pane, and how the answer is
//! parsed.
//!
//! Printing everything of a window takes tmux 25 to 80 microseconds, a sign of change 10 to 20, its
//! ids 1 to 2: signs are printed for windows of which no change was reported, everything only for
//! those wanted. Parsing two thousand
//! characters of formats takes 200; this is saved where tmux has stored them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::banner::BANNER;
use super::capture::Shape;
use super::pane_origin::{IS_LAUNCHING, IS_OWN_PANE, ORIGIN, PaneOrigin, TASK_PANE};
use super::quoted::{Fields, counter, expanded, quoted, read_rows, row_format};
use super::window_options::{
    ENDING, OWNER, OwnOptions, RUN, SPEC, STARTED, decode_ending, decode_spec,
};
use crate::model::{Exit, PaneId, Screen, SessionLife, Signal, WindowId};
use crate::rules::protocol::Command;
use crate::rules::protocol::rows::{DeadPane, PaneRow, SessionRow, WindowRow};

/// The order of a window's panes. The first one is its primary pane: the one with the lowest id, except
/// for panes that float over the window, wherever they are from.
pub(super) type PaneOrder = (bool, PaneId);

/// Whether the pane floats, which tmux knows from version 3.7 on. The task's own pane stays the task's
/// wherever its user puts it.
pub(super) static IS_FLOATING: LazyLock<String> =
    LazyLock::new(|| format!("#{{?pane_floating_flag,#{{!=:#{{{TASK_PANE}}},#{{window_id}}}},0}}"));

/// A window with its primary pane.
#[derive(Debug)]
pub(super) struct ListedWindow {
    pub(super) pane: PaneId,
    /// Whether the window has no other pane.
    pub(super) is_only: bool,
    /// Changes whenever anything has changed that may not have been reported: the process, its end,
    /// output, bells, modes of tmux.
    pub(super) sign: String,
    /// Everything, where it was wanted.
    pub(super) details: Option<WindowDetails>,
}

impl ListedWindow {
    fn order(&self) -> PaneOrder {
        // A sign ends with whether the pane floats.
        (self.sign.ends_with('1'), self.pane)
    }
}

/// Everything of a window and one of its panes except the screen; also without what the window's options
/// say, until it is described.
#[derive(Debug)]
pub(super) struct WindowDetails {
    /// Including its pane.
    pub(super) window: WindowRow,
    pub(super) shape: Shape,
    /// The banner that tmux wrote into the pane when its process died.
    pub(super) banner: String,
    origin: PaneOrigin,
}

impl WindowDetails {
    /// Describes the window by its options.
    pub(super) fn describe(&mut self, options: &OwnOptions) {
        let (row, pid) = (&mut self.window, self.shape.pid);
        row.bell_count = own_count(row.window, &options.raw(BELLS));
        if let Some(bells) = options.number::<u64>(BELLS_OF_PI) {
            row.bell_count = Some(row.bell_count.unwrap_or(0).saturating_add(bells));
        }
        row.run = options.number(RUN);
        row.started = options.number(STARTED);
        let either = |ours, of_pi| options.text(ours).or_else(|| options.text(of_pi));
        let command = either("@tmux_task_command", "@pi_task_command");
        let is_of_other = matches!(self.origin, PaneOrigin::Moved { .. }) && command.is_some();
        row.is_bare = match self.origin {
            PaneOrigin::Launcher => false,
            PaneOrigin::Moved { is_bare } | PaneOrigin::Other { is_bare } => is_bare || is_of_other,
        };
        if is_of_other {
            // The others describe the task, whose pane this is not.
            return;
        }
        row.replaced = options.number("@tmux_task_replaced");
        row.owner = options.text(OWNER);
        row.command = command;
        row.cwd = either("@tmux_task_cwd", "@pi_task_cwd");
        let spec = decode_spec(&options.raw(SPEC), row.started);
        row.settings = spec.map_or_else(Default::default, |spec| spec.settings);
        let ending = decode_ending(&options.raw(ENDING), pid);
        row.ending = ending.as_ref().map(|(reason, _)| *reason);
        row.asked_by = ending.and_then(|(_, asked_by)| asked_by);
    }
}

/// What a command prints for each row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Formats {
    sign: &'static str,
    pane: &'static str,
    session: &'static str,
}

impl Formats {
    /// The formats themselves.
    pub(super) fn whole() -> Self {
        Self {
            sign: &SIGN_FORMAT,
            pane: &PANE_FORMAT,
            session: &SESSION_FORMAT,
        }
    }

    /// The formats that [`noted_formats`] has stored on the session.
    pub(super) fn noted() -> Self {
        Self {
            sign: "#{E:@tmux_task_sign_format}",
            pane: "#{E:@tmux_task_pane_format}",
            session: "#{E:@tmux_task_session_format}",
        }
    }
}

/// Returns the session options for [`Formats::noted`], and their values.
pub(super) fn noted_formats() -> [(&'static str, &'static str); 3] {
    [
        ("@tmux_task_sign_format", &SIGN_FORMAT),
        ("@tmux_task_pane_format", &PANE_FORMAT),
        ("@tmux_task_session_format", &SESSION_FORMAT),
    ]
}

/// Lists the windows and panes of the session.
pub(super) fn index_command(session: &str) -> Command {
    Command::new("list-panes").args(["-s", "-t", session, "-F", &INDEX_FORMAT])
}

/// Lists the panes of a window of the session, with their signs only or with everything. Fails when the
/// window does not exist.
pub(super) fn window_command(
    session: &str,
    window: WindowId,
    formats: Formats,
    is_sign: bool,
) -> Command {
    let format = if is_sign { formats.sign } else { formats.pane };
    Command::new("list-panes").args(["-t", &format!("{session}{window}"), "-F", format])
}

/// Queries the session itself. It must follow a command that fails when the session is missing,
/// because this one would then use another session.
pub(super) fn session_command(target: &str, formats: Formats) -> Command {
    Command::new("display-message").args(["-p", "-t", target, formats.session])
}

/// Parses the list of windows, each with its primary pane.
pub(super) fn read_index(text: &str) -> Option<BTreeMap<WindowId, PaneId>> {
    let windows = read_windows(text)?.into_iter();
    let primary = windows.map(|(window, listed)| (window, listed.pane));
    Some(primary.collect())
}

/// Begins as a row of signs does, and has the end of a sign.
static INDEX_FORMAT: LazyLock<String> =
    LazyLock::new(|| row_format(&["#{window_id}", "#{pane_id}", &IS_FLOATING]));

/// Parses the rows of panes; for each window its primary one.
pub(super) fn read_windows(text: &str) -> Option<BTreeMap<WindowId, ListedWindow>> {
    let mut windows: BTreeMap<WindowId, ListedWindow> = BTreeMap::new();
    for (window, listed) in read_rows(text, read_pane)? {
        let Some(first) = windows.get_mut(&window) else {
            windows.insert(window, listed);
            continue;
        };
        // A window that is linked twice is listed twice.
        let is_only = first.is_only && first.pane == listed.pane;
        if listed.order() < first.order() {
            *first = listed;
        }
        first.is_only = is_only;
    }
    Some(windows)
}

/// Parses the session and its death record.
pub(super) fn read_session(text: &str) -> Option<(SessionRow, String)> {
    read_rows(text, session_row)?.pop()
}

/// The window option with the bell count of Pi's own helper.
const BELLS_OF_PI: &str = "@pi_tmux_task_bell_count";

/// Parses the window's own bell count, as our hook writes it.
fn own_count(window: WindowId, counted: &str) -> Option<u64> {
    let (id, count) = counted.trim().split_once(' ')?;
    (id.parse() == Ok(window)).then_some(())?;
    count.parse().ok()
}

/// The parts of a sign: no free text except what others may have set the counters to.
static SIGN: LazyLock<String> = LazyLock::new(|| {
    let (bells, of_pi) = (counter(BELLS), counter(BELLS_OF_PI));
    format!(
        "#{{pane_pid}} #{{pane_dead}} #{{window_activity}} #{{window_bell_flag}} {bells}{of_pi}\
         #{{pane_in_mode}} {IS_LINKED} {}",
        *IS_FLOATING
    )
});

static SIGN_FORMAT: LazyLock<String> =
    LazyLock::new(|| row_format(&["#{window_id}", "#{pane_id}", &SIGN]));

fn read_pane(fields: &mut Fields) -> Option<(WindowId, ListedWindow)> {
    let window = fields.parse()?;
    let mut listed = ListedWindow {
        pane: fields.parse()?,
        is_only: true,
        sign: fields.raw()?,
        details: None,
    };
    if !fields.are_over() {
        listed.details = Some(read_details(fields, window, listed.pane)?);
    }
    Some((window, listed))
}

/// The window option with the window's bell count: its id, a blank and the count. The id
/// distinguishes it from an option of this name that is set for a session or for all windows.
pub(super) const BELLS: &str = "@tmux_task_bells";

/// Whether tmux names the window after what runs in it. A name that somebody gives turns this off.
pub(super) const IS_NAMED_BY_TMUX: &str = "#{?automatic-rename,1,0}";

/// Whether the window is linked into a session outside the group of this one.
pub(super) const IS_LINKED: &str = "#{window_linked}";

/// Whether a launcher has started a task in the window, or all windows inherit a mark.
pub(super) const IS_MARKED: &str = "#{||:#{@tmux_task_command},#{@pi_task_command}}";

static PANE_FORMAT: LazyLock<String> = LazyLock::new(|| {
    row_format(&[
        "#{window_id}",
        "#{pane_id}",
        &SIGN,
        "#{window_bell_flag}",
        "#{window_activity}",
        &ORIGIN,
        IS_NAMED_BY_TMUX,
        IS_LINKED,
        &IS_LAUNCHING,
        &quoted("window_name"),
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
        "#{?cursor_flag,0,1}",
        "#{alternate_on}",
        "#{pane_in_mode}",
        "#{pane_tty}",
        &quoted("pane_title"),
        // Queried only where no command is recorded: it makes the server read in /proc.
        &format!(
            "#{{?{},#{{?{IS_MARKED},,#{{q:pane_current_command}}}},#{{q:pane_current_command}}}}",
            *IS_OWN_PANE
        ),
        &expanded(BANNER),
    ])
});

fn read_details(fields: &mut Fields, id: WindowId, pane: PaneId) -> Option<WindowDetails> {
    let bell = fields.flag()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let origin = PaneOrigin::parse(&fields.raw()?);
    let mut window = WindowRow {
        bell,
        activity,
        is_named_by_tmux: fields.flag()?,
        is_linked: fields.flag()?,
        is_launching: fields.flag()?,
        name: fields.text()?,
        ..WindowRow::new(id)
    };
    let pid = fields.maybe()?;
    let is_dead = fields.flag()?;
    let dead = DeadPane {
        exit: Exit {
            code: fields.maybe()?,
            signal: Signal::parse(&fields.raw()?),
            by_us: false,
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
        is_cursor_hidden: fields.flag()?,
        is_alternate: fields.flag()?,
    };
    window.pane = Some(PaneRow {
        pane,
        pid,
        dead: is_dead.then_some(dead),
        in_mode: fields.flag()?,
        tty: fields.some_text()?,
        title: fields.text()?,
        current_command: fields.some_text()?,
        screen: Screen::default(),
    });
    Some(WindowDetails {
        window,
        shape,
        banner: fields.raw()?,
        origin,
    })
}

static SESSION_FORMAT: LazyLock<String> = LazyLock::new(|| {
    row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        "#{session_windows}",
        &quoted("session_name"),
        &quoted("@tmux_task_root"),
        &quoted("@tmux_task_title"),
        &quoted("@tmux_task_deaths"),
    ])
});

fn session_row(fields: &mut Fields) -> Option<(SessionRow, String)> {
    let session = SessionRow {
        life: SessionLife {
            server_pid: fields.parse()?,
            server_started: fields.parse()?,
            id: fields.parse()?,
            created: fields.parse()?,
        },
        n_windows: fields.parse()?,
        name: fields.session_name()?,
        root: fields.some_text()?,
        title: fields.some_text()?,
    };
    Some((session, fields.raw()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(window: &str, pane: &str) -> String {
        row_format(&[window, pane, "41 0 5 0   0 0"])
    }

    fn full(window: &str, pane: &str, name: &str) -> String {
        let ids = [window, pane, "41 0 5 0   0 0"];
        let of_window = ["0", "5", "1", "0", "0", "0", name];
        let of_pane = [
            "41", "0", "", "", "", "80", "24", "0", "0", "0", "0", "0", "0", "", "", "", "sh", "",
        ];
        row_format(&[&ids[..], &of_window, &of_pane].concat())
    }

    fn listed(origin: &str, options: &[(&str, &str)]) -> WindowRow {
        let row =
            full("@1", "%1", "api").replace("|1|0|0|0|api|", &format!("|{origin}|0|0|0|api|"));
        let mut windows = read_windows(&row).unwrap();
        let mut details = windows.remove(&WindowId(1)).unwrap().details.unwrap();
        let printed = options
            .iter()
            .map(|(name, value)| format!("{name} '{value}'\n"));
        details.describe(&OwnOptions::read(&printed.collect::<String>()));
        details.window
    }

    #[test]
    fn bells_are_those_that_the_window_itself_has_counted() {
        let count = |options: &[_]| listed("launcher", options).bell_count;
        assert_eq!(count(&[]), None);
        assert_eq!(count(&[(BELLS, "@1 2")]), Some(2));
        for other in ["", "7", "@2 2", "1 7", "@1", "@1 x", "@1 1 2"] {
            assert_eq!(count(&[(BELLS, other)]), None, "{other}");
        }
        for (bells, expected) in [("", 2), ("x", 2), ("7", 9)] {
            let counted = count(&[(BELLS, "@1 2"), (BELLS_OF_PI, bells)]);
            assert_eq!(counted, Some(expected), "{bells:?}");
        }
        assert_eq!(count(&[(BELLS_OF_PI, "7")]), Some(7));
    }

    #[test]
    fn a_pane_that_was_moved_into_a_launchers_window_is_no_task() {
        let owner = (OWNER, "pi:7");
        let moved = listed("moved0", &[owner]);
        assert!(!moved.is_bare);
        assert_eq!(moved.owner.as_deref(), Some("pi:7"));
        let moved = listed("moved0", &[("@pi_task_command", "make"), owner]);
        assert!(moved.is_bare);
        assert_eq!((moved.owner, moved.command), (None, None));
    }

    #[test]
    fn a_field_cannot_make_rows_or_fields() {
        let first = full("@1", "%1", "a\t\n\\<@9\\|!\\>");
        let lists = [first, full("@2", "%2", "web")].join("\n");
        let signs = [sign("@1", "%1"), sign("@2", "%2")].join("\n");
        let windows = read_windows(&lists).unwrap();
        assert_eq!(windows.len(), 2);
        let found = |id: u32| windows[&WindowId(id)].details.as_ref().unwrap();
        assert_eq!(found(1).window.name, "a  <@9|!>");
        assert_eq!(found(2).window.pane.as_ref().unwrap().pid, Some(41));
        let alone = read_windows(&signs).unwrap();
        assert_eq!(alone[&WindowId(1)].sign, windows[&WindowId(1)].sign);
        assert!(windows.values().all(|listed| listed.is_only));
    }

    #[test]
    fn a_row_that_cannot_be_parsed_is_an_error() {
        for row in ["<@1>", "<@1", "<@1|%1>", "<@1|%1|41 0 5 0   0 0|0>"] {
            assert!(read_windows(row).is_none(), "{row}");
        }
        assert!(read_windows("").unwrap().is_empty());
    }

    #[test]
    fn a_window_is_its_pane_with_the_lowest_id_that_does_not_float() {
        let floating = |window, pane| sign(window, pane).replace("0>", "1>");
        let signs = [("@1", "%3"), ("@1", "%2"), ("@2", "%9"), ("@2", "%9")];
        let signs = signs.map(|(window, pane)| sign(window, pane)).concat();
        let signs = signs + &floating("@1", "%1") + &floating("@3", "%8");
        let windows = read_windows(&signs).unwrap();
        let of = |id: u32| (windows[&WindowId(id)].pane, windows[&WindowId(id)].is_only);
        assert_eq!(of(1), (PaneId(2), false));
        assert_eq!(of(2), (PaneId(9), true), "linked twice");
        assert_eq!(of(3), (PaneId(8), true), "there is no other");
        assert!(windows.values().all(|listed| listed.details.is_none()));
    }
}
