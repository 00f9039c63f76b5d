//! The command line of our control clients: how they are started, and recognised.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::server::Server;
use crate::model::SessionId;

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
pub(super) fn daemon_of(command_line: &[u8]) -> Option<u32> {
    let mut words = command_line.split(|byte| *byte == 0);
    let channel = words.find_map(|word| word.strip_prefix(CHANNEL.as_bytes()))?;
    let (pid, _) = std::str::from_utf8(channel).ok()?.split_once('-')?;
    pid.parse().ok()
}
