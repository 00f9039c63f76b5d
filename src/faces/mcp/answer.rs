//! What a call is answered: text for a model, and what to do next where something failed.

use crate::model::{Error, ErrorKind, text};

use super::arguments::BadArguments;

/// The maximum length of an error's text, in characters.
const ERROR_CHARS: usize = 2000;

/// The maximum length of a line of output, in characters.
const LINE_CHARS: usize = 1000;

/// What to do when a cursor is of no use.
pub(super) const WITHOUT_CURSOR: &str = "call read_output without cursor: it has what is left";

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ToolAnswer {
    /// Sanitised lines.
    pub(super) text: String,
    /// Whether the call could not be carried out.
    pub(super) is_error: bool,
}

impl ToolAnswer {
    pub(super) fn new(lines: impl IntoIterator<Item = String>) -> Self {
        Self {
            text: lines.into_iter().collect::<Vec<_>>().join("\n"),
            is_error: false,
        }
    }

    /// Returns the answer to a call that was not carried out, with what to do about it.
    pub(super) fn refused(why: &str, hint: Option<&str>) -> Self {
        let one_line = |text: &str| text::one_line(in_words_of_tools(text).as_bytes(), ERROR_CHARS);
        let text = match hint {
            Some(hint) => format!("{}\nhint: {}", one_line(why), one_line(hint)),
            None => one_line(why),
        };
        Self {
            text,
            is_error: true,
        }
    }
}

impl ToolAnswer {
    /// Adds what to do, unless that is said already.
    pub(super) fn or_hint(mut self, hint: &str) -> Self {
        if self.is_error && !self.text.contains("\nhint: ") {
            self.text.push_str("\nhint: ");
            self.text.push_str(hint);
        }
        self
    }
}

impl From<BadArguments> for ToolAnswer {
    fn from(bad: BadArguments) -> Self {
        Self::refused(&bad.0, None)
    }
}

impl From<Error> for ToolAnswer {
    fn from(error: Error) -> Self {
        Self::refused(&error.message, hint(&error))
    }
}

/// What errors say in terms of the command line, and the same in terms of the tools. A command that a
/// user has to run is left as it is.
const WORDS_OF_TOOLS: &[(&str, &str)] = &[
    (
        "they come from `run --json`, `logs --json` and `wait --json`",
        "run_task, read_output and wait_for return them",
    ),
    ("without --if-absent", "without only_if_absent"),
    ("was started with --env", "was started with env"),
    ("`tmux-task wait NAME` waits", "wait_for waits"),
    ("`tmux-task ls` shows", "list_tasks shows"),
    ("`tmux-task ls` lists", "list_tasks lists"),
    ("`tmux-task kill @", "`kill_task @"),
    ("--cwd names", "cwd names"),
];

/// Returns the text of an error in terms of the tools.
fn in_words_of_tools(text: &str) -> String {
    let words = WORDS_OF_TOOLS.iter();
    words.fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

/// The ends of hints on the command line, and what is said in their place.
const HINTS_OF_TOOLS: &[(&str, &str)] = &[
    (
        " starts a task and with it the session",
        "there are no tasks yet: run_task starts one",
    ),
    (
        " lists the runs that are stored",
        "without run, read_output has the present run",
    ),
    (
        " starts it and records the command",
        "run_task with command starts it and records the command",
    ),
    (
        " runs its command again with these",
        "run_task with env runs its command again with these",
    ),
    ("`tmux-task ls` lists them", LIST_TASKS),
];

/// What to do about a name that no task has.
const LIST_TASKS: &str = "list_tasks shows the tasks with their ids; run_task starts one";

/// Returns what the model can do about an error, in terms of the tools.
fn hint(error: &Error) -> Option<&str> {
    match (error.kind, &error.hint) {
        (ErrorKind::Impossible, _) => Some(WITHOUT_CURSOR),
        (ErrorKind::Missing, None) => Some(LIST_TASKS),
        (_, Some(hint)) => {
            let of_tools = HINTS_OF_TOOLS.iter().find(|(end, _)| hint.ends_with(end));
            Some(of_tools.map_or(hint, |(_, hint)| hint))
        }
        (_, None) => None,
    }
}

/// Returns a line of a task's output as sanitised, bounded text.
pub(super) fn line(text: &str) -> String {
    text::bounded(&text::row(text.as_bytes()), LINE_CHARS)
}

/// Returns a name, prompt or other short text as one sanitised line.
pub(super) fn short(text: &str, max_chars: usize) -> String {
    text::one_line(text.as_bytes(), max_chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_speak_of_the_tools_own_arguments() {
        let running = Error::failed("task `api` is running in @1")
            .with_hint("without --if-absent, the live run is replaced");
        let bad_cursor = "x".parse::<crate::wait::Cursor>().unwrap_err().to_string();
        for (error, expected) in [
            (
                running,
                "task `api` is running in @1\nhint: without only_if_absent, the live run is replaced",
            ),
            (
                Error::usage(bad_cursor),
                "not a cursor: run_task, read_output and wait_for return them",
            ),
            (
                Error::failed("task `api` was started with --env, and the values are not recorded")
                    .with_hint("`tmux-task run api --env K=V` runs its command again with these"),
                "task `api` was started with env, and the values are not recorded\nhint: run_task \
                 with env runs its command again with these",
            ),
        ] {
            assert_eq!(ToolAnswer::from(error).text, expected);
        }
    }

    #[test]
    fn errors_say_what_to_do_next() {
        let missing = ToolAnswer::from(
            Error::missing("no session `work`")
                .with_hint("`tmux-task run NAME -- COMMAND` starts a task and with it the session"),
        );
        assert!(missing.is_error);
        assert_eq!(
            missing.text,
            "no session `work`\nhint: there are no tasks yet: run_task starts one"
        );
        let lost = ToolAnswer::from(Error::new(ErrorKind::Impossible, "it is gone"));
        assert_eq!(lost.text, format!("it is gone\nhint: {WITHOUT_CURSOR}"));
        assert_eq!(lost.clone().or_hint("x"), lost);
        assert_eq!(
            ToolAnswer::refused("a", None).or_hint("x").text,
            "a\nhint: x"
        );
    }

    #[test]
    fn text_has_no_escapes() {
        assert_eq!(line("  a\u{1b}[31mb\u{202e}c  "), "  abc");
        assert_eq!(ToolAnswer::refused("a\nb\u{7}", None).text, "a b");
        assert_eq!(line(&"x".repeat(5000)).chars().count(), LINE_CHARS);
    }
}
