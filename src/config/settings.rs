//! The settings and their defaults.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::hosts::{HostConfig, hosts as read_hosts, is_there};
use super::notices::{NoticesConfig, notices};
use super::parse_duration;
use super::sinks::{SinkConfig, sinks as read_sinks};
use super::value::{duration, list, number, parse_size, text, wrong};
use crate::model::environment::is_name_pattern;
use crate::model::{ShellDelivery, Signal, StopPlan, StopSettings};

/// The contents of the file, with defaults for missing keys.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct Config {
    /// What is displayed to the user, and where: table `notices`.
    #[serde(deserialize_with = "notices")]
    pub notices: NoticesConfig,
    /// Further variables of a caller's environment that tasks do not get, names or prefixes ending
    /// in `*`: key `env-withhold`.
    #[serde(deserialize_with = "variables")]
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
    #[serde(rename = "fleet", deserialize_with = "is_there")]
    pub has_fleet: bool,
    /// What gets the feed's records: tables `sink`.
    #[serde(rename = "sink", deserialize_with = "read_sinks")]
    pub sinks: Vec<SinkConfig>,
    /// Other machines, by their names: table `hosts`.
    #[serde(deserialize_with = "read_hosts")]
    pub hosts: BTreeMap<String, HostConfig>,
    /// How the events of shells are delivered: key `shells`.
    #[serde(deserialize_with = "shells")]
    pub shells: ShellDelivery,
    /// How long a session of the project must have been unused before a starting daemon may end it:
    /// key `clean-after`.
    #[serde(deserialize_with = "clean_after")]
    pub clean_after: Duration,
}

/// How runs are ended, unless the task itself says it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct StopConfig {
    /// The signal that asks a run to end: key `signal`.
    #[serde(deserialize_with = "signal")]
    pub signal: Signal,
    /// How long it has before `SIGKILL`: key `grace`.
    #[serde(deserialize_with = "grace")]
    pub grace: Duration,
    /// How long a run that `run` starts may last; `None` for as long as it likes: key `kill-after`.
    #[serde(deserialize_with = "kill_after")]
    pub kill_after: Option<Duration>,
}

impl Default for StopConfig {
    fn default() -> Self {
        let StopPlan { signal, grace, .. } = StopPlan::default();
        Self {
            signal,
            grace,
            kill_after: None,
        }
    }
}

impl StopConfig {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct LogsConfig {
    /// Lines of one run, its first and last ones: key `keep-lines`.
    #[serde(deserialize_with = "number::<1, 1_000_000, _>")]
    pub keep_lines: u64,
    /// Runs of one session, its last ones; 0 stores nothing: key `keep-runs`.
    #[serde(deserialize_with = "number::<0, 100_000, _>")]
    pub keep_runs: u64,
    /// Mebibytes of all runs of one session together: key `keep-mib`.
    #[serde(deserialize_with = "number::<1, 100_000, _>")]
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

/// How much of a session's feed is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct FeedConfig {
    /// The size in bytes above which the oldest records are removed: key `keep-size`.
    #[serde(deserialize_with = "keep_size")]
    pub keep_size: u64,
    /// The age above which records are removed: key `keep-age`.
    #[serde(deserialize_with = "keep_age")]
    pub keep_age: Duration,
    /// For how long records that a consumer has not acknowledged are kept after it was last used,
    /// beyond `keep-size` and `keep-age`: key `keep-for-consumers`.
    #[serde(deserialize_with = "keep_for_consumers")]
    pub keep_for_consumers: Duration,
}

impl Default for FeedConfig {
    fn default() -> Self {
        Self {
            keep_size: 64 << 20,
            keep_age: 30 * DAY,
            keep_for_consumers: 7 * DAY,
        }
    }
}

/// How follow-ups are delivered to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct AgentsConfig {
    /// How many messages a conversation gets within a minute before the rest becomes one summary: key
    /// `max-per-minute`.
    #[serde(deserialize_with = "max_per_minute")]
    pub max_per_minute: u32,
}

impl Default for AgentsConfig {
    fn default() -> Self {
        Self { max_per_minute: 30 }
    }
}

/// What counts as a prompt, and which prompts are reported.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct InputConfig {
    /// Regular expressions for lines that ask: key `ask`.
    #[serde(deserialize_with = "expressions")]
    pub ask: Vec<String>,
    /// Regular expressions for lines that do not: key `ignore`.
    #[serde(deserialize_with = "expressions")]
    pub ignore: Vec<String>,
    /// Tasks, by name or window id, whose waiting is not reported: key `mute-tasks`.
    #[serde(deserialize_with = "tasks")]
    pub mute_tasks: BTreeSet<String>,
    /// How long a screen must be unchanged before its prompt is reported: key `quiet`.
    #[serde(deserialize_with = "quiet")]
    pub quiet: Duration,
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// In bytes.
const KEEP_SIZE_BOUNDS: RangeInclusive<u64> = 16 << 10..=1 << 40;

/// The maximum of `keep-age` and of `keep-for-consumers`.
const MOST_KEEP_AGE: Duration = Duration::from_secs(3650 * 24 * 3600);

const QUIET_BOUNDS: RangeInclusive<Duration> =
    Duration::from_millis(50)..=Duration::from_secs(3600);

impl Default for InputConfig {
    fn default() -> Self {
        Self {
            ask: Vec::new(),
            ignore: Vec::new(),
            mute_tasks: BTreeSet::new(),
            quiet: Duration::from_millis(200),
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self {
            notices: NoticesConfig::default(),
            env_withhold: Vec::new(),
            stop: StopConfig::default(),
            input: InputConfig::default(),
            logs: LogsConfig::default(),
            agents: AgentsConfig::default(),
            feed: FeedConfig::default(),
            has_fleet: false,
            sinks: Vec::new(),
            hosts: BTreeMap::new(),
            shells: ShellDelivery::Notice,
            clean_after: Duration::from_secs(3600),
        }
    }
}

fn tasks<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<String>, D::Error> {
    list(from, "a list of names of tasks", |text| Ok(text.to_owned()))
}

fn variables<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    list(from, "a list of names of variables", |text| {
        if is_name_pattern(text) {
            return Ok(text.to_owned());
        }
        Err(wrong(
            text,
            "is not the name of a variable, nor the beginning of one with a `*` at the end",
        ))
    })
}

fn expressions<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    list(
        from,
        "a list of regular expressions",
        |text| match regex::Regex::new(text) {
            Ok(_) => Ok(text.to_owned()),
            Err(error) => {
                let message = error.to_string();
                let last = message.lines().last().unwrap_or_default();
                let last = last.strip_prefix("error: ").unwrap_or(last);
                Err(format!("not a regular expression: {last}"))
            }
        },
    )
}

fn shells<'de, D: Deserializer<'de>>(from: D) -> Result<ShellDelivery, D::Error> {
    text(
        from,
        "\"notice\", \"followUp\" or \"ignore\"",
        |text| match text {
            "notice" => Ok(ShellDelivery::Notice),
            "followUp" => Ok(ShellDelivery::FollowUp),
            "ignore" => Ok(ShellDelivery::Ignore),
            _ => Err(wrong(text, "is not `notice`, `followUp` or `ignore`")),
        },
    )
}

fn max_per_minute<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let number = number::<1, 10_000, _>(from)?;
    Ok(u32::try_from(number).unwrap_or(u32::MAX))
}

fn quiet<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let expected = "a duration like \"200ms\" or \"2s\"";
    let why = "is not a duration like 200ms or 2s, from 50ms to 1h";
    within(from, expected, why, QUIET_BOUNDS)
}

fn clean_after<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let why = "is not a duration like 1h, 7d or 0s, up to 365d";
    within(from, "a duration like \"1h\"", why, up_to(365 * DAY))
}

fn signal<'de, D: Deserializer<'de>>(from: D) -> Result<Signal, D::Error> {
    text(from, "the name of a signal like \"SIGTERM\"", parse_signal)
}

/// Reads a signal by name or number.
pub(crate) fn parse_signal(text: &str) -> Result<Signal, String> {
    Signal::parse(text)
        .filter(|signal| signal.number().is_some_and(|number| number <= 31))
        .ok_or_else(|| wrong(text, "is not a signal like SIGINT, TERM or 15"))
}

fn grace<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let why = "is not a duration like 10s, 1m or 0s, up to 366d";
    let bounds = up_to(StopSettings::LONGEST);
    within(from, "a duration like \"10s\"", why, bounds)
}

fn kill_after<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let why = "is neither 0 nor a duration like 10m, up to 366d";
    let expected = "a duration like \"10m\" or \"2h\"";
    within(from, expected, why, up_to(StopSettings::LONGEST)).map(unless_zero)
}

fn keep_size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    text(from, "a size like \"64MiB\"", |text| {
        parse_size(text)
            .filter(|size| KEEP_SIZE_BOUNDS.contains(size))
            .ok_or_else(|| wrong(text, "is not a size like 64MiB or 1GiB, from 16KiB to 1TiB"))
    })
}

fn keep_age<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let why = "is not a time like 30d or 12h, from 1m to 3650d";
    let bounds = Duration::from_secs(60)..=MOST_KEEP_AGE;
    within(from, "a time like \"30d\"", why, bounds)
}

fn keep_for_consumers<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let why = "is not a time like 7d or 12h, up to 3650d";
    within(from, "a time like \"7d\"", why, up_to(MOST_KEEP_AGE))
}

/// Reads a duration within bounds. `why` describes for errors what is not one.
fn within<'de, D: Deserializer<'de>>(
    from: D,
    expected: &'static str,
    why: &str,
    bounds: RangeInclusive<Duration>,
) -> Result<Duration, D::Error> {
    duration(from, expected, |text| {
        parse_duration(text)
            .filter(|duration| bounds.contains(duration))
            .ok_or_else(|| wrong(text, why))
    })
}

fn up_to(most: Duration) -> RangeInclusive<Duration> {
    Duration::ZERO..=most
}

fn unless_zero(duration: Duration) -> Option<Duration> {
    (!duration.is_zero()).then_some(duration)
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
        assert_eq!(stop("").unwrap(), StopConfig::default());
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
        assert_eq!(logs("").unwrap(), LogsConfig::default());
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
        assert_eq!(default, FeedConfig::default());
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
