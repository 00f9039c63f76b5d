//! One line of commands by a client that comes, asks and goes.
//!
//! Not in control mode: tmux up to 3.3a at least crashes, with all that runs in it, when a session
//! is made or ended at the moment in which a control client connects. Marks that we print between
//! the commands take the place of control mode's frames.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Child;

use super::error::TmuxError;
use super::nonce::nonce;
use super::server::Server;
use crate::protocol::{Command, Frame, argv, control_line};

/// How long tmux may take for anything.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(10);

/// A client that is told to go when this is dropped before the client has gone: SIGTERM, which tmux
/// copes with at any time.
#[derive(Debug)]
pub(super) struct Leaving(pub(super) Child);

impl Drop for Leaving {
    fn drop(&mut self) {
        terminate(&self.0);
    }
}

/// tmux takes no more than 16 KiB of arguments, with the marks that we add; a longer line is read
/// from stdin.
const ARGV_LIMIT: usize = 8 * 1024;

/// How commands get to tmux.
enum Way {
    /// As arguments.
    Argv,
    /// As arguments; stdin is for them to read.
    ArgvWith(String),
    /// By stdin.
    Stdin,
}

impl Way {
    fn for_length(commands: &[Command]) -> Self {
        let length: usize = argv(commands).iter().map(|word| word.len() + 1).sum();
        // The marks are some 60 bytes a command.
        if length + 64 * commands.len() > ARGV_LIMIT {
            Self::Stdin
        } else {
            Self::Argv
        }
    }
}

impl Server {
    /// Runs the commands as one line and returns what each said, as frames: one for each, up to
    /// the first that failed.
    ///
    /// # Errors
    ///
    /// When the program or the server is missing, or there is no answer in time. A command that
    /// failed is a frame that is not `ok`.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the client is told to go. What it has asked for may be done.
    pub async fn one_shot(&self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        self.ask(commands, Way::for_length(commands)).await
    }

    /// The same, and nothing of the commands ever stands on a command line: that of the client
    /// that started a server is the server's for as long as it lives.
    ///
    /// # Errors
    ///
    /// As [`Server::one_shot`].
    pub(super) async fn one_shot_unseen(
        &self,
        commands: &[Command],
    ) -> Result<Vec<Frame>, TmuxError> {
        self.ask(commands, Way::Stdin).await
    }

    /// The same, with something for the commands to read from `-`: what must not stand on a
    /// command line, where everybody can see it.
    ///
    /// # Errors
    ///
    /// As [`Server::one_shot`].
    pub async fn one_shot_with(
        &self,
        commands: &[Command],
        given: String,
    ) -> Result<Vec<Frame>, TmuxError> {
        self.ask(commands, Way::ArgvWith(given)).await
    }

    async fn ask(&self, commands: &[Command], way: Way) -> Result<Vec<Frame>, TmuxError> {
        if commands.is_empty() {
            // Without a command the tmux program makes a session.
            return Ok(Vec::new());
        }
        let time = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| {
                i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
            });
        // It stands on a command line for as long as the client lives: no other call knows it.
        let nonce = nonce();
        let marked: Vec<Command> = commands
            .iter()
            .enumerate()
            .flat_map(|(index, command)| {
                let say = Command::new("display-message").args(["-p", &mark(&nonce, index)]);
                [command.clone(), say]
            })
            .collect();
        let (words, input) = match way {
            Way::Argv => (argv(&marked), None),
            Way::ArgvWith(given) => (argv(&marked), Some(given)),
            Way::Stdin => {
                let mut read = vec![Command::new("source-file").arg("-")];
                if commands.first().map(Command::name) == Some("new-session") {
                    read.insert(0, Command::new("start-server"));
                }
                (argv(&read), Some(format!("{}\n", control_line(&marked))))
            }
        };
        let mut process = self.client_process();
        process
            .args(words)
            .stdin(match input {
                Some(_) => Stdio::piped(),
                None => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Told to go when it takes too long, or nobody waits for it any more; tokio reaps it.
        let mut leaving = Leaving(self.spawn(&mut process)?);
        match tokio::time::timeout(TIME_LIMIT, talk(&mut leaving.0, input)).await {
            Ok(said) => self.frames(&said?, &nonce, commands.len(), time),
            Err(_) => Err(TmuxError::TimedOut),
        }
    }

    /// Runs one command in a client of its own, however long it takes; returns whether it was done.
    /// A server that is told to end lets its clients go on as if they had what they wait for, but it
    /// has no sessions by then.
    ///
    /// # Errors
    ///
    /// When the program or the server is missing, or the command fails.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, the client is told to go.
    pub(super) async fn run_until_done(&self, command: Command) -> Result<bool, TmuxError> {
        let name = command.name().to_owned();
        let say = Command::new("display-message").args(["-p", "done #{session_id}"]);
        let mut process = self.client_process();
        process
            .args(argv(&[command, say.clone()]))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut leaving = Leaving(self.spawn(&mut process)?);
        let said = talk(&mut leaving.0, None).await?;
        match String::from_utf8_lossy(&said.out).trim_end() {
            "" => {}
            // Or it lives on without.
            "done" => return Ok(self.one_shot(&[say]).await.is_ok()),
            _ => return Ok(true),
        }
        let said = String::from_utf8_lossy(&said.err);
        match said.trim() {
            "" | "server exited" | "server exited unexpectedly" | "lost server" => Ok(false),
            said if TmuxError::tells_no_server(said) => Err(self.no_server()),
            said => Err(TmuxError::from_reply(&name, said)),
        }
    }

    fn frames(
        &self,
        said: &Said,
        nonce: &str,
        commands: usize,
        time: i64,
    ) -> Result<Vec<Frame>, TmuxError> {
        let frame = |number: usize, ok: bool, body: Vec<Vec<u8>>| Frame {
            time,
            number: number as u64,
            flags: 0,
            ok,
            body,
        };
        let mut frames = Vec::new();
        let mut body: Vec<Vec<u8>> = Vec::new();
        for line in said
            .out
            .strip_suffix(b"\n")
            .unwrap_or(&said.out)
            .split(|b| *b == b'\n')
        {
            if line == mark(nonce, frames.len()).as_bytes() {
                frames.push(frame(frames.len(), true, std::mem::take(&mut body)));
            } else {
                body.push(line.to_vec());
            }
        }
        if frames.len() >= commands {
            return Ok(frames);
        }
        // What the failing command said comes on stderr; of a line read from stdin also on stdout.
        let rest = String::from_utf8_lossy(&body.join(&b'\n')).into_owned();
        let err = String::from_utf8_lossy(&said.err).into_owned();
        if TmuxError::tells_no_server(&err) || TmuxError::tells_no_server(&rest) {
            return Err(self.no_server());
        }
        let reply = if err.trim().is_empty() { rest } else { err };
        let reply = reply.trim_end().as_bytes().to_vec();
        frames.push(frame(frames.len(), false, vec![reply]));
        Ok(frames)
    }
}

/// What a client said.
struct Said {
    out: Vec<u8>,
    err: Vec<u8>,
}

fn mark(nonce: &str, index: usize) -> String {
    format!("{nonce}-{index}")
}

async fn talk(child: &mut Child, input: Option<String>) -> Result<Said, TmuxError> {
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let mut stderr = child.stderr.take().expect("stderr is piped");
    let stdin = child.stdin.take();
    let mut said = Said {
        out: Vec::new(),
        err: Vec::new(),
    };
    let write = async {
        if let (Some(mut stdin), Some(input)) = (stdin, input) {
            // A client that goes before it has read says why on stderr.
            let written = stdin.write_all(input.as_bytes()).await;
            tracing::trace!(?written, "a line went by stdin");
        }
    };
    let ((), out, err) = tokio::join!(
        write,
        stdout.read_to_end(&mut said.out),
        stderr.read_to_end(&mut said.err)
    );
    out.and(err).map_err(TmuxError::Io)?;
    child.wait().await.map_err(TmuxError::Io)?;
    Ok(said)
}

fn terminate(child: &Child) {
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let sent = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        tracing::debug!(?pid, ?sent, "a tmux client did not answer");
    }
}
