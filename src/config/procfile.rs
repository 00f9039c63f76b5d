//! Procfiles: a line `NAME: COMMAND` for each process, and comments.

/// A process of a Procfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Process<'a> {
    pub(super) line: u32,
    pub(super) name: &'a str,
    /// A shell line.
    pub(super) command: &'a str,
}

/// Returns the processes in the file's order.
///
/// # Errors
///
/// The line of what is wrong, and what.
pub(super) fn parse(text: &str) -> Result<Vec<Process<'_>>, (u32, String)> {
    let mut processes: Vec<Process<'_>> = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, written) in (1..).zip(text.lines()) {
        let written = written.trim();
        if written.is_empty() || written.starts_with('#') {
            continue;
        }
        let parts = written.split_once(':');
        let parts = parts.map(|(name, command)| (name.trim_end(), command.trim_start()));
        let Some((name, command)) = parts.filter(|(_, command)| !command.is_empty()) else {
            return Err((line, "it is not `NAME: COMMAND`".to_owned()));
        };
        if command.contains('\0') {
            return Err((line, "a command must not contain a NUL".to_owned()));
        }
        if let Some(other) = processes.iter().find(|other| other.name == name) {
            let problem = format!("`{name}` is in line {} as well", other.line);
            return Err((line, problem));
        }
        processes.push(Process {
            line,
            name,
            command,
        });
    }
    Ok(processes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_a_command() {
        let text = "\u{feff}# all of it\r\nweb: bundle exec rails s -p 3000\r\n\n\
                    worker_1:rake jobs:work # not a comment for us\n  css : yarn build --watch";
        let processes: Vec<(u32, &str, &str)> = parse(text)
            .unwrap()
            .iter()
            .map(|process| (process.line, process.name, process.command))
            .collect();
        assert_eq!(
            processes,
            [
                (2, "web", "bundle exec rails s -p 3000"),
                (4, "worker_1", "rake jobs:work # not a comment for us"),
                (5, "css", "yarn build --watch"),
            ]
        );
        for (text, line, problem) in [
            ("web: x\nnothing\n", 2, "it is not `NAME: COMMAND`"),
            ("web:\n", 1, "it is not `NAME: COMMAND`"),
            ("web: a\n\nweb: b\n", 3, "`web` is in line 1 as well"),
            ("web: a\0\n", 1, "a command must not contain a NUL"),
        ] {
            assert_eq!(parse(text), Err((line, problem.to_owned())), "{text:?}");
        }
    }
}
