//! A record of the feed as a CloudEvent 1.0 (the JSON format of the CloudEvents specification).

use serde_json::{Value, json};

use super::{DurableRecord, RecordBody};

/// Returns `record` as a CloudEvent: `id` is `EPOCH:SEQ`, `source` the task session, `type`
/// `tmux-task.event.exited` and the like, `subject` the window of an event, `data` the record.
pub fn cloud_event(record: &DurableRecord) -> Value {
    let (kind, subject) = match &record.body {
        RecordBody::Event(fields) => (
            format!("tmux-task.event.{}", fields.event_type),
            Some(fields.task.window_id.clone()),
        ),
        RecordBody::Notice { .. } => ("tmux-task.notice".to_owned(), None),
        RecordBody::FollowUp { .. } => ("tmux-task.followUp".to_owned(), None),
    };
    let mut event = json!({
        "specversion": "1.0",
        "id": format!("{}:{}", record.epoch, record.seq),
        "source": format!("/tmux-task/{}", uri_segment(&record.session_name)),
        "type": kind,
        "time": record.time,
        "datacontenttype": "application/json",
        "data": record,
    });
    if let (Some(subject), Some(object)) = (subject, event.as_object_mut()) {
        object.insert("subject".to_owned(), subject.into());
    }
    event
}

/// Session names may contain blanks and other characters: all but RFC 3986's unreserved ones are
/// escaped.
fn uri_segment(text: &str) -> String {
    text.bytes().fold(String::new(), |mut uri, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
        uri
    })
}
