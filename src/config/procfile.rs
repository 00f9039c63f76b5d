//! Procfiles: a line `NAME: COMMAND` for each process, and comments.

use std::collections::BTreeMap;

/// The processes by name: where each is in the text, and its command, a shell line.
pub(super) type Processes<'a> = BTreeMap<&'a str, (usize, &'a str)>;

/// Returns the processes of a text.
///
/// # Errors
///
/// Where something is wrong, and what.
pub(super) fn parse(text: &str) -> Result<Processes<'_>, (usize, String)> {
    let mut processes = BTreeMap::new();
    let mut start = 0;
    for whole in text.split_inclusive('\n') {
        let at = start;
        start += whole.len();
        let line = whole.trim_start_matches('\u{feff}').trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let parts = line.split_once(':');
        let parts = parts.map(|(name, command)| (name.trim_end(), command.trim_start()));
        let Some((name, command)) = parts.filter(|(_, command)| !command.is_empty()) else {
            return Err((at, "it is not `NAME: COMMAND`".to_owned()));
        };
        if command.contains('\0') {
            return Err((at, "a command must not contain a NUL".to_owned()));
        }
        if processes.insert(name, (at, command)).is_some() {
            return Err((at, "an earlier line has this name".to_owned()));
        }
    }
    Ok(processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_a_command() {
        let text = "\u{feff}# c\r\nweb: bundle exec rails s -p 3000\r\n\n\
                    worker_1:rake jobs:work # not a comment for us\n  css : yarn build --watch";
        let processes = parse(text).unwrap();
        let at = |name| text.find(name).unwrap();
        let expected = [
            ("css", (at("  css"), "yarn build --watch")),
            ("web", (at("web:"), "bundle exec rails s -p 3000")),
            (
                "worker_1",
                (at("worker_1"), "rake jobs:work # not a comment for us"),
            ),
        ];
        assert_eq!(processes, BTreeMap::from(expected));
        for (text, at, problem) in [
            ("web: x\nnothing\n", 7, "it is not `NAME: COMMAND`"),
            ("web:\n", 0, "it is not `NAME: COMMAND`"),
            ("web: a\n\nweb: b\n", 8, "an earlier line has this name"),
            ("web: a\0\n", 0, "a command must not contain a NUL"),
        ] {
            assert_eq!(parse(text), Err((at, problem.to_owned())), "{text:?}");
        }
    }
}
