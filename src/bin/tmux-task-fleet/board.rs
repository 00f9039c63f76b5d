//! The machines of a fleet and their tasks, as the broker's buckets have them.

use std::collections::BTreeMap;

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

    /// Takes what comes next. Returns what that changes; `None` if it cannot be read.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(
        &mut self,
        board: &mut FleetBoard,
    ) -> Result<Option<FleetChange>, Error> {
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
        let at = millis(info.published);
        Ok(apply(board, &message.subject, value, at))
    }
}

/// What a value changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FleetChange {
    pub(crate) host: String,
    pub(crate) presence: PresenceChange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PresenceChange {
    None,
    /// The host has stopped beating. It beat last at this time.
    Gone(Millis),
    /// It beats, for the first time or again.
    Back,
}

/// All hosts that have published anything, by their names.
pub(crate) type FleetBoard = BTreeMap<String, FleetHost>;

/// A host.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetHost {
    pub(crate) presence: Presence,
    /// By the key of the session's files.
    pub(crate) sessions: BTreeMap<String, FleetSession>,
}

/// Whether a host beats.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Nothing is known of it.
    #[default]
    Unknown,
    Here(HostState),
    /// It beat last at this time, in milliseconds since 1970.
    Gone(Millis),
}

/// A task session of a host.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetSession {
    state: Option<SessionState>,
    /// By the numbers of their windows, as `ls --json` has them.
    tasks: BTreeMap<u64, Value>,
}

/// Takes a value that was published at this time; `None`: it was removed.
fn apply(
    board: &mut FleetBoard,
    subject: &str,
    value: Option<&[u8]>,
    at: Millis,
) -> Option<FleetChange> {
    let words = words_of(HOSTS.root, subject).or_else(|| words_of(STATE.root, subject))?;
    // The subject is what the broker's permissions are about: the value may say anything.
    let host = words.first().filter(|host| is_host_name(host))?.clone();
    let known = board.entry(host.clone()).or_default();
    let presence = match &words[1..] {
        [] => known.apply_presence(value, at)?,
        [session, what] => {
            known.apply_state(session, what, value)?;
            PresenceChange::None
        }
        _ => return None,
    };
    Some(FleetChange { host, presence })
}

impl FleetHost {
    fn apply_presence(&mut self, value: Option<&[u8]>, at: Millis) -> Option<PresenceChange> {
        let Some(value) = value else {
            if matches!(self.presence, Presence::Gone(_)) {
                return Some(PresenceChange::None);
            }
            let since = at - Millis::try_from(PRESENT.as_millis()).unwrap_or_default();
            self.presence = Presence::Gone(since);
            return Some(PresenceChange::Gone(since));
        };
        let here = Presence::Here(parse_of_lines(value)?);
        Some(match std::mem::replace(&mut self.presence, here) {
            Presence::Here(_) => PresenceChange::None,
            Presence::Unknown | Presence::Gone(_) => PresenceChange::Back,
        })
    }

    /// `None` for what cannot be read, which changes nothing.
    fn apply_state(&mut self, session: &str, what: &str, value: Option<&[u8]>) -> Option<()> {
        let sessions = &mut self.sessions;
        if what == SESSION {
            match value {
                Some(value) => {
                    let state = parse_of_lines(value)?;
                    sessions.entry(session.to_owned()).or_default().state = Some(state);
                }
                None => drop(sessions.remove(session)),
            }
            return Some(());
        }
        let number = what.strip_prefix('w')?.parse().ok()?;
        if let Some(value) = value {
            let mut state: Value = parse_of_lines(value)?;
            let task = state["task"].take();
            if task["windowId"] != format!("@{number}") {
                return None;
            }
            let session = sessions.entry(session.to_owned()).or_default();
            session.tasks.insert(number, task);
        } else if let Some(session) = sessions.get_mut(session) {
            session.tasks.remove(&number);
        }
        Some(())
    }

    /// Returns what is known of the host of this name.
    pub(crate) fn json(&self, name: &str) -> Value {
        let sessions = self.sessions.iter().filter_map(|(key, session)| {
            Some(json!({
                "key": key,
                "sessionName": session.name()?,
                "exists": session.exists(),
                "tasks": session.tasks(),
            }))
        });
        let mut value = json!({ "host": name, "sessions": sessions.collect::<Vec<_>>() });
        match &self.presence {
            Presence::Here(state) => {
                value["version"] = json!(state.version);
                value["allow"] = json!(state.allow);
            }
            Presence::Gone(since) => value["goneSince"] = json!(since),
            Presence::Unknown => {}
        }
        value
    }
}

impl FleetSession {
    /// Returns its name; `None` while it is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        Some(&self.state.as_ref()?.session_name)
    }

    /// Whether the session exists.
    pub(crate) fn exists(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.exists)
    }

    /// Returns its tasks, those with the lowest ids first. Tasks that the session does not name are
    /// left from before.
    pub(crate) fn tasks(&self) -> Vec<&Value> {
        let windows = self.state.as_ref().filter(|state| state.exists);
        let windows = windows.map_or(&[][..], |state| &state.windows);
        let named = self
            .tasks
            .iter()
            .filter(|(number, _)| windows.contains(&format!("@{number}")));
        named.map(|(_, task)| task).collect()
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
    ) -> Option<FleetChange> {
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
    fn a_host_is_gone_and_back_once_each() {
        let mut board = FleetBoard::default();
        let mut beat = |value: Option<Value>, at| {
            let change = take(&mut board, "$KV.TT_HOSTS.gpu1", value, at).unwrap();
            assert_eq!(change.host, "gpu1");
            change.presence
        };
        assert_eq!(beat(Some(here("gpu1")), 0), PresenceChange::Back);
        assert_eq!(beat(Some(here("gpu1")), 20_000), PresenceChange::None);
        assert_eq!(beat(None, 80_000), PresenceChange::Gone(20_000));
        assert_eq!(beat(None, 90_000), PresenceChange::None);
        // Whatever the value says, it is the subject's host.
        assert_eq!(beat(Some(here("other")), 95_000), PresenceChange::Back);
        assert_eq!(board.keys().collect::<Vec<_>>(), ["gpu1"]);
        assert!(matches!(board["gpu1"].presence, Presence::Here(_)));
    }

    #[test]
    fn a_session_has_the_tasks_that_it_names() {
        let mut board = FleetBoard::default();
        for (window, name) in [("@10", "b\nc"), ("@9", "a"), ("@3", "old")] {
            let subject = subject_of(&window_word(window));
            take(&mut board, &subject, Some(task(window, name)), 0).unwrap();
        }
        let names = |board: &FleetBoard| -> Vec<String> {
            let tasks = board["gpu1"].sessions["k"].tasks();
            tasks
                .iter()
                .map(|task| task["windowName"].as_str().unwrap().to_owned())
                .collect()
        };
        assert!(names(&board).is_empty());
        let state = |exists: bool| {
            json!({"v": 1, "host": "gpu1", "sessionName": "work", "exists": exists,
                "windows": ["@9", "@10", "@11"]})
        };
        let session = subject_of(SESSION);
        take(&mut board, &session, Some(state(true)), 0).unwrap();
        assert_eq!(names(&board), ["a", "b c"]);
        assert_eq!(board["gpu1"].sessions["k"].name(), Some("work"));
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
