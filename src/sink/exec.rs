//! A program that is started for each record: the record is on its standard input.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::delivery::Delivery;
use crate::model::Error;
use crate::model::environment::reaches_tmux_server;
use crate::process::{ProgramEnd, run_program};

/// A program with its arguments. No shell reads them.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    /// The program, then its arguments.
    pub(crate) words: Vec<String>,
    /// How long it may run.
    pub(crate) timeout: Duration,
}

impl Exec {
    /// Runs the program. It has taken the record if it ends with 0.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<(), Error> {
        let Some((program, args)) = self.words.split_first() else {
            return Ok(());
        };
        // What whoever started the daemon had in their environment is none of the program's business.
        let login =
            env::vars_os().filter(|(name, _)| name.to_str().is_some_and(reaches_tmux_server));
        let own = delivery.variables.iter();
        let own =
            own.map(|(name, value)| (OsString::from(format!("TMUX_TASK_{name}")), value.into()));
        let variables: Vec<(OsString, OsString)> = login.chain(own).collect();
        let home = env::home_dir().filter(|home| home.is_dir());
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(variables)
            .current_dir(home.as_deref().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // A program need not read the record.
        let record = format!("{}\n", delivery.line);
        let ended = run_program(&mut command, record.as_bytes(), self.timeout).await;
        ended.map_err(|end| match end {
            ProgramEnd::NotStarted(error) => {
                Error::io(format_args!("could not start `{program}`"), &error)
            }
            ProgramEnd::TimedOut => {
                let limit = self.timeout.as_secs_f32();
                Error::failed(format!("no end within {limit}s"))
            }
            ProgramEnd::Unknown(error) => Error::failed(error.to_string()),
            ProgramEnd::Failed(status, Some(last)) => Error::failed(format!("{status}: {last}")),
            ProgramEnd::Failed(status, None) => Error::failed(status.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::with_causes;

    async fn run(line: &str, timeout: Duration) -> Result<(), Error> {
        let words = ["sh", "-c", line].map(str::to_owned).to_vec();
        let delivery = Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![("KIND", "event".to_owned())],
        };
        Exec { words, timeout }.deliver(&delivery).await
    }

    #[track_caller]
    fn check(said: Result<(), Error>, expected: &str) {
        assert_eq!(said.unwrap_err().to_string(), expected);
    }

    #[tokio::test]
    async fn a_program_has_the_record_if_it_ends_with_0() {
        let minute = Duration::from_secs(60);
        let line = "read -r r && test \"$r\" = '{\"seq\":1}' && test \"$TMUX_TASK_KIND\" = event";
        run(line, minute).await.unwrap();
        // It need not read, and what it leaves behind is not waited for.
        let dir = tempfile::tempdir().unwrap();
        let left = format!(
            "while test -e '{}'; do sleep 0.1; done & true",
            dir.path().display()
        );
        run(&left, minute).await.unwrap();
        drop(dir);
        check(
            run("echo a >&2; echo b >&2; exit 3", minute).await,
            "exit status: 3: b",
        );
        check(run("kill -9 $$", minute).await, "signal: 9 (SIGKILL)");
        check(
            run("sleep 60", Duration::from_millis(50)).await,
            "no end within 0.05s",
        );
        let exec = Exec {
            words: vec!["/no/such".to_owned()],
            timeout: minute,
        };
        let delivery = Delivery {
            id: String::new(),
            line: String::new(),
            variables: Vec::new(),
        };
        let error = with_causes(&exec.deliver(&delivery).await.unwrap_err());
        assert!(
            error.starts_with("could not start `/no/such`: No such file"),
            "{error}"
        );
    }
}
