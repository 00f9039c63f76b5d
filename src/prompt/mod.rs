//! Does a screen show a question to a person, and which line asks it?
//!
//! One function, so that how it decides can change without anybody noticing. For now it goes by
//! what such lines usually say.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

use crate::model::{Prompt, Screen, text};

/// How many of the last rows with text are looked at.
const ROWS: usize = 8;

/// The longest prompt that is told, in characters.
const MAX_CHARS: usize = 300;

/// What lines that ask usually say; `\b` keeps `confirmed` and `proceeding` out.
const ASKS: &str = r"\[y/n\]|\(y/n\)|\bconfirm\b|\bare you sure\b|\bproceed\b|\bcontinue\?|\bpress enter to continue\b|\bpassword:|\bpassphrase:|\bselect an option\b|\bchoose\b.*:|\bchoice:";

/// What lines say that ask for something not to be shown.
const SECRET: &str = r"\bpassword:|\bpassphrase:";

/// A question on a screen and the row it stands on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What is asked.
    pub prompt: Prompt,
    /// The index of its row in [`Screen::rows`].
    pub row: usize,
}

/// Returns the latest line of the last rows that asks something.
#[must_use]
pub fn find(screen: &Screen) -> Option<Found> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| ignoring_case(ASKS));
    static SECRET_PATTERN: LazyLock<Regex> = LazyLock::new(|| ignoring_case(SECRET));

    let rows = screen.rows.iter().enumerate().rev();
    rows.filter(|(_, row)| !row.trim().is_empty())
        .take(ROWS)
        .find(|(_, row)| PATTERN.is_match(row))
        .map(|(index, row)| Found {
            prompt: Prompt {
                text: text::one_line(row.as_bytes(), MAX_CHARS),
                secret: SECRET_PATTERN.is_match(row),
            },
            row: index,
        })
}

fn ignoring_case(pattern: &str) -> Regex {
    RegexBuilder::new(pattern)
        .case_insensitive(true)
        .build()
        .expect("a constant pattern compiles")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(screen: &str, expected: Option<&str>) {
        let rows = screen.split('\n').map(str::to_owned).collect();
        let found = find(&Screen {
            rows,
            ..Screen::default()
        });
        assert_eq!(
            found.map(|found| found.prompt.text).as_deref(),
            expected,
            "{screen:?}"
        );
    }

    #[test]
    fn every_usual_question_is_found() {
        for line in [
            "Proceed? [y/N]",
            "Go on [Y/n]",
            "really [y/n]?",
            "Overwrite (y/n)",
            "Overwrite (Y/n)",
            "Overwrite (y/N) ",
            "Please CONFIRM",
            "Are you sure?",
            "proceed",
            "Continue?",
            "Press Enter to continue",
            "[sudo] password: ",
            "Enter passphrase:",
            "Select an option",
            "Choose a colour:",
            "Your choice:",
        ] {
            check(line, Some(line.trim()));
        }
    }

    #[test]
    fn statements_are_not_questions() {
        for line in [
            "",
            "building...",
            "confirmed",
            "proceeding",
            "password changed",
            "continue",
        ] {
            check(line, None);
        }
    }

    #[test]
    fn the_latest_of_the_last_eight_rows_with_text_wins() {
        check("Proceed? [y/N]\nPassword:", Some("Password:"));
        check(
            "Proceed? [y/N]\n\n\n1\n2\n3\n4\n5\n6\n7",
            Some("Proceed? [y/N]"),
        );
        check("Proceed? [y/N]\n1\n2\n3\n4\n5\n6\n7\n8", None);
    }

    #[test]
    fn only_passwords_are_secret() {
        let secret = |line: &str| {
            let screen = Screen {
                rows: vec![line.into()],
                ..Screen::default()
            };
            find(&screen).map(|found| found.prompt.secret)
        };
        assert_eq!(secret("Password:"), Some(true));
        assert_eq!(secret("Enter passphrase:"), Some(true));
        assert_eq!(secret("Proceed? [y/N]"), Some(false));
    }
}
