//! The link: a background process that holds one pipe to the far side and carries the channels of all
//! local clients over it. It sleeps while nothing comes, and ends with the pipe, or when it had no client
//! for a while.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::frame::{Frame, Hello, LineReader, WINDOW, of_channel, to_channel};
use super::greeting::{Said, greet};
use super::host::{Host, link_failed};
use super::ssh::{Questions, Ssh, far_script, of_shell_after_noise};
use crate::files;
use crate::model::Error;
use crate::paths::hex;

/// How long a link without clients stays.
const STAYS: Duration = Duration::from_secs(600);

/// How many lines of all clients may wait for the pipe.
const TO_PIPE: usize = 64;

/// How many lines may wait for a client: what its window allows, what acknowledges its own chunks, and
/// its end.
const TO_CLIENT: usize = 2 * WINDOW + 8;

/// How long clients have to take what came before the pipe broke.
const TAKES_REST: Duration = Duration::from_secs(2);

impl Ssh {
    /// Returns what names the files of a link: the host, all that it depends on, and our version.
    pub(super) fn link_key(host: &Host) -> String {
        let Hello { frames, version } = Hello::ours();
        hex(format!("{host:?} {frames} {version}").as_bytes(), 16)
    }

    /// Returns the socket of a link.
    pub(super) fn link_socket(&self, host: &Host) -> PathBuf {
        self.folder.join(format!("{}.sock", Self::link_key(host)))
    }
}

/// The queues of the clients, by channel.
type Clients = RefCell<BTreeMap<u32, mpsc::Sender<Vec<u8>>>>;

/// Connects to the host, calls `ready`, and serves clients.
///
/// # Errors
///
/// When the host is not reached. A pipe that breaks later is no error.
pub(crate) async fn hold_link(host: &Host, ssh: &Ssh, ready: impl FnOnce()) -> Result<(), Error> {
    let line = of_shell_after_noise(&far_script(host.program.as_deref(), "serve --stdio"));
    let mut child = ssh.start(host, Questions::Never, &line, Stdio::piped())?;
    let stdin = child.stdin.take().expect("stdin is piped");
    let mut from = LineReader::new(child.stdout.take().expect("stdout is piped"));
    let said = Said::default();
    let mut saying = std::pin::pin!(said.collect(child.stderr.take().expect("stderr is piped")));
    let greeted = {
        let mut greeting = std::pin::pin!(greet(host, &mut child, &mut from, &said));
        tokio::select! {
            greeted = &mut greeting => greeted,
            () = &mut saying => greeting.await,
        }
    };
    let hello = Frame::Hello(greeted?).line();
    let socket =
        Socket::listen(ssh.link_socket(host)).map_err(|error| link_failed(&host.name, &error))?;
    ready();
    let clients = Clients::default();
    let (to_pipe, queue) = mpsc::channel(TO_PIPE);
    let mut serving = std::pin::pin!(serve_clients(&socket.listener, &hello, &clients, to_pipe));
    // Losing an arm is safe: what follows ends with all of them.
    tokio::select! {
        () = &mut serving => return Ok(()),
        () = write_pipe(stdin, queue) => {}
        () = read_pipe(&mut from, &clients) => {}
        () = async { saying.await; std::future::pending().await } => {}
    }
    // Clients learn it from the end of their connections.
    drop(socket.file);
    clients.borrow_mut().clear();
    drop(timeout(TAKES_REST, serving).await);
    Ok(())
}

async fn write_pipe(mut pipe: ChildStdin, mut queue: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = queue.recv().await {
        if pipe.write_all(&line).await.is_err() {
            return;
        }
    }
}

async fn read_pipe(from: &mut LineReader<ChildStdout>, clients: &Clients) {
    while let Ok(Some(line)) = from.line().await {
        let Some((channel, line)) = of_channel(line) else {
            return;
        };
        let mut clients = clients.borrow_mut();
        let is_full = |queue: &mpsc::Sender<_>| queue.try_send(line).is_err();
        if clients.get(&channel).is_some_and(is_full) {
            // More than its window, or it has left.
            clients.remove(&channel);
        }
    }
}

/// Serves clients until none came for a while. Then, and when their queues are gone, it ends.
async fn serve_clients(
    listener: &UnixListener,
    hello: &[u8],
    clients: &Clients,
    to_pipe: mpsc::Sender<Vec<u8>>,
) {
    let mut serving = FuturesUnordered::new();
    let mut last = 0_u32;
    loop {
        // Losing an arm is safe: a connection that was not accepted is still there.
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { return };
                if !stream.peer_cred().is_ok_and(|peer| peer.uid() == files::our_uid()) {
                    continue;
                }
                let free = (1..=u32::MAX).map(|n| last.wrapping_add(n));
                let free = free.into_iter().find(|n| *n != 0 && !clients.borrow().contains_key(n));
                last = free.unwrap_or(1);
                let (queue, lines) = mpsc::channel(TO_CLIENT);
                clients.borrow_mut().insert(last, queue);
                let (channel, to_pipe) = (last, to_pipe.clone());
                serving.push(async move {
                    carry(stream, channel, hello, lines, &to_pipe).await;
                    clients.borrow_mut().remove(&channel);
                    if let Some(line) = to_channel(channel, &Frame::Close {}.line()) {
                        drop(to_pipe.send(line).await);
                    }
                });
            }
            Some(()) = serving.next() => {}
            () = sleep(STAYS), if serving.is_empty() => return,
        }
    }
}

/// Carries the lines of one client to its end.
async fn carry(
    mut stream: UnixStream,
    channel: u32,
    hello: &[u8],
    mut lines: mpsc::Receiver<Vec<u8>>,
    to_pipe: &mpsc::Sender<Vec<u8>>,
) {
    let (reader, mut writer) = stream.split();
    let up = async {
        let mut reader = LineReader::new(reader);
        while let Ok(Some(line)) = reader.line().await {
            let Some(line) = to_channel(channel, line) else {
                return;
            };
            if to_pipe.send(line).await.is_err() {
                return;
            }
        }
    };
    let down = async {
        writer.write_all(hello).await?;
        while let Some(line) = lines.recv().await {
            writer.write_all(&line).await?;
        }
        io::Result::Ok(())
    };
    // Losing an arm is safe: the client has left, or is to leave.
    tokio::select! {
        () = up => {}
        _ = down => {}
    }
}

/// The socket that clients connect to.
struct Socket {
    listener: UnixListener,
    file: SocketFile,
}

/// Its file. Dropping this removes it, unless another link has taken its place.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Socket {
    fn listen(path: PathBuf) -> io::Result<Self> {
        files::if_there(fs::remove_file(&path))?;
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        let inode = inode(&path)?;
        Ok(Self {
            listener,
            file: SocketFile { path, inode },
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if inode(&self.path).is_ok_and(|inode| inode == self.inode) {
            drop(fs::remove_file(&self.path));
        }
    }
}

fn inode(path: &Path) -> io::Result<u64> {
    Ok(fs::symlink_metadata(path)?.ino())
}
