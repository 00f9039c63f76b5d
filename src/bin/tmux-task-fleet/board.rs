//! The machines of a fleet and their tasks, as the broker's buckets have them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig};
use async_nats::jetstream::consumer::{Consumer, DeliverPolicy};
use futures_util::stream::SelectAll;
use serde_json::{Value, json};
use tmux_task::model::{Error, Millis, is_host_name};

use crate::connection::{Connection, PRESENT, broken};
use crate::layout::{
    HOSTS, HostState, MARKER, OPERATION, SESSION, STATE, SessionState, Store, parse_of_lines,
    words_of,
};
use crate::machine::millis;

/// Reads buckets until the connection breaks.
pub(crate) struct FleetWatch {
    connection: Connection,
    messages: SelectAll<Ordered>,
    /// What the subjects of those buckets begin with of which not all was read that they had at first.
    incomplete: Vec<&'static str>,
}

impl FleetWatch {
    /// Begins to read these buckets.
    pub(crate) async fn begin(connection: &Connection, buckets: &[Store]) -> Result<Self, Error> {
        let mut watch = Self {
            connection: connection.clone(),
            messages: SelectAll::new(),
            incomplete: Vec::new(),
        };
        for Store { name, stream, root } in buckets {
            let config = OrderedConfig {
                deliver_subject: connection.client.new_inbox(),
                deliver_policy: DeliverPolicy::LastPerSubject,
                filter_subject: format!("{root}.>"),
                ..OrderedConfig::default()
            };
            let jetstream = &connection.jetstream;
            let consumer = jetstream.create_consumer_on_stream(config, *stream).await;
            let consumer: Consumer<OrderedConfig> =
                consumer.map_err(|error| connection.unreadable(name, &error))?;
            if consumer.cached_info().num_pending > 0 {
                watch.incomplete.push(root);
            }
            let messages = consumer.messages().await;
            let messages = messages.map_err(|error| connection.unreadable(name, &error))?;
            watch.messages.push(messages);
        }
        Ok(watch)
    }

    /// Whether all that the buckets had at first has been read.
    pub(crate) fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Takes what comes next. Returns the host of which it says something; `None` if it cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self, board: &mut FleetBoard) -> Result<Option<String>, Error> {
        let message = self.connection.next(&mut self.messages).await?;
        let message = message.map_err(|_| broken())?;
        let Ok(info) = message.info() else {
            return Ok(None);
        };
        if info.pending == 0 {
            self.incomplete
                .retain(|root| !message.subject.starts_with(root));
        }
        let has = |header| {
            let headers = message.headers.as_ref();
            headers.is_some_and(|headers| headers.get(header).is_some())
        };
        let is_removed = has(OPERATION) || has(MARKER);
        let value = (!is_removed).then_some(&*message.payload);
        let at = millis(SystemTime::from(info.published) - PRESENT);
        Ok(apply(board, &message.subject, value, at))
    }
}

/// All hosts that have published anything, by their names.
pub(crate) type FleetBoard = BTreeMap<String, FleetHost>;

/// A host.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetHost {
    /// What it says of itself while it beats.
    pub(crate) here: Option<HostState>,
    /// When it beat last, in milliseconds since 1970, if it has stopped.
    pub(crate) gone_since: Option<Millis>,
    /// By the key of the session's files.
    sessions: BTreeMap<String, FleetSession>,
}

/// A task session of a host.
#[derive(Debug, Clone, Default)]
struct FleetSession {
    state: Option<SessionState>,
    /// By the numbers of their windows, as `ls --json` has them.
    tasks: BTreeMap<u64, Value>,
}

/// Takes a value; `None`: it was removed, and if it was a host's presence, the host beat last at this time.
/// Returns the host; `None` for what cannot be read, which changes nothing.
fn apply(
    board: &mut FleetBoard,
    subject: &str,
    value: Option<&[u8]>,
    beat_at: Millis,
) -> Option<String> {
    let words = words_of(HOSTS.root, subject).or_else(|| words_of(STATE.root, subject))?;
    // The subject is what the broker's permissions are about: the value may say anything.
    let host = words.first().filter(|host| is_host_name(host))?.clone();
    let known = board.entry(host.clone()).or_default();
    match (&words[1..], value) {
        ([], Some(value)) => {
            known.here = Some(parse_of_lines(value)?);
            known.gone_since = None;
        }
        ([], None) => {
            known.here = None;
            known.gone_since.get_or_insert(beat_at);
        }
        ([session, what], Some(value)) if what == SESSION => {
            let state = parse_of_lines(value)?;
            known.sessions.entry(session.clone()).or_default().state = Some(state);
        }
        ([session, what], None) if what == SESSION => drop(known.sessions.remove(session)),
        ([session, window], value) => {
            let number = window.strip_prefix('w')?.parse().ok()?;
            let tasks = &mut known.sessions.entry(session.clone()).or_default().tasks;
            let Some(value) = value else {
                tasks.remove(&number);
                return Some(host);
            };
            let task = parse_of_lines::<Value>(value)?["task"].take();
            if task["windowId"] != format!("@{number}") {
                return None;
            }
            tasks.insert(number, task);
        }
        _ => return None,
    }
    Some(host)
}

impl FleetHost {
    /// Returns its sessions: the key of each, what it says of itself, and its tasks, those with the lowest ids
    /// first. Tasks that the session does not name are left from before.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = (&str, &SessionState, Vec<&Value>)> {
        self.sessions.iter().filter_map(|(key, session)| {
            let state = session.state.as_ref()?;
            let is_named =
                |number: &u64| state.exists && state.windows.contains(&format!("@{number}"));
            let named = session.tasks.iter().filter(|(number, _)| is_named(number));
            Some((key.as_str(), state, named.map(|(_, task)| task).collect()))
        })
    }

    /// Returns what is known of the host of this name.
    pub(crate) fn json(&self, name: &str) -> Value {
        let sessions = self.sessions().map(|(key, state, tasks)| {
            json!({
                "key": key,
                "sessionName": state.session_name,
                "exists": state.exists,
                "tasks": tasks,
            })
        });
        let mut value = json!({ "host": name, "sessions": sessions.collect::<Vec<_>>() });
        if let Some(state) = &self.here {
            value["version"] = json!(state.version);
            value["allow"] = json!(state.allow);
        }
        if let Some(since) = self.gone_since {
            value["goneSince"] = json!(since);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{subject, window_word};

    /// Takes a value, or that it was removed.
    fn take(
        board: &mut FleetBoard,
        subject: &str,
        value: Option<Value>,
        at: Millis,
    ) -> Option<String> {
        let value = value.map(|value| value.to_string().into_bytes());
        apply(board, subject, value.as_deref(), at)
    }

    fn here(host: &str) -> Value {
        json!({"v": 1, "host": host, "version": "1", "allow": ["ls"]})
    }

    fn task(window: &str, name: &str) -> Value {
        let task = json!({"windowId": window, "windowName": name, "state": "running"});
        json!({"v": 1, "host": "gpu1", "sessionName": "work", "task": task})
    }

    fn subject_of(what: &str) -> String {
        subject(STATE.root, &["gpu1", "k", what])
    }

    #[test]
    fn a_host_is_gone_since_its_last_beat_until_it_beats_again() {
        let mut board = FleetBoard::default();
        let mut beat = |value: Option<Value>, at| {
            let host = take(&mut board, "$KV.TT_HOSTS.gpu1", value, at);
            // Whatever the value says, it is the subject's host.
            assert_eq!(host.as_deref(), Some("gpu1"));
            let host = &board["gpu1"];
            (host.here.is_some(), host.gone_since)
        };
        assert_eq!(beat(Some(here("gpu1")), 0), (true, None));
        assert_eq!(beat(Some(here("gpu1")), 20_000), (true, None));
        assert_eq!(beat(None, 80_000), (false, Some(80_000)));
        assert_eq!(beat(None, 90_000), (false, Some(80_000)));
        assert_eq!(beat(Some(here("other")), 95_000), (true, None));
        assert_eq!(board.len(), 1);
    }

    #[test]
    fn a_session_has_the_tasks_that_it_names() {
        let mut board = FleetBoard::default();
        for (window, name) in [("@10", "b\nc"), ("@9", "a"), ("@3", "old")] {
            let subject = subject_of(&window_word(window));
            take(&mut board, &subject, Some(task(window, name)), 0).unwrap();
        }
        let names = |board: &FleetBoard| -> Vec<String> {
            let sessions = board["gpu1"].json("gpu1")["sessions"].take();
            let tasks = sessions[0]["tasks"].as_array().cloned().unwrap_or_default();
            let name = |task: &Value| task["windowName"].as_str().unwrap().to_owned();
            tasks.iter().map(name).collect()
        };
        assert!(names(&board).is_empty());
        let state = |exists: bool| {
            json!({"v": 1, "host": "gpu1", "sessionName": "work", "exists": exists,
                "windows": ["@9", "@10", "@11"]})
        };
        let session = subject_of(SESSION);
        take(&mut board, &session, Some(state(true)), 0).unwrap();
        assert_eq!(names(&board), ["a", "b c"]);
        let json = board["gpu1"].json("gpu1");
        assert_eq!(json["sessions"][0]["sessionName"], "work");
        take(&mut board, &session, Some(state(false)), 0).unwrap();
        assert!(names(&board).is_empty());
        // A value that is another window's, and one that is none.
        let other = take(&mut board, &subject_of("w10"), Some(task("@9", "x")), 0);
        assert_eq!(other, None);
        assert_eq!(apply(&mut board, &subject_of("w10"), Some(b"{"), 0), None);
        take(&mut board, &session, None, 0).unwrap();
        assert!(board["gpu1"].sessions.is_empty());
    }
}
