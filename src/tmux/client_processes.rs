//! Our control clients as processes, also of daemons that were killed: how they are started, and
//! recognised.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Signal, kill_process};

use super::server::{Server, process};
use crate::files::PROC;
use crate::model::SessionId;

/// Ends the control clients of killed daemons of any session. To be called when a server listens and
/// serves nobody: one that ends waits for ever for a client whose daemon was killed before it had read
/// all that tmux had written to it. Of a server that lives, clients may not be ended at any time.
pub(super) fn let_server_end(server: &Server) {
    for pid in running_clients(server, None) {
        if !has_daemon(pid) {
            end_client(pid);
        }
    }
}

/// Returns the running control clients of our user that were started as a daemon of this session, or of
/// any, starts them, as far as the system lists processes (Linux). A daemon that was killed while it
/// attached has not stored them.
pub(crate) fn running_clients(server: &Server, session: Option<SessionId>) -> BTreeSet<u32> {
    let Ok(processes) = std::fs::read_dir(PROC) else {
        return BTreeSet::new();
    };
    let uid = rustix::process::geteuid().as_raw();
    let is_running_client = |entry: std::fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        let is_client = server.is_control_client(&line, session);
        (is_client && entry.metadata().ok()?.uid() == uid && sees_socket(server, pid))
            .then_some(pid)
    };
    processes
        .filter_map(|entry| is_running_client(entry.ok()?))
        .collect()
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

/// Whether the daemon that has started this client still runs, as far as the system reports (Linux): it
/// is the client's parent. The pid in the client's command line is that of the daemon's own namespace.
pub(super) fn has_daemon(pid: u32) -> bool {
    let line = std::fs::read(format!("{PROC}/{pid}/cmdline")).unwrap_or_default();
    let daemon = daemon_of(&line);
    let parent = status_field(pid, "PPid:").and_then(|field| field.parse().ok());
    let parent = parent.and_then(|parent: u32| innermost_pid(parent));
    daemon.is_some() && daemon == parent
}

/// Returns a process's pid in the innermost namespace that it is in.
fn innermost_pid(pid: u32) -> Option<u32> {
    let pids = status_field(pid, "NSpid:");
    let innermost = pids
        .as_deref()
        .and_then(|pids| pids.split_whitespace().last());
    innermost.map_or(Some(pid), |innermost| innermost.parse().ok())
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("{PROC}/{pid}/status")).ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix(name))?;
    Some(field.trim().to_owned())
}

pub(super) fn end_client(pid: u32) {
    tracing::info!(pid, "ending a control client that was left behind");
    if let Some(process) = process(pid)
        && let Err(error) = kill_process(process, Signal::TERM)
    {
        tracing::debug!(%error, "could not end the control client");
    }
}

/// Whether this process is a control client that a daemon has started for this server, as far as the
/// system reports (Linux): its pid may have been reused.
pub(super) fn is_control_client(server: &Server, pid: u32) -> bool {
    let line = std::fs::read(format!("{PROC}/{pid}/cmdline"));
    line.is_ok_and(|line| daemon_of(&line).is_some()) && sees_socket(server, pid)
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

/// What a control client receives of the output of the session's panes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Nothing.
    None,
    /// Notifications that a pane has printed. tmux pauses a pane that prints faster than it can
    /// report (`pause-after=0`), so that the client is never behind: tmux up to 3.7c crashes when a
    /// pane is respawned while a client has output of it to consume.
    Reported,
}

impl Output {
    /// Returns the flags of a client that receives this. Not `ignore-size`: tmux ignores a control
    /// client that has set no size anyway, and goes through all clients for each client with the flag
    /// and each window, whenever an option is set.
    pub(super) fn flags(self) -> &'static str {
        match self {
            Self::None => "no-output",
            Self::Reported => "pause-after=0",
        }
    }
}

/// Returns the arguments of a client that waits on this channel, and then attaches to a session.
pub(super) fn line_words<'a>(
    channel: &'a str,
    flags: &'a str,
    session: &'a str,
) -> impl Iterator<Item = &'a str> {
    CONNECT
        .into_iter()
        .chain([channel])
        .chain(ATTACH)
        .chain([flags, "-t", session])
        .chain(REPORT)
}

impl Server {
    /// Whether a process with this command line (words that end with a zero byte) is a control
    /// client of this server, as [`Server::connect`] starts it; if a session is given, one of that.
    pub(super) fn is_control_client(
        &self,
        command_line: &[u8],
        session: Option<SessionId>,
    ) -> bool {
        // The first word is the program.
        let words: Vec<&[u8]> = command_line.split(|byte| *byte == 0).skip(1).collect();
        let socket = self.socket().as_os_str().as_bytes();
        let before: Vec<&[u8]> = [b"-u", b"-S".as_slice(), socket]
            .into_iter()
            .chain(CONNECT.map(str::as_bytes))
            .collect();
        let Some([channel, rest @ ..]) = words.strip_prefix(before.as_slice()) else {
            return false;
        };
        let Some(session) = session else {
            return channel.starts_with(CHANNEL.as_bytes());
        };
        let session = session.to_string();
        let mut outputs = [Output::None, Output::Reported].into_iter();
        outputs.any(|output| {
            let expected = line_words("", output.flags(), &session)
                .skip(CONNECT.len() + 1)
                .chain([""]);
            rest.iter().copied().eq(expected.map(str::as_bytes))
        })
    }
}

/// Begins the name of the channel on which a client waits; then the pid of its daemon follows.
const CHANNEL: &str = "tmux-task-attach-";

/// Returns the name of a channel on which no other client waits.
pub(super) fn new_channel() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{CHANNEL}{}-{number}", std::process::id())
}

/// Returns the pid of the daemon that has started the client with this command line (words that end
/// with a zero byte), in the daemon's own namespace; `None` when it is no client of a daemon.
fn daemon_of(command_line: &[u8]) -> Option<u32> {
    let mut words = command_line.split(|byte| *byte == 0);
    let channel = words.find_map(|word| word.strip_prefix(CHANNEL.as_bytes()))?;
    let (pid, _) = std::str::from_utf8(channel).ok()?.split_once('-')?;
    pid.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(linux)]
    fn a_process_sees_the_socket_that_its_path_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let choice = crate::tmux::ServerChoice {
            socket_path: Some(dir.path().join("s")),
            ..crate::tmux::ServerChoice::default()
        };
        let server = Server::locate(&choice, &|_| None).unwrap();
        let pid = std::process::id();
        assert!(!sees_socket(&server, pid));
        let _listener = std::os::unix::net::UnixListener::bind(server.socket()).unwrap();
        assert!(sees_socket(&server, pid));
        assert_eq!(innermost_pid(pid), Some(pid));
    }
}
