//! An execution of our program on another machine: what travels with it. The caller's environment does
//! not.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::model::environment::{WithheldVariables, covers_name};
use crate::tmux::program;

/// The option by which an execution on the far side knows who asked: a [`FarCaller`] as JSON.
const OPTION: &str = "--far-caller";

/// An execution of our program on another machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FarCall {
    /// The arguments as they were given, without the program's name. `--host` among them names the
    /// machine they are executed on.
    pub(crate) args: Vec<String>,
    pub(crate) caller: FarCaller,
    /// The conversation that asks, `CLIENT:ID`; `None` for a person.
    pub(crate) owner: Option<String>,
    /// The task session, unless an argument names it.
    pub(crate) session: Option<String>,
    /// The directory to run in. If there is none of this path, it is the home directory.
    pub(crate) cwd: Option<String>,
    /// The command for which it is said that the directory does not exist; `None` for a command that
    /// does not depend on it.
    pub(crate) needs_cwd: Option<String>,
    /// Whether standard input follows.
    pub(crate) has_stdin: bool,
}

/// Who asks from another machine, and what their terminal is.
#[allow(clippy::struct_excessive_bools, reason = "independent facts")]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FarCaller {
    /// What they call this machine.
    pub(crate) host: String,
    /// The name of theirs.
    pub(crate) machine: String,
    /// Whether their standard output is a terminal, and how wide it is.
    #[serde(default)]
    pub(crate) stdout_columns: Option<usize>,
    #[serde(default)]
    pub(crate) is_stdout_terminal: bool,
    #[serde(default)]
    pub(crate) is_stderr_terminal: bool,
    #[serde(default)]
    pub(crate) is_coloured: bool,
    /// Whether they may send nothing that must not be seen on the way.
    #[serde(default)]
    pub(crate) is_guarded: bool,
}

impl std::str::FromStr for FarCaller {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }
}

/// How an execution begins: the program, its arguments, environment and directory.
#[derive(Debug)]
pub(super) struct Start {
    pub(super) program: PathBuf,
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) cwd: PathBuf,
    /// What is said about the directory.
    pub(super) note: Option<String>,
}

impl FarCall {
    /// Returns how to execute it on this machine.
    ///
    /// # Errors
    ///
    /// When our own program is not found.
    pub(super) fn start(&self) -> io::Result<Start> {
        let caller = serde_json::to_string(&self.caller)?;
        let given = self.args.iter().map(OsString::from);
        let args = [OPTION.into(), caller.into()].into_iter().chain(given);
        // Conversations of this machine are not the caller's.
        let withheld = WithheldVariables::default();
        let is_ours = |name: &OsString| {
            let name = name.to_string_lossy();
            let names_session = ["TMUX_TASK_SESSION", "PI_TMUX_SESSION"].contains(&&*name);
            withheld.names().any(|pattern| covers_name(pattern, &name))
                || name == "TMUX"
                || name == "TMUX_PANE"
                || (names_session && self.session.is_some())
        };
        let mut env: Vec<(OsString, OsString)> =
            env::vars_os().filter(|(name, _)| !is_ours(name)).collect();
        let set = [
            ("TMUX_TASK_OWNER", self.owner.as_ref()),
            ("TMUX_TASK_SESSION", self.session.as_ref()),
            ("TMUX_TASK_MACHINE", Some(&self.caller.machine)),
        ];
        env.extend(
            set.into_iter()
                .filter_map(|(name, value)| Some((name.into(), OsString::from(value?)))),
        );
        let (cwd, note) = self.directory();
        Ok(Start {
            program: program().ok_or(io::ErrorKind::NotFound)?,
            args: args.collect(),
            env,
            cwd,
            note,
        })
    }

    /// Returns the directory to run in, and what is said about it.
    fn directory(&self) -> (PathBuf, Option<String>) {
        let home = env::home_dir().unwrap_or_else(|| "/".into());
        let Some(cwd) = self.cwd.as_deref() else {
            return (home, None);
        };
        let path = match cwd.strip_prefix("~/") {
            Some(rest) => home.join(rest),
            None => Path::new(cwd).to_owned(),
        };
        if path.is_dir() {
            return (path, None);
        }
        let note = self.needs_cwd.as_ref().map(|command| {
            format!(
                "tmux-task: {command}: there is no directory {} on {}: this runs in the home directory",
                path.display(),
                self.caller.host
            )
        });
        (home, note)
    }

    /// Returns it as a word that every shell leaves alone.
    pub(super) fn to_word(&self) -> String {
        let json = serde_json::to_vec(self).expect("a call is plain data");
        json.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads such a word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let digits = word
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        serde_json::from_slice(&digits.collect::<Option<Vec<u8>>>()?).ok()
    }

    /// Becomes the execution, in this terminal. `say` gets what is said about the directory. Returns only
    /// if that fails.
    pub(crate) fn exec(&self, say: impl FnOnce(&str)) -> io::Error {
        match self.start() {
            Ok(start) => {
                if let Some(note) = &start.note {
                    say(note);
                }
                std::process::Command::new(start.program)
                    .args(start.args)
                    .env_clear()
                    .envs(start.env)
                    .current_dir(start.cwd)
                    .exec()
            }
            Err(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> FarCall {
        FarCall {
            args: vec![
                "--host".to_owned(),
                "gpu1".to_owned(),
                "it's $x\n".to_owned(),
            ],
            caller: FarCaller {
                host: "gpu1".to_owned(),
                machine: "laptop".to_owned(),
                ..FarCaller::default()
            },
            owner: Some("claude:1".to_owned()),
            session: Some("work".to_owned()),
            ..FarCall::default()
        }
    }

    #[test]
    fn a_call_is_one_word_for_every_shell() {
        let word = call().to_word();
        assert!(word.bytes().all(|byte| byte.is_ascii_hexdigit()), "{word}");
        assert_eq!(FarCall::of_word(&word), Some(call()));
        for bad in ["", "7", "7z", "7b7d7d", "\u{e9}1"] {
            assert_eq!(FarCall::of_word(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_arguments_are_as_given_and_owner_and_session_are_in_the_environment() {
        let start = call().start().unwrap();
        assert_eq!(start.args[0], OPTION);
        assert_eq!(start.args[2..], ["--host", "gpu1", "it's $x\n"]);
        let caller: FarCaller = start.args[1].to_str().unwrap().parse().unwrap();
        assert_eq!(caller, call().caller);
        let value = |name: &str| {
            let found = start.env.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        assert_eq!(value("TMUX_TASK_OWNER").as_deref(), Some("claude:1"));
        assert_eq!(value("TMUX_TASK_SESSION").as_deref(), Some("work"));
        assert_eq!(value("TMUX_TASK_MACHINE").as_deref(), Some("laptop"));
        assert_eq!(value("TMUX"), None);
        assert!(
            start
                .args
                .iter()
                .all(|arg| !arg.to_string_lossy().contains("claude"))
        );
    }

    #[test]
    fn a_directory_that_does_not_exist_is_said_where_it_matters() {
        let mut call = call();
        call.cwd = Some("/nowhere/x".to_owned());
        assert_eq!(call.directory().1, None);
        call.needs_cwd = Some("run".to_owned());
        let note = call.directory().1.unwrap();
        assert!(note.contains("no directory /nowhere/x on gpu1"), "{note}");
        call.cwd = Some("/".to_owned());
        assert_eq!(call.directory(), ("/".into(), None));
    }
}
