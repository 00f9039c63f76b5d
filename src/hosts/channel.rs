//! The end of a channel in a local program, which starts the link if there is none.

use std::io;
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::Command;
use tokio::sync::{Semaphore, mpsc};

use super::far_call::FarCall;
use super::frame::{CHUNK, Chunk, Frame, Hello, LineReader, MAX_LINE, WINDOW};
use super::host::{Host, link_failed, lost, not_started};
use super::ssh::{Questions, Ssh};
use crate::files;
use crate::model::Error;
use crate::paths::lock_link;
use crate::tmux::program;

/// What a link prints when it serves; else it prints why not, an [`Error`] as JSON.
pub(crate) const LINK_READY: &str = "ready";

/// After how many chunks the other side learns that it can send more.
const TELL_AFTER: u32 = 8;

const _: () = assert!(2 * (TELL_AFTER as usize) <= WINDOW, "nobody waits for news");

/// The most that a link prints about why it ended, in bytes.
const MOST_SAID: u64 = 64 << 10;

/// A channel to a host. Dropping it terminates what is executed there.
#[derive(Debug)]
pub(crate) struct Channel {
    host: String,
    reader: LineReader<OwnedReadHalf>,
    input: ChannelInput,
    /// Chunks that were taken and not reported yet.
    n_taken: u32,
    /// The beginning of a line of output.
    line: Vec<u8>,
}

/// What goes to an execution. Can be cloned.
#[derive(Debug, Clone)]
pub(crate) struct ChannelInput {
    queue: mpsc::UnboundedSender<Vec<u8>>,
    /// How many chunks can be sent.
    window: Arc<Semaphore>,
}

/// What comes from an execution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChannelOutput {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// It has ended with this code. Nothing follows.
    Exit(u8),
}

/// Connects to the link of a host. Starts it if there is none; ssh may ask questions first, at the
/// terminal only.
///
/// # Errors
///
/// When the host is not reached.
pub(crate) async fn connect(
    host: &Host,
    ssh: &Ssh,
    questions: Questions,
) -> Result<Channel, Error> {
    if let Some(channel) = find_link(host, ssh).await? {
        return Ok(channel);
    }
    if questions == Questions::AtTerminal {
        authenticate(host, ssh).await?;
    }
    let _starting = lock_link(&ssh.folder, &Ssh::link_key(host)).await;
    if let Some(channel) = find_link(host, ssh).await? {
        return Ok(channel);
    }
    start_link(host).await?;
    let found = find_link(host, ssh).await?;
    found.ok_or_else(|| lost(&host.name))
}

/// Connects to the link; `None` if there is none.
async fn find_link(host: &Host, ssh: &Ssh) -> Result<Option<Channel>, Error> {
    let failed = |error| link_failed(&host.name, &error);
    files::check_folder(&ssh.folder).map_err(failed)?;
    let Ok(stream) = UnixStream::connect(ssh.link_socket(host)).await else {
        return Ok(None);
    };
    if !stream
        .peer_cred()
        .is_ok_and(|peer| peer.uid() == files::our_uid())
    {
        let why = "the process of its link is another user's";
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    let (reader, writer) = stream.into_split();
    let mut reader = LineReader::new(reader);
    // A link that is leaving does not greet.
    match reader.line().await {
        Ok(Some(line)) if Frame::parse(line).ok() == Some(Frame::Hello(Hello::ours())) => {}
        Ok(_) | Err(_) => return Ok(None),
    }
    let (queue, lines) = mpsc::unbounded_channel();
    tokio::spawn(write_lines(writer, lines));
    let window = Arc::new(Semaphore::new(WINDOW));
    Ok(Some(Channel {
        host: host.name.clone(),
        reader,
        input: ChannelInput { queue, window },
        n_taken: 0,
        line: Vec::new(),
    }))
}

/// Writes what is queued: the window limits it. A task of its own, so that reading can be cancelled.
async fn write_lines(mut writer: OwnedWriteHalf, mut lines: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Runs ssh at the terminal, so that it asks what it needs. It leaves its connection to the link.
async fn authenticate(host: &Host, ssh: &Ssh) -> Result<(), Error> {
    let command = ssh.command(host, Questions::AtTerminal, &["-n", "-T"], "exit 0");
    let output = Command::from(command).stdout(Stdio::null()).status().await;
    let status = output.map_err(|error| not_started("ssh", &error))?;
    if status.code() == Some(255) {
        let why = format!("could not reach {}: ssh failed", host.name);
        let hint = format!("`ssh {}` has to work first", host.destination);
        return Err(Error::failed(why).with_hint(hint));
    }
    Ok(())
}

/// Starts the link, which is connected when this returns.
async fn start_link(host: &Host) -> Result<(), Error> {
    let missing = || not_started("tmux-task", &io::ErrorKind::NotFound.into());
    let program = program().ok_or_else(missing)?;
    let failed = |error| not_started(&program.display().to_string(), &error);
    let environment = std::env::vars_os().filter(|(name, _)| {
        let name = name.to_str();
        name.is_some_and(crate::model::environment::reaches_daemon)
    });
    let mut link = Command::new(&program)
        .args(["serve", "--link", &host.name])
        .env_clear()
        .envs(environment)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut printed = String::new();
    let stdout = link.stdout.take().expect("stdout is piped");
    let read = stdout.take(MOST_SAID).read_to_string(&mut printed).await;
    read.map_err(failed)?;
    if printed.trim() == LINK_READY {
        return Ok(());
    }
    Err(serde_json::from_str(&printed)
        .unwrap_or_else(|_| Error::failed(format!("the link to {} ended at once", host.name))))
}

impl Channel {
    /// Executes our program there. To be called once, first.
    pub(crate) fn open(&self, call: FarCall) {
        self.input.send(&Frame::Open(Box::new(call)));
    }

    /// Returns what sends to the execution.
    pub(crate) fn input(&self) -> ChannelInput {
        self.input.clone()
    }

    /// Returns what comes next.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the connection broke, or nothing was executed.
    pub(crate) async fn next(&mut self) -> Result<ChannelOutput, Error> {
        loop {
            let line = match self.reader.line().await {
                Ok(Some(line)) => line,
                Ok(None) => return Err(lost(&self.host)),
                // The link was killed, and had not read everything.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                    return Err(lost(&self.host));
                }
                Err(source) => return Err(self.failed(source)),
            };
            let frame = Frame::parse(line).map_err(|source| self.failed(source))?;
            match frame {
                Frame::Stdout(chunk) => {
                    self.taken();
                    return Ok(ChannelOutput::Stdout(chunk.into_bytes()));
                }
                Frame::Stderr(chunk) => {
                    self.taken();
                    return Ok(ChannelOutput::Stderr(chunk.into_bytes()));
                }
                Frame::Exit(code) => return Ok(ChannelOutput::Exit(code)),
                Frame::Failed(error) => return Err(error),
                Frame::More(n) => self.input.window.add_permits(widened(n)),
                Frame::Hello(_)
                | Frame::Open(_)
                | Frame::Stdin(_)
                | Frame::StdinEnd {}
                | Frame::Signal(_)
                | Frame::Close {} => {}
            }
        }
    }

    /// Returns the next whole line of standard output, without its end; `None` when the execution has
    /// ended. What it says on standard error is left out.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`Channel::next`].
    pub(crate) async fn line(&mut self) -> Result<Option<Vec<u8>>, Error> {
        loop {
            if let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
                let rest = self.line.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.line, rest);
                line.pop();
                return Ok(Some(line));
            }
            match self.next().await? {
                ChannelOutput::Stdout(bytes) if self.line.len() < MAX_LINE => {
                    self.line.extend_from_slice(&bytes);
                }
                ChannelOutput::Stdout(_) => {
                    return Err(self.failed(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "a line is too long",
                    )));
                }
                ChannelOutput::Stderr(_) => {}
                ChannelOutput::Exit(_) => return Ok(None),
            }
        }
    }

    fn taken(&mut self) {
        self.n_taken += 1;
        if self.n_taken >= TELL_AFTER {
            self.input
                .send(&Frame::More(std::mem::take(&mut self.n_taken)));
        }
    }

    fn failed(&self, source: io::Error) -> Error {
        link_failed(&self.host, &source)
    }
}

impl ChannelInput {
    /// Sends bytes for standard input. Returns when the other side has room for them.
    pub(crate) async fn write(&self, bytes: &[u8]) {
        for piece in bytes.chunks(CHUNK) {
            if let Ok(permit) = self.window.acquire().await {
                permit.forget();
            }
            self.send(&Frame::Stdin(Chunk::of(piece)));
        }
    }

    /// Closes standard input.
    pub(crate) fn close(&self) {
        self.send(&Frame::StdinEnd {});
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, number: i32) {
        self.send(&Frame::Signal(number));
    }

    fn send(&self, frame: &Frame) {
        // A broken connection is reported where output is read.
        drop(self.queue.send(frame.line()));
    }
}

/// Returns how many chunks more can be sent, whatever the other side says.
pub(super) fn widened(n: u32) -> usize {
    usize::try_from(n).map_or(WINDOW, |n| n.min(WINDOW))
}
