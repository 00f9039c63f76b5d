//! The settings: how each is read, and its default.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::hosts::{HostConfig, read_hosts};
use super::notices;
use super::reader::{Table, read_document};
use super::sinks::{SinkConfig, read_sinks};
use super::value::{parse_size, wrong};
use crate::alerts::AlertRules;
use crate::model::environment::is_name_pattern;
use crate::model::{ShellDelivery, Signal, StopPlan, StopSettings};

/// The contents of the file, with defaults for missing keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// What is displayed to the user, and where: table `notices`.
    pub notices: AlertRules,
    /// Further variables of a caller's environment that tasks do not get, names or prefixes ending
    /// in `*`: key `env-withhold`.
    pub env_withhold: Vec<String>,
    /// How runs are ended, unless the task itself says it: table `stop`.
    pub stop: StopConfig,
    /// Which prompts are reported: table `input`.
    pub input: InputConfig,
    /// How much output of ended runs is stored: table `logs`.
    pub logs: LogsConfig,
    /// How much of the feed is kept: table `feed`.
    pub feed: FeedConfig,
    /// How follow-ups are delivered to agents: table `agents`.
    pub agents: AgentsConfig,
    /// Whether there is a broker of many machines: table `fleet`.
    pub has_fleet: bool,
    /// What gets the feed's records: tables `sink`.
    pub sinks: Vec<SinkConfig>,
    /// Other machines, by their names: table `hosts`.
    pub hosts: BTreeMap<String, HostConfig>,
    /// How the events of shells are delivered: key `shells`.
    pub shells: ShellDelivery,
    /// How long a session of the project must have been unused before a starting daemon may end it:
    /// key `clean-after`.
    pub clean_after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        read_document(Path::new(""), "", Self::read).expect("nothing is wrong in an empty file")
    }
}

impl Config {
    /// Reads a file of settings.
    pub(super) fn read(file: &mut Table<'_>) -> Self {
        let shells = [
            ("notice", ShellDelivery::Notice),
            ("followUp", ShellDelivery::FollowUp),
            ("ignore", ShellDelivery::Ignore),
        ];
        Self {
            notices: file.read_or("notices", AlertRules::default(), notices::read),
            env_withhold: file.list("env-withhold", "a list of names of variables", name_pattern),
            stop: file.table("stop", StopConfig::read),
            input: file.table("input", InputConfig::read),
            logs: file.table("logs", LogsConfig::read),
            feed: file.table("feed", FeedConfig::read),
            agents: file.table("agents", AgentsConfig::read),
            // `tmux-task-fleet` checks it.
            has_fleet: file.read("fleet", |_| Some(())).is_some(),
            sinks: file.read("sink", read_sinks).unwrap_or_default(),
            hosts: file.read("hosts", read_hosts).unwrap_or_default(),
            shells: file.read_or("shells", ShellDelivery::Notice, |value| value.word(&shells)),
            clean_after: file.read_or("clean-after", Duration::from_secs(3600), |value| {
                value.duration_within(
                    "a duration like \"1h\"",
                    "is not a duration like 1h, 7d or 0s, up to 365d",
                    Duration::ZERO..=365 * DAY,
                )
            }),
        }
    }
}

/// How runs are ended, unless the task itself says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StopConfig {
    /// The signal that asks a run to end: key `signal`.
    pub signal: Signal,
    /// How long it has before `SIGKILL`: key `grace`.
    pub grace: Duration,
    /// How long a run that `run` starts may last; `None` for as long as it likes: key `kill-after`.
    pub kill_after: Option<Duration>,
}

impl StopConfig {
    fn read(table: &mut Table<'_>) -> Self {
        let usual = StopPlan::default();
        let bounds = Duration::ZERO..=StopSettings::LONGEST;
        let kill_after = table.read("kill-after", |value| {
            value.duration_within(
                "a duration like \"10m\" or \"2h\"",
                "is neither 0 nor a duration like 10m, up to 366d",
                bounds.clone(),
            )
        });
        Self {
            signal: table.read_or("signal", usual.signal, |value| {
                value.text("the name of a signal like \"SIGTERM\"", parse_signal)
            }),
            grace: table.read_or("grace", usual.grace, |value| {
                value.duration_within(
                    "a duration like \"10s\"",
                    "is not a duration like 10s, 1m or 0s, up to 366d",
                    bounds,
                )
            }),
            kill_after: kill_after.filter(|after| !after.is_zero()),
        }
    }

    /// Returns how a run is ended, with what its launch needs of this: the time limit, and a signal that
    /// the task's shell would not expect.
    pub(crate) fn complete(&self, given: StopSettings) -> StopSettings {
        let is_usual = self.signal == StopPlan::default().signal;
        given.or(StopSettings {
            signal: (!is_usual).then(|| self.signal.clone()),
            kill_after: self.kill_after,
            ..StopSettings::default()
        })
    }

    /// Returns how runs are ended whose launch says nothing.
    pub(crate) fn plan(&self) -> StopPlan {
        StopPlan {
            signal: self.signal.clone(),
            grace: self.grace,
            ..StopPlan::default()
        }
    }
}

/// How much output of ended runs is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogsConfig {
    /// Lines of one run, its first and last ones: key `keep-lines`.
    pub keep_lines: u64,
    /// Runs of one session, its last ones; 0 stores nothing: key `keep-runs`.
    pub keep_runs: u64,
    /// Mebibytes of all runs of one session together: key `keep-mib`.
    pub keep_mib: u64,
}

impl LogsConfig {
    fn read(table: &mut Table<'_>) -> Self {
        Self {
            keep_lines: table.read_or("keep-lines", 10_000, |value| value.number(1..=1_000_000)),
            keep_runs: table.read_or("keep-runs", 200, |value| value.number(0..=100_000)),
            keep_mib: table.read_or("keep-mib", 64, |value| value.number(1..=100_000)),
        }
    }
}

/// How much of a session's feed is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FeedConfig {
    /// The size in bytes above which the oldest records are removed: key `keep-size`.
    pub keep_size: u64,
    /// The age above which records are removed: key `keep-age`.
    pub keep_age: Duration,
    /// For how long records that a consumer has not acknowledged are kept after it was last used,
    /// beyond `keep-size` and `keep-age`: key `keep-for-consumers`.
    pub keep_for_consumers: Duration,
}

impl FeedConfig {
    fn read(table: &mut Table<'_>) -> Self {
        Self {
            keep_size: table.read_or("keep-size", 64 << 20, |value| {
                value.text("a size like \"64MiB\"", |text| {
                    parse_size(text)
                        .filter(|size| KEEP_SIZE_BOUNDS.contains(size))
                        .ok_or_else(|| {
                            wrong(text, "is not a size like 64MiB or 1GiB, from 16KiB to 1TiB")
                        })
                })
            }),
            keep_age: table.read_or("keep-age", 30 * DAY, |value| {
                value.duration_within(
                    "a time like \"30d\"",
                    "is not a time like 30d or 12h, from 1m to 3650d",
                    Duration::from_secs(60)..=MOST_KEEP_AGE,
                )
            }),
            keep_for_consumers: table.read_or("keep-for-consumers", 7 * DAY, |value| {
                value.duration_within(
                    "a time like \"7d\"",
                    "is not a time like 7d or 12h, up to 3650d",
                    Duration::ZERO..=MOST_KEEP_AGE,
                )
            }),
        }
    }
}

/// How follow-ups are delivered to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentsConfig {
    /// How many messages a conversation gets within a minute before the rest becomes one summary: key
    /// `max-per-minute`.
    pub max_per_minute: u32,
}

impl AgentsConfig {
    fn read(table: &mut Table<'_>) -> Self {
        Self {
            max_per_minute: table.read_or("max-per-minute", 30, |value| value.number(1..=10_000)),
        }
    }
}

/// What counts as a prompt, and which prompts are reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputConfig {
    /// Regular expressions for lines that ask: key `ask`.
    pub ask: Vec<String>,
    /// Regular expressions for lines that do not: key `ignore`.
    pub ignore: Vec<String>,
    /// Tasks, by name or window id, whose waiting is not reported: key `mute-tasks`.
    pub mute_tasks: BTreeSet<String>,
    /// How long a screen must be unchanged before its prompt is reported: key `quiet`.
    pub quiet: Duration,
}

impl InputConfig {
    fn read(table: &mut Table<'_>) -> Self {
        let expressions = "a list of regular expressions";
        let task = |text: &str| Ok(text.to_owned());
        let muted = table.list("mute-tasks", "a list of names of tasks", task);
        Self {
            ask: table.list("ask", expressions, expression),
            ignore: table.list("ignore", expressions, expression),
            mute_tasks: muted.into_iter().collect(),
            quiet: table.read_or("quiet", Duration::from_millis(200), |value| {
                value.duration_within(
                    "a duration like \"200ms\" or \"2s\"",
                    "is not a duration like 200ms or 2s, from 50ms to 1h",
                    Duration::from_millis(50)..=Duration::from_secs(3600),
                )
            }),
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// In bytes.
const KEEP_SIZE_BOUNDS: RangeInclusive<u64> = 16 << 10..=1 << 40;

/// The maximum of `keep-age` and of `keep-for-consumers`.
const MOST_KEEP_AGE: Duration = Duration::from_secs(3650 * 24 * 3600);

fn name_pattern(text: &str) -> Result<String, String> {
    let why = "is not the name of a variable, nor the beginning of one with a `*` at the end";
    match is_name_pattern(text) {
        true => Ok(text.to_owned()),
        false => Err(wrong(text, why)),
    }
}

fn expression(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map_err(|error| {
        let message = error.to_string();
        let last = message.lines().last().unwrap_or_default();
        let last = last.strip_prefix("error: ").unwrap_or(last);
        format!("not a regular expression: {last}")
    })?;
    Ok(text.to_owned())
}

/// Reads a signal by name or number.
pub(crate) fn parse_signal(text: &str) -> Result<Signal, String> {
    Signal::parse(text)
        .filter(|signal| signal.number().is_some_and(|number| number <= 31))
        .ok_or_else(|| wrong(text, "is not a signal like SIGINT, TERM or 15"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(Path::new("c.toml"), text).expect_err("this is a bad file");
        assert_eq!(error.to_string(), expected);
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
    fn how_runs_are_ended_is_set_within_bounds() {
        let stop = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.stop);
        let set = "[stop]\nsignal = 'int'\ngrace = '1m'\nkill-after = '2h'\n";
        let expected = StopConfig {
            signal: Signal::from_number(2),
            grace: Duration::from_secs(60),
            kill_after: Some(Duration::from_secs(7200)),
        };
        assert_eq!(stop(set).unwrap(), expected);
        assert_eq!(stop("").unwrap(), Config::default().stop);
        assert_eq!(stop("[stop]\nkill-after = '0'\n").unwrap().kill_after, None);
        for (value, expected) in [
            (
                "signal = 'SIGNONE'",
                "`stop.signal`: `SIGNONE` is not a signal like SIGINT, TERM or 15",
            ),
            (
                "grace = 'long'",
                "`stop.grace`: `long` is not a duration like 10s, 1m or 0s, up to 366d",
            ),
        ] {
            check_error(
                &format!("[stop]\n{value}\n"),
                &format!("c.toml:2: {expected}"),
            );
        }
    }

    #[test]
    fn how_long_a_session_must_have_been_of_no_use_is_set() {
        let after = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.clean_after);
        assert_eq!(after("").unwrap(), Duration::from_secs(3600));
        assert_eq!(after("clean-after = '0s'").unwrap(), Duration::ZERO);
        assert_eq!(after("clean-after = '7d'").unwrap(), 7 * DAY);
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
        assert_eq!(logs("").unwrap(), Config::default().logs);
        for (value, expected) in [
            (
                "keep-lines = 0",
                "`logs.keep-lines` must be a whole number from 1 to 1000000",
            ),
            (
                "keep-runs = -1",
                "`logs.keep-runs` must be a whole number from 0 to 100000",
            ),
            (
                "keep-mib = 99999999999999999999",
                "`logs.keep-mib` must be a whole number from 1 to 100000",
            ),
            (
                "keep-mib = \"1\"",
                "`logs.keep-mib` must be a whole number from 1 to 100000, found a string",
            ),
            ("keep = 1", "unknown key `logs.keep`"),
        ] {
            check_error(
                &format!("[logs]\n{value}\n"),
                &format!("c.toml:2: {expected}"),
            );
        }
    }

    #[test]
    fn how_much_is_kept_of_the_feed_is_set_within_bounds() {
        let feed = |text: &str| parse(Path::new("c.toml"), text).map(|config| config.feed);
        let text = "[feed]\nkeep-size = '16KiB'\nkeep-age = '90s'\nkeep-for-consumers = '0s'\n";
        let expected = FeedConfig {
            keep_size: 16 << 10,
            keep_age: Duration::from_secs(90),
            keep_for_consumers: Duration::ZERO,
        };
        assert_eq!(feed(text).unwrap(), expected);
        let default = feed("").unwrap();
        assert_eq!(default, Config::default().feed);
        assert_eq!(default.keep_size, 64 << 20);
        assert_eq!(default.keep_age, Duration::from_secs(720 * 3600));
        for (value, expected) in [
            (
                "keep-size = '1KiB'",
                "`feed.keep-size`: `1KiB` is not a size like 64MiB or 1GiB, from 16KiB to 1TiB",
            ),
            (
                "keep-size = 64",
                "`feed.keep-size` must be a size like \"64MiB\", found an integer",
            ),
            (
                "keep-age = '1s'",
                "`feed.keep-age`: `1s` is not a time like 30d or 12h, from 1m to 3650d",
            ),
            (
                "keep-for-consumers = 'always'",
                "`feed.keep-for-consumers`: `always` is not a time like 7d or 12h, up to 3650d",
            ),
            ("keep-days = 1", "unknown key `feed.keep-days`"),
        ] {
            check_error(
                &format!("[feed]\n{value}\n"),
                &format!("c.toml:2: {expected}"),
            );
        }
    }

    #[test]
    fn how_many_messages_an_agent_gets_is_set() {
        let max = |text: &str| {
            parse(Path::new("c.toml"), text).map(|config| config.agents.max_per_minute)
        };
        assert_eq!(max("").unwrap(), 30);
        assert_eq!(max("[agents]\nmax-per-minute = 2").unwrap(), 2);
        check_error(
            "[agents]\nmax-per-minute = 0",
            "c.toml:2: `agents.max-per-minute` must be a whole number from 1 to 10000",
        );
    }

    #[test]
    fn prompts_can_be_taught_and_muted() {
        let text = "[input]\nask = ['^ready> $']\nignore = ['beta']\nmute-tasks = ['web', '@3']\nquiet = '2s'\n";
        let input = parse(Path::new("c.toml"), text).unwrap().input;
        assert_eq!(input.ask, ["^ready> $"]);
        assert_eq!(input.ignore, ["beta"]);
        assert!(input.mute_tasks.contains("@3"));
        assert_eq!(input.quiet, Duration::from_secs(2));
        let quiet = |text| parse(Path::new("c.toml"), text).map(|config| config.input.quiet);
        assert_eq!(
            quiet("input.quiet = '1s500ms'").unwrap(),
            Duration::from_millis(1500)
        );
        check_error(
            "[input]\nask = ['(']",
            "c.toml:2: `input.ask`: not a regular expression: unclosed group",
        );
        check_error(
            "[input]\nquiet = 'soon'",
            "c.toml:2: `input.quiet`: `soon` is not a duration like 200ms or 2s, from 50ms to 1h",
        );
        check_error(
            "[input]\nmute_tasks = []",
            "c.toml:2: unknown key `input.mute_tasks`; did you mean `mute-tasks`?",
        );
        check_error(
            "input = 3",
            "c.toml:1: `input` must be a table, found an integer",
        );
    }

    #[test]
    fn a_number_alone_is_seconds() {
        let clean_after = |value: &str| {
            let text = format!("clean-after = {value}");
            parse(Path::new("c.toml"), &text).unwrap().clean_after
        };
        for (value, ms) in [
            ("3", 3000),
            ("'3'", 3000),
            ("0", 0),
            ("1.5", 1500),
            ("'.5s'", 500),
        ] {
            assert_eq!(clean_after(value), Duration::from_millis(ms), "{value}");
        }
        for value in ["nan", "inf", "1e300", "-0.5", "31536001"] {
            let error = parse(Path::new("c.toml"), &format!("clean-after = {value}"));
            assert!(
                error.unwrap_err().to_string().contains("is not a duration"),
                "{value}"
            );
        }
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
    fn the_first_mistake_in_the_file_is_reported() {
        check_error(
            "shells = 'x'\nnotices = 3\nother = 1",
            "c.toml:1: `shells`: `x` is not `notice`, `followUp` or `ignore`",
        );
        check_error("other = 1\nnotices = 3", "c.toml:1: unknown key `other`");
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_allowed_is_said() {
        let long = "x".repeat(5000);
        let cut = format!("{}…", "x".repeat(99));
        check_error(
            &format!("notices = ['{long}']"),
            &format!(
                "c.toml:1: `notices` does not know \"{cut}\"; allowed are \"desktop\", \"terminal\" and \"tmux\""
            ),
        );
        check_error(
            &format!("{long} = 1"),
            &format!("c.toml:1: unknown key `{cut}`"),
        );
        // A value cannot speak for the error that it is in.
        check_error(
            "input = 'a, expected a lie'",
            "c.toml:1: `input` must be a table, found a string",
        );
    }

    #[test]
    fn broken_toml_names_its_line() {
        #[track_caller]
        fn check_line(text: &str, line: u32) {
            let error = parse(Path::new("c.toml"), text).expect_err("this is not TOML");
            let place = format!(":{line}: ");
            assert!(error.message.contains(&place), "{error}");
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
