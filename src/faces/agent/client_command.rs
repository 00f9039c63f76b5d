//! Runs a command of a client, with a time limit.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::model::text;

/// How much of what a command prints is kept, in bytes: the last of it.
const MAX_SAID: usize = 4 << 10;

/// How long what it printed may take to arrive after its end: a process that it leaves behind may keep
/// the pipe open.
const SAID_WITHIN: Duration = Duration::from_millis(100);

/// How much of its last line is reported, in characters.
const MAX_REPORTED: usize = 200;

/// Why a command of a client did not succeed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    /// The program does not start.
    #[error("could not start `{}`", .program.display())]
    Spawn {
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It failed, or took too long.
    #[error("`{command}` failed: {reply}")]
    Failed {
        command: String,
        /// The last line that it wrote, or how it ended.
        reply: String,
    },
}

/// Runs the command, for `limit` at most. Then, and when this is dropped before, the command is killed
/// with the processes of its group.
///
/// # Errors
///
/// When it cannot be started, fails or takes too long.
pub(super) async fn run(words: &[OsString], limit: Duration) -> Result<(), CommandError> {
    let Some((program, args)) = words.split_first() else {
        return Ok(());
    };
    let spawned = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|source| CommandError::Spawn {
        program: PathBuf::from(program),
        source,
    })?;
    let mut group = Group::of(&child);
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = timeout(limit, async {
        let mut reading = std::pin::pin!(async {
            tokio::join!(
                keep_last(stdout, &mut said),
                keep_last(stderr, &mut complained)
            )
        });
        tokio::select! {
            status = child.wait() => {
                drop(timeout(SAID_WITHIN, reading).await);
                status
            }
            _ = &mut reading => child.wait().await,
        }
    });
    let ended = ended.await;
    let failed = |reply: &str| CommandError::Failed {
        command: shown(words),
        reply: reply.to_owned(),
    };
    let status = match ended {
        Err(_) => return Err(failed(&format!("no end within {} s", limit.as_secs()))),
        Ok(status) => status.map_err(|error| failed(&error.to_string()))?,
    };
    group.leave();
    if status.success() {
        return Ok(());
    }
    said.extend(complained);
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|line| text::one_line(line.as_bytes(), MAX_REPORTED));
    Err(failed(&match last {
        Some(last) => last,
        None => format!("{status}, without a message"),
    }))
}

/// Returns a command as a shell reads it.
pub(super) fn shown(words: &[OsString]) -> String {
    let word = |word: &OsString| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+".contains(c);
        if word.chars().all(is_plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

async fn keep_last(from: Option<impl AsyncRead + Unpin>, said: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut part).await {
        said.extend_from_slice(&part[..n]);
        said.drain(..said.len().saturating_sub(MAX_SAID));
    }
}

/// The process group of a command. Dropping this kills it.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// The command has ended; what it leaves behind may continue.
    fn leave(&mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // It may have ended.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[tokio::test]
    async fn a_command_that_fails_is_reported_with_what_it_said() {
        let failed = words(&["sh", "-c", "echo no such thing >&2; exit 3"]);
        let error = run(&failed, LONG).await.unwrap_err().to_string();
        assert!(error.ends_with("failed: no such thing"), "{error}");
        let silent = run(&words(&["false"]), LONG).await.unwrap_err().to_string();
        let expected = "`false` failed: exit status: 1, without a message";
        assert_eq!(silent, expected);
        let missing = run(&words(&["/no/such/program"]), LONG).await;
        let missing = missing.unwrap_err().to_string();
        assert_eq!(missing, "could not start `/no/such/program`");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let line = format!("sleep 1000 & echo $! >'{}'; wait", pids.display());
        let hangs = words(&["sh", "-c", &line]);
        let limit = Duration::from_millis(1);
        // The command needs some time to start its child.
        let mut limits = std::iter::successors(Some(limit), |limit| Some(*limit * 2));
        let is_written =
            || std::fs::read_to_string(&pids).is_ok_and(|written| written.ends_with('\n'));
        while !is_written() {
            let error = run(&hangs, limits.next().unwrap()).await.unwrap_err();
            assert!(error.to_string().contains("no end within"), "{error}");
        }
        let pid = std::fs::read_to_string(&pids).unwrap();
        let stat = Path::new("/proc").join(pid.trim()).join("stat");
        let is_alive = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            let state = stat
                .rsplit(") ")
                .next()
                .and_then(|rest| rest.chars().next());
            state.is_some_and(|state| !"ZX".contains(state))
        };
        while is_alive() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn what_a_command_leaves_behind_delays_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line = format!("sleep 1000 & echo $! >'{}'", pid.display());
        run(&words(&["sh", "-c", &line]), LONG).await.unwrap();
        // It continues.
        let pid = std::fs::read_to_string(&pid).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
}
