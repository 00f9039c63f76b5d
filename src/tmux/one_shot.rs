//! One line of commands, run by a client that exits afterwards.
//!
//! Not in control mode: tmux up to 3.3a at least crashes, with everything in it, when a session is
//! created or ended at the moment in which a control client connects. Marks printed between the
//! commands replace control mode's frames.

use std::process::{Output, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use rustix::process::Signal;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};

use super::client_processes::let_server_end;
use super::error::TmuxError;
use super::server::{Probe, Server, is_closed, nonce, nudge, signal};
use crate::rules::protocol::{Command, Frame, argv, control_line};

/// The time limit for any answer of tmux.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// How long a server that ends may keep its socket after it has closed the connections of its clients.
const CLOSES_WITHIN: Duration = Duration::from_millis(200);

/// How often the server is nudged while it owes an answer.
const NUDGE_EVERY: Duration = Duration::from_millis(500);

impl Server {
    /// Waits for an answer, at most [`TIME_LIMIT`], and nudges the server meanwhile: a hook of the
    /// user's that runs a shell holds up the client until tmux has collected that shell, and tmux
    /// with utempter loses the signal that reports it if a task ends at the same time.
    pub(super) async fn answer<T>(&self, talk: impl Future<Output = T>) -> Result<T, TmuxError> {
        let mut talk = std::pin::pin!(talk);
        let mut server = None;
        let answer = async {
            loop {
                if let Ok(answer) = timeout(NUDGE_EVERY, &mut talk).await {
                    return answer;
                }
                // Again and again: nothing reports that it has lost a signal.
                server = server.or_else(|| self.pid());
                server.into_iter().for_each(nudge);
            }
        };
        let answer = timeout(TIME_LIMIT, answer).await;
        answer.map_err(|_| TmuxError::TimedOut)
    }
}

/// A client that gets SIGTERM when this is dropped before it has ended, which is safe for tmux at any time.
#[derive(Debug)]
pub(super) struct TerminateOnDrop(pub(super) Child);

impl Drop for TerminateOnDrop {
    fn drop(&mut self) {
        if let Some(pid) = self.0.id() {
            signal(pid, Signal::TERM);
        }
    }
}

impl Server {
    /// Runs the commands as one line and returns their answers as frames: one for each, up to the first that
    /// failed. Fails when the program or the server is missing, or there is no answer in time. A command that
    /// failed is a frame that is not `ok`. When the future is dropped, the client is terminated. Its commands
    /// may have been carried out.
    pub(crate) async fn one_shot(&self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        self.one_shot_with(commands, None).await
    }

    /// The same, with input for the commands to read from `-`: data that must not be in tmux's log of
    /// commands.
    pub(crate) async fn one_shot_with(
        &self,
        commands: &[Command],
        given: Option<String>,
    ) -> Result<Vec<Frame>, TmuxError> {
        if commands.is_empty() {
            // Without a command the tmux program creates a session.
            return Ok(Vec::new());
        }
        let time = UNIX_EPOCH.elapsed();
        let time = time.map_or(0, |since| since.as_secs().cast_signed());
        // `list-commands` would start a server as well.
        let may_start = commands.first().map(Command::name) == Some("new-session");
        // It is on a command line while the client runs, so it is used for this call only.
        let nonce = nonce();
        let marked = commands.iter().enumerate().flat_map(|(index, command)| {
            let say = Command::new("display-message").args(["-p", &mark(&nonce, index)]);
            [command.clone(), say]
        });
        let marked: Vec<Command> = marked.collect();
        let (words, input) = match given {
            Some(given) => (argv(&marked), given),
            // Not as arguments, which may have 16 KiB, and which everybody sees: those of the client that
            // has started a server remain the server's as long as it runs.
            None => {
                let start = may_start.then(|| Command::new("start-server"));
                let read = Command::new("source-file").arg("-");
                let read: Vec<Command> = start.into_iter().chain([read]).collect();
                (argv(&read), format!("{}\n", control_line(&marked)))
            }
        };
        let mut process = self.client_process();
        match may_start {
            // The server keeps its first client's directory.
            true => process.current_dir("/"),
            false => process.arg("-N"),
        };
        process.args(words).stdin(Stdio::piped());
        // Terminated when it takes too long or the future is dropped. tokio reaps it.
        let mut leaving = TerminateOnDrop(self.spawn(&mut process)?);
        let output = self.answer(talk(&mut leaving.0, Some(input))).await??;
        match self.frames(&output, &nonce, commands.len(), time) {
            Err(TmuxError::Lost { .. }) => Err(self.after_loss().await),
            frames => frames,
        }
    }

    /// Returns what it means that a client lost its connection. A client only knows that; the kernel
    /// knows whether the server still listens.
    pub(super) async fn after_loss(&self) -> TmuxError {
        let mut deadline = Instant::now() + CLOSES_WITHIN;
        let mut connection = self.try_connect().ok();
        while Instant::now() < deadline {
            if self.probe() == Probe::Absent {
                return self.no_server();
            }
            let has_closed = connection.take_if(|connection| is_closed(connection));
            if has_closed.is_some() {
                let_server_end(self);
                deadline = Instant::now() + CLOSES_WITHIN;
            }
            sleep(CLOSES_WITHIN / 40).await;
        }
        TmuxError::Lost {
            socket: self.socket().to_owned(),
        }
    }

    /// Waits on a channel with a client of its own, which sleeps inside the server. Returns whether the
    /// channel was signalled; `false` when the server ended first: it lets its waiting clients continue as if
    /// their wait had ended, but it has no sessions by then. When the future is dropped, the client is
    /// terminated, which is safe because it is not in control mode.
    pub(crate) async fn wait_for(&self, channel: &str) -> Result<bool, TmuxError> {
        let wait = Command::new("wait-for").args(["--", channel]);
        let say = Command::new("display-message").args(["-p", "done #{session_id}"]);
        let mut process = self.client_process();
        process
            .args(argv(&[wait, say.clone()]))
            // A signal to our group is answered by us: a client that it ends looks like a server that ended.
            .process_group(0)
            .stdin(Stdio::null());
        let mut leaving = TerminateOnDrop(self.spawn(&mut process)?);
        let output = talk(&mut leaving.0, None).await?;
        match String::from_utf8_lossy(&output.stdout).trim_end() {
            "" => {}
            // Or the server continues without sessions.
            "done" => return Ok(self.one_shot(&[say]).await.is_ok()),
            _ => return Ok(true),
        }
        let output = String::from_utf8_lossy(&output.stderr);
        match output.trim() {
            "" | "server exited" => Ok(false),
            output if TmuxError::means_lost(output) => {
                let error = self.after_loss().await;
                error.is_missing().then_some(false).ok_or(error)
            }
            output if TmuxError::means_no_server(output) => Err(self.no_server()),
            output => Err(TmuxError::from_reply("wait-for", output)),
        }
    }

    fn frames(
        &self,
        output: &Output,
        nonce: &str,
        commands: usize,
        time: i64,
    ) -> Result<Vec<Frame>, TmuxError> {
        let mut frames: Vec<Frame> = Vec::new();
        let mut body: Vec<Vec<u8>> = Vec::new();
        let add = |frames: &mut Vec<Frame>, ok, body| {
            frames.push(Frame {
                time,
                number: frames.len() as u64,
                flags: 0,
                ok,
                body,
            });
        };
        let printed = output.stdout.strip_suffix(b"\n");
        for line in printed.unwrap_or(&output.stdout).split(|b| *b == b'\n') {
            match line == mark(nonce, frames.len()).as_bytes() {
                true => add(&mut frames, true, std::mem::take(&mut body)),
                false => body.push(line.to_vec()),
            }
        }
        if frames.len() >= commands {
            return Ok(frames);
        }
        // The error of the failing command is on stderr; for a line read from stdin also on stdout.
        let rest = String::from_utf8_lossy(&body.join(&b'\n')).into_owned();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        if TmuxError::means_no_server(&err) || TmuxError::means_no_server(&rest) {
            return Err(self.no_server());
        }
        if TmuxError::means_lost(&err) {
            return Err(TmuxError::Lost {
                socket: self.socket().to_owned(),
            });
        }
        let reply = if err.trim().is_empty() { rest } else { err };
        let reply = reply.trim_end().as_bytes().to_vec();
        add(&mut frames, false, vec![reply]);
        Ok(frames)
    }
}

fn mark(nonce: &str, index: usize) -> String {
    format!("{nonce}-{index}")
}

/// Gives a client its input, and returns what it prints. Not by tokio's function for this, which takes the
/// child: [`TerminateOnDrop`] has to know whether its pid is still its own.
async fn talk(child: &mut Child, input: Option<String>) -> Result<Output, TmuxError> {
    let piped = "all output is piped";
    let mut out = child.stdout.take().expect(piped);
    let mut err = child.stderr.take().expect(piped);
    let stdin = child.stdin.take();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A client that exits before it has read reports why on stderr.
            let written = stdin.write_all(input.as_bytes()).await;
            tracing::debug!(?written, "a line went by stdin");
        }
    };
    let ((), out, err) = tokio::join!(
        write,
        out.read_to_end(&mut stdout),
        err.read_to_end(&mut stderr)
    );
    let status = match out.and(err) {
        Ok(_) => child.wait().await,
        Err(error) => Err(error),
    };
    Ok(Output {
        status: status.map_err(TmuxError::Io)?,
        stdout,
        stderr,
    })
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    use tokio::process::Command;

    use super::*;
    use crate::tmux::tests::server_at;

    /// Listens, and ends when it gets SIGCHLD.
    const LOST_A_SIGNAL: &str = "import signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen()
print(flush=True)
signal.sigwait([signal.SIGCHLD])
";

    #[tokio::test]
    async fn a_server_that_answers_only_after_a_lost_signal_is_nudged() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("s");
        let mut python = Command::new("python3");
        python.args(["-c", LOST_A_SIGNAL]).arg(&socket);
        python.stdout(Stdio::piped()).kill_on_drop(true);
        let mut listening = python.spawn().unwrap();
        let output = BufReader::new(listening.stdout.take().unwrap());
        output.lines().next_line().await.unwrap();
        let server = server_at(&socket, None);
        let ended = server.answer(listening.wait()).await.unwrap().unwrap();
        assert!(ended.success(), "{ended}");
    }
}
