//! What is where on the broker: streams, subjects, keys and headers. Everything here is pure.
//!
//! `docs/fleet.md` has the table.
//!
//! Each part is a token, see [`token`]. The host is part of each subject, so that the broker's
//! permissions decide who may write in its name. SESSION is the key of the session's files, which a
//! rename does not change and which is another one on another tmux server; in commands it is the
//! session's name.

use std::fmt::Display;

use clap::ValueEnum;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tmux_task::model::{Body, EventType, Kind, Seq, text};

use crate::machine::hash;

pub(crate) const FEED_STREAM: &str = "TT_FEED";
pub(crate) const WAKE_STREAM: &str = "TT_WAKE";
pub(crate) const STATE_BUCKET: &str = "TT_STATE";
pub(crate) const HOSTS_BUCKET: &str = "TT_HOSTS";

/// The subjects of the streams, and of all commands to all hosts.
pub(crate) const FEED_SUBJECTS: &str = "tt.v1.feed.>";
pub(crate) const WAKE_SUBJECTS: &str = "tt.v1.wake.>";
const FEED: &str = "tt.v1.feed";
const WAKE: &str = "tt.v1.wake";
const COMMAND: &str = "tt.v1.cmd";

/// What the subjects of answers begin with: to others, a requester could have the host write in its own
/// name.
const INBOX: &str = "_INBOX.";

/// The name of the service that executes commands.
pub(crate) const SERVICE: &str = "tmux-task";

/// The header of a record with the number of the last record of the same write, `EPOCH:SEQ`: what has
/// the same value belongs together.
pub(crate) const LOOK_HEADER: &str = "Tt-Look";

/// The header of a request with its key: a request that comes twice is executed once.
pub(crate) const KEY_HEADER: &str = "Tt-Key";

/// The header of an answer with its number, from 0.
pub(crate) const ORDER_HEADER: &str = "Tt-Order";

/// The version of the values in buckets, and of requests.
pub(crate) const VERSION: u32 = 1;

/// What stands for an empty text in a token.
const EMPTY: &str = "=";

/// Returns a text as a part of subjects and keys: what is not a letter, a digit, `_` or `-` is `=` with
/// the two hexadecimal digits of each byte. Different texts have different tokens.
pub(crate) fn token(text: &str) -> String {
    if text.is_empty() {
        return EMPTY.to_owned();
    }
    let mut token = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            token.push(char::from(byte));
        } else {
            token.push_str(&format!("={byte:02X}"));
        }
    }
    token
}

/// Returns the text of a token; `None` if [`token`] does not make it.
pub(crate) fn text_of(token: &str) -> Option<String> {
    if token == EMPTY {
        return Some(String::new());
    }
    let mut bytes = Vec::with_capacity(token.len());
    let mut rest = token.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        if *first == b'=' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    let text = String::from_utf8(bytes).ok()?;
    (self::token(&text) == token).then_some(text)
}

/// Returns the subject of a record.
pub(crate) fn feed_subject(host: &str, session_key: &str, body: &Body) -> String {
    let event_type = match body {
        Body::Event(event) => Some(event.event_type()),
        Body::Notice { .. } | Body::FollowUp { .. } => None,
    };
    subject_of(host, session_key, body.kind(), event_type)
}

fn subject_of(host: &str, key: &str, kind: Kind, event_type: Option<EventType>) -> String {
    let event_type = event_type.map_or_else(|| "all".to_owned(), |known| known.to_string());
    format!("{FEED}.{}.{}.{kind}.{event_type}", token(host), token(key))
}

/// Returns all subjects of a session's records.
pub(crate) fn feed_subjects_of(host: &str, session_key: &str) -> Vec<String> {
    let types = EventType::value_variants().iter();
    let others = [(Kind::Notice, None), (Kind::FollowUp, None)];
    let types = types.map(|known| (Kind::Event, Some(*known)));
    let all = types.chain(others);
    all.map(|(kind, event_type)| subject_of(host, session_key, kind, event_type))
        .collect()
}

/// Returns filters of the records of these kinds and types, of all hosts; none if all are meant.
pub(crate) fn feed_filters(kinds: &[Kind], types: &[EventType]) -> Vec<String> {
    let of = |kind: Kind, event_type: &dyn Display| format!("{FEED}.*.*.{kind}.{event_type}");
    let kinds = kinds
        .iter()
        .filter(|kind| types.is_empty() || **kind != Kind::Event);
    let kinds = kinds.map(|kind| of(*kind, &"*"));
    let types = types.iter().map(|known| of(Kind::Event, known));
    let mut filters: Vec<String> = kinds.chain(types).collect();
    filters.sort_unstable();
    filters.dedup();
    filters
}

/// Returns the host and the session's key of a record's subject.
pub(crate) fn source_of_record(subject: &str) -> Option<(String, String)> {
    let mut tokens = subject.strip_prefix(FEED)?.strip_prefix('.')?.split('.');
    let (host, key) = (tokens.next()?, tokens.next()?);
    Some((text_of(host)?, text_of(key)?))
}

/// Returns the subject of a wake: a follow-up of a conversation's tasks on a host.
pub(crate) fn wake_subject(owner: &str, host: &str) -> String {
    format!("{}.{}", conversation(owner), token(host))
}

/// Returns the filter of a conversation's wakes, of all hosts.
pub(crate) fn wake_filter(owner: &str) -> String {
    format!("{}.*", conversation(owner))
}

fn conversation(owner: &str) -> String {
    let (client, id) = owner.split_once(':').unwrap_or((owner, ""));
    format!("{WAKE}.{}.{}", token(client), token(id))
}

/// Returns the name of the durable consumer of a conversation's wakes. An owner may be longer than a
/// name.
pub(crate) fn wake_consumer(owner: &str) -> String {
    let client = owner.split_once(':').map_or("", |(client, _)| client);
    let client: String = token(client).chars().take(40).collect();
    format!("{client}-{}", hash(owner, 32))
}

/// Returns the host of a wake's subject.
pub(crate) fn source_of_wake(subject: &str) -> Option<String> {
    let mut tokens = subject.strip_prefix(WAKE)?.strip_prefix('.')?.split('.');
    text_of(tokens.nth(2)?)
}

/// Returns the id by which the broker recognises a record that is published again.
pub(crate) fn message_id(host: &str, session_key: &str, epoch: &str, seq: Seq) -> String {
    format!(
        "{}.{}.{}:{seq}",
        token(host),
        token(session_key),
        token(epoch)
    )
}

/// Returns the epoch and the sequence number of the record with this id.
pub(crate) fn parse_message_id(id: &str) -> Option<(String, Seq)> {
    let (_, record) = id.rsplit_once('.')?;
    let (epoch, seq) = record.split_once(':')?;
    Some((text_of(epoch)?, seq.parse().ok()?))
}

/// Returns the key of a task in `TT_STATE`. `window` is tmux's id, `@12`.
pub(crate) fn task_key(host: &str, session_key: &str, window: &str) -> String {
    let id = window.strip_prefix('@').unwrap_or(window);
    format!("{}.{}.w{}", token(host), token(session_key), token(id))
}

/// Returns the key in `TT_STATE` of what a session consists of.
pub(crate) fn session_key(host: &str, session_key: &str) -> String {
    format!("{}.{}.session", token(host), token(session_key))
}

/// What a key of `TT_STATE` is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateKey {
    pub(crate) host: String,
    /// The key of the session's files.
    pub(crate) session: String,
    /// The window's id, `@12`; `None` for the session itself.
    pub(crate) window: Option<String>,
}

/// Parses a key of `TT_STATE`.
pub(crate) fn parse_state_key(key: &str) -> Option<StateKey> {
    let tokens: Vec<&str> = key.split('.').collect();
    let [host, session, last] = tokens[..] else {
        return None;
    };
    let window = match last {
        "session" => None,
        _ => Some(format!("@{}", text_of(last.strip_prefix('w')?)?)),
    };
    let (host, session) = (text_of(host)?, text_of(session)?);
    Some(StateKey {
        host,
        session,
        window,
    })
}

/// Returns the subject by which a bucket's key is set.
pub(crate) fn bucket_subject(bucket: &str, key: &str) -> String {
    format!("$KV.{bucket}.{key}")
}

/// Returns the subject of a command to a session of a host.
pub(crate) fn command_subject(host: &str, session_name: &str, verb: &str) -> String {
    let (host, session) = (token(host), token(session_name));
    format!("{COMMAND}.{host}.{session}.{verb}")
}

/// Returns the subject of all commands to a host.
pub(crate) fn commands_of(host: &str) -> String {
    format!("{COMMAND}.{}.*.*", token(host))
}

/// Returns the session's name and the verb of a command's subject.
pub(crate) fn parse_command(subject: &str) -> Option<(String, String)> {
    let mut tokens = subject.strip_prefix(COMMAND)?.strip_prefix('.')?.split('.');
    let (session, verb) = (tokens.nth(1)?, tokens.next()?);
    Some((text_of(session)?, verb.to_owned()))
}

/// Returns the beginning of the subjects by which a host gets answers. No other host's begin so.
pub(crate) fn inbox_prefix(host: &str) -> String {
    format!("{INBOX}{}", token(host))
}

/// Returns the machine whose subject of answers this is, as its permissions bind it: `_INBOX.MACHINE.X`, or
/// `_INBOX.MACHINE.X.HOST` for those of one host, which no other can use in the machine's name.
pub(crate) fn requester(inbox: &str, here: &str) -> Option<String> {
    let mut tokens = inbox.strip_prefix(INBOX)?.split('.');
    let machine = text_of(tokens.next()?)?;
    tokens
        .nth(1)
        .is_none_or(|host| host == token(here))
        .then_some(machine)
}

/// A value of `TT_HOSTS`: the host is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HostState {
    pub(crate) v: u32,
    pub(crate) host: String,
    /// The version of the program.
    pub(crate) version: String,
    /// What others may do there: names of commands.
    pub(crate) allow: Vec<String>,
    /// Identifies the machine, so that another one does not take its name; absent: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) machine: Option<Machine>,
}

/// Which machine has a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Machine {
    /// Another machine, or the same after a start, has another one.
    pub(crate) id: String,
    /// The name that its system gives it.
    pub(crate) name: String,
}

/// A value of `TT_STATE` for a session: which tasks there are. Values of other tasks of the session are
/// left from before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState {
    pub(crate) v: u32,
    pub(crate) host: String,
    pub(crate) session_name: String,
    /// Whether the session exists.
    pub(crate) exists: bool,
    /// The ids of its windows.
    pub(crate) windows: Vec<String>,
}

/// A value of `TT_STATE` for a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskState {
    pub(crate) v: u32,
    pub(crate) host: String,
    pub(crate) session_name: String,
    /// The task as `ls --json` has it, with its last line alone as preview.
    pub(crate) task: Value,
}

/// The most characters of a line: what a prompt, a command or a quoted line has, with room.
const LINE_CHARS: usize = 4096;

/// Reads a record of another machine. Its texts have no control characters, escape sequences or
/// invisible characters; only line ends are left.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse_with(bytes, "\n")
}

/// Reads a value whose texts are lines: names, commands, the last line of an output.
pub(crate) fn parse_of_lines<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse_with(bytes, " ")
}

fn parse_with<T: DeserializeOwned>(bytes: &[u8], line_end: &str) -> Option<T> {
    serde_json::from_value(clean(serde_json::from_slice(bytes).ok()?, line_end)).ok()
}

fn clean(value: Value, line_end: &str) -> Value {
    match value {
        Value::String(text) => Value::String(clean_text(&text, line_end)),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| clean(value, line_end));
            Value::Array(values.collect())
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let clean =
                fields.map(|(name, value)| (clean_text(&name, line_end), clean(value, line_end)));
            Value::Object(clean.collect())
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

fn clean_text(text: &str, line_end: &str) -> String {
    let lines = text.split('\n');
    let clean = lines.map(|line| text::bounded(&text::piece(line.as_bytes()), LINE_CHARS));
    clean.collect::<Vec<_>>().join(line_end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_token(token: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-=".contains(c);
        !token.is_empty() && token.chars().all(is_plain)
    }

    proptest! {
        #[test]
        fn a_token_is_legal_everywhere_and_means_one_text(text in any::<String>(), other in any::<String>()) {
            let token = token(&text);
            prop_assert!(is_token(&token));
            prop_assert_eq!(text_of(&token), Some(text.clone()));
            prop_assert_eq!(self::token(&other) == token, other == text);
        }

        #[test]
        fn only_tokens_have_a_text(text in "[A-Za-z0-9=_.-]{0,12}") {
            if let Some(meant) = text_of(&text) {
                prop_assert_eq!(token(&meant), text);
            }
        }

        #[test]
        fn what_goes_into_names_comes_out(host in any::<String>(), key in any::<String>(),
            epoch in any::<String>(), seq in any::<Seq>(), id in 0_u64..1_000_000) {
            for subject in feed_subjects_of(&host, &key) {
                prop_assert_eq!(source_of_record(&subject), Some((host.clone(), key.clone())));
                prop_assert_eq!(subject.split('.').count(), 7);
            }
            let wake = wake_subject(&key, &host);
            prop_assert_eq!(source_of_wake(&wake), Some(host.clone()));
            prop_assert!(wake.starts_with(wake_filter(&key).trim_end_matches('*')));
            let message = message_id(&host, &key, &epoch, seq);
            prop_assert_eq!(parse_message_id(&message), Some((epoch, seq)));
            let window = format!("@{id}");
            let state = parse_state_key(&task_key(&host, &key, &window)).unwrap();
            prop_assert_eq!(&state.window, &Some(window));
            let session = parse_state_key(&session_key(&host, &key)).unwrap();
            prop_assert_eq!((session.host, session.session), (state.host, state.session));
            prop_assert_eq!(session.window, None);
            let command = command_subject(&host, &key, "ls");
            prop_assert_eq!(parse_command(&command), Some((key.clone(), "ls".to_owned())));
            let prefix = commands_of(&host);
            prop_assert!(command.starts_with(prefix.trim_end_matches("*.*")));
            prop_assert!(wake_consumer(&key).chars().all(|c| is_token(&c.to_string())));
            prop_assert!(wake_consumer(&key).len() < 100);
        }

        #[test]
        fn whatever_others_send_is_read_or_refused(text in any::<String>()) {
            drop((source_of_record(&text), source_of_wake(&text), parse_message_id(&text)));
            drop((parse_state_key(&text), parse_command(&text)));
        }
    }

    #[test]
    fn names_are_as_the_docs_say() {
        assert_eq!(token("gpu1.lab"), "gpu1=2Elab");
        assert_eq!(token(""), "=");
        let owner = "claude:0b1c";
        assert_eq!(wake_subject(owner, "gpu1"), "tt.v1.wake.claude.0b1c.gpu1");
        assert_eq!(wake_filter(owner), "tt.v1.wake.claude.0b1c.*");
        assert_eq!(wake_subject("me", "gpu1"), "tt.v1.wake.me.=.gpu1");
        assert_eq!(task_key("gpu1", "api-0a", "@12"), "gpu1.api-0a.w12");
        assert_eq!(session_key("gpu1", "api-0a"), "gpu1.api-0a.session");
        assert_eq!(
            command_subject("gpu1", "api", "ls"),
            "tt.v1.cmd.gpu1.api.ls"
        );
        assert_eq!(message_id("gpu1", "api-0a", "e1", 7), "gpu1.api-0a.e1:7");
        assert_eq!(inbox_prefix("gpu1"), "_INBOX.gpu1");
        for (inbox, machine) in [
            ("_INBOX.laptop.1", Some("laptop")),
            ("_INBOX.my=2Elab.1.gpu1", Some("my.lab")),
            ("_INBOX.laptop.1.gpu2", None),
            ("_INBOX.laptop", Some("laptop")),
            ("_INBOX.a=2", None),
            ("tt.v1.feed.gpu1", None),
        ] {
            assert_eq!(requester(inbox, "gpu1").as_deref(), machine, "{inbox}");
        }
        let subjects = feed_subjects_of("gpu1", "api-0a");
        assert_eq!(
            subjects.first().unwrap(),
            "tt.v1.feed.gpu1.api-0a.event.started"
        );
        assert_eq!(
            subjects.last().unwrap(),
            "tt.v1.feed.gpu1.api-0a.followUp.all"
        );
    }
}

#[cfg(test)]
mod untrusted_tests {
    use super::*;

    #[test]
    fn texts_of_other_machines_do_nothing_to_a_terminal() {
        let hostile = "{\"a\\u001b[2J\": [\"x\\u001b]0;t\\u0007y\\u202ez\\n  z\", 1, null]}";
        let clean: Value = parse(hostile.as_bytes()).unwrap();
        assert_eq!(clean, serde_json::json!({"a": ["xyz\n  z", 1, null]}));
        let line: Value = parse_of_lines(hostile.as_bytes()).unwrap();
        assert_eq!(line, serde_json::json!({"a": ["xyz   z", 1, null]}));
        let long = serde_json::to_vec(&"x".repeat(10_000)).unwrap();
        assert_eq!(parse::<String>(&long).unwrap().chars().count(), LINE_CHARS);
        assert_eq!(parse::<Value>(b"{"), None);
    }
}
