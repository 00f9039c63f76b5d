//! The version of tmux.

use std::fmt;

/// A format that is true before 3.8, which has no need of some precautions. OpenBSD counts its own
/// releases, of which any may be older.
pub(super) const IS_BEFORE_3_8: &str = "#{||:#{m:*3.[2-7]*,#{version}},#{m:openbsd-*,#{version}}}";

/// A version of tmux, as printed by `tmux -V`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Version {
    /// The text without the leading `tmux`.
    text: String,
    /// Major and minor number; `None` for `master` and other versions without a number.
    number: Option<(u32, u32)>,
    openbsd: bool,
}

impl Version {
    /// Reads the output of `tmux -V`.
    #[must_use]
    pub(crate) fn parse(output: &str) -> Self {
        // What prints another name is not tmux, whatever its version is.
        let text = output.trim().strip_prefix("tmux ").unwrap_or("").trim();
        let openbsd = text.starts_with("openbsd-");
        let digits = text
            .trim_start_matches("openbsd-")
            .trim_start_matches("next-");
        Self {
            text: crate::model::text::one_line(text.as_bytes(), 40),
            number: number(digits),
            openbsd,
        }
    }

    /// Whether the output was that of tmux.
    #[must_use]
    pub(crate) fn is_known(&self) -> bool {
        !self.text.is_empty()
    }

    /// Whether it is supported. 3.2 is the first with the required flags of `attach-session`. A
    /// version without a number was built from newer source.
    #[must_use]
    pub(crate) fn is_supported(&self) -> bool {
        match self.number {
            // OpenBSD counts its own releases; 6.8 contains what became 3.2.
            Some(number) if self.openbsd => number >= (6, 8),
            Some(number) => number >= (3, 2),
            None => true,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn number(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    Some((major.parse().ok()?, minor[..digits].parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_distinguished() {
        for (text, supported) in [
            ("tmux 3.3a\n", true),
            ("tmux 3.2", true),
            ("tmux 3.1c", false),
            ("tmux 2.9a", false),
            ("tmux 3.10", true),
            ("tmux next-3.8", true),
            ("tmux next-3.1", false),
            ("tmux master", true),
            ("tmux openbsd-7.4", true),
            ("tmux openbsd-6.6", false),
            ("", true),
        ] {
            assert_eq!(Version::parse(text).is_supported(), supported, "{text}");
        }
        assert_eq!(Version::parse("tmux 3.3a\n").to_string(), "3.3a");
    }

    #[test]
    fn only_tmux_has_a_version_of_tmux() {
        for (output, is_known) in [
            ("tmux 3.3a\n", true),
            ("tmux master", true),
            // Of `echo -V`, `true -V`, and `bash -V`.
            ("-V\n", false),
            ("", false),
            ("GNU bash, version 5.2\n", false),
        ] {
            assert_eq!(Version::parse(output).is_known(), is_known, "{output}");
        }
    }
}
