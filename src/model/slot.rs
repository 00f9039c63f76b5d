//! A limit on how many runs there are at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_task_name;

/// A name that runs share, of which only some may run at once, in all sessions of the user: `build:2`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    rename = "SlotFields",
    description = "Of the runs with this name, in all sessions of the user, so many may run at once."
)]
pub struct Slot {
    /// The name: like that of a task.
    pub name: String,
    /// How many may run at once.
    pub places: u32,
}

impl Slot {
    /// The largest number of places.
    pub const MOST: u32 = 100;

    /// Reads `NAME:PLACES`.
    ///
    /// # Errors
    ///
    /// When it is something else.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.rsplit_once(':').and_then(|(name, places)| {
            let places = places.parse().ok()?;
            let is_valid = is_task_name(name) && (1..=Self::MOST).contains(&places);
            is_valid.then(|| Self {
                name: name.to_owned(),
                places,
            })
        });
        parts.ok_or_else(|| {
            let most = Self::MOST;
            format!("not a name and a number of places up to {most}, like `build:2`")
        })
    }
}

impl std::fmt::Display for Slot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_a_name_and_a_number_of_places() {
        for text in ["build:2", "a.b-c_D:100", "x:1"] {
            assert_eq!(Slot::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "build",
            "build:",
            ":2",
            "build:0",
            "build:101",
            "build:-1",
            "../x:1",
            "a b:1",
            "a:b:1",
            "build:2 ",
        ] {
            assert!(Slot::parse(text).is_err(), "{text}");
        }
    }
}
