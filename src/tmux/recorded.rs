//! The exact command of a task, recorded on its window so that it can be run again.
//!
//! `@tmux_task_command` is for display: blanks are folded. The record is in an option of its own, with
//! the directory and the words as hexadecimal digits, which no format of tmux changes. The environment
//! is not in it, and neither are the variables that `--env` gave: only that there were some, and 16 bits
//! of their hash. They say whether other ones are given now, and too little to guess a value. Of a task
//! that depends on files there is a hash of their names, sizes and times.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::client::Connection;
use super::command_words::CommandWords;
use super::error::TmuxError;
use super::restart_option::{RESTART, decode_restarts};
use crate::model::{Millis, TaskRestarts, WindowId};
use crate::protocol::{Command, Frame};

/// The window option with the record. Both launchers set it.
pub(super) const RECORD: &str = "@tmux_task_rerun";

/// The window option that says when the last launch was requested.
const STARTED: &str = "@tmux_task_started";

/// The version of the format.
const VERSION: &str = "1";

/// How a task was launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedCommand {
    /// What followed `--`: one word is a shell line, several are an argv.
    pub words: Vec<OsString>,
    /// The directory, an absolute path.
    pub cwd: PathBuf,
    /// Whether it ran in tmux's environment instead of its caller's.
    pub is_env_clean: bool,
    /// The digest of the variables that were given, which are not recorded; `None` where none were.
    pub env_digest: Option<u16>,
}

/// The environment of a launch: the caller's or tmux's, and what there is a digest of.
const CALLER: &str = "caller";
const CLEAN: &str = "clean";
const ENV: &str = "env";

impl RecordedCommand {
    /// Returns the record of a launch.
    pub(super) fn of(command: &CommandWords, cwd: &Path) -> Self {
        let words = match command {
            CommandWords::Line(line) => vec![line.clone()],
            CommandWords::Argv(words) => words.clone(),
        };
        Self {
            words,
            cwd: cwd.to_owned(),
            is_env_clean: false,
            env_digest: None,
        }
    }

    pub(super) fn command(&self) -> CommandWords {
        CommandWords::from_words(self.words.clone())
    }

    /// Returns the option's value: `1 STARTED ENVIRONMENT DIRECTORY WORDS`, and the digest of the given
    /// variables where there are any. The words each end with a NUL before they become digits.
    #[must_use]
    pub(crate) fn encode(&self, started: Millis) -> String {
        let mut environment = vec![if self.is_env_clean { CLEAN } else { CALLER }];
        let mut digests = String::new();
        if let Some(digest) = self.env_digest {
            environment.push(ENV);
            digests.push_str(&format!(" {digest:04x}"));
        }
        let mut words = Vec::new();
        for word in &self.words {
            words.extend_from_slice(word.as_bytes());
            words.push(0);
        }
        format!(
            "{VERSION} {started} {} {} {}{digests}",
            environment.join("+"),
            hex(self.cwd.as_os_str().as_bytes()),
            hex(&words),
        )
    }

    /// Reads an option's value; `None` when it is of another version, or damaged.
    #[must_use]
    pub(crate) fn decode(text: &str) -> Option<Self> {
        let mut fields = text.split(' ');
        let (version, _started) = (fields.next()?, fields.next()?);
        let mut environment = fields.next()?.split('+').peekable();
        let is_env_clean = match environment.next()? {
            CALLER => false,
            CLEAN => true,
            _ => return None,
        };
        let cwd = bytes(fields.next()?)?;
        let mut words = bytes(fields.next()?)?;
        let env_digest = match environment.next_if_eq(&ENV) {
            Some(_) => Some(u16::from_be_bytes(array(fields.next()?)?)),
            None => None,
        };
        let is_more = environment.next().is_some() || fields.next().is_some();
        if version != VERSION || is_more || words.pop() != Some(0) {
            return None;
        }
        let words = words.split(|byte| *byte == 0);
        Some(Self {
            words: words.map(|word| OsStr::from_bytes(word).into()).collect(),
            cwd: OsString::from_vec(cwd).into(),
            is_env_clean,
            env_digest,
        })
    }
}

/// What a window says of its last launch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LaunchRecord {
    /// How it was launched; `None` when it has no record, or when a launcher that writes none has used
    /// the window since.
    pub record: Option<String>,
    /// When it is run again by itself, as the option has it, and as it is read.
    pub restart: Option<(String, TaskRestarts)>,
}

/// Returns what the window says of its last launch.
///
/// # Errors
///
/// When tmux fails.
pub(crate) async fn read_record(
    connection: &mut Connection<'_>,
    window: WindowId,
) -> Result<LaunchRecord, TmuxError> {
    let window = window.to_string();
    // Without `-A`: what all windows inherit is no task's record.
    let show = |name: &str| Command::new("show-options").args(["-wqv", "-t", &window, name]);
    let asked = [show(RECORD), show(STARTED), show(RESTART)];
    let frames = connection.run(&asked).await?;
    let shown = |index: usize| frames.get(index).map(Frame::text).unwrap_or_default();
    let (record, started, restart) = (shown(0), shown(1), shown(2));
    let (record, started, restart) = (record.trim(), started.trim(), restart.trim());
    let is_of_launch = record.split(' ').nth(1) == Some(started);
    let restarts = decode_restarts(Some(restart), started.parse().ok());
    Ok(LaunchRecord {
        record: is_of_launch.then(|| record.to_owned()),
        restart: restarts.map(|restarts| (restart.to_owned(), restarts)),
    })
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for half in [byte >> 4, byte & 0xf] {
            digits.extend(char::from_digit(half.into(), 16));
        }
    }
    digits
}

fn array<const N: usize>(digits: &str) -> Option<[u8; N]> {
    bytes(digits)?.try_into().ok()
}

pub(super) fn bytes(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let [high, low] = pair else { return None };
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        u8::try_from(digit(high)? << 4 | digit(low)?).ok()
    };
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[&[u8]]) -> RecordedCommand {
        let words = words.iter().map(|word| OsStr::from_bytes(word).into());
        let command = CommandWords::from_words(words.collect());
        RecordedCommand::of(&command, Path::new("/a b"))
    }

    #[test]
    fn a_record_is_plain_and_has_no_environment() {
        let mut record = record(&[b"ls"]);
        assert_eq!(record.encode(7), "1 7 caller 2f612062 6c7300");
        record.is_env_clean = true;
        assert_eq!(record.encode(7), "1 7 clean 2f612062 6c7300");
    }

    #[test]
    fn given_variables_are_recorded_as_a_short_digest() {
        let mut record = record(&[b"ls"]);
        record.env_digest = Some(0x0a1b);
        let text = record.encode(7);
        assert_eq!(text, "1 7 caller+env 2f612062 6c7300 0a1b");
        assert_eq!(RecordedCommand::decode(&text), Some(record));
    }

    #[test]
    fn what_is_recorded_is_read_byte_for_byte() {
        let every: Vec<u8> = (1..=255).collect();
        for words in [
            &[&b"echo  a\n\tb"[..]][..],
            &[b"printf", b"%s", b"", &every, b"#{pid} #(id) ;"],
            &[b"", b"", b""],
            &[b""],
        ] {
            let mut record = record(words);
            for (is_env_clean, env_digest) in [(false, Some(1)), (true, None), (true, Some(1))] {
                record.is_env_clean = is_env_clean;
                record.env_digest = env_digest;
                let text = record.encode(1_700_000_000_123);
                assert_eq!(RecordedCommand::decode(&text), Some(record.clone()));
                assert!(
                    text.bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b" +".contains(&b))
                );
            }
        }
    }

    #[test]
    fn what_is_no_record_is_refused() {
        for text in [
            "",
            "1",
            "2 7 caller 2f 6c7300",
            "1 7 other 2f 6c7300",
            "1 7 caller 2f 6c73",
            "1 7 caller 2f ",
            "1 7 caller 2f 6c7300 00",
            "1 7 caller+env 2f 6c7300 00",
            "1 7 caller+env 2f 6c7300 0000 00",
            "1 7 caller+other 2f 6c7300",
            "1 7 caller 2 6c7300",
            "1 7 caller 2f 6g00",
            "1 7 caller 2f é00",
        ] {
            assert_eq!(RecordedCommand::decode(text), None, "{text:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            if let Some(record) = RecordedCommand::decode(&text) {
                let started = text.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
                proptest::prop_assert_eq!(
                    RecordedCommand::decode(&record.encode(started)), Some(record)
                );
            }
        }
    }
}
