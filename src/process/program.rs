//! Runs a program with a time limit, and keeps the last of what it prints.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::model::text;

/// How much of what a program prints is kept, in bytes: the last of it.
const MAX_SAID: usize = 4 << 10;

/// How long what it printed may take to arrive after its end: a process that it leaves behind may keep
/// the pipe open.
const SAID_WITHIN: Duration = Duration::from_millis(100);

/// How much of its last line is reported, in characters.
const MAX_REPORTED: usize = 200;

/// How a program ended that did not succeed.
#[derive(Debug)]
pub(crate) enum ProgramEnd {
    /// It does not start, or is not known to have started.
    NotStarted(io::Error),
    /// It took too long, and was killed.
    TimedOut,
    /// It failed; with its last line, of what is piped.
    Failed(ExitStatus, Option<String>),
}

/// Runs a program, for `limit` at most. `input` is written to its standard input if that is piped; it need
/// not read it. At its end, what it leaves behind continues; at the limit, and when this is dropped before,
/// the program is killed with the processes of its group. Fails when it does not end with 0.
pub(crate) async fn run_program(
    command: &mut Command,
    input: &[u8],
    limit: Duration,
) -> Result<(), ProgramEnd> {
    let command = command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(ProgramEnd::NotStarted)?;
    let group = Group::of(&child);
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let write = async move {
        if let Some(mut stdin) = stdin {
            drop(stdin.write_all(input).await);
        }
    };
    let talking = async {
        tokio::join!(
            write,
            keep_last(stdout, &mut said),
            keep_last(stderr, &mut complained)
        )
    };
    let ended = timeout(limit, async {
        let mut talking = std::pin::pin!(talking);
        tokio::select! {
            status = child.wait() => {
                drop(timeout(SAID_WITHIN, talking).await);
                status
            }
            _ = &mut talking => child.wait().await,
        }
    });
    let status = match ended.await {
        // Dropping the group ends it.
        Err(_) => return Err(ProgramEnd::TimedOut),
        Ok(status) => status,
    };
    group.leave();
    let status = status.map_err(ProgramEnd::NotStarted)?;
    if status.success() {
        return Ok(());
    }
    let all = [said, complained].concat();
    let all = String::from_utf8_lossy(&all);
    let last = all.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|line| text::one_line(line.as_bytes(), MAX_REPORTED));
    Err(ProgramEnd::Failed(status, last))
}

async fn keep_last(from: Option<impl AsyncRead + Unpin>, said: &mut Vec<u8>) {
    let Some(mut from) = from else { return };
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut part).await {
        said.extend_from_slice(&part[..n]);
        let n_more = said.len().saturating_sub(MAX_SAID);
        said.drain(..n_more);
    }
}

/// The process group of a program. Dropping this kills it.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }

    /// The program has ended; what it leaves behind may continue.
    fn leave(mut self) {
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
    use std::process::Stdio;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    async fn run(line: &str, limit: Duration) -> Result<(), ProgramEnd> {
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::piped());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        run_program(&mut command, b"hello\n", limit).await
    }

    #[tokio::test]
    async fn a_program_that_fails_is_reported_with_its_last_line() {
        run("read -r r && test \"$r\" = hello", LONG).await.unwrap();
        let end = run("echo a; echo no such thing >&2; exit 3", LONG).await;
        let Err(ProgramEnd::Failed(status, Some(last))) = end else {
            panic!("{end:?}");
        };
        assert_eq!((status.code(), &*last), (Some(3), "no such thing"));
        let end = run("exit 1", LONG).await;
        assert!(matches!(end, Err(ProgramEnd::Failed(_, None))), "{end:?}");
        let end = run_program(&mut Command::new("/no/such"), b"", LONG).await;
        assert!(matches!(end, Err(ProgramEnd::NotStarted(_))), "{end:?}");
        // What it leaves behind delays nothing, and continues.
        let dir = tempfile::tempdir().unwrap();
        let pid = dir.path().join("pid");
        let line = format!("sleep 1000 & echo $! >'{}'", pid.display());
        run(&line, LONG).await.unwrap();
        let pid = std::fs::read_to_string(&pid).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }

    #[tokio::test]
    async fn a_program_that_hangs_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pids = dir.path().join("pids");
        let line = format!("sleep 1000 & echo $! >'{}'; wait", pids.display());
        let limit = Duration::from_millis(1);
        // The program needs some time to start its child.
        let mut limits = std::iter::successors(Some(limit), |limit| Some(*limit * 2));
        let is_written =
            || std::fs::read_to_string(&pids).is_ok_and(|written| written.ends_with('\n'));
        while !is_written() {
            let end = run(&line, limits.next().unwrap()).await;
            assert!(matches!(end, Err(ProgramEnd::TimedOut)), "{end:?}");
        }
        let pid = std::fs::read_to_string(&pids).unwrap();
        let stat = Path::new("/proc").join(pid.trim()).join("stat");
        let is_alive = || {
            let stat = std::fs::read_to_string(&stat).unwrap_or_default();
            let rest = stat.rsplit(") ").next().unwrap_or_default();
            !rest.is_empty() && !rest.starts_with(['Z', 'X'])
        };
        while is_alive() {
            tokio::task::yield_now().await;
        }
    }
}
