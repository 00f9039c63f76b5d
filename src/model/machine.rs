//! Machines: what they are called, and what one asks of another.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Error, ErrorKind, is_name, text};

/// The longest name of a machine, in characters.
const NAME_CHARS: usize = 64;

/// Whether this can be the name of a machine, in texts and in names of consumers.
pub fn is_host_name(name: &str) -> bool {
    is_name(name, NAME_CHARS, "._-")
}

/// Returns the name of a machine to which its system gives this one: what has no place in a name is replaced.
pub fn host_name_of(system: &[u8]) -> String {
    let is_plain = |c: &char| is_host_name(&format!("a{c}"));
    let name = text::one_line(system, NAME_CHARS);
    let name = name.chars();
    let name: String = name.map(|c| if is_plain(&c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(['-', '.', '_']);
    match is_host_name(name) {
        true => name.to_owned(),
        false => "localhost".to_owned(),
    }
}

/// The version of this program, which both machines must have.
pub const OURS: &str = env!("CARGO_PKG_VERSION");

/// The word by which the program executes what another machine asks for.
pub const FAR_CALL: &str = "far-call";

/// What one machine asks of another: an execution of our program there, a line of JSON. The caller's environment
/// does not travel with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FarCall {
    /// The version of the program that asks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// The arguments as they were given, without the program's name. `--host` among them names the machine
    /// they are executed on.
    pub args: Vec<String>,
    /// The command that they are.
    pub verb: String,
    /// Who asks.
    pub caller: FarCaller,
    /// The conversation that asks, `CLIENT:ID`; `None` for a person.
    pub owner: Option<String>,
    /// The task session, unless an argument names it.
    pub session: Option<String>,
    /// The directory to run in. If there is none of this path, it is the home directory.
    pub cwd: Option<String>,
    /// Whether the command depends on it, and it is said if it does not exist.
    pub needs_cwd: bool,
    /// What the command reads.
    pub stdin: FarStdin,
    /// The socket of the tmux server, where the machine knows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<PathBuf>,
    /// The cursor from which a wait that was cut off goes on, instead of what its arguments say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_since: Option<String>,
    /// What is left of its time, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

/// Who asks from another machine, and what their terminal is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FarCaller {
    /// What they call the machine that is asked.
    pub host: String,
    /// The name of theirs.
    pub machine: String,
    /// How wide their terminal is, where standard output is one.
    pub stdout_columns: Option<usize>,
    /// Whether standard output is a terminal.
    pub is_stdout_terminal: bool,
    /// Whether it shows colours.
    pub is_coloured: bool,
    /// Whether it comes by the broker, through which not everything goes.
    pub is_guarded: bool,
}

impl FarCall {
    /// Returns it as a line.
    pub fn line(&self) -> String {
        serde_json::to_string(self).expect("a call is plain data") + "\n"
    }

    /// Returns it as a word that every shell leaves alone.
    pub fn to_word(&self) -> String {
        let line = self.line();
        line.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads such a word.
    pub fn of_word(word: &str) -> Option<Self> {
        let digits = word
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        serde_json::from_slice(&digits.collect::<Option<Vec<u8>>>()?).ok()
    }
}

/// What an execution on another machine reads from standard input. Unless that is what is sent, the end of
/// what is sent interrupts it: nobody waits for it any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FarStdin {
    /// Nothing.
    #[default]
    Nothing,
    /// What is sent after the call.
    Follows,
    /// The same, and its end is the end of the execution.
    Acknowledgements,
    /// This.
    Text(String),
}

/// What a machine answers that executes a command for another one, a line of JSON each.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FarAnswer {
    /// The first: the program there has begun. It has this version.
    TmuxTask(String),
    /// What the command prints.
    Stdout(FarPiece),
    /// What it says on standard error.
    Stderr(FarPiece),
    /// The last: it has ended, with this exit code (128+N for signal N).
    Exit(u8),
    /// The last: it was not executed. There may be no machine of this name.
    Failed(Error),
}

impl From<Error> for FarAnswer {
    fn from(error: Error) -> Self {
        let kind = match error.kind == ErrorKind::NoHost {
            true => ErrorKind::NoHost,
            false => ErrorKind::Failed,
        };
        Self::Failed(Error { kind, ..error })
    }
}

/// A piece of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum FarPiece {
    /// Text.
    Text(String),
    /// What is not UTF-8, or was cut within a character.
    Bytes(Vec<u8>),
}

impl FarPiece {
    /// Returns the piece with these bytes.
    pub fn of(bytes: Vec<u8>) -> Self {
        String::from_utf8(bytes).map_or_else(|error| Self::Bytes(error.into_bytes()), Self::Text)
    }

    /// Returns its bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_one_word_for_every_shell() {
        let call = FarCall {
            args: ["--host", "gpu1", "it's $x\n"].map(str::to_owned).to_vec(),
            ..FarCall::default()
        };
        let word = call.to_word();
        assert!(word.bytes().all(|byte| byte.is_ascii_hexdigit()), "{word}");
        assert_eq!(FarCall::of_word(&word), Some(call));
        for bad in ["", "7", "7z", "7b7d7d", "\u{e9}1"] {
            assert_eq!(FarCall::of_word(bad), None, "{bad}");
        }
    }

    #[test]
    fn answers_are_objects() {
        let piece = |bytes: &[u8]| FarPiece::of(bytes.to_vec());
        for (answer, expected) in [
            (
                FarAnswer::Stdout(piece(b"a\n\"b\"")),
                r#"{"stdout":"a\n\"b\""}"#,
            ),
            (FarAnswer::Stderr(piece(b"\xff,")), r#"{"stderr":[255,44]}"#),
            (FarAnswer::Exit(130), r#"{"exit":130}"#),
        ] {
            assert_eq!(serde_json::to_string(&answer).unwrap(), expected);
            assert_eq!(serde_json::from_str::<FarAnswer>(expected).unwrap(), answer);
        }
    }
}
