//! What an adapter prints for its client, and what the client answers.

use serde_json::{Value, json};

use super::{Running, World};

impl World {
    /// The consumers in the daemon's status.
    #[track_caller]
    pub(crate) fn consumers(&self) -> Vec<Value> {
        let consumers = self.daemon_status()["consumers"].take();
        consumers.as_array().cloned().unwrap_or_default()
    }

    /// Waits until this consumer has acknowledged the last follow-up of the feed.
    #[track_caller]
    pub(crate) fn until_acknowledged(&self, consumer: &str) {
        self.until_true("everything is acknowledged", || {
            let last = self.records_of(&["--kind", "followUp"]).pop();
            let last = last.and_then(|last| last["seq"].as_u64());
            let has_all = |one: &Value| one["name"] == consumer && one["cursor"].as_u64() >= last;
            last.is_some() && self.consumers().iter().any(has_all)
        });
    }
}

pub(crate) fn is_message(line: &Value) -> bool {
    line["kind"] == "message"
}

/// The next message.
#[track_caller]
pub(crate) fn message(adapter: &Running) -> Value {
    adapter.records_until(is_message).pop().unwrap()
}

/// The text of a message.
#[track_caller]
pub(crate) fn content_of(message: &Value) -> &str {
    message["message"]["content"].as_str().unwrap()
}

/// Says that the conversation has this message.
pub(crate) fn confirm(adapter: &mut Running, message: &Value) {
    let receipt = json!({"received": {"to": message["to"], "id": message["id"]}});
    adapter.write(&format!("{receipt}\n"));
}
