//! The settings: how each is read, and its default.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use super::hosts::{HostConfig, read_hosts};
use super::notices;
use super::reader::{Table, read_document};
use super::sinks::{SinkConfig, read_sinks};
use super::value::{if_right, parse_size, wrong};
use crate::model::environment::is_name_pattern;
use crate::model::{ShellDelivery, Signal, StopPlan, StopSettings};
use crate::rules::alerts::AlertRules;

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
    /// How conversations get messages: table `agents`.
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

/// How conversations get messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentsConfig {
    /// How many messages a conversation gets within a minute before the rest becomes one summary: key
    /// `max-per-minute`.
    pub max_per_minute: u32,
    /// When a message is handed over: key `deliver`.
    pub deliver: Deliver,
}

impl AgentsConfig {
    fn read(table: &mut Table<'_>) -> Self {
        Self {
            max_per_minute: table.read_or("max-per-minute", 30, |value| value.number(1..=10_000)),
            deliver: table.read_or("deliver", Deliver::AfterTurn, |value| value.choice()),
        }
    }
}

/// When a client that works gets a message, where the client can do both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deliver {
    /// When the present turn has ended.
    AfterTurn,
    /// Between two steps of the turn.
    NextStep,
}

impl Default for Config {
    fn default() -> Self {
        read_document(Path::new(""), "", Self::read).expect("nothing is wrong in an empty file")
    }
}

impl Config {
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

    /// Returns how a run is ended: with a signal only if a shell would expect another one.
    pub(crate) fn complete(&self, given: StopSettings) -> StopSettings {
        let is_usual = self.signal == StopPlan::default().signal;
        given.or(StopSettings {
            signal: (!is_usual).then(|| self.signal.clone()),
            kill_after: self.kill_after,
            ..StopSettings::default()
        })
    }

    pub(crate) fn plan(&self) -> StopPlan {
        StopPlan {
            signal: self.signal.clone(),
            grace: self.grace,
            ..StopPlan::default()
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogsConfig {
    /// Lines of one run, its first and last ones: key `keep-lines`.
    pub keep_lines: usize,
    /// Runs of one session, its last ones; 0 stores nothing: key `keep-runs`.
    pub keep_runs: usize,
    /// Bytes of all runs of one session together, in the file mebibytes: key `keep-mib`.
    pub keep_bytes: u64,
}

impl LogsConfig {
    fn read(table: &mut Table<'_>) -> Self {
        Self {
            keep_lines: table.read_or("keep-lines", 10_000, |value| value.number(1..=1_000_000)),
            keep_runs: table.read_or("keep-runs", 200, |value| value.number(0..=100_000)),
            keep_bytes: table.read_or("keep-mib", 64, |value| value.number(1..=100_000)) << 20,
        }
    }
}

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
                let why = "is not a size like 64MiB or 1GiB, from 16KiB to 1TiB";
                value.text("a size like \"64MiB\"", |text| {
                    let size = parse_size(text).filter(|size| (16 << 10..=1 << 40).contains(size));
                    size.ok_or_else(|| wrong(text, why))
                })
            }),
            keep_age: table.read_or("keep-age", 30 * DAY, |value| {
                value.duration_within(
                    "a time like \"30d\"",
                    "is not a time like 30d or 12h, from 1m to 3650d",
                    Duration::from_secs(60)..=3650 * DAY,
                )
            }),
            keep_for_consumers: table.read_or("keep-for-consumers", 7 * DAY, |value| {
                value.duration_within(
                    "a time like \"7d\"",
                    "is not a time like 7d or 12h, up to 3650d",
                    Duration::ZERO..=3650 * DAY,
                )
            }),
        }
    }
}

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

fn name_pattern(text: &str) -> Result<String, String> {
    let why = "is not the name of a variable, nor the beginning of one with a `*` at the end";
    if_right(text, is_name_pattern(text), why)
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

pub(crate) fn parse_signal(text: &str) -> Result<Signal, String> {
    Signal::parse(text)
        .filter(|signal| signal.number().is_some_and(|number| number <= 31))
        .ok_or_else(|| wrong(text, "is not a signal like SIGINT, TERM or 15"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::{parse, tests::check_errors};

    fn config(text: &str) -> Config {
        parse(Path::new("c.toml"), text).unwrap()
    }

    #[test]
    fn each_setting_is_read_and_has_its_default() {
        let default = config("");
        assert_eq!(default.shells, ShellDelivery::Notice);
        assert_eq!(default.clean_after, Duration::from_secs(3600));
        assert_eq!(default.feed.keep_size, 64 << 20);
        assert_eq!(default.feed.keep_age, Duration::from_secs(720 * 3600));
        assert_eq!(default.agents.max_per_minute, 30);
        assert_eq!(default.env_withhold, [""; 0]);
        assert_eq!(default, Config::default());

        let set = config(
            "shells = 'followUp'\nclean-after = '7d'\nenv-withhold = ['FOO', 'AWS_*']\n\
             agents.max-per-minute = 2\n\
             [stop]\nsignal = 'int'\ngrace = '1m'\nkill-after = '2h'\n\
             [logs]\nkeep-lines = 5\nkeep-runs = 0\nkeep-mib = 1_000\n\
             [feed]\nkeep-size = '16KiB'\nkeep-age = '90s'\nkeep-for-consumers = '0s'\n\
             [input]\nask = ['^ready> $']\nignore = ['beta']\nmute-tasks = ['web', '@3']\n\
             quiet = '1s500ms'\n",
        );
        assert_eq!(set.shells, ShellDelivery::FollowUp);
        assert_eq!(set.clean_after, 7 * DAY);
        assert_eq!(set.env_withhold, ["FOO", "AWS_*"]);
        assert_eq!(set.agents.max_per_minute, 2);
        let stop = StopConfig {
            signal: Signal::from_number(2),
            grace: Duration::from_secs(60),
            kill_after: Some(Duration::from_secs(7200)),
        };
        assert_eq!(set.stop, stop);
        let logs = LogsConfig {
            keep_lines: 5,
            keep_runs: 0,
            keep_bytes: 1000 << 20,
        };
        assert_eq!(set.logs, logs);
        let feed = FeedConfig {
            keep_size: 16 << 10,
            keep_age: Duration::from_secs(90),
            keep_for_consumers: Duration::ZERO,
        };
        assert_eq!(set.feed, feed);
        assert_eq!(set.input.ask, ["^ready> $"]);
        assert_eq!(set.input.ignore, ["beta"]);
        assert!(set.input.mute_tasks.contains("@3"));
        assert_eq!(set.input.quiet, Duration::from_millis(1500));

        assert_eq!(config("shells = 'ignore'").shells, ShellDelivery::Ignore);
        assert_eq!(config("stop.kill-after = '0'").stop.kill_after, None);
    }

    #[test]
    fn a_value_that_its_key_does_not_take_is_named_with_what_it_takes() {
        let table = r#"
            shells = 'always' | 1: `shells`: `always` is not `notice`, `followUp` or `ignore`
            shells = true | 1: `shells` must be "notice", "followUp" or "ignore", found a boolean
            clean-after = 'soon' | 1: `clean-after`: `soon` is not a duration like 1h, 7d or 0s, up to 365d
            stop.signal = 'SIGNONE' | 1: `stop.signal`: `SIGNONE` is not a signal like SIGINT, TERM or 15
            stop.grace = 'long' | 1: `stop.grace`: `long` is not a duration like 10s, 1m or 0s, up to 366d
            logs.keep-lines = 0 | 1: `logs.keep-lines` must be a whole number from 1 to 1000000
            logs.keep-runs = -1 | 1: `logs.keep-runs` must be a whole number from 0 to 100000
            logs.keep-mib = 99999999999999999999 | 1: `logs.keep-mib` must be a whole number from 1 to 100000
            logs.keep-mib = "1" | 1: `logs.keep-mib` must be a whole number from 1 to 100000, found a string
            [logs]⏎keep = 1 | 2: unknown key `logs.keep`
            feed.keep-size = '1KiB'
              | 1: `feed.keep-size`: `1KiB` is not a size like 64MiB or 1GiB, from 16KiB to 1TiB
            feed.keep-size = 64 | 1: `feed.keep-size` must be a size like "64MiB", found an integer
            feed.keep-age = '1s' | 1: `feed.keep-age`: `1s` is not a time like 30d or 12h, from 1m to 3650d
            feed.keep-for-consumers = 'always'
              | 1: `feed.keep-for-consumers`: `always` is not a time like 7d or 12h, up to 3650d
            [feed]⏎keep-days = 1 | 2: unknown key `feed.keep-days`
            [agents]⏎max-per-minute = 0 | 2: `agents.max-per-minute` must be a whole number from 1 to 10000
            [input]⏎ask = ['('] | 2: `input.ask`: not a regular expression: unclosed group
            [input]⏎quiet = 'soon'
              | 2: `input.quiet`: `soon` is not a duration like 200ms or 2s, from 50ms to 1h
            [input]⏎mute_tasks = [] | 2: unknown key `input.mute_tasks`; did you mean `mute-tasks`?
            input = 3 | 1: `input` must be a table, found an integer"#;
        check_errors("", table);
        for bad in ["*", "a b", "", "A*B", "a.b"] {
            let why =
                "is not the name of a variable, nor the beginning of one with a `*` at the end";
            let expected = format!("env-withhold = ['{bad}'] | 2: `env-withhold`: `{bad}` {why}");
            check_errors("\n", &expected);
        }
    }

    #[test]
    fn a_number_alone_is_seconds() {
        for (value, ms) in [
            ("3", 3000),
            ("'3'", 3000),
            ("0", 0),
            ("1.5", 1500),
            ("'.5s'", 500),
        ] {
            let found = config(&format!("clean-after = {value}")).clean_after;
            assert_eq!(found, Duration::from_millis(ms), "{value}");
        }
        for value in ["nan", "inf", "1e300", "-0.5", "31536001"] {
            let error = parse(Path::new("c.toml"), &format!("clean-after = {value}"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains("is not a duration"), "{error}");
        }
    }

    #[test]
    fn the_first_mistake_in_the_file_is_reported_with_a_close_key() {
        let table = r#"
            # a⏎⏎notice = [] | 3: unknown key `notice`; did you mean `notices`?
            Notices = [] | 1: unknown key `Notices`; did you mean `notices`?
            noticse = [] | 1: unknown key `noticse`; did you mean `notices`?
            ntoices = [] | 1: unknown key `ntoices`; did you mean `notices`?
            note = [] | 1: unknown key `note`
            up = [] | 1: unknown key `up`
            "" = 1 | 1: unknown key ``
            "a\u001bb\nc" = 1 | 1: unknown key `a c`
            notices = []⏎[panel]⏎keys = 1 | 2: unknown key `panel`
            ⏎b = 1⏎a = 1 | 2: unknown key `b`
            shells = 'x'⏎notices = 3⏎other = 1
              | 1: `shells`: `x` is not `notice`, `followUp` or `ignore`
            other = 1⏎notices = 3 | 1: unknown key `other`"#;
        check_errors("", table);
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_allowed_is_said() {
        let table = r#"
            notices = ['LONG']
              | 1: `notices` does not know "CUT"; allowed are "desktop", "terminal" and "tmux"
            LONG = 1 | 1: unknown key `CUT`
            input = 'a, expected a lie' | 1: `input` must be a table, found a string"#;
        let (long, cut) = ("x".repeat(5000), "x".repeat(99) + "…");
        check_errors("", &table.replace("LONG", &long).replace("CUT", &cut));
    }

    #[test]
    fn broken_toml_names_its_line() {
        for (text, line) in [
            ("notices = []\nnotices = []", 2),
            ("notices = [\"a\n\"]", 1),
            ("\n\nnotices", 3),
            ("notices =\n", 1),
            ("notices = [", 1),
            ("a = 1\n= 2\n", 2),
        ] {
            let error = parse(Path::new("c.toml"), text).expect_err("this is not TOML");
            let place = format!(":{line}: ");
            assert!(error.message.contains(&place), "{error}");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
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
