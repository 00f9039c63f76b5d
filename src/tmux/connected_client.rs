//! Connects control clients, and attaches them when all of them have connected.
//!
//! While a control client connects, tmux up to 3.5a knows that it is one but has no state for it
//! yet, and crashes if there is something to report to it. Attaching runs the user's hooks on
//! `client-attached`, and what a shell of such a hook prints is shown in a pane, which tmux reports
//! to all control clients. So each client connects first and waits inside tmux. No client of ours
//! connects while another one attaches.

use super::control_client::ControlClient;
use super::control_line::{ATTACHED, CONNECTED, Output, line_words, new_channel};
use super::error::TmuxError;
use super::one_shot::TIME_LIMIT;
use super::server::Server;
use crate::model::SessionId;
use crate::protocol::{Command, ControlItem, Notification};

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
        let mut control = self.start_control(line_words(&channel, output.flags(), &target))?;
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
