//! Who has a port.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process that listens on a port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PortHolder {
    /// The port.
    pub port: u16,
    /// Its pid; null where it cannot be seen: it is another user's, or of a container.
    pub pid: Option<u32>,
    /// The name of its program.
    pub program: Option<String>,
    /// The user that it has opened the port as.
    pub uid: u32,
    /// The task that has started it, if one has.
    pub task: Option<String>,
    /// The task session of that task.
    pub session: Option<String>,
}

impl PortHolder {
    /// Returns who has the port, in words.
    pub fn words(&self) -> String {
        let Self { port, uid, .. } = self;
        let Some(pid) = self.pid else {
            return format!(
                "port {port} is held by a process of uid {uid} that cannot be seen here"
            );
        };
        let program = self.program.as_deref().unwrap_or("?");
        let holder = format!("port {port} is held by pid {pid} ({program})");
        match (&self.task, &self.session) {
            (Some(task), Some(session)) => {
                format!("{holder} of task `{task}` in session `{session}`")
            }
            (Some(task), None) => format!("{holder} of task `{task}`"),
            (None, _) => holder,
        }
    }
}

/// Returns ports in words: `3000, 9229`.
pub fn port_words(ports: &[u16]) -> String {
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    ports.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_named_as_far_as_it_can_be_seen() {
        let unseen = PortHolder {
            port: 80,
            uid: 33,
            ..PortHolder::default()
        };
        let seen = PortHolder {
            pid: Some(12),
            program: Some("node".to_owned()),
            ..unseen.clone()
        };
        let of_task = PortHolder {
            task: Some("api".to_owned()),
            session: Some("work".to_owned()),
            ..seen.clone()
        };
        let words = [unseen, seen, of_task].map(|holder| holder.words());
        let expected = [
            "port 80 is held by a process of uid 33 that cannot be seen here",
            "port 80 is held by pid 12 (node)",
            "port 80 is held by pid 12 (node) of task `api` in session `work`",
        ];
        assert_eq!(words, expected);
    }
}
