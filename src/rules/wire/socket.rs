//! Requests to the daemon on its socket and its answers: one line of JSON each. A subscription's
//! records follow its answer.

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{
    ConsumeRequest, ConsumerList, ConsumerStatus, Explanation, Filter, LogRequest, LsTask, LsView,
    MessageReaders, SearchRequest, SearchResult, TaskLog, WaitRequest,
};
use crate::model::*;

/// A request, and whose it is: the first line on a connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestLine {
    /// The name of the session that it is for. If that is another session by now, nothing is done, and the
    /// refusal is of the kind [`ErrorKind::OtherSession`]. Absent: the daemon's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    #[serde(flatten)]
    pub request: Request,
}

/// What the daemon of a session is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Request {
    Status,
    Run(Box<Launch>),
    Send(SendRequest),
    List,
    /// The number of tasks by state, equally up to date.
    Count,
    /// One task, equally up to date.
    Find {
        task: String,
    },
    /// End these tasks.
    Kill {
        tasks: Vec<String>,
        /// Who gives the command.
        #[serde(flatten)]
        caller: Caller,
        /// Whether an earlier daemon was asked the same and has ended: a task that is gone was ended by it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_repeated: bool,
        /// How they are ended, instead of their way.
        #[serde(flatten)]
        choice: StopChoice,
    },
    /// Which runs are being ended.
    Endings {
        /// Of these tasks, by name or window id; of all if there is none.
        tasks: Vec<String>,
        /// Whether to kill what is left of them.
        at_once: bool,
    },
    KillAll {
        /// Who gives the command.
        #[serde(flatten)]
        caller: Caller,
        /// How tasks are ended, instead of their way.
        #[serde(flatten)]
        choice: StopChoice,
    },
    Prune,
    Wait(WaitRequest),
    Log(LogRequest),
    /// How a task was last launched.
    Record {
        task: String,
    },
    Search(SearchRequest),
    /// A task's output from here on, line by line, until its run ends.
    Follow {
        window: String,
        /// Whether to send bytes as they come instead of lines.
        raw: bool,
        /// How many of the last lines that are there already are sent first.
        #[serde(default)]
        lines: usize,
    },
    /// A command reads events for this owner, and will say which with `seen`. Until then, or for six
    /// seconds, the delivery of the owner's events waits for it, for half a second at most.
    Reads {
        owner: String,
    },
    /// An owner has read these events: those of its tasks that are not delivered yet become a
    /// notice.
    Seen {
        owner: String,
        events: Vec<Seq>,
    },
    /// Why this task is or is not judged to wait for input.
    Explain {
        task: String,
    },
    /// Leave.
    Stop {
        /// Also end the task session when no task in it is active.
        cleanup: bool,
    },
    Consume(ConsumeRequest),
    Consumers,
    MessageReaders,
    /// Forget a consumer.
    RemoveConsumer {
        name: String,
    },
    /// Records from now on.
    Subscribe {
        start: ReaderStart,
        filter: Filter,
        /// Whether the tasks are wanted as well: first all of them, then each change.
        #[serde(default)]
        tasks: bool,
        /// Whether the stream ends with what is stored, and what that is for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stored: Option<StoredUse>,
    },
}

/// Who gives a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Caller {
    /// The conversation; `None` for a user at a terminal, and for an agent whose conversation is not known.
    pub owner: Option<String>,
    /// Whether it is an agent. A caller with an owner always is one.
    #[serde(rename = "byAgent")]
    pub is_agent: bool,
    /// `OWNER@MACHINE` or `MACHINE`, where the command comes from another machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked_by: Option<String>,
}

/// What stored records are read for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StoredUse {
    /// To print them.
    Print,
    /// For something that a program has to know: nobody has read them then.
    Examine,
}

impl Request {
    /// Returns the request for the next daemon after one that has ended before it answered; `None` if it cannot
    /// be repeated: input that may have been typed must not be typed again.
    pub(crate) fn repeated(&self) -> Option<Self> {
        if matches!(self, Self::Send(_) | Self::Stop { .. }) {
            return None;
        }
        let mut request = self.clone();
        if let Self::Kill { is_repeated, .. } = &mut request {
            *is_repeated = true;
        } else if let Self::Run(launch) = &mut request {
            launch.is_repeated = true;
        }
        Some(request)
    }

    /// Returns what it is called in the log, without what it carries.
    pub(crate) fn name(&self) -> String {
        let fields = serde_json::to_value(self).unwrap_or_default();
        fields["op"].as_str().unwrap_or_default().to_owned()
    }
}

/// Where a reader starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReaderStart {
    /// With what is recorded from now on.
    Now,
    /// With the record after this one.
    After(After),
    /// With the first of the last stored records that pass the filter.
    Last(LastRecords),
}

/// The last stored records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LastRecords {
    /// Those after this one; without it, all that are kept.
    pub after: Option<After>,
    /// How many, at most.
    pub most: Option<usize>,
    /// When the first one was made, in milliseconds since 1970.
    pub since: Option<Millis>,
}

impl LastRecords {
    /// Whether none is left out at the beginning.
    pub(crate) fn is_all(&self) -> bool {
        self.most.is_none() && self.since.is_none()
    }
}

/// A sequence number in the form of `--after`: `12`, or `EPOCH:12` to name the feed as well.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct After {
    /// The feed's epoch, if given.
    pub epoch: Option<String>,
    /// The sequence number; 0 is before the first record.
    pub seq: Seq,
}

impl std::str::FromStr for After {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (epoch, seq) = match text.rsplit_once(':') {
            Some((epoch, seq)) if !epoch.is_empty() => (Some(epoch.to_owned()), seq),
            Some(_) | None => (None, text),
        };
        let seq = seq
            .parse()
            .map_err(|_| "not a number like 12 or EPOCH:12".to_owned())?;
        Ok(Self { epoch, seq })
    }
}

impl After {
    /// Returns the sequence number, if a feed with this epoch and last number contains it.
    pub(crate) fn check(&self, epoch: &str, last_seq: Seq) -> Result<Seq, String> {
        match &self.epoch {
            Some(other) if other != epoch => Err(format!(
                "no epoch {other}: the feed's is {epoch}, its last record {last_seq}"
            )),
            Some(_) | None if self.seq > last_seq => Err(format!(
                "no record {}: the feed's last is {epoch}:{last_seq}",
                self.seq
            )),
            Some(_) | None => Ok(self.seq),
        }
    }
}

/// The line of an answer. A client knows of its request what it is answered with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Answer<T = Response> {
    /// If the request named its session: the session's present name. Absent while that is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(flatten)]
    pub response: T,
}

impl From<Response> for Answer {
    fn from(response: Response) -> Self {
        Self {
            from: None,
            response,
        }
    }
}

/// What every answer has, whatever was asked. An answer can be long: it is not kept as a tree before it is
/// understood, as with `flatten`.
#[derive(Debug, Deserialize)]
pub(crate) struct AnswerHead {
    /// The name of its variant of [`Response`].
    pub answer: String,
    /// As in [`Answer`].
    #[serde(default)]
    pub from: Option<String>,
}

/// An answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "answer",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(crate) enum Response {
    /// The request was carried out.
    Done,
    Status(Box<DaemonStatus>),
    List(LsView),
    Counted(StatusCounts),
    Found(Box<LsTask>),
    Launched(LaunchedRun),
    /// A wait has begun. Its result follows.
    Waiting,
    Waited(WaitResult),
    Record(LaunchRecord),
    Log(TaskLog),
    Matches(SearchResult),
    Ended(EndedTasks),
    Endings(EndingRuns),
    Explained(Box<Explanation>),
    Consumers(ConsumerList),
    MessageReaders(MessageReaders),
    /// The request was not carried out.
    Refused(Error),
}

/// The tasks that a command ended or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndedTasks {
    pub tasks: Vec<EndedTask>,
    /// Those that live on in another session, to which their windows belong as well. Absent: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<EndedTask>,
}

/// A task that a command ended or removed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndedTask {
    pub window_id: String,
    pub window_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_signal: Option<String>,
}

/// How a task was last launched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LaunchRecord {
    pub window_name: String,
    /// What the launch has said; null when it is not recorded.
    pub spec: Option<Box<TaskSpec>>,
}

/// The runs that are being ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndingRuns {
    pub runs: Vec<EndingRun>,
}

/// A run that is being ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EndingRun {
    pub window_id: String,
    pub window_name: String,
    /// What is left of it, in words; empty during the first second.
    pub processes: Vec<String>,
}

/// How much a daemon has done since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counters {
    /// Sweeps: looks at all windows, each counted once, with its last slice.
    pub whole_looks: u64,
    /// Looks at windows that were reported or named, and the other slices of sweeps.
    pub partial_looks: u64,
    /// Looks, of either kind, that no report triggered.
    pub safety_looks: u64,
    /// Looks that were ordered and not taken, because an earlier one had covered all reports.
    pub skipped_looks: u64,
    /// Sweeps that were due and not taken, because tmux had not run since the last one.
    pub unchanged_looks: u64,
    /// How long the daemon's control clients have waited for tmux's answers, in milliseconds. Requests
    /// do not wait for all of it: it passes on a thread of its own.
    pub tmux_ms: u64,
    /// Bytes that tmux has sent to the daemon's control clients: answers, notifications, wake-ups
    /// and followed output. Clients that run one line and exit, as they do while no session is
    /// attached, are not counted.
    pub tmux_bytes: u64,
    /// The longest time from a request to its answer, without waits, in milliseconds.
    pub slowest_answer_ms: u64,
}

/// A daemon's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DaemonStatus {
    pub pid: u32,
    pub version: String,
    /// The task session's present name.
    pub session_name: String,
    /// The tmux server's socket.
    pub server: String,
    pub exists: bool,
    pub started_at: Millis,
    pub epoch: String,
    pub last_seq: Seq,
    pub first_seq: Seq,
    /// The feed's file, where records are appended.
    pub feed: String,
    /// The size of all of the feed's files in bytes.
    pub feed_bytes: u64,
    pub feed_files: usize,
    pub log: String,
    pub config: DaemonConfig,
    /// Problems that keep the daemon from its work now, one sentence each; absent when there are
    /// none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    pub readers: usize,
    /// The consumers of the feed, by name; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub consumers: Vec<ConsumerStatus>,
    /// The sinks of the configuration; absent when there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<SinkStatus>,
    pub waits: usize,
    pub looks: u64,
    /// How many safety looks found an event that nothing reported within 200 ms. It should be 0.
    pub found_late: u64,
    pub counters: Counters,
    /// Alive and not waiting.
    pub running: usize,
    /// Alive and waiting for input.
    pub waiting: usize,
    /// Ended.
    pub dead: usize,
}

/// The configuration that a daemon has read at its start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DaemonConfig {
    /// The file; null when the user had no home directory.
    pub file: Option<String>,
    pub exists: bool,
}

/// A sink as `daemon status` shows it. Its consumer is named `sink:NAME`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SinkStatus {
    pub name: String,
    /// `exec`, `webhook` or `broker`.
    pub kind: String,
    /// The sequence number of the last record that was delivered or left out; 0 for none.
    pub cursor: Seq,
    /// How many records the feed has after it.
    pub lag: Seq,
    /// How many records were delivered since the daemon started.
    pub delivered: u64,
    /// How many attempts failed since then.
    pub failed: u64,
    /// Why the last attempt failed; null when it succeeded or there was none.
    pub error: Option<String>,
    /// When that was, in milliseconds since 1970.
    pub error_at: Option<Millis>,
    /// Whether others reach this machine by it; absent for a sink that only gets records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    /// The owners that the configuration names; absent when it names none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
}

/// A run that was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LaunchedRun {
    pub window_id: String,
    pub pane_id: String,
    pub run: u32,
    /// The start of the run's output, for `--since`.
    pub cursor: String,
    /// What the slot contained before; null when the window was created for this run.
    pub replaced: Option<ReplacedRun>,
}

/// A request to type into a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendRequest {
    /// The task, by name or window id.
    pub task: String,
    pub input: TypedInput,
    #[serde(default)]
    pub enter: bool,
    /// Type only while the task shows exactly this prompt, and a secret only while input is not
    /// echoed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub if_prompt: Option<String>,
    /// For a caller that may not see what a user would see: refuse a text while it would be a secret,
    /// and anything while the task asks and `if_prompt` is absent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_guarded: bool,
}

impl SendRequest {
    /// Whether it depends on what the task asks.
    pub(crate) fn needs_prompt(&self) -> bool {
        self.if_prompt.is_some() || self.is_guarded
    }
}

/// The results of all checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorReport {
    /// The checks, in the order in which they are shown.
    pub checks: Vec<DoctorCheck>,
    pub warnings: usize,
    pub failures: usize,
}

/// The result of one check. A check may have several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DoctorCheck {
    /// What was checked, in one word.
    pub check: &'static str,
    pub result: CheckResult,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// How bad the result of a check is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum CheckResult {
    /// As it should be.
    Ok,
    /// Something is missing or late, and the rest works.
    Warn,
    /// The program, or a part of it, does not work.
    Fail,
}

shown_by_wire_name!(CheckResult);

/// Requests that every version understands from every other.
const UNDERSTOOD_BY_ALL: [&str; 2] = ["status", "stop"];

/// Returns the line for this request to the session of this name, or to the daemon's. It includes its line
/// end.
pub fn request_line(to: Option<&str>, request: &Request) -> Vec<u8> {
    #[derive(Serialize)]
    struct Line<'a> {
        version: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        to: Option<&'a str>,
        #[serde(flatten)]
        request: &'a Request,
    }
    let line = Line {
        version: OURS,
        to,
        request,
    };
    let mut line = serde_json::to_vec(&line).expect("a request is plain data");
    line.push(b'\n');
    line
}

/// Parses the line of a request.
pub fn parse_request(line: &[u8]) -> Result<RequestLine, Error> {
    let fields: Map<String, Value> = serde_json::from_slice(line).unwrap_or_default();
    let field = |name| fields.get(name).and_then(Value::as_str);
    // Feed readers that use the socket themselves may omit the version.
    if let Some(theirs) = field("version").filter(|version| *version != OURS)
        && !field("op").is_some_and(|op| UNDERSTOOD_BY_ALL.contains(&op))
    {
        let theirs: String = theirs.chars().filter(|c| c.is_ascii_graphic()).collect();
        let message =
            format!("the daemon of this session is version {OURS}, this command is {theirs:.20}");
        return Err(Error::new(ErrorKind::Version, message));
    }
    parse_object(line).map_err(|error| Error::usage(format!("not a request: {error}")))
}

/// Parses a line that is an object. Without this check a list of its values would count as one.
pub(crate) fn parse_object<T: DeserializeOwned>(line: &[u8]) -> Result<T, serde_json::Error> {
    if line.trim_ascii_start().starts_with(b"[") {
        return Err(serde_json::Error::custom("a list where an object belongs"));
    }
    serde_json::from_slice(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SecretText;
    use crate::model::test_notation::{rows, send_request};
    use crate::rules::wire::Acknowledgement;

    #[test]
    fn a_secret_is_in_its_request_and_in_no_log() {
        let secret = TypedInput::Secret(SecretText("hunter2".to_owned()));
        let request = send_request("api", secret);
        let line = r#"{"task":"api","input":{"secret":"hunter2"},"enter":true}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), line);
        assert_eq!(serde_json::from_str::<SendRequest>(line).unwrap(), request);
        assert!(!format!("{request:?}").contains("hunter2"));
    }

    #[test]
    fn this_version_understands_its_own_requests() {
        let subscribe = r#"{"op":"subscribe","start":{"after":{"epoch":null,"seq":1}},"filter":{"kinds":["event"]}}"#;
        let subscribe = parse_request(subscribe.as_bytes()).unwrap().request;
        for request in [
            Request::List,
            Request::Status,
            Request::Stop { cleanup: true },
            subscribe,
        ] {
            for to in [None, Some("s".to_owned())] {
                let line = request_line(to.as_deref(), &request);
                let request = request.clone();
                assert_eq!(parse_request(&line), Ok(RequestLine { to, request }));
            }
        }
    }

    #[test]
    fn an_acknowledgement_is_an_object() {
        let ack = |line: &str| parse_object::<Acknowledgement>(line.as_bytes()).map(|one| one.ack);
        assert_eq!(ack(r#"{"ack":12,"more":[1]}"#).unwrap(), 12);
        for line in ["[12]", " [12]\n", "[[12]]", "12", r#"{"ack":[12]}"#, "{}"] {
            assert!(ack(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_request_is_an_object_and_another_version_can_still_ask_after_the_daemon_and_stop_it() {
        for [line, expected] in rows(
            r#"
            {"op":"list"} | List
            {"op":"fly"} | Usage
            [] | Usage
            "" | Usage
            ["status"] | Usage
            ["stop",true] | Usage
            ["removeConsumer","pi"] | Usage
            {"version":"9.9.9","op":"status"} | Status
            {"version":"9.9.9","op":"stop","cleanup":false} | Stop { cleanup: false }
            {"version":"9.9.9","op":"list"} | Version: this command is 9.9.9
            {"version":"9.9.9","op":"fly"} | Version: this command is 9.9.9"#,
        ) {
            let found = match parse_request(line.as_bytes()) {
                Ok(line) => format!("{:?}", line.request),
                Err(refusal) => format!("{:?}: {}", refusal.kind, refusal.message),
            };
            // An error begins with its kind, and ends with the version.
            let (start, end) = expected
                .split_once(": this")
                .unwrap_or((expected.as_str(), ""));
            assert!(
                found.starts_with(start) && found.ends_with(end),
                "{line}: {found}"
            );
        }
        assert_eq!(parse_request(b"").unwrap_err().kind, ErrorKind::Usage);
    }

    #[test]
    fn a_hostile_version_stays_one_short_line() {
        let line = r#"{"version":"\u001b[31m\n9999999999999999999999","op":"list"}"#;
        let message = parse_request(line.as_bytes()).unwrap_err().message;
        assert!(message.len() < 100 && !message.contains(['\n', '\u{1b}']));
    }
}
