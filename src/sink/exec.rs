//! A program that is started for each record: the record is on its standard input.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::delivery::Delivery;
use super::error::SinkError;
use crate::model::environment::reaches_tmux_server;
use crate::model::text;

/// How much of what the program says on standard error is kept, in bytes.
const MAX_SAID: usize = 4 << 10;

/// How long what it said may take to arrive after its end.
const SAID_WITHIN: Duration = Duration::from_millis(100);

/// How much of its last line is reported, in characters.
const MAX_REPORTED: usize = 200;

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
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<(), SinkError> {
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
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| SinkError::Spawn {
            program: program.clone(),
            source,
        })?;
        let group = Group::of(&child);
        let ended = timeout(self.timeout, feed(&mut child, &delivery.line)).await;
        match ended {
            Ok(result) => {
                group.leave();
                result
            }
            // Dropping the group ends it.
            Err(_) => Err(SinkError::TimedOut(self.timeout)),
        }
    }
}

/// Writes the record and waits for the program's end.
async fn feed(child: &mut Child, line: &str) -> Result<(), SinkError> {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let writing = async move {
        if let Some(mut stdin) = stdin {
            // A program need not read it.
            drop(stdin.write_all(format!("{line}\n").as_bytes()).await);
        }
    };
    let said = Mutex::new(Vec::new());
    let reading = async {
        let Some(mut stderr) = stderr else { return };
        let mut part = [0; 4096];
        while let Ok(1..) = stderr
            .read(&mut part)
            .await
            .map(|n| keep(&said, &part[..n]))
        {}
    };
    let mut talking = std::pin::pin!(async { tokio::join!(writing, reading) });
    let mut has_said_all = false;
    let status = tokio::select! {
        status = child.wait() => status,
        _ = &mut talking => {
            has_said_all = true;
            child.wait().await
        }
    };
    if !has_said_all {
        // A process that the program leaves behind may keep its standard error open.
        drop(timeout(SAID_WITHIN, talking).await);
    }
    let status = status.map_err(|error| SinkError::Failed(error.to_string()))?;
    if status.success() {
        return Ok(());
    }
    let said = said.lock().unwrap_or_else(PoisonError::into_inner);
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|line| text::one_line(line.as_bytes(), MAX_REPORTED));
    Err(SinkError::Failed(match last {
        Some(last) => format!("{status}: {last}"),
        None => status.to_string(),
    }))
}

/// Keeps the last of what is said; returns how much came.
fn keep(said: &Mutex<Vec<u8>>, part: &[u8]) -> usize {
    let mut said = said.lock().unwrap_or_else(PoisonError::into_inner);
    said.extend_from_slice(part);
    let n_more = said.len().saturating_sub(MAX_SAID);
    said.drain(..n_more);
    part.len()
}

/// The program and the processes that it starts. Dropping this ends them.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// The program has ended; what it leaves behind may go on.
    fn leave(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            kill_process_group(pid, Signal::KILL).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::with_causes;

    async fn run(line: &str, timeout: Duration) -> Result<(), SinkError> {
        let words = ["sh", "-c", line].map(str::to_owned).to_vec();
        let delivery = Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![("KIND", "event".to_owned())],
        };
        Exec { words, timeout }.deliver(&delivery).await
    }

    #[track_caller]
    fn check(said: Result<(), SinkError>, expected: &str) {
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
