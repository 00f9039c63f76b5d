//! What a launch says of a task: what runs, and how its runs are treated.
//!
//! A [`TaskSpec`] is what `run` and a task of the project's file are parsed into, what the window holds,
//! what the pane's process reads, and what a restart launches again; a [`Launch`] is the request for one
//! run of it. So a new setting is a field of [`TaskSettings`], and the place that obeys it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use super::environment::TaskEnvironment;
use super::{Millis, Signal, is_task_name, lossless, millis, text};

/// The maximum length of a launch's token, in characters.
const TOKEN_CHARS: usize = 64;

/// Everything that a launch says of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TaskSpec {
    /// How its runs are treated.
    #[serde(skip_serializing_if = "TaskSettings::is_unset")]
    pub settings: TaskSettings,
    /// Whether it runs in tmux's environment instead of its caller's.
    pub is_env_clean: bool,
    /// Variables for it. They are in no request, no option and no log: only the task's file has them,
    /// among all others.
    #[serde(skip)]
    pub env: Vec<(String, String)>,
    /// 16 bits of the hash of these variables: they say whether others are given now, and too little to
    /// guess a value. `None` where none were given.
    pub env_digest: Option<u16>,
    /// Where it runs: an absolute path. `None` only until the launch has found out.
    #[serde(with = "lossless::optional_path")]
    pub cwd: Option<PathBuf>,
    /// One word is a shell line, several are a program and its arguments. Without any, the command of the
    /// last launch is meant.
    #[serde(with = "lossless::words")]
    pub command: Vec<OsString>,
}

impl TaskSpec {
    /// Returns this, and for what it does not say what `last` says, which was launched before.
    #[must_use]
    pub fn or(self, last: Self) -> Self {
        Self {
            settings: self.settings.or(last.settings),
            is_env_clean: self.is_env_clean || last.is_env_clean,
            env_digest: None,
            cwd: self.cwd.or(last.cwd),
            command: if self.command.is_empty() {
                last.command
            } else {
                self.command
            },
            env: self.env,
        }
    }

    /// Returns the digest of its variables, in any order; `None` if there are none.
    pub fn digest_of_env(&self) -> Option<u16> {
        let mut variables: Vec<&(String, String)> = self.env.iter().collect();
        variables.sort();
        let mut hash = Sha256::new();
        for text in variables.iter().flat_map(|(name, value)| [name, value]) {
            hash.update(text);
            hash.update([0]);
        }
        let hash = hash.finalize();
        (!variables.is_empty()).then(|| u16::from_be_bytes([hash[0], hash[1]]))
    }

    /// Whether the command is a line of shell.
    pub fn is_line(&self) -> bool {
        self.command.len() == 1
    }

    /// Returns the command for display: one line, bounded.
    pub fn shown(&self) -> String {
        text::one_line(shown_command(&self.command).as_bytes(), 4096)
    }
}

/// Returns a command for display: one line, blanks folded, words quoted where necessary.
pub fn shown_command(words: &[OsString]) -> String {
    let line = match words {
        [line] => line.to_string_lossy().into_owned(),
        words => {
            let quoted = words.iter();
            let quoted = quoted.map(|word| quote_where_needed(&word.to_string_lossy()));
            quoted.collect::<Vec<_>>().join(" ")
        }
    };
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Quotes for a POSIX shell, unless nothing in the word has a meaning there.
pub fn quote_where_needed(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// A request to start a task, or to run it again in its slot: everything that this needs. tmux is told all
/// of it but the environment, which is in the task's file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Launch {
    /// The name of the session, for one that has to be created.
    pub session: String,
    /// The project's path, for a session that has to be created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// The task's name.
    pub name: String,
    /// What is started, and how.
    pub spec: TaskSpec,
    /// Identifies the launch in tmux; unique. ASCII letters, digits and `-`.
    pub token: String,
    /// The command's environment.
    pub environment: TaskEnvironment,
    /// The program that the pane starts, and the file from which that reads what to run.
    pub program: String,
    /// That file. Not serialised: who starts the run writes it.
    #[serde(skip)]
    pub file: String,
    /// The owner that the command belongs to; `None` for a user at a terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// When it was requested, in milliseconds since 1970.
    pub started: Millis,
    /// The last number that a run of this name has had; 0 if there was none. Not serialised: who starts
    /// the run knows it.
    #[serde(skip)]
    pub last_run: u32,
    /// Which run it may replace. It fails if there is another one.
    pub replaces: Replaces,
    /// Whether the command will wait for the run and return with its events.
    pub will_wait: bool,
    /// Whether the run's command begins only when the first wait on the launch's connection has begun.
    pub is_held: bool,
    /// Whether an earlier daemon was asked the same and has ended: it may have started the run.
    pub is_repeated: bool,
}

impl Launch {
    /// The directory, for tmux: empty if it has none that tmux can be given.
    pub fn cwd(&self) -> &str {
        let cwd = self.spec.cwd.as_ref().and_then(|cwd| cwd.to_str());
        cwd.unwrap_or_default()
    }
}

/// Which run of a task a launch may replace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Replaces {
    /// Whichever there is.
    #[default]
    Any,
    /// One that has ended.
    Ended,
}

/// What a launch replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplacedRun {
    /// A run that was alive.
    Live,
    /// A window whose run had ended.
    Dead,
}

/// How the runs of a task are treated. What is absent was not said.
// A task has them among its own fields, so they are serialised by hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSettings {
    /// When it is run again by itself. Absent: never.
    #[serde(default)]
    #[schemars(with = "TaskRestarts")]
    pub restarts: Option<TaskRestarts>,
    /// How it is ended, as far as its launch has said. Absent: nothing was said.
    #[serde(default)]
    #[schemars(skip_serializing_if = "StopSettings::is_unset")]
    pub stop: StopSettings,
    /// The texts that its owner is notified of when a line of the output contains one. Absent: none.
    #[serde(default)]
    #[schemars(with = "NotifyOn")]
    pub notify_on: Option<NotifyOn>,
    /// The slot in which it runs. Absent: none.
    #[serde(default)]
    #[schemars(with = "Slot")]
    pub slot: Option<Slot>,
    /// Whether its end wakes its owner. Absent: always.
    #[serde(default)]
    #[schemars(with = "WakePolicy")]
    pub wake: Option<WakePolicy>,
    /// The group whose runs are delivered as one message. Absent: none.
    #[serde(default)]
    #[schemars(with = "String")]
    pub group: Option<String>,
}

impl Serialize for TaskSettings {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        self.serialize_into(&mut fields)?;
        fields.end()
    }
}

impl TaskSettings {
    /// Serialises them among other fields.
    pub(super) fn serialize_into<M: SerializeMap>(&self, fields: &mut M) -> Result<(), M::Error> {
        if let Some(restarts) = &self.restarts {
            fields.serialize_entry("restarts", restarts)?;
        }
        if !self.stop.is_unset() {
            fields.serialize_entry("stop", &self.stop)?;
        }
        if let Some(notify_on) = &self.notify_on {
            fields.serialize_entry("notifyOn", notify_on)?;
        }
        if let Some(slot) = &self.slot {
            fields.serialize_entry("slot", slot)?;
        }
        if let Some(wake) = &self.wake {
            fields.serialize_entry("wake", wake)?;
        }
        if let Some(group) = &self.group {
            fields.serialize_entry("group", group)?;
        }
        Ok(())
    }

    /// Whether nothing is set.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }

    /// Returns these settings, and for what they do not set those of `last`, of the last launch.
    #[must_use]
    fn or(self, last: Self) -> Self {
        Self {
            restarts: self
                .restarts
                .or(last.restarts.map(|last| TaskRestarts::new(last.policy))),
            stop: self.stop.or(last.stop),
            notify_on: self.notify_on.or(last.notify_on),
            slot: self.slot.or(last.slot),
            wake: self.wake.or(last.wake),
            group: self.group.or(last.group),
        }
    }

    /// Returns what of them can be obeyed: anybody can have written them.
    #[must_use]
    pub fn checked(self) -> Self {
        let restarts = self.restarts.filter(|restarts| {
            let RestartPolicy { limit, backoff } = restarts.policy;
            (1..=RestartPolicy::MOST).contains(&limit)
                && backoff <= RestartPolicy::LONGEST_FIRST
                && is_token(&restarts.token)
        });
        let is_known = |signal: &Signal| signal.number().is_some();
        let is_shown = |text: &String| !text.is_empty() && !text.contains(char::is_control);
        Self {
            restarts,
            stop: StopSettings {
                signal: self.stop.signal.filter(is_known),
                ..self.stop
            },
            notify_on: self.notify_on.filter(|notify_on| {
                notify_on.is_small() && notify_on.patterns.iter().all(is_shown)
            }),
            slot: self.slot.filter(Slot::is_valid),
            wake: self.wake,
            group: self.group.filter(|group| is_task_name(group)),
        }
    }

    /// Returns the keys in a task's file of what others set otherwise.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let policy = |settings: &Self| Some(settings.restarts.as_ref()?.policy);
        let (stop, others) = (&self.stop, &other.stop);
        let keys = [
            ("restart", policy(self) != policy(other)),
            ("stop-signal", stop.signal != others.signal),
            ("grace", stop.grace != others.grace),
            ("parent-only", stop.parent_only != others.parent_only),
            ("kill-after", stop.kill_after != others.kill_after),
            ("notify-on", self.notify_on != other.notify_on),
            ("slot", self.slot != other.slot),
            ("wake", self.wake != other.wake),
            ("group", self.group != other.group),
        ];
        let different = keys.into_iter().filter(|(_, is_other)| *is_other);
        different.map(|(key, _)| key).collect()
    }
}

/// Whether a text can identify a launch in tmux, where it is part of formats, and name a file.
pub fn is_token(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=TOKEN_CHARS).contains(&text.len()) && text.bytes().all(is_plain)
}

/// When a task is run again by itself: after a run that ended with another code than 0 or by a
/// signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestartPolicy {
    /// How often in a row.
    pub limit: u32,
    /// The pause before the first restart in a row, in milliseconds. It doubles with each one.
    #[serde(rename = "backoffMs", with = "millis")]
    #[schemars(with = "u64")]
    pub backoff: Duration,
}

impl RestartPolicy {
    /// The largest number of restarts in a row.
    pub const MOST: u32 = 1000;

    /// The longest first pause.
    pub const LONGEST_FIRST: Duration = Duration::from_secs(24 * 60 * 60);
}

/// The policy of a task, and how much of it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "RestartFields",
    description = "When a task is run again by itself: after a run that ended with another code than 0 or by a signal."
)]
pub struct TaskRestarts {
    /// The policy.
    #[serde(flatten)]
    pub policy: RestartPolicy,
    /// How many restarts in a row have led to this run.
    pub used: u32,
    /// Identifies the launch that asked for it.
    // And the file with its environment: ASCII letters, digits and `-`.
    #[serde(deserialize_with = "token")]
    pub token: String,
}

impl TaskRestarts {
    /// Returns the policy for a new launch: none of it is used.
    pub fn new(policy: RestartPolicy) -> Self {
        Self {
            policy,
            used: 0,
            token: String::new(),
        }
    }
}

/// A restart of a task that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NextRestart {
    /// In how many milliseconds.
    pub in_ms: u64,
    /// When, in milliseconds since 1970.
    pub at: Millis,
    /// Its number among the restarts in a row, from 1.
    pub number: u32,
    /// How many there may be.
    pub limit: u32,
}

fn token<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let token = String::deserialize(from)?;
    Ok(text::one_line(token.as_bytes(), TOKEN_CHARS))
}

/// How a task's run is ended, as far as its launch has said. What is `None` is left to the
/// configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    rename = "StopFields",
    description = "How a task is ended, as far as its launch has said."
)]
pub struct StopSettings {
    /// The signal that asks it to end, `SIGINT`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub signal: Option<Signal>,
    /// How long it has before `SIGKILL`, in milliseconds.
    #[serde(rename = "graceMs", with = "millis")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub grace: Option<Duration>,
    /// Whether the signal goes to the command itself only.
    pub parent_only: bool,
    /// How long a run may last before it is ended, in milliseconds.
    #[serde(rename = "killAfterMs", with = "millis")]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u64")]
    pub kill_after: Option<Duration>,
}

impl StopSettings {
    /// The longest time that a launch may set: a year.
    pub const LONGEST: Duration = millis::LONGEST;

    /// Returns these settings, and for what they do not set those of `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            signal: self.signal.or(other.signal),
            grace: self.grace.or(other.grace),
            parent_only: self.parent_only || other.parent_only,
            kill_after: self.kill_after.or(other.kill_after),
        }
    }

    /// Whether the launch has said nothing.
    pub fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// What a command that ends runs asks for instead of what is set for them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StopChoice {
    /// The signal that asks them to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
    /// How long they have before `SIGKILL`.
    #[serde(rename = "graceMs", with = "millis")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace: Option<Duration>,
}

/// How a run is ended: every value is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopPlan {
    /// The signal that asks it to end.
    pub signal: Signal,
    /// How long it has before `SIGKILL`.
    pub grace: Duration,
    /// Whether the signal goes to the command itself only.
    pub parent_only: bool,
}

impl StopPlan {
    /// The time that a run has to end unless something else is set.
    pub const GRACE: Duration = Duration::from_secs(10);

    /// Returns the plan for a task: what the command asks for, else what its launch has set, else these
    /// defaults.
    pub fn of(settings: &StopSettings, choice: &StopChoice, defaults: &Self) -> Self {
        let signal = choice.signal.as_ref().or(settings.signal.as_ref());
        Self {
            signal: signal.unwrap_or(&defaults.signal).clone(),
            grace: choice.grace.or(settings.grace).unwrap_or(defaults.grace),
            parent_only: settings.parent_only || defaults.parent_only,
        }
    }
}

impl Default for StopPlan {
    fn default() -> Self {
        Self {
            signal: Signal::from_number(15),
            grace: Self::GRACE,
            parent_only: false,
        }
    }
}

/// The texts that a launch asks to be notified of, `run --notify-on`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(
    rename = "NotifyOnFields",
    description = "The texts that its owner is notified of when a line of the output contains one."
)]
pub struct NotifyOn {
    /// The texts; at least one.
    pub patterns: Vec<String>,
    /// Whether they are regular expressions.
    pub regex: bool,
    /// Whether they match in upper and lower case.
    pub ignore_case: bool,
}

impl NotifyOn {
    /// Returns what is notified of, given these texts; `None` without any.
    pub fn given(patterns: Vec<String>, regex: bool, ignore_case: bool) -> Option<Self> {
        (!patterns.is_empty()).then_some(Self {
            patterns,
            regex,
            ignore_case,
        })
    }

    /// The maximum number of texts: each is tried on every line.
    pub const MOST: usize = 16;

    /// Their maximum length in total, in bytes. They are kept in an option of the window, which every
    /// look at it reads.
    pub const MOST_BYTES: usize = 1024;

    /// Whether their number and length are allowed.
    pub fn is_small(&self) -> bool {
        let bytes: usize = self.patterns.iter().map(String::len).sum();
        (1..=Self::MOST).contains(&self.patterns.len()) && bytes <= Self::MOST_BYTES
    }
}

/// Whether the end of a run wakes its owner, `run --wake`. A question always does.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "camelCase")]
pub enum WakePolicy {
    /// Each end.
    #[default]
    Always,
    /// One with another code than 0 or by a signal; others are notices.
    Failed,
    /// No end.
    Never,
}

/// A name that runs share, of which only some may run at once, in all sessions of the user: `build:2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "SlotFields",
    description = "Of the runs with this name, in all sessions of the user, so many may run at once."
)]
pub struct Slot {
    /// The name: like that of a task.
    pub name: String,
    /// How many may run at once.
    pub places: u32,
}

impl Slot {
    /// The largest number of places.
    pub const MOST: u32 = 100;

    fn is_valid(&self) -> bool {
        is_task_name(&self.name) && (1..=Self::MOST).contains(&self.places)
    }

    /// Reads `NAME:PLACES`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(name, places)| {
            let name = name.to_owned();
            let places = places.parse().ok()?;
            Some(Self { name, places }).filter(Self::is_valid)
        });
        parts.ok_or_else(|| {
            let most = Self::MOST;
            format!("not a name and a number of places up to {most}, like `build:2`")
        })
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.places)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_slot_has_a_name_and_a_number_of_places() {
        for text in ["build:2", "a.b-c_D:100", "x:1"] {
            assert_eq!(Slot::parse(text).unwrap().to_string(), text);
        }
        let wrong = "build build: :2 build:0 build:101 build:-1 ../x:1 a:b:1";
        for text in wrong.split(' ').chain(["", "a b:1", "build:2 "]) {
            assert!(Slot::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_people_read_is_one_line() {
        for (words, expected) in [
            (&["cargo  test\n && echo ok"][..], "cargo test && echo ok"),
            (&["cargo", "test", "a b", ""], "cargo test 'a b' ''"),
        ] {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            assert_eq!(shown_command(&words), expected);
        }
    }

    #[test]
    fn other_variables_have_another_digest() {
        let digest = |all: &[(&str, &str)]| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let spec = TaskSpec {
                env: all.iter().map(owned).collect(),
                ..TaskSpec::default()
            };
            spec.digest_of_env()
        };
        assert_eq!(digest(&[]), None);
        let of_two = digest(&[("A", "1"), ("B", "2")]);
        assert_eq!(of_two, digest(&[("B", "2"), ("A", "1")]));
        for other in [
            &[("A", "1")][..],
            &[("A", "1"), ("B", "3")],
            &[("A", "1B"), ("", "2")],
        ] {
            assert_ne!(of_two, digest(other));
        }
    }

    #[test]
    fn a_spec_is_read_byte_for_byte_and_has_no_variables() {
        let every: Vec<u8> = (1..=255).collect();
        let mut spec = TaskSpec {
            command: vec!["printf".into(), OsStr::from_bytes(&every).into(), "".into()],
            cwd: Some(OsStr::from_bytes(b"/a \xff").into()),
            env_digest: Some(7),
            ..TaskSpec::default()
        };
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<TaskSpec>(&text).unwrap(), spec);
        spec.env = vec![("A".to_owned(), "s3cret".to_owned())];
        assert_eq!(serde_json::to_string(&spec).unwrap(), text);
    }

    #[test]
    fn only_what_a_launch_makes_is_a_token() {
        for token in ["1-2", "a", &"x".repeat(64)] {
            assert!(is_token(token), "{token}");
        }
        for token in ["", "a b", "#{pid}", "a,b", "}", "../7", &"x".repeat(65)] {
            assert!(!is_token(token), "{token:?}");
        }
    }

    #[test]
    fn what_cannot_be_obeyed_is_left_out() {
        let checked = |text: &str| {
            let settings: TaskSettings = serde_json::from_str(text).unwrap();
            serde_json::to_string(&settings.checked()).unwrap()
        };
        for text in [
            r#"{"restarts":{"limit":5,"backoffMs":1500,"used":2,"token":"71-9"}}"#,
            r#"{"stop":{"signal":"SIGINT","graceMs":1500,"parentOnly":true}}"#,
            r#"{"notifyOn":{"patterns":["a|b; #{x} %ü"],"regex":true,"ignoreCase":false}}"#,
            r#"{"slot":{"name":"build","places":2}}"#,
            r#"{"wake":"failed","group":"builds"}"#,
        ] {
            assert_eq!(checked(text), text);
        }
        let many = serde_json::json!({"notifyOn": {"patterns": vec!["a"; NotifyOn::MOST + 1]}});
        for text in [
            r#"{"restarts":{"limit":0,"backoffMs":1500,"used":2,"token":"71-9"}}"#,
            r#"{"restarts":{"limit":1001,"backoffMs":1500,"used":2,"token":"71-9"}}"#,
            r#"{"restarts":{"limit":5,"backoffMs":86400001,"used":2,"token":"71-9"}}"#,
            r#"{"restarts":{"limit":5,"backoffMs":1500,"used":2,"token":"../7"}}"#,
            r#"{"stop":{"signal":"SIGNONE"}}"#,
            r#"{"notifyOn":{"patterns":["\u001b["]}}"#,
            r#"{"notifyOn":{"patterns":[""]}}"#,
            r#"{"notifyOn":{"patterns":[]}}"#,
            &many.to_string(),
            r#"{"slot":{"name":"../x","places":1}}"#,
            r#"{"slot":{"name":"x","places":101}}"#,
            r#"{"group":"../x"}"#,
        ] {
            assert_eq!(checked(text), "{}", "{text}");
        }
    }
}
