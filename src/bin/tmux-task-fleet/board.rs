//! The machines of a fleet and their tasks, as the broker's buckets have them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tmux_task::model::{Millis, is_host_name};

use crate::connection::PRESENT;
use crate::layout::{HostState, SessionState, TaskState, parse_of_lines, parse_state_key, text_of};

/// The buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bucket {
    Hosts,
    State,
}

/// A value of a bucket, or that there is none any more.
#[derive(Debug, Clone)]
pub(crate) struct BucketEntry {
    pub(crate) bucket: Bucket,
    pub(crate) key: String,
    pub(crate) value: Option<Vec<u8>>,
    /// When the broker got it, in milliseconds since 1970.
    pub(crate) at: Millis,
}

impl BucketEntry {
    /// Returns the host that it is about.
    pub(crate) fn host(&self) -> Option<String> {
        text_of(self.key.split('.').next()?)
    }
}

/// What an entry changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FleetChange {
    /// The host has stopped beating.
    HostGone { host: String, since: Millis },
    /// It beats, for the first time or again.
    HostBack { host: String },
}

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
    tasks: BTreeMap<String, TaskState>,
}

/// All hosts that have published anything.
#[derive(Debug, Clone, Default)]
pub(crate) struct FleetBoard {
    pub(crate) hosts: BTreeMap<String, FleetHost>,
}

impl FleetBoard {
    /// Takes an entry. Returns what it changes, if anything.
    pub(crate) fn apply(&mut self, entry: &BucketEntry) -> Option<FleetChange> {
        match entry.bucket {
            Bucket::Hosts => self.apply_presence(entry),
            Bucket::State => {
                self.apply_state(entry);
                None
            }
        }
    }

    fn apply_presence(&mut self, entry: &BucketEntry) -> Option<FleetChange> {
        // The key is what the broker's permissions are about: the value may say anything.
        let host = text_of(&entry.key).filter(|host| is_host_name(host))?;
        let known = self.hosts.entry(host.clone()).or_default();
        match &entry.value {
            Some(value) => {
                let state = parse_of_lines(value)?;
                let before = std::mem::replace(&mut known.presence, Presence::Here(state));
                let is_back = !matches!(before, Presence::Here(_));
                is_back.then_some(FleetChange::HostBack { host })
            }
            None => {
                if matches!(known.presence, Presence::Gone(_)) {
                    return None;
                }
                let lived = Millis::try_from(PRESENT.as_millis()).unwrap_or_default();
                let since = entry.at - lived;
                known.presence = Presence::Gone(since);
                Some(FleetChange::HostGone { host, since })
            }
        }
    }

    /// `None` for what cannot be read, which changes nothing.
    fn apply_state(&mut self, entry: &BucketEntry) -> Option<()> {
        let key = parse_state_key(&entry.key).filter(|key| is_host_name(&key.host))?;
        let sessions = &mut self.hosts.entry(key.host.clone()).or_default().sessions;
        match (&entry.value, key.window) {
            (None, None) => {
                sessions.remove(&key.session);
            }
            (Some(value), None) => {
                let state = parse_of_lines(value)?;
                sessions.entry(key.session.clone()).or_default().state = Some(state);
            }
            (None, Some(window)) => {
                if let Some(session) = sessions.get_mut(&key.session) {
                    session.tasks.remove(&window);
                }
            }
            (Some(value), Some(window)) => {
                let state: TaskState = parse_of_lines(value)?;
                if state.task["windowId"] != *window {
                    return None;
                }
                let session = sessions.entry(key.session.clone()).or_default();
                session.tasks.insert(window, state);
            }
        }
        Some(())
    }
}

impl FleetSession {
    /// Returns its name; `None` while it is not known.
    pub(crate) fn name(&self) -> Option<&str> {
        let of_task = || {
            self.tasks
                .values()
                .next()
                .map(|task| task.session_name.as_str())
        };
        let state = self.state.as_ref().map(|state| state.session_name.as_str());
        state.or_else(of_task)
    }

    /// Whether the session exists.
    pub(crate) fn exists(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.exists)
    }

    /// Returns its tasks, those with the lowest ids first. Tasks that the session does not name are
    /// left from before.
    pub(crate) fn tasks(&self) -> Vec<&Value> {
        let is_named = |window: &String| {
            let state = self.state.as_ref();
            state.is_some_and(|state| state.exists && state.windows.contains(window))
        };
        let named = self.tasks.iter().filter(|(window, _)| is_named(window));
        let mut tasks: Vec<&Value> = named.map(|(_, state)| &state.task).collect();
        tasks.sort_by_key(|task| number_of(task));
        tasks
    }
}

impl FleetHost {
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

/// Returns the number of a task's window.
fn number_of(task: &Value) -> Option<u64> {
    task["windowId"].as_str()?.strip_prefix('@')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{session_key, task_key, token};

    fn entry(bucket: Bucket, key: String, value: Option<Value>, at: Millis) -> BucketEntry {
        let value = value.map(|value| value.to_string().into_bytes());
        BucketEntry {
            bucket,
            key,
            value,
            at,
        }
    }

    fn here(host: &str) -> Value {
        json!({"v": 1, "host": host, "version": "1", "allow": ["ls"]})
    }

    fn task(host: &str, window: &str, name: &str) -> BucketEntry {
        let task = json!({"windowId": window, "windowName": name, "state": "running"});
        let value = json!({"v": 1, "host": host, "sessionName": "work", "task": task});
        entry(Bucket::State, task_key(host, "k", window), Some(value), 0)
    }

    #[test]
    fn a_host_is_gone_and_back_once_each() {
        let mut board = FleetBoard::default();
        let mut beat =
            |value: Option<Value>, at| board.apply(&entry(Bucket::Hosts, token("gpu1"), value, at));
        let host = || "gpu1".to_owned();
        let back = Some(FleetChange::HostBack { host: host() });
        assert_eq!(beat(Some(here("gpu1")), 0), back);
        assert_eq!(beat(Some(here("gpu1")), 20_000), None);
        let since = 20_000;
        let gone = Some(FleetChange::HostGone {
            host: host(),
            since,
        });
        assert_eq!(beat(None, 80_000), gone);
        assert_eq!(beat(None, 90_000), None);
        // Whatever the value says, it is the key's host.
        assert_eq!(beat(Some(here("other")), 95_000), back);
        assert_eq!(board.hosts.keys().collect::<Vec<_>>(), ["gpu1"]);
        assert!(matches!(board.hosts["gpu1"].presence, Presence::Here(_)));
    }

    #[test]
    fn a_session_has_the_tasks_that_it_names() {
        let mut board = FleetBoard::default();
        for (window, name) in [("@10", "b\nc"), ("@9", "a"), ("@3", "old")] {
            board.apply(&task("gpu1", window, name));
        }
        let names = |board: &FleetBoard| -> Vec<String> {
            let tasks = board.hosts["gpu1"].sessions["k"].tasks();
            tasks
                .iter()
                .map(|task| task["windowName"].as_str().unwrap().to_owned())
                .collect()
        };
        assert!(names(&board).is_empty());
        let state = |exists: bool| {
            let value = json!({"v": 1, "host": "gpu1", "sessionName": "work", "exists": exists,
                "windows": ["@9", "@10", "@11"]});
            entry(Bucket::State, session_key("gpu1", "k"), Some(value), 0)
        };
        board.apply(&state(true));
        assert_eq!(names(&board), ["a", "b c"]);
        assert_eq!(board.hosts["gpu1"].sessions["k"].name(), Some("work"));
        board.apply(&state(false));
        assert!(names(&board).is_empty());
        // A value that is another window's, and one that is none.
        let mut other = task("gpu1", "@9", "x");
        other.key = task_key("gpu1", "k", "@10");
        assert_eq!(board.apply_state(&other), None);
        other.value = Some(b"{".to_vec());
        assert_eq!(board.apply_state(&other), None);
        let removed = entry(Bucket::State, session_key("gpu1", "k"), None, 0);
        board.apply(&removed);
        assert!(board.hosts["gpu1"].sessions.is_empty());
    }
}
