//! tmux's control mode: bytes to frames and notifications, commands to lines, and the rows that a look
//! returns.
//!
//! Parsing is total: whatever tmux, or a program in one of its panes, writes is data.

mod parser;
pub mod rows;

pub use parser::{ControlItem, Frame, LINE_LIMIT, Notification, Parser};

/// One tmux command.
///
/// ```
/// use tmux_task::rules::protocol::{Command, control_line};
/// let line = control_line(&[
///     Command::new("display-message").args(["-p", "it's"]),
///     Command::new("list-windows").arg("-t").arg("$3"),
/// ]);
/// assert_eq!(line, r"display-message -p 'it'\''s' ; list-windows -t '$3'");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    words: Vec<String>,
}

impl Command {
    /// Returns the command of this name, without arguments.
    pub fn new(name: &str) -> Self {
        Self { words: Vec::new() }.arg(name)
    }

    /// Returns the command with one more word. NUL bytes are dropped, because no way to tmux
    /// transmits them.
    #[must_use]
    pub fn arg(mut self, word: impl Into<String>) -> Self {
        let mut word = word.into();
        if word.contains('\0') {
            word.retain(|c| c != '\0');
        }
        self.words.push(word);
        self
    }

    /// Returns the command with these words added.
    #[must_use]
    pub fn args<W: Into<String>>(self, words: impl IntoIterator<Item = W>) -> Self {
        words.into_iter().fold(self, Self::arg)
    }

    /// Returns the command's name.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", String::as_str)
    }
}

/// Returns the commands as one line of control mode, or as one command string for `if-shell` and
/// `set-hook`. tmux runs the commands of one line without interruption.
pub fn control_line(commands: &[Command]) -> String {
    let one = |command: &Command| {
        let words: Vec<String> = command.words.iter().map(|word| quote(word)).collect();
        words.join(" ")
    };
    let all: Vec<String> = commands.iter().map(one).collect();
    all.join(" ; ")
}

/// Returns the commands as the arguments of one call of the tmux program.
pub fn argv(commands: &[Command]) -> Vec<String> {
    let mut argv = Vec::new();
    for (index, command) in commands.iter().enumerate() {
        if index > 0 {
            argv.push(";".to_owned());
        }
        argv.extend(command.words.iter().map(|word| {
            // tmux takes a `;` at the end of an argument as the end of the command.
            match word.strip_suffix(';') {
                Some(head) => format!("{head}\\;"),
                None => word.clone(),
            }
        }));
    }
    argv
}

/// Returns `word` quoted so that tmux's parser reads exactly this one word.
pub fn quote(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    let mut quoted = String::with_capacity(word.len() + 2);
    quoted.push('\'');
    for c in word.chars() {
        match c {
            '\'' => quoted.push_str("'\\''"),
            // A raw newline would end the line; only an escape in double quotes can express it.
            '\n' => quoted.push_str("'\"\\n\"'"),
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// Returns `text` quoted so that a tmux format expands to it unchanged. `##` expands to `#`, except
/// before `[`, where tmux leaves every `#` as it is.
pub fn literal_format(text: &str) -> String {
    let mut literal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('#') {
        literal.push_str(&rest[..at]);
        let after = rest[at..].trim_start_matches('#');
        let run = &rest[at..rest.len() - after.len()];
        literal.push_str(run);
        if !after.starts_with('[') {
            literal.push_str(run);
        }
        rest = after;
    }
    literal.push_str(rest);
    literal
}

/// Returns `text` quoted as [`literal_format`] does, and so that it can be an argument of a modifier,
/// as in `#{==:FORMAT,text}`.
pub fn literal_argument(text: &str) -> String {
    let literal = literal_format(text);
    literal.replace(',', "#,").replace('}', "#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_doubles_what_a_format_halves() {
        for (text, literal) in [
            ("", ""),
            ("a", "a"),
            ("#{pid}", "##{pid}"),
            ("##", "####"),
            ("a#(id)#", "a##(id)##"),
            ("#[x]", "#[x]"),
            ("##[x]#é", "##[x]##é"),
        ] {
            assert_eq!(literal_format(text), literal);
        }
        // An argument ends at no comma or brace of the text.
        assert_eq!(literal_argument("+a,b+"), "+a#,b+");
        assert_eq!(literal_argument("a}#,"), "a#}###,");
    }

    proptest::proptest! {
        #[test]
        fn a_line_is_one_line(words: Vec<String>) {
            let line = control_line(&[Command::new("x").args(words)]);
            proptest::prop_assert!(!line.contains('\n'));
            proptest::prop_assert!(!line.contains('\0'));
        }
    }
}
