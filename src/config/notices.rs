//! The table `notices`: what is displayed to the user, and where.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::value::words;
use crate::alerts::{AlertEvent, TerminalSequence};
use crate::model::Ordered as _;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(
    default,
    deny_unknown_fields,
    rename_all = "kebab-case",
    expecting = "a table"
)]
pub(crate) struct NoticesConfig {
    /// The kinds of events that make a desktop notification: key `desktop`. Empty turns them off.
    #[serde(deserialize_with = "events")]
    pub desktop: BTreeSet<AlertEvent>,
    /// The kinds of events that are shown on tmux's status line: key `tmux`. Empty turns them off,
    /// and the counts for the status line with them.
    #[serde(deserialize_with = "events")]
    pub tmux: BTreeSet<AlertEvent>,
    /// The escape sequences that tell the terminals of attached clients to show a notification, of which
    /// each gets one; empty for none: key `terminal`.
    #[serde(deserialize_with = "sequences")]
    pub terminal: BTreeSet<TerminalSequence>,
    /// The kinds of events for single tasks, by name or window id, in place of the lists above:
    /// table `tasks`.
    #[serde(deserialize_with = "of_tasks")]
    pub tasks: BTreeMap<String, BTreeSet<AlertEvent>>,
}

impl Default for NoticesConfig {
    fn default() -> Self {
        Self {
            desktop: AlertEvent::DEFAULT.into(),
            tmux: AlertEvent::DEFAULT.into(),
            terminal: BTreeSet::new(),
            tasks: BTreeMap::new(),
        }
    }
}

/// Reads the table, or a list of the displays that are to show the default events.
pub(super) fn notices<'de, D: Deserializer<'de>>(from: D) -> Result<NoticesConfig, D::Error> {
    from.deserialize_any(TableOrList)
}

struct TableOrList;

impl<'de> Visitor<'de> for TableOrList {
    type Value = NoticesConfig;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a table, or a list of \"desktop\" and \"tmux\"")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<NoticesConfig, A::Error> {
        NoticesConfig::deserialize(MapAccessDeserializer::new(map))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<NoticesConfig, A::Error> {
        let displays: BTreeSet<Display> =
            words(SeqAccessDeserializer::new(list), DISPLAYS, |allowed| {
                format!("{allowed}, or write `[notices]` and `desktop = [\"failed\", \"input\"]`")
            })?;
        let events = |display| {
            let is_on = displays.contains(&display);
            AlertEvent::DEFAULT.into_iter().filter(|_| is_on).into_set()
        };
        Ok(NoticesConfig {
            desktop: events(Display::Desktop),
            tmux: events(Display::Tmux),
            ..NoticesConfig::default()
        })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Display {
    Desktop,
    Tmux,
}

const DISPLAYS: &[(&str, Display)] = &[("desktop", Display::Desktop), ("tmux", Display::Tmux)];

fn events<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<AlertEvent>, D::Error> {
    words(from, &AlertEvent::NAMES, str::to_owned)
}

fn sequences<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeSet<TerminalSequence>, D::Error> {
    words(from, &TerminalSequence::NAMES, str::to_owned)
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
    use crate::config::parse::parse;

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
        assert_eq!((&default.desktop, &default.tmux), (&events, &events));
        assert_eq!(read("[notices]\n").unwrap(), default);
    }

    #[test]
    fn each_display_and_each_task_has_its_events() {
        let text = "[notices]\ndesktop = ['started', 'exited', 'other']\ntmux = []\n\
            terminal = ['osc777']\n[notices.tasks]\nweb = []\n'@3' = ['exited']\n";
        let notices = read(text).unwrap();
        use AlertEvent::{Exited, Other, Started};
        assert_eq!(notices.desktop, [Started, Exited, Other].into());
        assert_eq!(notices.tmux, BTreeSet::new());
        assert_eq!(notices.terminal, [TerminalSequence::Osc777].into());
        assert_eq!(notices.tasks["web"], BTreeSet::new());
        assert_eq!(notices.tasks["@3"], [Exited].into());
    }

    #[test]
    fn a_list_selects_displays() {
        let default = NoticesConfig::default();
        let off = BTreeSet::new();
        for (text, desktop, tmux) in [
            ("notices = []", &off, &off),
            ("notices = ['tmux']", &off, &default.tmux),
            ("notices = ['desktop']", &default.desktop, &off),
            (
                "notices = [\n'tmux', # here\n'desktop', 'tmux']",
                &default.desktop,
                &default.tmux,
            ),
        ] {
            let notices = read(text).unwrap();
            assert_eq!((&notices.desktop, &notices.tmux), (desktop, tmux), "{text}");
        }
    }

    #[test]
    fn a_mistake_names_its_line_and_what_is_allowed() {
        let allowed = "allowed are \"desktop\" and \"tmux\", or write `[notices]` and \
            `desktop = [\"failed\", \"input\"]`";
        check_error(
            "notices = [\"desk\"]",
            &format!("c.toml:1: `notices` does not know \"desk\"; {allowed}"),
        );
        check_error(
            "\nnotices = [\n  \"tmux\",\n  \"a\\nb\",\n]",
            &format!("c.toml:4: `notices` does not know \"a b\"; {allowed}"),
        );
        check_error(
            "[notices]\ndesktop = ['fail']",
            "c.toml:2: `notices.desktop` does not know \"fail\"; allowed are \"failed\", \
             \"input\", \"notify\", \"output\", \"disappeared\", \"exited\", \"started\" and \"other\"",
        );
        check_error(
            "[notices.tasks]\n\nweb = ['all']",
            "c.toml:3: `notices.tasks.web` does not know \"all\"; allowed are \"failed\", \
             \"input\", \"notify\", \"output\", \"disappeared\", \"exited\", \"started\" and \"other\"",
        );
        check_error(
            "[notices]\nterminal = ['osc99']",
            "c.toml:2: `notices.terminal` does not know \"osc99\"; allowed are \"osc9\" and \"osc777\"",
        );
        check_error(
            "[notices]\ndesk = []",
            "c.toml:2: unknown key `notices.desk`",
        );
        check_error(
            "[notices]\ndesktops = []",
            "c.toml:2: unknown key `notices.desktops`; did you mean `desktop`?",
        );
    }

    #[test]
    fn a_wrong_type_names_what_was_found() {
        #[track_caller]
        fn check_found(text: &str, line: u32, found: &str) {
            let expected = format!(
                "c.toml:{line}: `notices` must be a table, or a list of \"desktop\" and \
                 \"tmux\", found {found}"
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
            "\n\n[notices]\ntmux = true",
            &format!("c.toml:4: `notices.tmux` must be {events}, found a boolean"),
        );
        check_error(
            "[notices]\ntmux = [\n\"failed\",\n3]",
            &format!("c.toml:4: `notices.tmux` must be {events}, found an integer in the list"),
        );
        check_error(
            "[notices]\ntasks = []",
            "c.toml:2: `notices.tasks` must be a map, found a list",
        );
    }
}
