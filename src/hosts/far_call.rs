//! What is asked of another machine, and what travels with it. The caller's environment does not.
//!
//! The program there reads it as a line of JSON, and executes itself, with the rest of standard input as the
//! call says. What it answers are lines of JSON on standard output ([`FarAnswer`](crate::model::FarAnswer)):
//! that it has begun, what the command prints, and with which code it ends. What ends without a code was lost.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::host::{Host, this_machine};
use crate::model::environment::{WithheldVariables, covers_name};
use crate::model::{FAR_CALL, FarCall, FarCaller, OURS};
use crate::tmux::program;

impl FarCall {
    /// Returns the call of these arguments, for the conversation that asks, in this directory or in the one that
    /// the configuration names there.
    pub(crate) fn new(host: &Host, args: Vec<String>, owner: Option<String>) -> Self {
        let here = || env::current_dir().ok()?.to_str().map(str::to_owned);
        let caller = FarCaller {
            host: host.name.clone(),
            machine: this_machine(),
            ..FarCaller::default()
        };
        Self {
            version: OURS.to_owned(),
            args,
            caller,
            owner,
            cwd: host.config.cwd.clone().or_else(here),
            ..Self::default()
        }
    }

    /// Returns how to execute it on this machine, in a process that reads it from its standard input, or
    /// has it as a `word` among its arguments; and what is said about its directory.
    ///
    /// # Errors
    ///
    /// When our own program is not found.
    pub(crate) fn start(&self, word: Option<&str>) -> io::Result<(Command, Option<String>)> {
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
        let set = [
            ("TMUX_TASK_OWNER", self.owner.as_ref()),
            ("TMUX_TASK_SESSION", self.session.as_ref()),
            ("TMUX_TASK_MACHINE", Some(&self.caller.machine)),
        ];
        let set = set
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        let (cwd, note) = self.directory();
        let mut command = Command::new(program().ok_or(io::ErrorKind::NotFound)?);
        command
            .args([FAR_CALL, "run"])
            .args(word)
            .env_clear()
            .envs(env::vars_os().filter(|(name, _)| !is_ours(name)))
            .envs(set)
            .current_dir(cwd);
        Ok((command, note))
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
        let note = self.needs_cwd.then(|| {
            format!(
                "tmux-task: {}: there is no directory {} on {}: this runs in the home directory",
                self.verb,
                path.display(),
                self.caller.host
            )
        });
        (home, note)
    }

    /// Returns it as a line.
    pub(crate) fn line(&self) -> String {
        serde_json::to_string(self).expect("a call is plain data") + "\n"
    }

    /// Returns it as a word that every shell leaves alone.
    pub(super) fn to_word(&self) -> String {
        let line = self.line();
        line.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Reads such a word.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let digits = word
            .as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        serde_json::from_slice(&digits.collect::<Option<Vec<u8>>>()?).ok()
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
    fn owner_and_session_are_in_the_environment() {
        let (command, _) = call().start(None).unwrap();
        assert_eq!(command.get_args().collect::<Vec<_>>(), [FAR_CALL, "run"]);
        let value = |name: &str| {
            let mut all = command.get_envs();
            let found = all.find(|(known, _)| *known == name)?.1?;
            Some(found.to_str().unwrap().to_owned())
        };
        assert_eq!(value("TMUX_TASK_OWNER").as_deref(), Some("claude:1"));
        assert_eq!(value("TMUX_TASK_SESSION").as_deref(), Some("work"));
        assert_eq!(value("TMUX_TASK_MACHINE").as_deref(), Some("laptop"));
        assert_eq!(value("TMUX"), None);
    }

    #[test]
    fn a_directory_that_does_not_exist_is_said_where_it_matters() {
        let mut call = call();
        call.cwd = Some("/nowhere/x".to_owned());
        assert_eq!(call.directory().1, None);
        call.needs_cwd = true;
        let note = call.directory().1.unwrap();
        assert!(note.contains("no directory /nowhere/x on gpu1"), "{note}");
        call.cwd = Some("/".to_owned());
        assert_eq!(call.directory(), ("/".into(), None));
    }
}
