//! A record on its way to a sink.

use std::fmt::Display;

use crate::model::{Body, Event, EventKind, Kind, Record};
use crate::rules::route;

/// The longest text in a variable, in bytes: the kernel limits each.
const MAX_TEXT: usize = 16 << 10;

/// A record, and what programs want to know without parsing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// `EPOCH:SEQ`.
    pub(crate) id: String,
    /// The record as in the feed, one line without its end.
    pub(crate) line: String,
    /// Variables for programs, without `TMUX_TASK_`.
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Delivery {
    /// Returns the delivery of this record, which is `line` in the feed, to the sink of this name.
    pub(crate) fn new(sink: &str, record: &Record, line: &str) -> Self {
        let id = format!("{}:{}", record.epoch, record.seq);
        let (level, owner, text, events) = match &record.body {
            Body::Event(event) => {
                let text = match &event.kind {
                    EventKind::Input { prompt } | EventKind::InputResolved { prompt } => {
                        prompt.text.as_str()
                    }
                    EventKind::Started { .. }
                    | EventKind::Notify { .. }
                    | EventKind::Output(_)
                    | EventKind::Exited { .. }
                    | EventKind::Disappeared { .. } => "",
                };
                let owner = event.task.owner.as_deref();
                (event.level(), owner, text, std::slice::from_ref(&**event))
            }
            Body::Notice {
                level, text, owner, ..
            } => (*level, owner.as_deref(), text.as_str(), &[][..]),
            Body::FollowUp {
                level,
                message,
                owner,
                ..
            } => {
                let events = &message.details.events[..];
                (*level, owner.as_deref(), message.content.as_str(), events)
            }
        };
        // A message speaks of some of its events only: not of tasks that have just started.
        let is_told = |event: &&Event| {
            let is_message = record.body.kind() == Kind::FollowUp;
            !is_message || route::speaks_of(text, &event.task.window.to_string())
        };
        let events: Vec<&Event> = events.iter().filter(is_told).collect();
        let variables = vec![
            ("SINK", sink.to_owned()),
            ("SESSION", record.session_name.clone()),
            ("RECORD", id.clone()),
            ("KIND", record.body.kind().to_string()),
            ("LEVEL", level.to_string()),
            ("TYPES", each(&events, |event| event.event_type())),
            ("TASKS", each(&events, |event| &event.task.name)),
            ("FOR_OWNER", owner.unwrap_or_default().to_owned()),
            ("TEXT", bounded(text)),
        ];
        Self {
            id,
            line: line.to_owned(),
            variables,
        }
    }

    #[cfg(feature = "webhook")]
    pub(super) fn value(&self, name: &str) -> &str {
        let found = self.variables.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    }
}

/// Returns the different words of these events, in their order, with blanks between them.
fn each<'a, W: Display>(events: &[&'a Event], word: impl Fn(&'a Event) -> W) -> String {
    let mut words: Vec<String> = Vec::new();
    for event in events {
        let word = word(event).to_string();
        if !words.contains(&word) {
            words.push(word);
        }
    }
    bounded(&words.join(" "))
}

fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    // A variable cannot have this character.
    text[..end].replace('\0', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Level;
    use crate::model::test_notation::{asked, delivered, events_of};

    const EVENT: &str = r#"{"v":1,"seq":7,"epoch":"e1","time":"2026-01-01T00:00:00.000Z","sessionName":"work",
        "kind":"event","type":"input","level":"warning","prompt":"Proceed?",
        "task":{"windowId":"@1","windowName":"api","owner":"pi:1"}}"#;

    #[test]
    fn programs_need_not_parse_the_record() {
        let record = serde_json::from_str(EVENT).unwrap();
        let delivery = Delivery::new("log", &record, EVENT);
        assert_eq!(
            (delivery.id.as_str(), delivery.line.as_str()),
            ("e1:7", EVENT)
        );
        let of = |name: &str| {
            let found = delivery.variables.iter().find(|(known, _)| *known == name);
            found.unwrap().1.clone()
        };
        for (name, value) in [
            ("SINK", "log"),
            ("SESSION", "work"),
            ("RECORD", "e1:7"),
            ("KIND", "event"),
            ("LEVEL", "warning"),
            ("TYPES", "input"),
            ("TASKS", "api"),
            ("FOR_OWNER", "pi:1"),
            ("TEXT", "Proceed?"),
        ] {
            assert_eq!(of(name), value, "{name}");
        }
    }

    #[test]
    fn a_message_is_about_the_tasks_of_its_text() {
        let content = "[tmux-task notification]\ntmux task @1 (api) is waiting for input: Go?\n\
            recent output:\n  tmux task @3 (web) exited with code 1";
        let started = "@9 x running -> @9 x running; @11 db running; @3 web running";
        let events = [vec![asked("@1 api running", "Go?")], events_of(started)].concat();
        let events = delivered(4, events);
        let body = Body::follow_up(Level::Warning, content.to_owned(), events, None);
        let record = Record::new(7, 0, body);
        let delivery = Delivery::new("phone", &record, "");
        for word in [("TASKS", "api"), ("TYPES", "input")] {
            assert!(
                delivery.variables.contains(&(word.0, word.1.to_owned())),
                "{delivery:?}"
            );
        }
    }

    #[test]
    fn a_variable_is_bounded() {
        let text = "ä".repeat(MAX_TEXT);
        let cut = bounded(&text);
        assert!(cut.len() <= MAX_TEXT && text.starts_with(&cut));
        assert_eq!(bounded("a\0b"), "ab");
    }
}
