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
use super::quoted::{Fields, bounded, counter, expanded, quoted, read_rows, row_format};
use super::window_options::{
    OPTION_FIELDS, OPTION_NAMES, WindowOptions, decode_ending, decode_settings,
};
use crate::model::{Exit, PaneId, Screen, SessionLife, Signal, WindowId, text};
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

/// Everything of a window and one of its panes except the screen.
#[derive(Debug)]
pub(super) struct WindowDetails {
    /// Including its pane.
    pub(super) window: WindowRow,
    pub(super) shape: Shape,
    /// The banner that tmux wrote into the pane when its process died.
    pub(super) banner: String,
    origin: PaneOrigin,
    /// Whether a format finds a bell count of Pi's helper, either the window's own or one that is
    /// set for more than the window.
    may_have_bells_of_pi: bool,
}

impl WindowDetails {
    /// Whether a format may have found options that are not the window's own, so that those have to be
    /// queried: it finds those of the session, all sessions, all windows and the server as well. A
    /// launcher sets all that describe a task on its window, where nothing hides them but what is
    /// `inherited` from the server. What `known` has was queried before.
    pub(super) fn may_inherit(&self, inherited: bool, known: Option<&WindowRow>) -> bool {
        let row = &self.window;
        let is_any = row.run.is_some()
            || row.started.is_some()
            || row.replaced.is_some()
            || row.owner.is_some()
            || row.command.is_some()
            || row.cwd.is_some()
            || row.ending.is_some();
        let is_known = |known: &WindowRow| {
            (known.run, known.started, known.replaced) == (row.run, row.started, row.replaced)
                && (&known.owner, &known.command) == (&row.owner, &row.command)
                && (&known.cwd, known.ending) == (&row.cwd, row.ending)
        };
        let of_launcher = self.origin == PaneOrigin::Launcher && !inherited;
        self.may_have_bells_of_pi || (is_any && !of_launcher && !known.is_some_and(is_known))
    }

    /// Replaces the options by the window's own, as printed by [`own_options_commands`].
    pub(super) fn take_own_options(&mut self, printed: &[String]) {
        let mut values = OPTION_NAMES.into_iter().chain([BELLS_OF_PI]).zip(printed);
        let mut value = || values.next().map_or("", |(_, value)| value.trim());
        let text = |value: &str| {
            Some(text::one_line(value.as_bytes(), 4096)).filter(|text| !text.is_empty())
        };
        let run = value().parse().ok();
        let started = value().parse().ok();
        let replaced = value().parse().ok();
        let owner = text(value());
        let [command, of_pi, cwd, cwd_of_pi] = [(); 4].map(|()| text(value()));
        let ending = text(value());
        let spec = value().to_owned();
        let options = WindowOptions {
            run,
            started,
            replaced,
            owner,
            command: command.or(of_pi),
            cwd: cwd.or(cwd_of_pi),
            ending,
            spec,
        };
        describe(&mut self.window, options, self.origin, self.shape.pid);
        if let Ok(bells) = value().parse::<u64>() {
            let ours = self.window.bell_count.unwrap_or(0);
            self.window.bell_count = Some(ours.saturating_add(bells));
        }
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
    let windows = read_windows(text, read_sign)?.into_iter();
    Some(
        windows
            .map(|(window, listed)| (window, listed.pane))
            .collect(),
    )
}

/// Begins as a row of signs does, and has the end of a sign.
static INDEX_FORMAT: LazyLock<String> =
    LazyLock::new(|| row_format(&["#{window_id}", "#{pane_id}", &IS_FLOATING]));

/// Parses the rows of panes; for each window its primary one.
pub(super) fn read_windows(
    text: &str,
    read: impl Fn(&mut Fields) -> Option<(WindowId, ListedWindow)>,
) -> Option<BTreeMap<WindowId, ListedWindow>> {
    let mut windows: BTreeMap<WindowId, ListedWindow> = BTreeMap::new();
    for (window, listed) in read_rows(text, read)? {
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

/// Queries the window's own options, with the bell count of Pi's helper.
pub(super) fn own_options_commands(window: WindowId) -> impl Iterator<Item = Command> {
    let names = OPTION_NAMES.into_iter().chain([BELLS_OF_PI]);
    names.map(move |name| {
        let window = window.to_string();
        Command::new("show-options").args(["-wqv", "-t", &window, name])
    })
}

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

pub(super) fn read_sign(fields: &mut Fields) -> Option<(WindowId, ListedWindow)> {
    let window = fields.parse()?;
    let listed = ListedWindow {
        pane: fields.parse()?,
        is_only: true,
        sign: fields.raw()?,
        details: None,
    };
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
        &counter(BELLS),
        &counter(BELLS_OF_PI),
        &OPTION_FIELDS,
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

pub(super) fn read_details(fields: &mut Fields) -> Option<(WindowId, ListedWindow)> {
    let (id, listed) = read_sign(fields)?;
    let bell = fields.flag()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let bell_count = own_count(id, &fields.raw()?);
    let may_have_bells_of_pi = !fields.raw()?.trim().is_empty();
    let options = WindowOptions::read(fields)?;
    let origin = PaneOrigin::parse(&fields.raw()?);
    let mut window = WindowRow {
        bell,
        activity,
        bell_count,
        is_named_by_tmux: fields.flag()?,
        is_linked: fields.flag()?,
        is_launching: fields.flag()?,
        name: fields.text()?,
        ..WindowRow::new(id)
    };
    let pid = fields.maybe()?;
    describe(&mut window, options, origin, pid);
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
        pane: listed.pane,
        pid,
        dead: is_dead.then_some(dead),
        in_mode: fields.flag()?,
        tty: fields.some_text()?,
        title: fields.text()?,
        current_command: fields.some_text()?,
        screen: Screen::default(),
    });
    let banner = fields.raw()?;
    let details = WindowDetails {
        window,
        shape,
        banner,
        origin,
        may_have_bells_of_pi,
    };
    let details = Some(details);
    Some((id, ListedWindow { details, ..listed }))
}

/// Describes a window by its options.
fn describe(row: &mut WindowRow, options: WindowOptions, origin: PaneOrigin, pid: Option<u32>) {
    let is_of_task = !(matches!(origin, PaneOrigin::Moved { .. }) && options.command.is_some());
    let WindowOptions { run, started, .. } = options;
    row.run = run;
    row.started = started;
    row.is_bare = match origin {
        PaneOrigin::Launcher => false,
        PaneOrigin::Moved { is_bare } | PaneOrigin::Other { is_bare } => is_bare || !is_of_task,
    };
    // Otherwise they describe the task, whose pane this is not.
    let options = if is_of_task {
        options
    } else {
        WindowOptions::default()
    };
    row.replaced = options.replaced;
    row.owner = options.owner;
    row.command = options.command;
    row.cwd = options.cwd;
    row.settings = decode_settings(&options.spec, started);
    let ending = decode_ending(options.ending.as_deref(), pid);
    row.ending = ending.as_ref().map(|(reason, _)| *reason);
    row.asked_by = ending.and_then(|(_, asked_by)| asked_by);
}

static SESSION_FORMAT: LazyLock<String> = LazyLock::new(|| {
    row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        "#{session_windows}",
        &quoted("session_name"),
        &bounded("@tmux_task_root"),
        &bounded("@tmux_task_title"),
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
        let of_window = [
            "0", "5", "@1 2", "x", "3", "", "", "pi:7", "", "", "", "", "1", "0", "0", "0", name,
        ];
        let of_pane = [
            "41", "0", "", "", "", "80", "24", "0", "0", "0", "0", "0", "0", "", "", "", "sh", "",
        ];
        row_format(&[&ids[..], &of_window, &of_pane].concat())
    }

    #[test]
    fn only_the_windows_own_bells_count() {
        let count = |counted| own_count(WindowId(12), counted);
        assert_eq!(count("@12 7 "), Some(7));
        for other in ["", "7", "@1 7", "12 7", "@12", "@12 x", "@12 1 2"] {
            assert_eq!(count(other), None, "{other}");
        }
    }

    fn listed(of_pi: &str, origin: &str) -> WindowDetails {
        let row = full("@1", "%1", "api").replace("|x|", &format!("|{of_pi}|"));
        let row = row.replace("|1|0|0|0|api|", &format!("|{origin}|0|0|0|api|"));
        let mut windows = read_windows(&row, read_details).unwrap();
        windows.remove(&WindowId(1)).unwrap().details.unwrap()
    }

    /// What tmux prints of a window's own options.
    fn printed(options: &[(&str, &str)]) -> Vec<String> {
        let names = OPTION_NAMES.into_iter().chain([BELLS_OF_PI]);
        let value = |name| options.iter().find(|(other, _)| *other == name);
        names
            .map(|name| value(name).map_or_else(String::new, |(_, value)| format!("{value}\n")))
            .collect()
    }

    #[test]
    fn a_count_that_a_format_finds_is_not_yet_the_windows() {
        for (bells, count) in [("", 2), ("x", 2), ("7\n7", 2), ("7", 9)] {
            let mut found = listed("7 ", "launcher");
            assert!(found.may_inherit(false, Some(&found.window)));
            assert_eq!(found.window.bell_count, Some(2));
            found.take_own_options(&printed(&[(BELLS_OF_PI, bells)]));
            assert_eq!(found.window.bell_count, Some(count), "{bells:?}");
        }
        let mut found = listed("7 ", "0");
        found.window.bell_count = None;
        found.take_own_options(&printed(&[]));
        assert_eq!(found.window.bell_count, None);
        found.take_own_options(&printed(&[(BELLS_OF_PI, "7")]));
        assert_eq!(found.window.bell_count, Some(7));
    }

    #[test]
    fn what_no_launcher_has_set_may_be_inherited() {
        let of_launcher = listed(" ", "launcher");
        assert!(!of_launcher.may_inherit(false, None));
        assert!(of_launcher.may_inherit(true, None));
        let mut found = listed(" ", "1");
        assert!(found.may_inherit(false, None));
        assert!(!found.may_inherit(false, Some(&found.window)));
        found.take_own_options(&printed(&[("@tmux_task_owner", "pi:8")]));
        assert_eq!(found.window.owner.as_deref(), Some("pi:8"));
        assert_eq!((found.window.run, found.window.is_bare), (None, true));
        // The next look finds the same as before.
        assert!(listed(" ", "1").may_inherit(false, Some(&found.window)));
        found.take_own_options(&printed(&[]));
        assert!(!found.may_inherit(false, None));
    }

    #[test]
    fn a_pane_that_was_moved_into_a_launchers_window_is_no_task() {
        let mut moved = listed(" ", "moved0");
        assert!(!moved.window.is_bare);
        assert_eq!(moved.window.owner.as_deref(), Some("pi:7"));
        let command = ("@pi_task_command", "make");
        moved.take_own_options(&printed(&[command, ("@tmux_task_owner", "pi:7")]));
        assert!(moved.window.is_bare);
        assert_eq!((&moved.window.owner, &moved.window.command), (&None, &None));
    }

    #[test]
    fn a_field_cannot_make_rows_or_fields() {
        let first = full("@1", "%1", "a\t\n\\<@9\\|!\\>");
        let lists = [first, full("@2", "%2", "web")].join("\n");
        let signs = [sign("@1", "%1"), sign("@2", "%2")].join("\n");
        let windows = read_windows(&lists, read_details).unwrap();
        assert_eq!(windows.len(), 2);
        let found = |id: u32| &windows[&WindowId(id)].details.as_ref().unwrap().window;
        assert_eq!(found(1).name, "a  <@9|!>");
        assert_eq!(found(1).bell_count, Some(2));
        assert_eq!((found(2).run, found(2).started), (Some(3), None));
        assert_eq!(found(2).owner.as_deref(), Some("pi:7"));
        assert!(found(2).is_bare);
        assert_eq!(found(2).pane.as_ref().unwrap().pid, Some(41));
        let alone = read_windows(&signs, read_sign).unwrap();
        assert_eq!(alone[&WindowId(1)].sign, windows[&WindowId(1)].sign);
        assert!(windows.values().all(|listed| listed.is_only));
    }

    #[test]
    fn a_row_that_cannot_be_parsed_is_an_error() {
        for row in ["<@1>", "<@1", "<@1|%1>"] {
            assert!(read_windows(row, read_sign).is_none(), "{row}");
            assert!(read_windows(row, read_details).is_none(), "{row}");
        }
        assert!(read_windows("", read_sign).unwrap().is_empty());
    }

    #[test]
    fn a_window_is_its_pane_with_the_lowest_id_that_does_not_float() {
        let floating = |window, pane| sign(window, pane).replace("0>", "1>");
        let signs = [("@1", "%3"), ("@1", "%2"), ("@2", "%9"), ("@2", "%9")];
        let signs = signs.map(|(window, pane)| sign(window, pane)).concat();
        let signs = signs + &floating("@1", "%1") + &floating("@3", "%8");
        let windows = read_windows(&signs, read_sign).unwrap();
        let of = |id: u32| (windows[&WindowId(id)].pane, windows[&WindowId(id)].is_only);
        assert_eq!(of(1), (PaneId(2), false));
        assert_eq!(of(2), (PaneId(9), true), "linked twice");
        assert_eq!(of(3), (PaneId(8), true), "there is no other");
        assert!(windows.values().all(|listed| listed.details.is_none()));
    }
}
