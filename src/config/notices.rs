//! The table `notices`: what is displayed to the user, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::words;
use crate::alerts::{AlertEvent, Place};
use crate::model::Ordered as _;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct NoticesConfig {
    /// Where notices are displayed; nowhere if it is empty: key `places`.
    #[serde(deserialize_with = "places")]
    pub places: BTreeSet<Place>,
    /// The kinds of events that notices are about: key `events`.
    #[serde(deserialize_with = "events")]
    pub events: BTreeSet<AlertEvent>,
    /// The kinds of events for single tasks, by name or window id, in place of `events`: table `tasks`.
    #[serde(deserialize_with = "of_tasks")]
    pub tasks: BTreeMap<String, BTreeSet<AlertEvent>>,
}

impl Default for NoticesConfig {
    fn default() -> Self {
        Self {
            places: [Place::Desktop, Place::Tmux].into(),
            events: AlertEvent::DEFAULT.into(),
            tasks: BTreeMap::new(),
        }
    }
}

/// Reads the table, or a list of the places.
pub(super) fn notices<'de, D: Deserializer<'de>>(from: D) -> Result<NoticesConfig, D::Error> {
    from.deserialize_any(TableOrList)
}

struct TableOrList;

impl<'de> Visitor<'de> for TableOrList {
    type Value = NoticesConfig;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table, or a list of \"desktop\", \"terminal\" and \"tmux\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NoticesConfig, A::Error> {
        NoticesConfig::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<NoticesConfig, A::Error> {
        Ok(NoticesConfig {
            places: places(SeqAccessDeserializer::new(list))?,
            ..NoticesConfig::default()
        })
    }
}

fn places<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<Place>, D::Error> {
    words(from, &Place::NAMES)
}

fn events<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<AlertEvent>, D::Error> {
    words(from, &AlertEvent::NAMES)
}

/// A list of kinds of events.
#[derive(Deserialize)]
#[serde(transparent)]
struct Events(#[serde(deserialize_with = "events")] BTreeSet<AlertEvent>);

fn of_tasks<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, BTreeSet<AlertEvent>>, D::Error> {
    let tasks = BTreeMap::<String, Events>::deserialize(from)?;
    Ok(tasks
        .into_iter()
        .map(|(task, Events(events))| (task, events))
        .into_map())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::file::parse;

    fn read(text: &str) -> Result<NoticesConfig, String> {
        parse(Path::new("c.toml"), text)
            .map(|config| config.notices)
            .map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        assert_eq!(read(text).unwrap_err(), expected);
    }

    #[test]
    fn what_needs_a_person_is_displayed_by_default() {
        let default = read("").unwrap();
        use AlertEvent::{Disappeared, Failed, Input, Notify, Output};
        let events = BTreeSet::from([Failed, Input, Notify, Output, Disappeared]);
        assert_eq!(default.events, events);
        assert_eq!(default.places, [Place::Desktop, Place::Tmux].into());
        assert_eq!(read("[notices]\n").unwrap(), default);
    }

    #[test]
    fn the_places_have_one_list_of_events_and_each_task_may_have_its_own() {
        let text = "[notices]\nevents = ['started', 'exited', 'other']\nplaces = ['terminal']\n\
            [notices.tasks]\nweb = []\n'@3' = ['exited']\n";
        let notices = read(text).unwrap();
        use AlertEvent::{Exited, Other, Started};
        assert_eq!(notices.events, [Started, Exited, Other].into());
        assert_eq!(notices.places, [Place::Terminal].into());
        assert_eq!(notices.tasks["web"], BTreeSet::new());
        assert_eq!(notices.tasks["@3"], [Exited].into());
        let list = read("notices = [\n'tmux', # here\n'desktop', 'tmux']");
        assert_eq!(list.unwrap(), NoticesConfig::default());
        assert_eq!(read("notices = []").unwrap().places, BTreeSet::new());
    }

    #[test]
    fn a_mistake_names_its_line_and_what_is_allowed() {
        let allowed = "allowed are \"desktop\", \"terminal\" and \"tmux\"";
        check_error(
            "notices = [\"desk\"]",
            &format!("c.toml:1: `notices` does not know \"desk\"; {allowed}"),
        );
        check_error(
            "\nnotices = [\n  \"tmux\",\n  \"a\\nb\",\n]",
            &format!("c.toml:4: `notices` does not know \"a b\"; {allowed}"),
        );
        check_error(
            "[notices]\nevents = ['fail']",
            "c.toml:2: `notices.events` does not know \"fail\"; allowed are \"failed\", \
             \"input\", \"notify\", \"output\", \"disappeared\", \"exited\", \"started\" and \"other\"",
        );
        check_error(
            "[notices.tasks]\n\nweb = ['all']",
            "c.toml:3: `notices.tasks.web` does not know \"all\"; allowed are \"failed\", \
             \"input\", \"notify\", \"output\", \"disappeared\", \"exited\", \"started\" and \"other\"",
        );
        check_error(
            "[notices]\nplaces = ['screen']",
            "c.toml:2: `notices.places` does not know \"screen\"; allowed are \"desktop\", \"terminal\" \
             and \"tmux\"",
        );
        check_error(
            "[notices]\ndesk = []",
            "c.toml:2: unknown key `notices.desk`",
        );
        check_error(
            "[notices]\nplace = []",
            "c.toml:2: unknown key `notices.place`; did you mean `places`?",
        );
    }

    #[test]
    fn a_wrong_type_names_what_was_found() {
        #[track_caller]
        fn check_found(text: &str, line: u32, found: &str) {
            let expected = format!(
                "c.toml:{line}: `notices` must be a table, or a list of \"desktop\", \
                 \"terminal\" and \"tmux\", found {found}"
            );
            check_error(text, &expected);
        }
        check_found("\nnotices = 3", 2, "an integer");
        check_found("notices = 3.5", 1, "a float");
        check_found("notices = true", 1, "a boolean");
        check_found("notices = \"tmux\"", 1, "a string");
        let events = "a list of \"failed\", \"input\", \"notify\", \"output\", \"disappeared\", \"exited\", \
            \"started\" and \"other\"";
        check_error(
            "\n\n[notices]\nevents = true",
            &format!("c.toml:4: `notices.events` must be {events}, found a boolean"),
        );
        check_error(
            "[notices]\nevents = [\n\"failed\",\n3]",
            &format!("c.toml:4: `notices.events` must be {events}, found an integer in the list"),
        );
        check_error(
            "[notices]\ntasks = []",
            "c.toml:2: `notices.tasks` must be a map, found a list",
        );
    }
}
