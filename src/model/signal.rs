//! Signals, by name and number.

use std::fmt;

use serde::{Deserialize, Serialize};

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
