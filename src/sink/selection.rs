//! Which records of the feed a sink gets.

use clap::ValueEnum;

use crate::config::SinkFilter;
use crate::model::{Body, EventType, Kind, Level};
use crate::wire::{Filter, is_owner_of};

#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) filter: Filter,
    pub(super) owners: Vec<String>,
    level: Option<Level>,
}

impl Selection {
    pub(super) fn new(config: &SinkFilter) -> Self {
        Self {
            filter: Filter::new(
                config
                    .kinds
                    .iter()
                    .filter_map(|name| Kind::from_str(name, false).ok())
                    .collect(),
                config
                    .types
                    .iter()
                    .filter_map(|name| EventType::from_str(name, false).ok())
                    .collect(),
                config.tasks.clone(),
            ),
            owners: config.owners.clone(),
            level: config.level,
        }
    }

    /// Whether a record that the filter passes is wanted.
    pub(super) fn wants(&self, body: &Body) -> bool {
        let (level, owner) = match body {
            Body::Event(event) => (event.level(), &event.task.owner),
            Body::Notice { level, owner, .. } | Body::FollowUp { level, owner, .. } => {
                (*level, owner)
            }
        };
        let is_important = self.level != Some(Level::Warning) || level == Level::Warning;
        // What has no owner is everybody's.
        let is_theirs = self.owners.is_empty()
            || owner
                .as_ref()
                .is_none_or(|owner| self.owners.iter().any(|one| is_owner_of(one, owner)));
        is_important && is_theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(owners: &[&str], level: Option<Level>, of: Option<&str>, at: &str, wanted: bool) {
        let config = SinkFilter {
            owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
            level,
            ..SinkFilter::default()
        };
        let notice = serde_json::json!({"kind": "notice", "level": at, "text": "", "events": [], "owner": of});
        let body = serde_json::from_value(notice).unwrap();
        assert_eq!(Selection::new(&config).wants(&body), wanted);
    }

    #[test]
    fn a_sink_gets_its_owners_and_everybodys_records() {
        check(&[], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:12"), "info", false);
        check(&["x", "pi:*"], None, Some("pi:12"), "info", true);
        check(&["pi:1"], None, None, "info", true);
        check(&[], Some(Level::Warning), None, "info", false);
        check(&[], Some(Level::Warning), None, "warning", true);
        check(&[], Some(Level::Info), None, "info", true);
    }

    #[test]
    fn kinds_and_types_are_those_of_the_feed() {
        let config = SinkFilter {
            kinds: vec!["event", "notice", "followUp"],
            types: vec![
                "started",
                "exited",
                "notify",
                "output",
                "input",
                "inputResolved",
                "disappeared",
            ],
            ..SinkFilter::default()
        };
        let filter = Selection::new(&config).filter;
        assert_eq!(filter.kinds, [Kind::Event, Kind::Notice, Kind::FollowUp]);
        assert_eq!(filter.types, EventType::value_variants());
    }
}
