//! What can be set, and its defaults.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use super::ConfigError;
use super::table::{Document, Table};
use crate::model::environment::is_name_pattern;
use crate::model::{PromptKind, ShellDelivery};

/// What the file says, with defaults for what it leaves out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// Where notices go: key `notices`. Empty means nowhere.
    pub notices: BTreeSet<NoticeSink>,
    /// What else of a caller's environment tasks do not see, names or beginnings of names with a
    /// `*`: key `env-withhold`.
    pub env_withhold: Vec<String>,
    /// What is taken for a prompt and told: table `input`.
    pub input: InputConfig,
    /// How much is kept of the output of runs that ended: table `logs`.
    pub logs: LogsConfig,
    /// How the events of shells are delivered: key `shells`.
    pub shells: ShellDelivery,
    /// For how long nobody must have used a session of the project before a daemon that starts may
    /// end it: key `clean-after`.
    pub clean_after: Duration,
}

/// How much is kept of the output of runs that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogsConfig {
    /// Of one run, its last lines: key `keep-lines`.
    pub keep_lines: u64,
    /// Of one session, its last runs; 0 keeps nothing: key `keep-runs`.
    pub keep_runs: u64,
    /// Of one session, mebibytes of all its runs together: key `keep-mib`.
    pub keep_mib: u64,
}

impl Default for LogsConfig {
    fn default() -> Self {
        Self {
            keep_lines: 10_000,
            keep_runs: 200,
            keep_mib: 64,
        }
    }
}

/// What is taken for a prompt, and which are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputConfig {
    /// Regular expressions for lines that ask: key `ask`.
    pub ask: Vec<String>,
    /// Regular expressions for lines that do not: key `ignore`.
    pub ignore: Vec<String>,
    /// Tasks, by name or window id, whose waiting is not told: key `mute-tasks`.
    pub mute_tasks: BTreeSet<String>,
    /// Kinds of prompts that are not told: key `mute-kinds`.
    pub mute_kinds: BTreeSet<PromptKind>,
    /// How long a screen must have stood before its prompt is told: key `quiet`.
    pub quiet: Duration,
    /// How long a task must have shown nothing new to be called stalled; `None` for never: key
    /// `stalled-after`.
    pub stalled_after: Option<Duration>,
}

/// What `quiet` is without the file, and within what bounds it may be set.
const QUIET: Duration = Duration::from_millis(200);
const LEAST_QUIET: Duration = Duration::from_millis(50);
const MOST_QUIET: Duration = Duration::from_secs(3600);

/// What `clean-after` is without the file, and the longest that it may be.
const CLEAN_AFTER: Duration = Duration::from_secs(3600);
const MOST_CLEAN_AFTER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The longest that `stalled-after` may be.
const MOST_STALLED: Duration = Duration::from_secs(7 * 24 * 3600);

impl Default for InputConfig {
    fn default() -> Self {
        Self {
            ask: Vec::new(),
            ignore: Vec::new(),
            mute_tasks: BTreeSet::new(),
            mute_kinds: BTreeSet::new(),
            quiet: QUIET,
            stalled_after: None,
        }
    }
}

/// A way to tell a person something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoticeSink {
    /// The desktop's notifier: `"desktop"`.
    Desktop,
    /// The status line of tmux: `"tmux"`.
    Tmux,
}

const NOTICE_SINKS: &[(&str, NoticeSink)] =
    &[("desktop", NoticeSink::Desktop), ("tmux", NoticeSink::Tmux)];

impl Default for Config {
    fn default() -> Self {
        Self {
            notices: NOTICE_SINKS.iter().map(|(_, sink)| *sink).collect(),
            env_withhold: Vec::new(),
            input: InputConfig::default(),
            logs: LogsConfig::default(),
            shells: ShellDelivery::Notice,
            clean_after: CLEAN_AFTER,
        }
    }
}

/// Returns what `text` sets. `path` is only what errors call the file.
///
/// # Errors
///
/// The text is not TOML, or says something that we do not know.
pub fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    Document::new(path, text).read(|top: &mut Table<'_>| {
        let defaults = Config::default();
        Ok(Config {
            notices: top
                .words("notices", NOTICE_SINKS)?
                .unwrap_or(defaults.notices),
            env_withhold: top.texts("env-withhold", "names of variables", variable_name)?,
            input: top.table("input", input)?,
            logs: top.table("logs", logs)?,
            shells: top
                .text("shells", "\"notice\", \"followUp\" or \"ignore\"", shells)?
                .unwrap_or(defaults.shells),
            clean_after: top
                .text("clean-after", "a duration like \"1h\"", clean_after)?
                .unwrap_or(CLEAN_AFTER),
        })
    })
}

fn input(table: &mut Table<'_>) -> Result<InputConfig, ConfigError> {
    let plain = |text: &str| Ok(text.to_owned());
    Ok(InputConfig {
        ask: table.texts("ask", "regular expressions", expression)?,
        ignore: table.texts("ignore", "regular expressions", expression)?,
        mute_tasks: table
            .texts("mute-tasks", "names of tasks", plain)?
            .into_iter()
            .collect(),
        mute_kinds: table
            .words("mute-kinds", &PromptKind::NAMES)?
            .unwrap_or_default(),
        quiet: table
            .text("quiet", "a duration like \"200ms\" or \"2s\"", quiet)?
            .unwrap_or(QUIET),
        stalled_after: table
            .text(
                "stalled-after",
                "a duration like \"10m\" or \"2h\"",
                stalled,
            )?
            .flatten(),
    })
}

fn logs(table: &mut Table<'_>) -> Result<LogsConfig, ConfigError> {
    let defaults = LogsConfig::default();
    Ok(LogsConfig {
        keep_lines: table
            .number("keep-lines", 1..=1_000_000)?
            .unwrap_or(defaults.keep_lines),
        keep_runs: table
            .number("keep-runs", 0..=100_000)?
            .unwrap_or(defaults.keep_runs),
        keep_mib: table
            .number("keep-mib", 1..=100_000)?
            .unwrap_or(defaults.keep_mib),
    })
}

fn variable_name(text: &str) -> Result<String, String> {
    if is_name_pattern(text) {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "`{text}` is not the name of a variable, nor the beginning of one with a `*` at the end"
        ))
    }
}

fn expression(text: &str) -> Result<String, String> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => {
            let message = error.to_string();
            let last = message.lines().last().unwrap_or_default();
            Err(format!("not a regular expression: {last}"))
        }
    }
}

fn quiet(text: &str) -> Result<Duration, String> {
    duration(text)
        .filter(|duration| (LEAST_QUIET..=MOST_QUIET).contains(duration))
        .ok_or_else(|| format!("`{text}` is not a duration like 200ms or 2s, from 50ms to 1h"))
}

fn shells(text: &str) -> Result<ShellDelivery, String> {
    match text {
        "notice" => Ok(ShellDelivery::Notice),
        "followUp" => Ok(ShellDelivery::FollowUp),
        "ignore" => Ok(ShellDelivery::Ignore),
        _ => Err(format!("`{text}` is not `notice`, `followUp` or `ignore`")),
    }
}

fn clean_after(text: &str) -> Result<Duration, String> {
    duration(text)
        .filter(|duration| *duration <= MOST_CLEAN_AFTER)
        .ok_or_else(|| format!("`{text}` is not a duration like 1h or 0s, up to 8760h"))
}

/// `None` for a nought.
fn stalled(text: &str) -> Result<Option<Duration>, String> {
    if text == "0" {
        return Ok(None);
    }
    duration(text)
        .filter(|duration| *duration <= MOST_STALLED)
        .map(|duration| (!duration.is_zero()).then_some(duration))
        .ok_or_else(|| format!("`{text}` is neither 0 nor a duration like 10m or 2h, up to 168h"))
}

fn duration(text: &str) -> Option<Duration> {
    let at = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(at);
    let number: u64 = number.parse().ok()?;
    match unit {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, notices: &[NoticeSink]) {
        let config = parse(Path::new("c.toml"), text).expect("this is a good file");
        assert_eq!(config.notices.into_iter().collect::<Vec<_>>(), notices);
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(Path::new("c.toml"), text).expect_err("this is a bad file");
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.path(), Path::new("c.toml"));
        let line = error.line().expect("all of these have a line");
        assert!(expected.starts_with(&format!("c.toml:{line}: ")));
    }

    #[test]
    fn notices_are_any_subset() {
        use NoticeSink::{Desktop, Tmux};
        check("", &[Desktop, Tmux]);
        check("# nothing\n", &[Desktop, Tmux]);
        check("notices = []", &[]);
        check("notices = ['tmux']", &[Tmux]);
        check("notices = [\"tmux\", \"desktop\"]", &[Desktop, Tmux]);
        check("notices = [\n  \"tmux\", # here\n  \"tmux\",\n]\n", &[Tmux]);
        check("\"notices\" = [\"desktop\"]\r\n", &[Desktop]);
    }

    #[test]
    fn how_shells_are_delivered_is_one_of_three_words() {
        let shells = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.shells);
        assert_eq!(shells("").unwrap(), ShellDelivery::Notice);
        assert_eq!(
            shells("shells = 'followUp'").unwrap(),
            ShellDelivery::FollowUp
        );
        assert_eq!(shells("shells = 'ignore'").unwrap(), ShellDelivery::Ignore);
        for text in ["shells = 'always'", "shells = true"] {
            let error = shells(text).unwrap_err();
            assert!(error.to_string().contains("shells"), "{error}");
        }
    }

    #[test]
    fn how_long_a_session_must_have_been_of_no_use_is_set() {
        let after = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.clean_after);
        assert_eq!(after("").unwrap(), Duration::from_secs(3600));
        assert_eq!(after("clean-after = '0s'").unwrap(), Duration::ZERO);
        let error = after("clean-after = 'soon'").unwrap_err();
        assert!(error.to_string().contains("clean-after"), "{error}");
    }

    #[test]
    fn how_much_is_kept_of_runs_is_set_within_bounds() {
        let logs = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.logs);
        let set = logs("[logs]\nkeep-lines = 5\nkeep-runs = 0\nkeep-mib = 1_000\n").unwrap();
        let expected = LogsConfig {
            keep_lines: 5,
            keep_runs: 0,
            keep_mib: 1000,
        };
        assert_eq!(set, expected);
        assert_eq!(logs("").unwrap(), LogsConfig::default());
        for (text, expected) in [
            ("[logs]\nkeep-lines = 0\n", "keep-lines"),
            ("[logs]\nkeep-runs = -1\n", "keep-runs"),
            ("[logs]\nkeep-mib = \"1\"\n", "keep-mib"),
            ("[logs]\nkeep = 1\n", "keep"),
        ] {
            let error = logs(text).unwrap_err();
            assert_eq!(error.line(), Some(2), "{error}");
            assert!(
                error.key().is_some_and(|key| key.contains(expected)),
                "{error}"
            );
        }
    }

    #[test]
    fn prompts_can_be_taught_and_muted() {
        let text = "[input]\nask = ['^ready> $']\nignore = ['beta']\nmute-tasks = ['web', '@3']\nmute-kinds = ['pager', 'editor']\nquiet = '2s'\n";
        let input = parse(Path::new("c.toml"), text).unwrap().input;
        assert_eq!(input.ask, ["^ready> $"]);
        assert_eq!(input.ignore, ["beta"]);
        assert!(input.mute_tasks.contains("@3"));
        assert_eq!(
            input.mute_kinds,
            [PromptKind::Pager, PromptKind::Editor].into()
        );
        assert_eq!(input.quiet, Duration::from_secs(2));
        check_error(
            "[input]\nask = ['(']",
            "c.toml:2: `input.ask`: not a regular expression: error: unclosed group",
        );
        check_error(
            "[input]\nquiet = 'soon'",
            "c.toml:2: `input.quiet`: `soon` is not a duration like 200ms or 2s, from 50ms to 1h",
        );
        check_error(
            "[input]\nmute_kinds = []",
            "c.toml:2: unknown key `input.mute_kinds`; did you mean `mute-kinds`?",
        );
        check_error(
            "input = 3",
            "c.toml:1: `input` must be a table, found an integer",
        );
    }

    #[test]
    fn what_is_called_stalled_is_off_unless_it_is_set() {
        let after = |text: &str| {
            let text = format!("[input]\nstalled-after = {text}\n");
            parse(Path::new("c.toml"), &text).map(|config| config.input.stalled_after)
        };
        assert_eq!(InputConfig::default().stalled_after, None);
        for off in ["'0'", "'0s'", "'0m'"] {
            assert_eq!(after(off).unwrap(), None, "{off}");
        }
        let minutes = |n: u64| Some(Duration::from_secs(60 * n));
        assert_eq!(after("'10m'").unwrap(), minutes(10));
        assert_eq!(after("'168h'").unwrap(), minutes(7 * 24 * 60));
        for bad in [
            "'169h'",
            "'10'",
            "'m'",
            "'-1m'",
            "''",
            "'99999999999999999999m'",
        ] {
            let error = after(bad).unwrap_err().to_string();
            let expected = format!(
                "c.toml:2: `input.stalled-after`: `{}` is neither 0 nor a duration like 10m or 2h, up to 168h",
                bad.trim_matches('\'')
            );
            assert_eq!(error, expected);
        }
        check_error(
            "[input]\nstalled-after = 600",
            "c.toml:2: `input.stalled-after` must be a duration like \"10m\" or \"2h\", found an integer",
        );
    }

    #[test]
    fn variables_to_withhold_are_names_or_beginnings_of_names() {
        let withheld =
            |text: &str| parse(Path::new("c.toml"), text).map(|config| config.env_withhold);
        assert_eq!(withheld("").unwrap(), [""; 0]);
        let text = "env-withhold = [\"FOO\", \"AWS_*\"]";
        assert_eq!(withheld(text).unwrap(), ["FOO", "AWS_*"]);
        for bad in ["*", "a b", "", "A*B", "a.b"] {
            let error = withheld(&format!("\nenv-withhold = [\"{bad}\"]")).unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "c.toml:2: `env-withhold`: `{bad}` is not the name of a variable, nor the \
                     beginning of one with a `*` at the end"
                )
            );
        }
    }

    #[test]
    fn an_unknown_word_lists_what_is_allowed() {
        check_error(
            "notices = [\"desk\"]",
            "c.toml:1: `notices` does not know \"desk\"; allowed are \"desktop\" and \"tmux\"",
        );
        check_error(
            "\nnotices = [\n  \"tmux\",\n  \"a\\nb\",\n]",
            "c.toml:4: `notices` does not know \"a b\"; allowed are \"desktop\" and \"tmux\"",
        );
    }

    #[test]
    fn a_wrong_type_names_what_was_found() {
        #[track_caller]
        fn check_found(text: &str, line: u32, found: &str) {
            let expected = format!(
                "c.toml:{line}: `notices` must be a list of \"desktop\" and \"tmux\", found {found}"
            );
            check_error(text, &expected);
        }
        check_found("\nnotices = 3", 2, "an integer");
        check_found("notices = 3.5", 1, "a float");
        check_found("notices = true", 1, "a boolean");
        check_found("notices = \"tmux\"", 1, "a string");
        check_found("notices = 2026-01-01", 1, "a date");
        check_found("\n\n[notices]\ntmux = true", 3, "a table");
        check_found("\nnotices.tmux = true", 2, "a table");
        check_found("[[notices]]\n", 1, "a table in the list");
        check_found("notices = [\n\"tmux\",\n3]", 3, "an integer in the list");
    }

    #[test]
    fn an_unknown_key_is_an_error_and_a_close_one_is_suggested() {
        check_error(
            "# a\n\nnotice = []",
            "c.toml:3: unknown key `notice`; did you mean `notices`?",
        );
        check_error(
            "Notices = []",
            "c.toml:1: unknown key `Notices`; did you mean `notices`?",
        );
        check_error("note = []", "c.toml:1: unknown key `note`");
        check_error("\"\" = 1", "c.toml:1: unknown key ``");
        check_error("\"a\\u001bb\\nc\" = 1", "c.toml:1: unknown key `a c`");
        check_error(
            "notices = []\n[panel]\nkeys = 1",
            "c.toml:2: unknown key `panel`",
        );
        check_error("\nb = 1\na = 1", "c.toml:2: unknown key `b`");
    }

    #[test]
    fn broken_toml_names_its_line() {
        #[track_caller]
        fn check_line(text: &str, line: u32) {
            let error = parse(Path::new("c.toml"), text).expect_err("this is not TOML");
            assert!(matches!(error, ConfigError::Syntax { .. }), "{error}");
            assert_eq!(error.line(), Some(line), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
        check_line("notices = []\nnotices = []", 2);
        check_line("notices = [\"a\n\"]", 1);
        check_line("\n\nnotices", 3);
        check_line("notices =\n", 1);
        check_line("notices = [", 1);
        check_line("a = 1\n= 2\n", 2);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_in_one_line(text in "([a-z\\[\\]\"'=.\\\\#\n\r\t 0-9é]|notices){0,60}") {
            if let Err(error) = parse(Path::new("c.toml"), &text) {
                let message = error.to_string();
                proptest::prop_assert!(!message.contains(char::is_control), "{:?}", message);
            }
        }
    }
}
