//! The JSON Schema of the feed, made from the types that write it.

use super::StreamRecord;

/// Returns the JSON Schema of a line of the feed or of a live stream.
#[must_use]
pub fn feed_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(StreamRecord).to_value();
    if let Some(object) = schema.as_object_mut() {
        object.insert("title".to_owned(), "A line of a tmux-task feed".into());
    }
    schema
}
