//! The version of tmux.

use crate::model::text;

/// A format that is true before 3.8, which has no need of some precautions. OpenBSD counts its own
/// releases, of which any may be older.
pub(super) const IS_BEFORE_3_8: &str = "#{||:#{m:*3.[2-7]*,#{version}},#{m:openbsd-*,#{version}}}";

/// Returns the version in the output of `tmux -V`; `None` if the program is not tmux.
pub(super) fn version_in(output: &str) -> Option<String> {
    // What prints another name is not tmux, whatever its version is.
    let version = output.trim().strip_prefix("tmux ")?.trim();
    (!version.is_empty()).then(|| text::one_line(version.as_bytes(), 40))
}

/// Whether this version is supported. 3.2 is the first with the required flags of `attach-session`. A
/// version without a number, such as `master`, was built from newer source.
pub(super) fn is_supported(version: &str) -> bool {
    // OpenBSD counts its own releases; 6.8 contains what became 3.2.
    let (version, oldest) = match version.strip_prefix("openbsd-") {
        Some(release) => (release, (6, 8)),
        None => (version.trim_start_matches("next-"), (3, 2)),
    };
    number(version).is_none_or(|number| number >= oldest)
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
        let versions = "3.3a 3.2 3.1c 2.9a 3.10 next-3.8 next-3.1 master openbsd-7.4 openbsd-6.6";
        let supported: Vec<&str> = versions
            .split(' ')
            .filter(|text| is_supported(text))
            .collect();
        let expected = ["3.3a", "3.2", "3.10", "next-3.8", "master", "openbsd-7.4"];
        assert_eq!(supported, expected);
    }

    #[test]
    fn only_tmux_has_a_version_of_tmux() {
        for (output, version) in [
            ("tmux 3.3a\n", Some("3.3a")),
            ("tmux master", Some("master")),
            // Of `echo -V`, `true -V`, and `bash -V`.
            ("-V\n", None),
            ("", None),
            ("GNU bash, version 5.2\n", None),
        ] {
            assert_eq!(version_in(output).as_deref(), version, "{output}");
        }
    }
}
