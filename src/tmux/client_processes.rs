//! Our control clients as processes, also of daemons that were killed: how they are started, and
//! recognised.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::server::{Server, signal};
use crate::files::PROC;
use crate::model::SessionId;

/// How long to wait until clients that were left behind are gone, and between two looks.
const LEAVING: Duration = Duration::from_secs(2);
const LEAVING_PAUSE: Duration = Duration::from_millis(5);

/// Ends the control clients of the session whose daemon was killed, and waits until they are gone, at most
/// for [`LEAVING`]. The server has the ends of those before what it is asked afterwards.
///
/// To be called before a control client attaches: tmux up to 3.5a crashes when a client detaches while a
/// control client connects. tmux can also keep a client whose daemon was killed, and itself with it, for
/// ever.
pub(crate) async fn end_clients_left_behind(server: &Server, session: SessionId) {
    let deadline = Instant::now() + LEAVING;
    let mut ended = BTreeSet::new();
    loop {
        let leaving = left_behind(server, Some(session));
        if leaving.is_empty() {
            return;
        }
        if Instant::now() >= deadline {
            tracing::warn!(?leaving, "control clients do not leave tmux");
            return;
        }
        for pid in leaving {
            if ended.insert(pid) {
                end_client(pid);
            }
        }
        sleep(LEAVING_PAUSE).await;
    }
}

/// Ends the control clients of killed daemons of any session. To be called when a server listens and
/// serves nobody: one that ends waits for ever for a client whose daemon was killed before it had read
/// all that tmux had written to it. Of a server that lives, clients may not be ended at any time.
pub(super) fn let_server_end(server: &Server) {
    left_behind(server, None).into_iter().for_each(end_client);
}

/// Whether the daemon with this pid, which is that of its own namespace, has control clients on the session,
/// as far as the system lists processes (Linux).
pub(crate) fn has_clients(server: &Server, session: SessionId, daemon: u32) -> bool {
    let clients = running_clients(server, Some(session)).into_iter();
    let mut its = clients.filter(|(_, of)| *of == daemon);
    its.any(|(pid, daemon)| is_child_of(pid, daemon))
}

/// Returns the running control clients of a session, or of any, whose daemon does not run any more.
fn left_behind(server: &Server, session: Option<SessionId>) -> Vec<u32> {
    let clients = running_clients(server, session).into_iter();
    let left_behind = clients.filter(|(pid, daemon)| !is_child_of(*pid, *daemon));
    left_behind.map(|(pid, _)| pid).collect()
}

/// Returns the running control clients of our user that were started as a daemon of this session, or of
/// any, starts them, as far as the system lists processes (Linux); each with its daemon's pid, which is that
/// of the daemon's own namespace.
pub(super) fn running_clients(server: &Server, session: Option<SessionId>) -> BTreeMap<u32, u32> {
    let processes = std::fs::read_dir(PROC).into_iter().flatten().flatten();
    let uid = rustix::process::geteuid().as_raw();
    let is_running_client = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let (daemon, of) = server.daemon_of(&line)?;
        let is_its = session.is_none() || session == of;
        (is_its && entry.metadata().ok()?.uid() == uid && sees_socket(server, pid))
            .then_some((pid, daemon))
    };
    processes.filter_map(is_running_client).collect()
}

/// Whether the path of the server's socket is the same file to this process as to us. In another mount
/// namespace (a container, `PrivateTmp=`) it can be the socket of another server.
fn sees_socket(server: &Server, pid: u32) -> bool {
    let socket = server.socket();
    let inside = socket.strip_prefix("/").unwrap_or(socket);
    let theirs = Path::new(PROC).join(pid.to_string()).join("root");
    let (Ok(ours), Ok(theirs)) = (socket.metadata(), theirs.join(inside).metadata()) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (theirs.dev(), theirs.ino())
}

/// Whether a process is a child of the one with this pid in its own namespace, as far as the system reports
/// (Linux): a client whose daemon was killed has another parent.
fn is_child_of(pid: u32, parent: u32) -> bool {
    let now = status_field(pid, "PPid:").and_then(|field| field.parse().ok());
    now.and_then(innermost_pid) == Some(parent)
}

/// Returns a process's pid in the innermost namespace that it is in.
fn innermost_pid(pid: u32) -> Option<u32> {
    let pids = status_field(pid, "NSpid:").unwrap_or_default();
    let innermost = pids.split_whitespace().last();
    innermost.map_or(Some(pid), |innermost| innermost.parse().ok())
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("{PROC}/{pid}/status")).ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(field.trim().to_owned())
}

fn end_client(pid: u32) {
    tracing::info!(pid, "ending a control client that was left behind");
    signal(pid, Signal::TERM);
}

/// Printed by a client that has connected, and by one that is attached.
pub(super) const CONNECTED: &str = "connected";
pub(super) const ATTACHED: &str = "attached";

/// The command line of a control client: it connects and waits on the channel that follows.
const CONNECT: [&str; 6] = ["-C", "display-message", "-p", CONNECTED, ";", "wait-for"];

/// Then it attaches; its flags and the session follow. `-E`: the session's environment belongs to
/// its user and must not be updated from the daemon's, which may have been started anywhere.
const ATTACH: [&str; 4] = [";", "attach-session", "-E", "-f"];

/// The end of its command line.
const REPORT: [&str; 4] = [";", "display-message", "-p", ATTACHED];

/// The flags of a control client that receives nothing of what panes print. Not `ignore-size`: tmux ignores a
/// control client that has set no size anyway, and goes through all clients for each client with the flag and
/// each window, whenever an option is set.
pub(crate) const NO_OUTPUT: &str = "no-output";

/// Those of one that is notified that a pane has printed. tmux pauses a pane that prints faster than it can
/// report, so that the client is never behind: tmux up to 3.7c crashes when a pane is respawned while a
/// client has output of it to consume.
pub(crate) const REPORTED_OUTPUT: &str = "pause-after=0";

/// Returns the arguments of a client that waits on this channel, and then attaches to a session.
pub(super) fn line_words<'a>(
    channel: &'a str,
    flags: &'a str,
    session: &'a str,
) -> impl Iterator<Item = &'a str> {
    let attach = ATTACH.into_iter().chain([flags, "-t", session]);
    let connect = CONNECT.into_iter().chain([channel]);
    connect.chain(attach).chain(REPORT)
}

impl Server {
    /// Returns the pid of the daemon that has started the control client with this command line (words that
    /// end with a zero byte), as [`Server::connect`] does, and its session; `None` when it is none of this
    /// server.
    fn daemon_of(&self, command_line: &[u8]) -> Option<(u32, Option<SessionId>)> {
        // The first word is the program.
        let mut words = command_line.split(|byte| *byte == 0).skip(1);
        let socket = self.socket().as_os_str().as_bytes();
        let before = [b"-u", b"-S".as_slice(), socket].into_iter();
        let mut before = before.chain(CONNECT.map(str::as_bytes));
        before
            .all(|word| words.next() == Some(word))
            .then_some(())?;
        let channel = words.next()?.strip_prefix(CHANNEL.as_bytes())?;
        let mut numbers = std::str::from_utf8(channel).ok()?.split('-');
        let daemon = numbers.next()?.parse().ok()?;
        Some((daemon, numbers.next()?.parse().ok()))
    }
}

/// Begins the name of the channel on which a client waits; then its daemon's pid and the session follow.
const CHANNEL: &str = "tmux-task-attach-";

/// Returns the name of a channel on which nobody waits.
pub(crate) fn new_channel(session: SessionId) -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{CHANNEL}{}-{session}-{number}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(linux)]
    fn a_process_sees_the_socket_that_its_path_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let server = crate::tmux::tests::server_at(&dir.path().join("s"), None);
        let pid = std::process::id();
        assert!(!sees_socket(&server, pid));
        let _listener = std::os::unix::net::UnixListener::bind(server.socket()).unwrap();
        assert!(sees_socket(&server, pid));
        assert_eq!(innermost_pid(pid), Some(pid));
    }
}
