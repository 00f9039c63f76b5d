//! What is where on the broker: streams, subjects, keys and headers. Everything here is pure.
//!
//! `docs/design/broker.md` has the table.
//!
//! Each part is a token, see [`token`]. The host is part of each subject, so that the broker's
//! permissions decide who may write in its name. SESSION is the key of the session's files, which a
//! rename does not change and which is another one on another tmux server; in commands it is the
//! session's name.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tmux_task::model::{Body, EventType, Kind, Seq, text};

use crate::hash;

/// What the broker stores in one of its streams.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store {
    /// Its name in the documentation and in messages: of a bucket, without what its stream's begins with.
    pub(crate) name: &'static str,
    pub(crate) stream: &'static str,
    /// What its subjects begin with.
    pub(crate) root: &'static str,
}

const fn store(name: &'static str, stream: &'static str, root: &'static str) -> Store {
    Store { name, stream, root }
}

/// Records, `HOST.SESSION.KIND.TYPE`.
pub(crate) const FEED: Store = store("TT_FEED", "TT_FEED", "tt.v1.feed");

/// Wakes, `CLIENT.CONVERSATION.HOST`.
pub(crate) const WAKE: Store = store("TT_WAKE", "TT_WAKE", "tt.v1.wake");

/// The bucket of tasks, `HOST.SESSION.wID`, and of sessions, `HOST.SESSION.session`.
pub(crate) const STATE: Store = store("TT_STATE", "KV_TT_STATE", "$KV.TT_STATE");

/// The bucket of presence, `HOST`.
pub(crate) const HOSTS: Store = store("TT_HOSTS", "KV_TT_HOSTS", "$KV.TT_HOSTS");

pub(crate) const STORES: [Store; 4] = [FEED, WAKE, STATE, HOSTS];

/// What the subjects of commands begin with, `HOST.SESSION.VERB`.
pub(crate) const COMMAND: &str = "tt.v1.cmd";

/// What the subjects of answers begin with, `MACHINE`: to others, a requester could have the host write in its
/// own name.
pub(crate) const INBOX: &str = "_INBOX";

/// What a session's own value in the bucket is called.
pub(crate) const SESSION: &str = "session";

/// The name of the service that executes commands.
pub(crate) const SERVICE: &str = "tmux-task";

/// The header of a record with the number of the last record of the same write, `EPOCH:SEQ`: what has
/// the same value belongs together.
pub(crate) const LOOK_HEADER: &str = "Tt-Look";

/// The header of a request with its key: a request that comes twice is executed once.
pub(crate) const KEY_HEADER: &str = "Tt-Key";

/// The header of an answer with its number, from 0.
pub(crate) const ORDER_HEADER: &str = "Tt-Order";

/// The headers by which a bucket says that a key has no value any more.
pub(crate) const OPERATION: &str = "KV-Operation";
pub(crate) const MARKER: &str = "Nats-Marker-Reason";

/// The version of the values in buckets, and of requests.
pub(crate) const VERSION: u32 = 1;

/// What stands for an empty text in a token.
const EMPTY: &str = "=";

/// Returns a text as a part of subjects and keys: what is not a letter, a digit, `_` or `-` is `=` with
/// the two hexadecimal digits of each byte. Different texts have different tokens.
pub(crate) fn token(text: &str) -> String {
    let word = |byte: u8| match byte {
        b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'_' | b'-' => char::from(byte).to_string(),
        _ => format!("={byte:02X}"),
    };
    match text {
        "" => EMPTY.to_owned(),
        text => text.bytes().map(word).collect(),
    }
}

/// Returns the text of a token; `None` if [`token`] does not make it.
pub(crate) fn text_of(token: &str) -> Option<String> {
    if token == EMPTY {
        return Some(String::new());
    }
    let mut parts = token.split('=');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, plain) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend(plain.as_bytes());
    }
    let text = String::from_utf8(bytes).ok()?;
    (self::token(&text) == token).then_some(text)
}

/// Returns a subject: what it begins with, and these words.
pub(crate) fn subject(root: &str, words: &[&str]) -> String {
    let mut subject = root.to_owned();
    for word in words {
        subject = subject + "." + &token(word);
    }
    subject
}

/// Returns the words of a subject; `None` for one that [`subject`] does not make.
pub(crate) fn words_of(root: &str, subject: &str) -> Option<Vec<String>> {
    let tokens = subject.strip_prefix(root)?.strip_prefix('.')?.split('.');
    tokens.map(text_of).collect()
}

/// Returns the subject of a session's records of this kind and type.
pub(crate) fn feed_subject(host: &str, session_key: &str, body: &Body) -> String {
    let event_type = match body {
        Body::Event(event) => event.event_type().to_string(),
        Body::Notice { .. } | Body::FollowUp { .. } => "all".to_owned(),
    };
    let words = [host, session_key, &body.kind().to_string(), &event_type];
    subject(FEED.root, &words)
}

/// Returns filters of the records of these kinds and types, of all hosts; none if all are meant.
pub(crate) fn feed_filters(kinds: &[Kind], types: &[EventType]) -> Vec<String> {
    let kinds = kinds
        .iter()
        .filter(|kind| types.is_empty() || **kind != Kind::Event);
    let kinds = kinds.map(|kind| format!("{kind}.*"));
    let types = types.iter().map(|known| format!("{}.{known}", Kind::Event));
    let all: BTreeSet<String> = kinds.chain(types).collect();
    let filter = |words| format!("{}.*.*.{words}", FEED.root);
    all.into_iter().map(filter).collect()
}

/// Returns what the subjects of a conversation's wakes begin with; the host follows.
pub(crate) fn wakes_of(owner: &str) -> String {
    let (client, id) = owner.split_once(':').unwrap_or((owner, ""));
    subject(WAKE.root, &[client, id])
}

/// Returns the name of the durable consumer of a conversation's wakes. An owner may be longer than a
/// name.
pub(crate) fn wake_consumer(owner: &str) -> String {
    let client = owner.split_once(':').map_or("", |(client, _)| client);
    let client: String = token(client).chars().take(40).collect();
    format!("{client}-{}", hash(owner))
}

/// Returns the id by which the broker recognises a record that is published again.
pub(crate) fn message_id(host: &str, session_key: &str, epoch: &str, seq: Seq) -> String {
    format!("{}:{seq}", subject(&token(host), &[session_key, epoch]))
}

/// Returns the epoch and the sequence number of the record with this id.
pub(crate) fn parse_message_id(id: &str) -> Option<(String, Seq)> {
    let (_, record) = id.rsplit_once('.')?;
    let (epoch, seq) = record.split_once(':')?;
    Some((text_of(epoch)?, seq.parse().ok()?))
}

/// Returns what a window is called in the bucket. `window` is tmux's id, `@12`.
pub(crate) fn window_word(window: &str) -> String {
    format!("w{}", window.strip_prefix('@').unwrap_or(window))
}

/// Returns the machine whose subject of answers this is, as its permissions bind it: `_INBOX.MACHINE.X`, or
/// `_INBOX.MACHINE.X.HOST` for those of one host, which no other can use in the machine's name.
pub(crate) fn requester(inbox: &str, here: &str) -> Option<String> {
    let mut words = words_of(INBOX, inbox)?.into_iter();
    let machine = words.next()?;
    let is_for_us = words.nth(1).is_none_or(|host| host == here);
    is_for_us.then_some(machine)
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
    pub(crate) allow: Value,
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

/// A value of `TT_STATE` for a session, with `v` and `host`: which tasks there are. Values of other tasks of the
/// session are left from before. The value of a task has it in `task`, with `v`, `host` and `sessionName`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SessionState {
    pub(crate) session_name: String,
    /// Whether the session exists.
    pub(crate) exists: bool,
    /// The ids of its windows.
    pub(crate) windows: Vec<String>,
}

/// Reads what another machine has published. Its texts have no control characters, escape sequences or invisible
/// characters. `line_end` stands for each end of a line: a blank where texts are lines, such as names, commands
/// and the last line of an output.
pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8], line_end: &str) -> Option<T> {
    let mut value = serde_json::from_slice(bytes).ok()?;
    text::sanitise_json(&mut value, line_end);
    serde_json::from_value(value).ok()
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
            epoch in any::<String>(), seq in any::<Seq>()) {
            let words = [host.clone(), key.clone(), epoch.clone()];
            let subject = subject(COMMAND, &words.each_ref().map(String::as_str));
            prop_assert_eq!(words_of(COMMAND, &subject), Some(words.to_vec()));
            prop_assert_eq!(words_of(INBOX, &subject), None);
            prop_assert_eq!(words_of(WAKE.root, &wakes_of(&key)).unwrap().len(), 2);
            let message = message_id(&host, &key, &epoch, seq);
            prop_assert_eq!(parse_message_id(&message), Some((epoch, seq)));
            prop_assert!(wake_consumer(&key).chars().all(|c| is_token(&c.to_string())));
            prop_assert!(wake_consumer(&key).len() < 100);
        }

        #[test]
        fn whatever_others_send_is_read_or_refused(text in any::<String>()) {
            drop((words_of("", &text), parse_message_id(&text), requester(&text, "gpu1")));
        }
    }

    #[test]
    fn names_are_as_the_docs_say() {
        assert_eq!(token("gpu1.lab"), "gpu1=2Elab");
        assert_eq!(token(""), "=");
        let owner = "claude:0b1c";
        assert_eq!(wakes_of(owner), "tt.v1.wake.claude.0b1c");
        assert_eq!(wakes_of("me"), "tt.v1.wake.me.=");
        let command = subject(COMMAND, &["gpu1", "api", "ls"]);
        assert_eq!(command, "tt.v1.cmd.gpu1.api.ls");
        assert_eq!(message_id("gpu1", "api-0a", "e1", 7), "gpu1.api-0a.e1:7");
        assert_eq!(subject(INBOX, &["gpu1"]), "_INBOX.gpu1");
        assert_eq!(window_word("@12"), "w12");
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
        let event = serde_json::json!({"kind": "event", "type": "started", "level": "info",
            "task": {"windowId": "@1", "windowName": "api"}});
        let notice = serde_json::json!({"kind": "notice", "level": "info", "text": "", "events": [],
            "owner": null});
        for (body, subject) in [
            (event, "tt.v1.feed.gpu1.api-0a.event.started"),
            (notice, "tt.v1.feed.gpu1.api-0a.notice.all"),
        ] {
            let body = serde_json::from_value(body).unwrap();
            assert_eq!(feed_subject("gpu1", "api-0a", &body), subject);
        }
    }
}
