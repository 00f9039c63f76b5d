//! Connects control clients, and attaches them when all of them have connected.
//!
//! While a control client connects, tmux up to 3.5a knows that it is one but has no state for it
//! yet, and crashes if there is something to report to it. Attaching runs the user's hooks on
//! `client-attached`, and what a shell of such a hook prints is shown in a pane, which tmux reports
//! to all control clients. So each client connects first and waits inside tmux. No client of ours
//! connects while another one attaches.

use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use super::control_client::{ControlClient, Output};
use super::error::TmuxError;
use super::one_shot::TIME_LIMIT;
use super::server::Server;
use crate::model::SessionId;
use crate::protocol::{Command, ControlItem, Notification};

/// Printed by a client that has connected, and by one that is attached.
const CONNECTED: &str = "connected";
const ATTACHED: &str = "attached";

/// The command line of a control client: it connects and waits on the channel that follows.
const CONNECT: [&str; 6] = ["-C", "display-message", "-p", CONNECTED, ";", "wait-for"];

/// Then it attaches; its flags and the session follow. `-E`: the session's environment belongs to
/// its user and must not be updated from the daemon's, which may have been started anywhere.
const ATTACH: [&str; 4] = [";", "attach-session", "-E", "-f"];

/// The end of its command line.
const REPORT: [&str; 4] = [";", "display-message", "-p", ATTACHED];

/// The hooks that attaching runs.
const ATTACH_HOOKS: [&str; 2] = ["client-attached", "client-session-changed"];

/// A control client that has connected to the server and is not attached to the session yet.
///
/// Dropping it disconnects it.
#[derive(Debug)]
pub(crate) struct ConnectedClient {
    control: ControlClient,
    /// The channel on which it waits.
    channel: String,
}

/// A control client that has just been attached.
#[derive(Debug)]
pub(super) struct AttachedClient {
    pub(super) control: ControlClient,
    /// What tmux reported to it while it attached.
    pub(super) notifications: Vec<Notification>,
}

impl Server {
    /// Connects a control client that is to be attached to the session. It is ignored for the size
    /// of windows.
    ///
    /// To be used rarely: tmux up to 3.5a crashes when a session is created or ended, the current
    /// window changes or a client detaches, at the moment in which a control client connects.
    ///
    /// # Errors
    ///
    /// When the program or the server is missing, or there is no answer in time.
    pub(crate) async fn connect(
        &self,
        session: SessionId,
        output: Output,
    ) -> Result<ConnectedClient, TmuxError> {
        let channel = new_channel();
        let target = session.to_string();
        let words = CONNECT
            .into_iter()
            .chain([channel.as_str()])
            .chain(ATTACH)
            .chain([output.flags(), "-t", &target])
            .chain(REPORT);
        let mut control = self.start_control(words)?;
        within_limit(read_until(&mut control, CONNECTED, self)).await?;
        Ok(ConnectedClient { control, channel })
    }

    /// Whether a hook of the user's runs when a client attaches to the session.
    ///
    /// # Errors
    ///
    /// When the server is missing, or there is no answer in time.
    pub(crate) async fn has_attach_hooks(&self, session: SessionId) -> Result<bool, TmuxError> {
        let target = format!("{session}:");
        let show = |hook: &str| {
            let global = Command::new("show-hooks").args(["-g", hook]);
            let own = Command::new("show-hooks").args(["-t", target.as_str(), hook]);
            [global, own]
        };
        let shown = self.one_shot(&ATTACH_HOOKS.map(show).concat()).await?;
        // `client-attached[0] run-shell ...`; of one that is not set, the name at most.
        Ok(shown.iter().any(|frame| frame.text().contains('[')))
    }

    /// Lets connected clients attach.
    ///
    /// # Errors
    ///
    /// When the server is missing, or there is no answer in time.
    pub(crate) async fn release(
        &self,
        clients: impl IntoIterator<Item = &ConnectedClient>,
    ) -> Result<(), TmuxError> {
        let wake = |client: &ConnectedClient| {
            Command::new("wait-for").args(["-S", client.channel.as_str()])
        };
        let commands: Vec<Command> = clients.into_iter().map(wake).collect();
        self.one_shot(&commands).await.map(drop)
    }

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
        let flags = [Output::None, Output::Reported].map(Output::flags);
        // Earlier versions had one flag more.
        let earlier = flags.map(|flags| format!("{flags},ignore-size"));
        let mut all = flags.into_iter().chain(earlier.iter().map(String::as_str));
        all.any(|flags| {
            let expected = ATTACH
                .into_iter()
                .chain([flags, "-t", &session])
                .chain(REPORT)
                .chain([""]);
            rest.iter().copied().eq(expected.map(str::as_bytes))
        })
    }
}

impl ConnectedClient {
    /// Waits until it is attached. To be called when it has been released.
    ///
    /// # Errors
    ///
    /// When the server or the session is missing, or there is no answer in time.
    pub(super) async fn attached(mut self, server: &Server) -> Result<AttachedClient, TmuxError> {
        let notifications = within_limit(read_until(&mut self.control, ATTACHED, server)).await?;
        let Self { control, .. } = self;
        Ok(AttachedClient {
            control,
            notifications,
        })
    }
}

/// Begins the name of the channel on which a client waits; then the pid of its daemon follows.
const CHANNEL: &str = "tmux-task-attach-";

/// Returns the name of a channel on which no other client waits.
fn new_channel() -> String {
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

async fn within_limit<T>(
    answer: impl Future<Output = Result<T, TmuxError>>,
) -> Result<T, TmuxError> {
    tokio::time::timeout(TIME_LIMIT, answer)
        .await
        .map_err(|_| TmuxError::TimedOut)?
}

/// Reads until tmux has printed this line, and returns what it reported before that.
async fn read_until(
    control: &mut ControlClient,
    line: &str,
    server: &Server,
) -> Result<Vec<Notification>, TmuxError> {
    let mut notifications = Vec::new();
    // Not returned at once: a hook of the user's may have failed. If it was our command, the client
    // exits.
    let mut refusal = None;
    loop {
        match control.next().await? {
            Some(ControlItem::Frame(frame)) if frame.body == [line.as_bytes()] => {
                return Ok(notifications);
            }
            Some(ControlItem::Frame(frame)) if frame.ok => {}
            Some(ControlItem::Frame(frame)) => {
                refusal = Some(TmuxError::from_reply("attach-session", &frame.text()));
            }
            Some(ControlItem::Notification(notification)) => notifications.push(notification),
            None => {
                return Err(match refusal {
                    Some(refusal) => refusal,
                    None => server.after_loss().await,
                });
            }
        }
    }
}
