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
use super::notify_option::{NOTIFY_ON, decode_notify_on};
use super::quoted::{
    Fields, Print, bounded, counter, expanded, join_fields, quoted, read_rows, row_format,
    unless_plain,
};
use super::restart_option::{RESTART, decode_restarts};
use super::slot_option::{SLOT, decode_slot};
use super::stop_option::{STOP, decode_ending, decode_stop};
use super::task_file::PREFIX;
use crate::model::{Exit, Millis, PaneId, Progress, Screen, SessionLife, Signal, WindowId};
use crate::protocol::Command;
use crate::protocol::rows::{DeadPane, PaneRow, SessionRow, WindowRow};

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
    is_floating: bool,
    /// Whether the window has no other pane.
    pub(super) is_only: bool,
    /// Changes whenever anything has changed that may not have been reported: the process, its end,
    /// output, bells, modes of tmux.
    pub(super) sign: String,
    /// Everything, where it was wanted.
    pub(super) details: Option<WindowDetails>,
}

/// Everything of a window and one of its panes except the screen.
#[derive(Debug)]
pub(super) struct WindowDetails {
    /// Including its pane.
    pub(super) window: WindowRow,
    pub(super) shape: Shape,
    /// The banner that tmux wrote into the pane when its process died.
    pub(super) banner: String,
    /// Whether a format finds a bell count of Pi's helper, either the window's own or one that is
    /// set for more than the window.
    pub(super) may_have_bells_of_pi: bool,
}

impl WindowDetails {
    /// Adds the window's own bell count of Pi's helper, as printed by [`bells_of_pi_command`].
    pub(super) fn add_bells_of_pi(&mut self, printed: &str) {
        if let Ok(bells) = printed.trim().parse::<u64>() {
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
    list_panes(session).args(["-F", &INDEX_FORMAT])
}

/// Lists the windows of the session that have tmux's bell flag; for each other one a blank line.
pub(super) fn ringing_command(session: &str) -> Command {
    Command::new("list-windows").args(["-t", session, "-F", "#{?window_bell_flag,#{window_id},}"])
}

/// Lists the signs of all panes of the session.
pub(super) fn signs_command(session: &str, formats: Formats) -> Command {
    list_panes(session).args(["-F", formats.sign])
}

/// Lists the signs of the panes of a window of the session. Fails when the window does not exist.
pub(super) fn window_sign_command(session: &str, window: WindowId, formats: Formats) -> Command {
    list_window(session, window).args(["-F", formats.sign])
}

/// Lists everything of all panes of the session.
pub(super) fn list_command(session: &str, formats: Formats) -> Command {
    list_panes(session).args(["-F", formats.pane])
}

/// Lists everything of the panes of a window of the session. Fails when the window does not exist.
pub(super) fn list_window_command(session: &str, window: WindowId, formats: Formats) -> Command {
    list_window(session, window).args(["-F", formats.pane])
}

fn list_panes(session: &str) -> Command {
    Command::new("list-panes").args(["-s", "-t", session])
}

fn list_window(session: &str, window: WindowId) -> Command {
    Command::new("list-panes")
        .arg("-t")
        .arg(format!("{session}{window}"))
}

/// Queries the session itself. It must follow a command that fails when the session is missing,
/// because this one would then use another session.
pub(super) fn session_command(target: &str, formats: Formats) -> Command {
    Command::new("display-message").args(["-p", "-t", target, formats.session])
}

/// Parses the list of windows, each with its primary pane.
pub(super) fn read_index(text: &str) -> Option<BTreeMap<WindowId, PaneId>> {
    let mut windows: BTreeMap<WindowId, PaneOrder> = BTreeMap::new();
    let row = |fields: &mut Fields| {
        let (window, pane) = (fields.parse()?, fields.parse()?);
        Some((window, (fields.flag()?, pane)))
    };
    for (window, pane) in read_rows(text, row)? {
        let first = windows.entry(window).or_insert(pane);
        *first = pane.min(*first);
    }
    let windows = windows.into_iter();
    Some(windows.map(|(window, (_, pane))| (window, pane)).collect())
}

static INDEX_FORMAT: LazyLock<String> =
    LazyLock::new(|| row_format(&["#{window_id}", "#{pane_id}", &IS_FLOATING]));

/// Parses both lists, or one of them; for each window its primary pane.
pub(super) fn read_lists(
    signs: Option<&str>,
    lists: &str,
) -> Option<BTreeMap<WindowId, ListedWindow>> {
    let mut windows = BTreeMap::new();
    for (window, pane, sign) in read_rows(signs.unwrap_or_default(), read_sign)? {
        add(&mut windows, window, pane, sign);
    }
    for (pane, sign, found) in read_rows(lists, read_details)? {
        let window = found.window.window;
        if signs.is_none() {
            add(&mut windows, window, pane, sign);
        }
        let listed = windows
            .get_mut(&window)
            .filter(|listed| listed.pane == pane);
        if let Some(listed) = listed {
            listed.details = Some(found);
        }
    }
    Some(windows)
}

fn add(
    windows: &mut BTreeMap<WindowId, ListedWindow>,
    window: WindowId,
    pane: PaneId,
    sign: String,
) {
    // The last part of a sign.
    let is_floating = sign.ends_with(" 1");
    let listed = |is_only| ListedWindow {
        pane,
        is_floating,
        is_only,
        sign,
        details: None,
    };
    match windows.get_mut(&window) {
        None => drop(windows.insert(window, listed(true))),
        Some(first) if (is_floating, pane) < (first.is_floating, first.pane) => {
            *first = listed(false);
        }
        // A window that is linked twice is listed twice.
        Some(first) => first.is_only &= first.pane == pane,
    }
}

/// Parses the session and its death record.
pub(super) fn read_session(text: &str) -> Option<(SessionRow, String)> {
    read_rows(text, session_row)?.pop()
}

/// The window option with the bell count of Pi's own helper.
const BELLS_OF_PI: &str = "@pi_tmux_task_bell_count";

/// Queries the window's own bell count of Pi's helper. The option does not contain the window's id,
/// and a format also finds values set for the pane, the session, all sessions, all windows or the
/// server.
pub(super) fn bells_of_pi_command(window: WindowId) -> Command {
    let window = window.to_string();
    Command::new("show-options").args(["-wqv", "-t", &window, BELLS_OF_PI])
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
    LazyLock::new(|| row_format(&[&format!("#{{window_id}} #{{pane_id}} {}", *SIGN)]));

fn read_sign(fields: &mut Fields) -> Option<(WindowId, PaneId, String)> {
    let sign = fields.raw()?;
    let mut words = sign.splitn(3, ' ');
    Some((
        words.next()?.parse().ok()?,
        words.next()?.parse().ok()?,
        words.next()?.to_owned(),
    ))
}

/// The window option with the window's bell count: its id, a blank and the count. The id
/// distinguishes it from an option of this name that is set for a session or for all windows.
pub(super) const BELLS: &str = "@tmux_task_bells";

/// Whether the pane was opened without a command of its own, or only with a shell: [`RUNS_SHELL`]. tmux
/// stores `default-command` as if it had been given, quoted if it is more than one word.
///
/// Regular expressions take long, so that a task that a launcher has marked is not compared with one.
pub(super) static IS_BARE: LazyLock<String> = LazyLock::new(|| {
    let is_default = "#{||:#{==:#{pane_start_command},},\
                      #{||:#{==:#{pane_start_command},#{default-command}},\
                      #{==:#{pane_start_command},\"#{default-command}\"}}}";
    let start = "#{=1000:pane_start_command}";
    let runs_shell = format!("#{{?#{{m:*[sSn][hHu]*,{start}}},#{{m/r:{RUNS_SHELL},{start}}},0}}");
    format!("#{{?{is_default},1,#{{?{IS_MARKED},0,{runs_shell}}}}}")
});

/// A regular expression for commands that end as an interactive shell and only print before: `zsh -l`,
/// and `cat 'FILE'; exec -l /bin/bash`, with which tmux-resurrect opens a window again. It has no comma
/// and no brace, which would end it in a format. tmux quotes a command of several words, and escapes
/// quotes and dollars in it.
const RUNS_SHELL: &str = concat!(
    r#"^"?("#,
    r#"(cat|echo|printf|clear|reset|tput|stty|cd|export|unset)( +('[^']*'|[^';&|])*)? *(;|&&) *"#,
    r#")*"#,
    r#"(exec( +-[cl]+| +-a +[^ ;&|]+)* +)?"#,
    r#"([^ ;&|]*/)?(env +([A-Za-z0-9_]+=[^ ;&|]* +)*|reattach-to-user-namespace +(-l +)?)?"#,
    r#"\\?"?("#,
    r#"\\?[$]SHELL|"#,
    r#"([^ ;&|]*/)?-?(nu|(a|ba|c|da|elvi|fi|k|mk|rba|tc|xon|z|pw)?sh)[0-9.]*"#,
    r#")\\?"?( +-[A-Za-z-]*)* *;?"?$"#,
);

/// The option of a task's pane, and of its window, with different values: in another pane of the window
/// tmux finds the window's. A pane takes its options along wherever it is moved. Its value is the id of
/// the window in which a launcher has started it.
pub(super) const TASK_PANE: &str = "@tmux_task_pane";

/// Its value in the window.
pub(super) const NOT_THE_TASK: &str = "other";

/// Whether a launcher may run the window's task again in the pane: it is not one of another window.
pub(super) static IS_OWN_PANE: LazyLock<String> = LazyLock::new(|| {
    format!("#{{||:#{{==:#{{{TASK_PANE}}},}},#{{==:#{{{TASK_PANE}}},#{{window_id}}}}}}")
});

/// Whether the pane is in a launcher's window and is not what was started there: the window's own pane was
/// closed or moved, or this one was moved into the window, whoever has started it.
static IS_OTHER_PANE: LazyLock<String> =
    LazyLock::new(|| format!("#{{?{IS_MARKED},#{{?{},0,1}},0}}", *IS_OWN_PANE));

/// Whether tmux names the window after what runs in it. A name that somebody gives turns this off.
pub(super) const IS_NAMED_BY_TMUX: &str = "#{?automatic-rename,1,0}";

/// Whether the window is linked into a session outside the group of this one.
pub(super) const IS_LINKED: &str = "#{window_linked}";

/// Whether a launcher has started a task in the window.
pub(super) const IS_MARKED: &str = "#{||:#{@tmux_task_command},#{@pi_task_command}}";

/// The window option with the token of the last launch.
pub(super) const MARK: &str = "@tmux_task_launch";

/// Whether the pane waits to run a task that is not described on it yet.
static IS_LAUNCHING: LazyLock<String> = LazyLock::new(|| {
    format!("#{{?{TASK_PANE},0,#{{m:* exec */{PREFIX}*,#{{pane_start_command}}}}}}")
});

/// The options that describe a task.
pub(super) const OPTION_NAMES: [&str; 12] = [
    "@tmux_task_run",
    "@tmux_task_started",
    "@tmux_task_replaced",
    "@tmux_task_owner",
    "@tmux_task_command",
    "@pi_task_command",
    "@tmux_task_cwd",
    "@pi_task_cwd",
    RESTART,
    STOP,
    NOTIFY_ON,
    SLOT,
];

static OPTION_FIELDS: LazyLock<String> = LazyLock::new(|| {
    let [
        run,
        started,
        replaced,
        owner,
        command,
        of_pi,
        cwd,
        cwd_of_pi,
        restart,
        stop,
        notify_on,
        slot,
    ] = OPTION_NAMES;
    let fields = |print: Print| {
        join_fields(&[
            &print.bounded(owner),
            &print.first_of(command, of_pi),
            &print.first_of(cwd, cwd_of_pi),
            &print.bounded(restart),
            &print.bounded(stop),
            &print.bounded(notify_on),
            &print.bounded(slot),
        ])
    };
    let texts = [
        owner, command, of_pi, cwd, cwd_of_pi, restart, stop, notify_on, slot,
    ];
    let texts = texts.map(|option| format!("#{{{option}}}")).concat();
    join_fields(&[
        &counter(run),
        &counter(started),
        &counter(replaced),
        &unless_plain(&texts, &fields(Print::Quoted), &fields(Print::Plain)),
    ])
});

/// A row with the options that describe a task.
pub(super) static OPTIONS_FORMAT: LazyLock<String> =
    LazyLock::new(|| row_format(&[&OPTION_FIELDS]));

/// The values of these options, as in [`WindowRow`].
#[derive(Debug, Default)]
pub(super) struct WindowOptions {
    pub(super) run: Option<u32>,
    pub(super) started: Option<Millis>,
    pub(super) replaced: Option<u32>,
    pub(super) owner: Option<String>,
    pub(super) command: Option<String>,
    pub(super) cwd: Option<String>,
    /// As [`decode_restarts`] reads it.
    pub(super) restart: Option<String>,
    /// As [`decode_stop`] and [`decode_ending`] read it.
    pub(super) stop: Option<String>,
    /// As [`decode_notify_on`] reads it.
    pub(super) notify_on: Option<String>,
    /// As [`decode_slot`] reads it.
    pub(super) slot: Option<String>,
}

pub(super) fn read_options(fields: &mut Fields) -> Option<WindowOptions> {
    Some(WindowOptions {
        run: fields.maybe()?,
        started: fields.maybe()?,
        replaced: fields.maybe()?,
        owner: fields.some_text()?,
        command: fields.some_text()?,
        cwd: fields.some_text()?,
        restart: fields.some_text()?,
        stop: fields.some_text()?,
        notify_on: fields.some_text()?,
        slot: fields.some_text()?,
    })
}

/// What a program shows of its progress. Before tmux 3.7 there are no such formats, and the names are those
/// of variables that anybody can set in tmux's environment.
const PROGRESS: &str =
    "#{?#{m:[neip]*,#{pane_pb_state}},#{q:pane_pb_state} #{q:pane_pb_progress},}";

/// What a row has in place of [`IS_BARE`] for such a pane.
const OTHER_PANE: &str = "other";

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
        &format!("#{{?{},{OTHER_PANE},{}}}", *IS_OTHER_PANE, *IS_BARE),
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
        "#{alternate_on}",
        "#{pane_in_mode}",
        PROGRESS,
        "#{pane_tty}",
        &quoted("pane_title"),
        // Queried only where no command is recorded: it makes the server read in /proc.
        &format!(
            "#{{?{},#{{q:pane_current_command}},\
             #{{?@tmux_task_command,,#{{?@pi_task_command,,#{{q:pane_current_command}}}}}}}}",
            *IS_OTHER_PANE
        ),
        &expanded(BANNER),
    ])
});

fn read_details(fields: &mut Fields) -> Option<(PaneId, String, WindowDetails)> {
    let window = fields.parse()?;
    let pane = fields.parse()?;
    let sign = fields.raw()?;
    let bell = fields.flag()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let bell_count = own_count(window, &fields.raw()?);
    let may_have_bells_of_pi = !fields.raw()?.trim().is_empty();
    let mut options = read_options(fields)?;
    let opened = fields.raw()?;
    let is_other_pane = opened == OTHER_PANE;
    if is_other_pane {
        // They describe the task, whose pane this is not.
        options = WindowOptions {
            run: options.run,
            started: options.started,
            ..WindowOptions::default()
        };
    }
    let restarts = decode_restarts(options.restart.as_deref(), options.started);
    let stop = decode_stop(options.stop.as_deref(), options.started);
    let notify_on = decode_notify_on(options.notify_on.as_deref(), options.started);
    let slot = decode_slot(options.slot.as_deref(), options.started);
    let mut window = WindowRow {
        window,
        bell,
        activity,
        bell_count,
        run: options.run,
        started: options.started,
        replaced: options.replaced,
        owner: options.owner,
        restarts,
        stop,
        notify_on,
        slot,
        ending: None,
        is_bare: is_other_pane || opened == "1",
        is_named_by_tmux: fields.flag()?,
        is_linked: fields.flag()?,
        is_launching: fields.flag()?,
        name: fields.text()?,
        command: options.command,
        cwd: options.cwd,
        pane: None,
    };
    let pid = fields.maybe()?;
    window.ending = decode_ending(options.stop.as_deref(), pid);
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
        is_alternate: fields.flag()?,
    };
    window.pane = Some(PaneRow {
        pane,
        pid,
        dead: is_dead.then_some(dead),
        in_mode: fields.flag()?,
        progress: Progress::parse(&fields.raw()?),
        tty: fields.some_text()?,
        title: fields.text()?,
        current_command: fields.some_text()?,
        screen: Screen::default(),
    });
    let banner = fields.raw()?;
    let found = WindowDetails {
        window,
        shape,
        banner,
        may_have_bells_of_pi,
    };
    Some((pane, sign, found))
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
        name: fields.text()?,
        root: fields.some_text()?,
        title: fields.some_text()?,
    };
    Some((session, fields.raw()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sign(window: &str, pane: &str) -> String {
        row_format(&[&format!("{window} {pane} 41 0 5 0   0 0")])
    }

    fn full(window: &str, pane: &str, name: &str) -> String {
        let ids = [window, pane, "41 0 5 0   0 0"];
        let of_window = [
            "0", "5", "@1 2", "x", "3", "", "", "pi:7", "", "", "", "", "", "", "1", "0", "0", "0",
            name,
        ];
        let of_pane = [
            "41", "0", "", "", "", "80", "24", "0", "0", "0", "0", "0", "", "", "", "sh", "",
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

    #[test]
    fn a_count_that_a_format_finds_is_not_yet_the_windows() {
        let listed = |of_pi: &str| {
            let row = full("@1", "%1", "api").replace("|x|", &format!("|{of_pi}|"));
            let mut windows = read_lists(None, &row).unwrap();
            windows.remove(&WindowId(1)).unwrap().details.unwrap()
        };
        assert!(!listed(" ").may_have_bells_of_pi);
        for (printed, count) in [("", 2), ("\n", 2), ("x\n", 2), ("7\n7\n", 2), ("7\n", 9)] {
            let mut found = listed("7 ");
            assert!(found.may_have_bells_of_pi);
            assert_eq!(found.window.bell_count, Some(2));
            found.add_bells_of_pi(printed);
            assert_eq!(found.window.bell_count, Some(count), "{printed:?}");
        }
        let mut found = listed("7 ");
        found.window.bell_count = None;
        found.add_bells_of_pi("");
        assert_eq!(found.window.bell_count, None);
        found.add_bells_of_pi("7\n");
        assert_eq!(found.window.bell_count, Some(7));
    }

    #[test]
    fn commands_that_end_as_a_shell_are_known() {
        let pattern = regex::Regex::new(RUNS_SHELL).unwrap();
        assert!(!RUNS_SHELL.contains([',', '{', '}', '#', '%']));
        for command in [
            "bash",
            "/usr/bin/zsh",
            "zsh -l",
            "\"exec -l bash\"",
            "exec fish --login",
            "bash5.2 -i",
            "-bash",
            "\"\\$SHELL\"",
            "\"exec \\\"\\$SHELL\\\" -l\"",
            "\"cat '/tmp/resurrect/pane-R&D; x:0.1'; exec -l /bin/bash\"",
            "\"cat '/a b'; exec /bin/zsh\"",
            "\"cat saved 2>/dev/null; exec reattach-to-user-namespace -l zsh\"",
            "\"clear; echo \\\"hello; there\\\" && exec bash --login\"",
            "\"cd /srv && exec -a -sh dash -i\"",
            "env \"TERM=xterm-256color\" nu",
            "\"exec env LANG=C PS1=x /bin/sh;\"",
        ] {
            let quoted_argument = command.replace("\"TERM=xterm-256color\"", "TERM=xterm-256color");
            // A semicolon in double quotes ends what is recognised.
            let is_known = !command.contains("; there");
            assert_eq!(pattern.is_match(&quoted_argument), is_known, "{command}");
        }
        for command in [
            "make",
            "\"bash -c 'make; exec bash'\"",
            "bash script.sh",
            "bash -c make",
            "bash -lc make",
            "zsh -i -c ls",
            "\"exec ./server\"",
            "./bash-server",
            "fish.py",
            "\"make; exec bash\"",
            "\"make && exec bash\"",
            "\"cat queue | bash\"",
            "\"cat a; ./deploy.sh\"",
            "\"cat 'a; exec bash'\"",
            "\"echo bash\"",
            "\"exec bash -l & make\"",
            "\"exec bash || make\"",
            "ssh",
            "push",
            "nu-server",
            "env make",
            "\"tail -f log; exec bash\"",
        ] {
            assert!(!pattern.is_match(command), "{command}");
        }
    }

    #[test]
    fn a_field_cannot_make_rows_or_fields() {
        let lists = [
            full("@1", "%1", "a\t\n\\<@9\\|!\\>"),
            full("@2", "%2", "web"),
        ]
        .join("\n");
        let signs = [sign("@1", "%1"), sign("@2", "%2")].join("\n");
        let windows = read_lists(Some(&signs), &lists).unwrap();
        assert_eq!(windows.len(), 2);
        let found = |id: u32| windows[&WindowId(id)].details.as_ref().unwrap();
        assert_eq!(found(1).window.name, "a  <@9|!>");
        assert_eq!(found(1).window.bell_count, Some(2));
        assert_eq!(
            (found(2).window.run, found(2).window.started),
            (Some(3), None)
        );
        assert_eq!(found(2).window.owner.as_deref(), Some("pi:7"));
        assert!(found(2).window.is_bare);
        assert_eq!(found(2).window.pane.as_ref().unwrap().pid, Some(41));
        let alone = read_lists(None, &lists).unwrap();
        assert_eq!(alone[&WindowId(1)].sign, windows[&WindowId(1)].sign);
        assert!(alone.values().all(|listed| listed.is_only));
    }

    #[test]
    fn a_row_that_cannot_be_parsed_is_an_error() {
        for row in ["<@1>", "<@1", "<@1 %1>"] {
            assert!(read_lists(Some(row), "").is_none(), "{row}");
            assert!(read_lists(None, row).is_none(), "{row}");
        }
        assert!(read_lists(Some(""), "").unwrap().is_empty());
    }

    #[test]
    fn a_window_is_its_pane_with_the_lowest_id_that_does_not_float() {
        let signs = [
            sign("@1", "%3"),
            sign("@1", "%2"),
            sign("@2", "%9"),
            sign("@2", "%9"),
            sign("@1", "%1").replace("0>", "1>"),
            sign("@3", "%8").replace("0>", "1>"),
        ]
        .concat();
        let windows = read_lists(Some(&signs), &full("@1", "%3", "x")).unwrap();
        let of = |id: u32| (windows[&WindowId(id)].pane, windows[&WindowId(id)].is_only);
        assert_eq!(of(1), (PaneId(2), false));
        assert_eq!(of(2), (PaneId(9), true), "linked twice");
        assert_eq!(
            of(3),
            (PaneId(8), true),
            "a floating pane if there is no other"
        );
        assert!(windows.values().all(|listed| listed.details.is_none()));
    }
}
