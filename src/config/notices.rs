//! The table `notices`: what is displayed to the user, and where.

use super::reader::Value;
use super::value::enumerate;
use crate::rules::alerts::{AlertEvent, AlertRules, Place};

/// Reads the table, or a list of the places.
pub(super) fn read(value: &Value<'_>) -> Option<AlertRules> {
    let default = AlertRules::default();
    if value.is_list() {
        let places = value.words(&Place::NAMES)?;
        return Some(AlertRules { places, ..default });
    }
    let places = enumerate(Place::NAMES.iter().map(|(name, _)| *name), '"', "and");
    value.table(&format!("a table, or a list of {places}"), |table| {
        let events = |value: &Value<'_>| value.words(&AlertEvent::NAMES);
        let of_tasks = |value: &Value<'_>| value.map(|_, value| events(value));
        let places = table.read("places", |value| value.words(&Place::NAMES));
        Ok(AlertRules {
            places: places.unwrap_or(default.places),
            events: table.read("events", events).unwrap_or(default.events),
            tasks: table.read("tasks", of_tasks).unwrap_or_default(),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;
    use crate::config::file::{parse, tests::check_errors};

    fn parsed(text: &str) -> Result<AlertRules, String> {
        parse(Path::new("c.toml"), text)
            .map(|config| config.notices)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_needs_a_person_is_displayed_by_default() {
        let default = parsed("").unwrap();
        use AlertEvent::{Disappeared, Failed, Input, Notify, Output};
        let events = BTreeSet::from([Failed, Input, Notify, Output, Disappeared]);
        assert_eq!(default.events, events);
        assert_eq!(default.places, [Place::Desktop, Place::Tmux].into());
        assert_eq!(parsed("[notices]\n").unwrap(), default);
    }

    #[test]
    fn the_places_have_one_list_of_events_and_each_task_may_have_its_own() {
        let text = "[notices]\nevents = ['started', 'exited', 'other']\nplaces = ['terminal']\n\
            [notices.tasks]\nweb = []\n'@3' = ['exited']\n";
        let notices = parsed(text).unwrap();
        use AlertEvent::{Exited, Other, Started};
        assert_eq!(notices.events, [Started, Exited, Other].into());
        assert_eq!(notices.places, [Place::Terminal].into());
        assert_eq!(notices.tasks["web"], BTreeSet::new());
        assert_eq!(notices.tasks["@3"], [Exited].into());
        let list = parsed("notices = [\n'tmux', # here\n'desktop', 'tmux']");
        assert_eq!(list.unwrap(), AlertRules::default());
        assert_eq!(parsed("notices = []").unwrap().places, BTreeSet::new());
    }

    #[test]
    fn a_mistake_names_its_line_and_what_is_allowed() {
        let places = r#""desktop", "terminal" and "tmux""#;
        let events = r#""failed", "input", "notify", "output", "disappeared", "exited", "started" and "other""#;
        let table = r#"
            notices = ["desk"] | 1: `notices` does not know "desk"; allowed are PLACES
            ⏎notices = [⏎  "tmux",⏎  "a\nb",⏎] | 4: `notices` does not know "a b"; allowed are PLACES
            [notices]⏎events = ['fail'] | 2: `notices.events` does not know "fail"; allowed are EVENTS
            [notices.tasks]⏎⏎web = ['all'] | 3: `notices.tasks.web` does not know "all"; allowed are EVENTS
            [notices]⏎places = ['screen'] | 2: `notices.places` does not know "screen"; allowed are PLACES
            [notices]⏎desk = [] | 2: unknown key `notices.desk`
            [notices]⏎place = [] | 2: unknown key `notices.place`; did you mean `places`?
            ⏎notices = 3 | 2: `notices` must be a table, or a list of PLACES, found an integer
            notices = 3.5 | 1: `notices` must be a table, or a list of PLACES, found a float
            notices = true | 1: `notices` must be a table, or a list of PLACES, found a boolean
            notices = "tmux" | 1: `notices` must be a table, or a list of PLACES, found a string
            ⏎⏎[notices]⏎events = true | 4: `notices.events` must be a list of EVENTS, found a boolean
            [notices]⏎events = [⏎"failed",⏎3]
              | 4: `notices.events` must be a list of EVENTS, found an integer in the list
            [notices]⏎tasks = [] | 2: `notices.tasks` must be a map, found a list"#;
        let table = table.replace("PLACES", places).replace("EVENTS", events);
        check_errors("", &table);
    }
}
