//! What a program says of its progress: OSC 9;4, which tmux keeps from version 3.7 on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How far a program is, as it says itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ProgressFields")]
pub struct Progress {
    /// What the program says of its work.
    pub state: ProgressState,
    /// How much is done, 0 to 100. Absent: the program does not say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "u32")]
    pub percent: Option<u32>,
}

/// What a program says of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ProgressState {
    /// It goes on.
    Normal,
    /// Something has failed.
    Error,
    /// It goes on, and how far it is is not known.
    Indeterminate,
    /// It has been paused.
    Paused,
}

impl Progress {
    /// Parses tmux's state and percentage, with a blank between them; `None` where the program shows no
    /// progress.
    pub fn parse(text: &str) -> Option<Self> {
        let (state, percent) = text.split_once(' ')?;
        let state = match state {
            "normal" => ProgressState::Normal,
            "error" => ProgressState::Error,
            "indeterminate" => ProgressState::Indeterminate,
            "paused" => ProgressState::Paused,
            _ => return None,
        };
        // tmux keeps the last one.
        let is_known = state != ProgressState::Indeterminate;
        let percent = percent.parse().ok().filter(|percent| *percent <= 100);
        Some(Self {
            state,
            percent: percent.filter(|_| is_known),
        })
    }

    /// Returns a bar of this many columns.
    pub fn bar(self, columns: usize) -> String {
        let Some(percent) = self.percent else {
            return "▒".repeat(columns);
        };
        let percent = usize::try_from(percent).unwrap_or(100).min(100);
        let done = columns * percent / 100;
        format!("{}{}", "█".repeat(done), "░".repeat(columns - done))
    }

    /// Returns the percentage; empty where the program does not say it.
    pub fn percentage(self) -> String {
        self.percent
            .map_or_else(String::new, |percent| format!("{percent}%"))
    }

    /// Returns what is to be said besides a percentage; empty while the work goes on.
    pub fn note(self) -> &'static str {
        match self.state {
            ProgressState::Normal | ProgressState::Indeterminate => "",
            ProgressState::Error => "error",
            ProgressState::Paused => "paused",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_tmux_prints_is_shown() {
        let shown = |text| {
            let progress = Progress::parse(text)?;
            let words = [progress.bar(4), progress.percentage()];
            Some(format!("{} {}", words.join(" "), progress.note()))
        };
        let check = |text, expected: Option<&str>| assert_eq!(shown(text).as_deref(), expected);
        check("normal 0", Some("░░░░ 0% "));
        check("normal 50", Some("██░░ 50% "));
        check("normal 99", Some("███░ 99% "));
        check("normal 100", Some("████ 100% "));
        check("error 25", Some("█░░░ 25% error"));
        check("paused 25", Some("█░░░ 25% paused"));
        check("indeterminate 25", Some("▒▒▒▒  "));
        check("normal 101", Some("▒▒▒▒  "));
        for text in ["", " ", "hidden 25", "normal", "other 25"] {
            check(text, None);
        }
    }
}
