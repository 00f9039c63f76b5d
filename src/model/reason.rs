//! Why a run ended or a task is gone.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a run ended or a task is no longer in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Reason")]
pub enum GoneReason {
    /// A later run replaced it.
    Replaced,
    /// A user ended it with our commands.
    UserKilled,
    /// The agent ended it with our tools.
    // The one that owns it, or any agent if nobody owns it.
    AgentKilled,
    /// Another agent than its owner ended it with our tools. Programs are told so besides, by
    /// `EndedByName`.
    #[serde(rename = "agentKilled", skip_deserializing)]
    OtherAgentKilled,
    /// It lasted longer than its launch allowed.
    TimedOut,
    /// Its window was moved to another session.
    Moved,
}

impl GoneReason {
    /// The reasons of ends that we have caused, with their words.
    const ENDED: [(&str, Self); 4] = [
        ("userKilled", Self::UserKilled),
        ("agentKilled", Self::AgentKilled),
        ("otherAgentKilled", Self::OtherAgentKilled),
        ("timedOut", Self::TimedOut),
    ];

    /// Returns the word for a reason why a run is ended; `None` for one that ends nothing.
    pub fn word(self) -> Option<&'static str> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(word, reason)| (*reason == self).then_some(*word))
    }

    /// Returns the word for it in what users read, where an agent is one of them.
    pub fn shown_word(self) -> Option<&'static str> {
        let is_other = self == Self::OtherAgentKilled;
        if is_other { Self::AgentKilled } else { self }.word()
    }

    /// Returns the reason with this word.
    pub fn of_word(word: &str) -> Option<Self> {
        let mut ended = Self::ENDED.iter();
        ended.find_map(|(other, reason)| (*other == word).then_some(*reason))
    }

    /// Whether our commands have ended the run, and not something else.
    pub fn is_end(self) -> bool {
        self.word().is_some()
    }
}

/// Who ended the task of an agent, other than that agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum EndedByName {
    /// Another agent.
    OtherAgent,
}

/// A signal by its full name, `SIGKILL`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Signal(String);

impl TryFrom<String> for Signal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text).ok_or_else(|| format!("no signal `{text}`"))
    }
}

/// Signal names by their numbers on this system, from 1. Other signals are named by number.
#[cfg(target_os = "linux")]
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// As macOS and the BSDs number them.
#[cfg(not(target_os = "linux"))]
const SIGNALS: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "EMT", "FPE", "KILL", "BUS", "SEGV", "SYS",
    "PIPE", "ALRM", "TERM", "URG", "STOP", "TSTP", "CONT", "CHLD", "TTIN", "TTOU", "IO", "XCPU",
    "XFSZ", "VTALRM", "PROF", "WINCH", "INFO", "USR1", "USR2",
];

impl Signal {
    /// Returns the signal with this number.
    pub fn from_number(number: u8) -> Self {
        match SIGNALS.get(usize::from(number).wrapping_sub(1)) {
            Some(name) => Self(format!("SIG{name}")),
            None => Self(format!("SIG{number}")),
        }
    }

    /// Reads a number (`9`) or a name with or without `SIG`, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(number) = text.parse() {
            return (number != 0).then(|| Self::from_number(number));
        }
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        let plausible = !name.is_empty()
            && name.len() <= 16
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'+' || b == b'-');
        plausible.then(|| Self(format!("SIG{name}")))
    }

    /// Returns the name, `SIGKILL`.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Returns the number, for exit codes of 128 and more.
    pub fn number(&self) -> Option<u8> {
        let name = self.0.strip_prefix("SIG")?;
        let by_name = SIGNALS.iter().position(|known| *known == name);
        by_name
            .and_then(|index| u8::try_from(index + 1).ok())
            .or_else(|| name.parse().ok())
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_by_number_and_name_are_the_same() {
        for text in ["9", "KILL", "SIGKILL", "sigkill"] {
            assert_eq!(
                Signal::parse(text).map(|s| s.to_string()).as_deref(),
                Some("SIGKILL")
            );
        }
        assert_eq!(Signal::from_number(15).number(), Some(15));
        assert_eq!(Signal::from_number(34).name(), "SIG34");
        assert_eq!(Signal::from_number(34).number(), Some(34));
        assert_eq!(Signal::parse("0"), None);
        assert_eq!(Signal::parse(""), None);
        assert_eq!(Signal::parse("rm -rf"), None);
    }
}
