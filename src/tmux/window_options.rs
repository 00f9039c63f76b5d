//! The options of a window that describe its task.
//!
//! [`SPEC`] has what its launch has said, but for its environment and its command. That may have megabytes, and
//! each look prints a window's options: it is in [`WORDS`], on the pane. Both belong to one launch: a launcher that
//! does not know them leaves the options of the launch before, whose time is not its own, and which therefore count
//! no more.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::client::Connection;
use super::error::TmuxError;
use super::pane_origin::{NOT_THE_TASK, TASK_PANE};
use super::quoted::unquoted;
use crate::model::*;
use crate::rules::protocol::Command;

/// The option with what the task's launch has said.
pub(super) const SPEC: &str = "@tmux_task_spec";

/// The option of its pane with the exact command.
pub(super) const WORDS: &str = "@tmux_task_words";

/// The option with the token of the last launch.
pub(super) const MARK: &str = "@tmux_task_launch";

/// The option with the number of its run.
pub(super) const RUN: &str = "@tmux_task_run";

/// The option that says when its last launch was requested.
pub(super) const STARTED: &str = "@tmux_task_started";

/// The option with the owner of its task.
pub(super) const OWNER: &str = "@tmux_task_owner";

/// The options that a window, or a session, has of its own. What it inherits from the session, from all windows or from
/// the server, which formats find as well, describes no task.
#[derive(Debug, Default)]
pub(super) struct OwnOptions(BTreeMap<String, Vec<u8>>);

impl OwnOptions {
    /// Prints what [`OwnOptions::read`] reads.
    pub(super) fn command(window: WindowId) -> Command {
        Command::new("show-options").args(["-w", "-t", &window.to_string()])
    }

    pub(super) fn read(printed: &str) -> Self {
        let ours = printed.lines().filter(|line| line.starts_with('@'));
        let pairs = ours.filter_map(|line| line.split_once(' '));
        Self(
            pairs
                .map(|(name, value)| (name.to_owned(), unquoted(value)))
                .into_map(),
        )
    }

    /// Returns an option as it was set.
    pub(super) fn raw(&self, name: &str) -> Cow<'_, str> {
        String::from_utf8_lossy(self.0.get(name).map_or(&[], Vec::as_slice))
    }

    /// Returns an option as one line of sanitised text; `None` where it is empty.
    pub(super) fn text(&self, name: &str) -> Option<String> {
        let text = text::one_line(self.0.get(name)?, 4096);
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns an option that is such a number.
    pub(super) fn number<N: FromStr>(&self, name: &str) -> Option<N> {
        self.raw(name).trim().parse().ok()
    }
}

/// What [`SPEC`] and [`WORDS`] say.
#[derive(Serialize, Deserialize)]
struct Recorded {
    /// When the launch was requested, in milliseconds since 1970.
    started: Millis,
    spec: TaskSpec,
}

/// Reads what the launch at this time has said; `None` where that is missing or damaged.
pub(super) fn decode_spec(text: &str, started: Option<Millis>) -> Option<TaskSpec> {
    let Recorded { started: of, spec } = serde_json::from_str(text.trim()).ok()?;
    let settings = spec.settings.checked();
    (started == Some(of)).then_some(TaskSpec { settings, ..spec })
}

/// Returns what the window says of its last launch, and the token of that; `None` when it says nothing, or
/// when a launcher that writes none has used the window since.
pub(crate) async fn read_spec(
    connection: &mut Connection<'_>,
    window: WindowId,
) -> Result<Option<(String, TaskSpec)>, TmuxError> {
    let options = OwnOptions::read(&connection.print(OwnOptions::command(window)).await?);
    let started = options.number(STARTED);
    let spec = decode_spec(&options.raw(SPEC), started).filter(|spec| spec.cwd.is_some());
    let Some(spec) = spec else {
        return Ok(None);
    };
    let list = Command::new("list-panes").args(["-t", &window.to_string(), "-F", "#{pane_id}"]);
    for pane in connection.print(list).await?.lines() {
        let print = Command::new("show-options").args(["-p", "-t", pane]);
        let of_pane = OwnOptions::read(&connection.print(print).await?);
        let words = decode_spec(&of_pane.raw(WORDS), started).map(|words| words.command);
        if let Some(command) = words.filter(|words| !words.is_empty()) {
            let token = options.raw(MARK).trim().to_owned();
            return Ok(Some((token, TaskSpec { command, ..spec })));
        }
    }
    Ok(None)
}

/// Returns the commands that describe the task on its window, with the number of its run.
///
/// tmux 3.3a goes over all of its windows after each of them: they are as few as possible.
pub(super) fn option_commands(
    launch: &Launch,
    target: &str,
    run: u32,
) -> Result<Vec<Command>, TmuxError> {
    let set = |flags: &str, name: &str, value: &str| {
        Command::new("set-option").args([flags, "-t", target, name, value])
    };
    let record = |spec| {
        let started = launch.started;
        let record = serde_json::to_string(&Recorded { started, spec });
        record.map_err(|_| TmuxError::confused("a launch cannot be recorded"))
    };
    let mut spec = launch.spec.clone();
    let command = std::mem::take(&mut spec.command);
    let words = TaskSpec {
        command,
        ..TaskSpec::default()
    };
    Ok(vec![
        set("-w", "remain-on-exit", "on"),
        set("-w", "monitor-bell", "on"),
        set("-w", "automatic-rename", "off"),
        set("-w", "allow-rename", "off"),
        set("-w", "@tmux_task_command", &launch.spec.shown()),
        set("-w", "@tmux_task_cwd", launch.cwd()),
        set("-w", STARTED, &launch.started.to_string()),
        set("-w", SPEC, &record(spec)?),
        set("-w", MARK, &launch.token),
        // Also without one: it would be inherited.
        set("-w", OWNER, launch.owner.as_deref().unwrap_or_default()),
        set("-w", TASK_PANE, NOT_THE_TASK),
        set("-pF", TASK_PANE, "#{window_id}"),
        set("-p", WORDS, &record(words)?),
        set("-w", RUN, &run.to_string()),
    ])
}

// Options that windows and sessions inherit.
//
// A format finds an option also where it is set for all windows, for all sessions or for the
// server. What describes a task must be set on its own window. tmux expands the format of
// `list-commands` without a session or a window, so there it finds only what all of them inherit.

/// Returns the value of a session option that is believed only on its own session: it begins with the
/// session's id.
pub(super) fn own_value(session: SessionId, value: &str) -> String {
    format!("{session} {value}")
}

/// Returns what the value of such an option says, if it is the session's own.
pub(super) fn read_own(session: SessionId, value: &str) -> Option<&str> {
    value.strip_prefix(&own_value(session, ""))
}

/// Returns a format that is true if such an option is the session's own.
pub(super) fn is_own(option: &str) -> String {
    format!("#{{m:#{{session_id}} *,#{{{option}}}}}")
}

/// Returns a format that prints such an option if it is the session's own.
pub(super) fn own_format(option: &str) -> String {
    format!("#{{?{},#{{{option}}},}}", is_own(option))
}

/// Prints a format with the inherited options only. It may not be the only reason to start a server.
pub(super) fn print_inherited(format: &str) -> Command {
    Command::new("list-commands").args(["-F", format, "list-commands"])
}

/// Returns a format that prints those of these options that are inherited and not empty, each
/// followed by a blank.
pub(super) fn names_format(names: &[&str]) -> String {
    let if_set = |name: &&str| format!("#{{?#{{!=:#{{{name}}},}},{name} ,}}");
    names.iter().map(if_set).collect()
}

/// Prints something if all windows inherit an option that a death record has. The hook that writes it
/// cannot tell what it finds.
pub(super) fn check_command() -> Command {
    print_inherited(&names_format(&[RUN, OWNER]))
}

// The window option that says that its run is being ended.
//
// It is set when that is about to begin, and belongs to the run's process: the next daemon reads there
// what a killed one had begun.

/// The window option.
pub(super) const ENDING: &str = "@tmux_task_stop";

/// Returns the option's value for a run with this process: `REASON PID WHO`, who asked for it from another
/// machine, or nothing.
fn encode_mark(reason: GoneReason, pid: u32, asked_by: Option<&str>) -> Option<String> {
    let asked_by = text::one_line(asked_by.unwrap_or_default().as_bytes(), ASKER_CHARS);
    Some(format!("{} {pid} {asked_by}", reason.word()?))
}

/// Reads why the run with this process is being ended, and who asked for it from another machine. `pid`
/// is `None` where tmux has forgotten the process of a dead pane.
pub(super) fn decode_ending(text: &str, pid: Option<u32>) -> Option<(GoneReason, Option<String>)> {
    let mut fields = text.splitn(3, ' ');
    let reason = GoneReason::of_word(fields.next()?)?;
    let of: u32 = fields.next()?.parse().ok()?;
    if pid.is_some_and(|pid| pid != of) {
        return None;
    }
    let asked_by = text::one_line(fields.next().unwrap_or_default().as_bytes(), ASKER_CHARS);
    Some((reason, Some(asked_by).filter(|by| !by.is_empty())))
}

/// Marks the windows of tasks whose runs are about to be ended for a reason, and removes the mark from those
/// whose runs could not be ended. A window that is gone by now is left out.
pub(crate) async fn mark_endings(
    connection: &mut Connection<'_>,
    tasks: &[(Arc<Task>, Option<GoneReason>)],
) -> Result<(), TmuxError> {
    for (task, reason) in tasks {
        let window = task.window.to_string();
        let set = Command::new("set-option");
        let set = match reason {
            Some(reason) => {
                let mark = |pid| encode_mark(*reason, pid, task.asked_by.as_deref());
                let Some(mark) = task.pid.and_then(mark) else {
                    continue;
                };
                set.args(["-w", "-t", &window, ENDING, &mark])
            }
            None => set.args(["-wu", "-t", &window, ENDING]),
        };
        match connection.run(&[set]).await {
            Ok(_) | Err(TmuxError::Rejected { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_recorded_is_read_byte_for_byte() {
        let every: Vec<u8> = (1..=255).collect();
        for command in [
            &[&b"echo  a\n\tb | \"x\" %20 \\"[..]][..],
            &[b"printf", b"%s", b"", &every, b"#{pid} #(id) ;"],
            &[b"", b""],
            &["é 日本".as_bytes()],
        ] {
            let mut spec = TaskSpec {
                cwd: Some("/a b".into()),
                command: command
                    .iter()
                    .map(|word| OsStr::from_bytes(word).into())
                    .collect(),
                ..TaskSpec::default()
            };
            spec.settings.stop.grace = Some(Duration::from_millis(1500));
            let recorded = Recorded { started: 77, spec };
            let text = serde_json::to_string(&recorded).unwrap();
            // `show-options` prints each on a line.
            assert!(!text.contains(char::is_control), "{text}");
            assert_eq!(decode_spec(&text, Some(77)), Some(recorded.spec));
            for other in [None, Some(78)] {
                assert_eq!(decode_spec(&text, other), None);
            }
        }
    }

    #[test]
    fn own_options_are_read_as_tmux_prints_them() {
        let options = OwnOptions::read(
            "@tmux_task_command \"make \\\"x\\\" \\\\ \\$HOME\\n@tmux_task_run 9\"\n@tmux_task_cwd /srv/\\303\\251\n\
             @tmux_task_owner ''\n@a '\"b\"'\n@tmux_task_run 3\nremain-on-exit on\n@empty\n",
        );
        assert_eq!(
            options.raw("@tmux_task_command"),
            "make \"x\" \\ $HOME\n@tmux_task_run 9"
        );
        assert_eq!(options.text("@tmux_task_cwd").as_deref(), Some("/srv/é"));
        assert_eq!(options.text(OWNER), None);
        assert_eq!(options.raw("@a"), "\"b\"");
        assert_eq!(options.number(RUN), Some(3));
        assert_eq!(options.number::<u32>(STARTED), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            proptest::prop_assert_eq!(decode_spec(&text, Some(1)), None);
        }
    }

    #[test]
    fn names_are_printed_where_they_are_set() {
        let format = names_format(&["@a", "@b"]);
        assert_eq!(format, "#{?#{!=:#{@a},},@a ,}#{?#{!=:#{@b},},@b ,}");
    }

    #[test]
    fn a_value_is_believed_on_its_own_session_only() {
        let value = own_value(SessionId(1), "work-0a");
        assert_eq!(value, "$1 work-0a");
        assert_eq!(read_own(SessionId(1), &value), Some("work-0a"));
        for (session, value) in [(2, "$1 x"), (1, "$12 x"), (1, "$1"), (1, "x"), (1, "")] {
            assert_eq!(read_own(SessionId(session), value), None, "{value}");
        }
    }

    #[test]
    fn a_mark_is_of_one_process() {
        let text = encode_mark(GoneReason::UserKilled, 41, None).unwrap();
        assert_eq!(text, "userKilled 41 ");
        for (pid, expected) in [(Some(41), true), (None, true), (Some(42), false)] {
            let read = decode_ending(&text, pid);
            let expected = expected.then_some((GoneReason::UserKilled, None));
            assert_eq!(read, expected, "{pid:?}");
        }
        for text in ["", "moved 42", "42", "userKilled x", "userKilled"] {
            assert_eq!(decode_ending(text, Some(42)), None, "{text}");
        }
    }

    #[test]
    fn a_mark_says_who_asked_whatever_their_names_are() {
        let long = "\u{1f600}".repeat(5000);
        let cut = text::bounded(&long, ASKER_CHARS);
        for (asked_by, read) in [
            ("pi:1@laptop", "pi:1@laptop"),
            ("laptop", "laptop"),
            ("a userKilled 9@b", "a userKilled 9@b"),
            ("me@my%20pending", "me@my%20pending"),
            ("a\n\u{1b}[31mb\t%c;", "a b %c;"),
            (&*long, &*cut),
        ] {
            let text = encode_mark(GoneReason::AgentKilled, 41, Some(asked_by)).unwrap();
            assert!(!text.contains(char::is_control), "{text:?}");
            assert!(text.len() < 4096);
            let ending = (GoneReason::AgentKilled, Some(read.to_owned()));
            assert_eq!(decode_ending(&text, Some(41)), Some(ending));
        }
        let hostile = "userKilled 42 a\u{1b}]0;b\u{7}\u{202e}c";
        let (_, read) = decode_ending(hostile, Some(42)).unwrap();
        assert!(!read.unwrap().contains(['\u{1b}', '\u{7}', '\u{202e}']));
    }
}
