//! A control client that stays attached: commands and answers, and notifications.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::client_processes::new_channel;
use super::control_client::{ControlClient, note_awaited};
use super::error::TmuxError;
use super::server::{Server, nonce};
use crate::model::{PaneId, SessionId};
use crate::rules::protocol::{Command, ControlItem, Frame, Notification, control_line};

/// A control client attached to a session.
///
/// Dropping it detaches it in the background.
#[derive(Debug)]
pub(crate) struct Client {
    server: Server,
    control: ControlClient,
    /// Items received while an answer was awaited, for [`Client::next_received`]. Bounded by what
    /// tmux sends within [`super::one_shot::TIME_LIMIT`].
    received: VecDeque<ReceivedItem>,
    /// The number of lines sent, used in the mark that ends each answer.
    calls: u64,
    /// The unpredictable part of that mark: a captured screen may contain any other word.
    nonce: String,
    /// What frames are still expected, in order.
    expected: VecDeque<Expected>,
    /// Whether an answer was given up: later frames might belong to it.
    is_lost: bool,
}

/// How long to wait for an answer before flushing, at first and at most.
const FLUSH_AFTER: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What the next frames of a client belong to.
#[derive(Debug)]
enum Expected {
    /// One frame, of a command whose result is not needed.
    Ignored,
    /// The frames up to this mark, and those that have arrived.
    Asked(String, Vec<Frame>),
}

/// An item that a client received. They are in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ReceivedItem {
    /// A notification.
    Notification(Notification),
    /// The answer to what was asked first: earlier items arrived before it.
    Answer(Vec<Frame>),
}

impl ControlClient {
    /// Waits until the client is attached. To be called when its channel has been signalled.
    pub(crate) async fn into_client(mut self, server: &Server) -> Result<Client, TmuxError> {
        let notifications = self.attached(server).await?.into_iter();
        Ok(Client {
            server: server.clone(),
            control: self,
            received: notifications.map(ReceivedItem::Notification).collect(),
            calls: 0,
            nonce: nonce(),
            expected: VecDeque::new(),
            is_lost: false,
        })
    }
}

impl Server {
    /// Connects a control client and attaches it.
    pub(crate) async fn attach(
        &self,
        session: SessionId,
        flags: &str,
    ) -> Result<Client, TmuxError> {
        let channel = new_channel(session);
        let client = self.connect(&channel, session, flags).await?;
        Connection::OneShot(self).signal(&channel).await?;
        client.into_client(self).await
    }
}

impl Client {
    /// Runs the commands as one line and returns exactly their frames: one for each, and for each that ran
    /// inside `if-shell`, up to the first that failed. Notifications received meanwhile are kept for
    /// [`Client::next_received`]. Fails with [`TmuxError::Closed`] when the connection is closed,
    /// [`TmuxError::TimedOut`] when there is no answer in time. After either the client cannot be used any
    /// more; neither after the future was dropped. A command that failed is a frame that is not `ok`.
    pub(crate) async fn call(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        if std::mem::replace(&mut self.is_lost, true) {
            return Err(TmuxError::Closed);
        }
        let is_asked = |expected: &&Expected| matches!(expected, Expected::Asked(..));
        let mut n_before = self.expected.iter().filter(is_asked).count();
        self.ask(commands);
        let Self {
            server,
            control,
            received,
            expected,
            ..
        } = self;
        let answer = async {
            loop {
                let item = next_received(control, expected).await?;
                match item {
                    ReceivedItem::Answer(frames) if n_before == 0 => {
                        return Ok::<_, TmuxError>(frames);
                    }
                    ReceivedItem::Answer(_) => n_before -= 1,
                    ReceivedItem::Notification(_) => {}
                }
                received.push_back(item);
            }
        };
        let began = Instant::now();
        let answer = server.answer(answer).await;
        note_awaited(began.elapsed());
        let frames = answer??;
        self.is_lost = false;
        Ok(frames)
    }

    /// Queues commands, each as its own line, without waiting for their results: where panes print faster
    /// than tmux reports, an answer can take seconds. As all that is queued, they are sent while an answer
    /// or a notification is awaited.
    fn say(&mut self, commands: impl IntoIterator<Item = Command>) {
        for command in commands {
            let line = format!("{}\n", control_line(&[command]));
            self.control.queue(&line);
            self.expected.push_back(Expected::Ignored);
        }
    }

    /// Queues the commands as one line: their frames come as a [`ReceivedItem::Answer`] in its place among
    /// the notifications. The mark that ends them is printed even if the line failed half-way.
    pub(crate) fn ask(&mut self, commands: &[Command]) {
        self.calls += 1;
        let mark = format!("end-of-call-{}-{}", self.nonce, self.calls);
        let line = control_line(commands);
        // At an empty line tmux detaches the client.
        let end = if line.is_empty() { "" } else { "\n" };
        let lines = format!("{line}{end}display-message -p {mark}\n");
        self.control.queue(&lines);
        self.expected.push_back(Expected::Asked(mark, Vec::new()));
    }

    /// Waits for the next notification or answer. Nothing is lost when the future is dropped.
    pub(crate) async fn next_received(&mut self) -> Result<ReceivedItem, TmuxError> {
        match self.received.pop_front() {
            Some(received) => Ok(received),
            None => next_received(&mut self.control, &mut self.expected).await,
        }
    }

    /// Sets by how many seconds another client may fall behind a pane before tmux pauses the pane for
    /// it. 0 pauses it at once when it prints faster than tmux reports.
    pub(crate) fn set_max_lag(&mut self, client: &str, secs: u32) {
        let flags = format!("pause-after={secs}");
        self.say([Command::new("refresh-client").args(["-t", client, "-f", &flags])]);
    }

    /// Pauses these panes for the client, or for this other one. Their pending output is discarded. They are
    /// never turned off: tmux does not read a pane that is off, which would block its program.
    pub(crate) fn pause_panes(
        &mut self,
        panes: impl IntoIterator<Item = PaneId>,
        other: Option<&str>,
    ) {
        let other = other.map(|client| ["-t", client]);
        let pause = |pane| pause_command(pane).args(other.into_iter().flatten());
        self.say(panes.into_iter().map(pause));
    }

    /// Continues these panes for the client.
    pub(crate) fn continue_panes(&mut self, panes: impl IntoIterator<Item = PaneId>) {
        self.say(panes.into_iter().map(continue_command));
    }

    /// Makes tmux send pending notifications. When several panes print at once and tmux pauses all of them,
    /// these can stay queued as answers can: the output that led to the pauses would not be reported.
    pub(crate) fn flush(&mut self) {
        flush(&mut self.control, &mut self.expected);
    }

    /// Waits until everything that tmux has for the client by now has arrived.
    pub(crate) async fn sync(&mut self) -> Result<(), TmuxError> {
        let mark = Command::new("display-message").args(["-p", ""]);
        self.call(&[mark]).await.map(drop)
    }

    /// Returns the client's pid.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.control.pid()
    }

    /// Detaches and waits until the client has ended.
    pub(crate) async fn close(self) {
        self.control.close().await;
    }
}

/// A way to send commands to a server.
#[derive(Debug)]
pub(crate) enum Connection<'a> {
    /// Through an attached client, without starting a process.
    Attached(&'a mut Client),
    /// Through a new client for each line.
    OneShot(&'a Server),
}

impl Connection<'_> {
    /// Wakes all clients that wait on a channel.
    pub(crate) async fn signal(&mut self, channel: &str) -> Result<(), TmuxError> {
        let signal = Command::new("wait-for").args(["-S", "--", channel]);
        self.run(&[signal]).await.map(drop)
    }

    /// Runs the commands as one line. A command that failed is a frame that is not `ok`.
    pub(crate) async fn frames(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        // Those with a process are on the heap: they are large, and everything that talks to tmux has one.
        match self {
            Self::Attached(client) => client.call(commands).await,
            Self::OneShot(server) => Box::pin(server.one_shot(commands)).await,
        }
    }

    /// Runs the commands as one line and returns their frames, all of them `ok`. Fails when no answer came or
    /// one of the commands failed; the rest of the line did not run then.
    pub(crate) async fn run(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        let frames = self.frames(commands).await?;
        all_ok(commands, frames)
    }

    /// The same for commands of which each has one frame.
    pub(super) async fn each<const N: usize>(
        &mut self,
        commands: &[Command; N],
    ) -> Result<[Frame; N], TmuxError> {
        let frames = self.run(commands).await?.try_into();
        frames.map_err(|_| TmuxError::confused("a frame is missing"))
    }

    /// Runs a command and returns what it prints.
    pub(super) async fn print(&mut self, command: Command) -> Result<String, TmuxError> {
        let [frame] = self.each(&[command]).await?;
        Ok(frame.text())
    }
}

/// Returns the frames if all of them are `ok`.
pub(super) fn all_ok(commands: &[Command], frames: Vec<Frame>) -> Result<Vec<Frame>, TmuxError> {
    match frames.iter().position(|frame| !frame.ok) {
        None => Ok(frames),
        Some(index) => {
            let name = commands.get(index).or(commands.last());
            Err(TmuxError::from_reply(
                name.map_or("", Command::name),
                &frames[index].text(),
            ))
        }
    }
}

/// Waits for the next notification or answer, and flushes when it takes long while answers are expected.
/// Nothing is lost when the future is dropped.
async fn next_received(
    control: &mut ControlClient,
    expected: &mut VecDeque<Expected>,
) -> Result<ReceivedItem, TmuxError> {
    let mut pause = FLUSH_AFTER;
    loop {
        let next = if expected.is_empty() {
            Ok(control.next().await)
        } else {
            timeout(pause, control.next()).await
        };
        if let Ok(item) = next {
            let item = item?.ok_or(TmuxError::Closed)?;
            if let Some(received) = assign(expected, item) {
                return Ok(received);
            }
        } else {
            flush(control, expected);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Runs a command with an empty answer, which makes tmux write pending output.
///
/// When tmux (3.2 to 3.8 at least) pauses a pane while it writes, answers queued behind the pane's
/// output can stay in the queue until something else is written to this client. Without this the
/// answer would never arrive.
fn flush(control: &mut ControlClient, expected: &mut VecDeque<Expected>) {
    control.queue("display-message -p ''\n");
    expected.push_back(Expected::Ignored);
}

/// Assigns an item to what was asked. Returns a notification, or all frames of an answer with its last
/// one. Frames with flag 0 are of the user's hooks.
fn assign(expected: &mut VecDeque<Expected>, item: ControlItem) -> Option<ReceivedItem> {
    let frame = match item {
        ControlItem::Notification(notification) => {
            return Some(ReceivedItem::Notification(notification));
        }
        ControlItem::Frame(frame) if frame.flags & 1 == 0 => return None,
        ControlItem::Frame(frame) => frame,
    };
    let answer = match expected.front_mut()? {
        Expected::Asked(mark, frames) if frame.body != [mark.as_bytes()] => {
            frames.push(frame);
            return None;
        }
        Expected::Asked(_, frames) => Some(ReceivedItem::Answer(std::mem::take(frames))),
        Expected::Ignored => None,
    };
    expected.pop_front();
    answer
}

/// Runs commands if this format is true for a target.
pub(super) fn if_true(target: &str, format: &str, commands: &[Command]) -> Command {
    Command::new("if-shell").args(["-F", "-t", target, format, &control_line(commands)])
}

/// Runs commands if this format is not true for a target.
pub(super) fn if_false(target: &str, format: &str, commands: &[Command]) -> Command {
    let commands = control_line(commands);
    Command::new("if-shell").args(["-F", "-t", target, format, "", &commands])
}

/// Pauses the pane for the client and discards its pending output.
pub(super) fn pause_command(pane: PaneId) -> Command {
    Command::new("refresh-client").args(["-A".to_owned(), format!("{pane}:pause")])
}

/// Lets the client receive the pane's output from now on.
pub(super) fn continue_command(pane: PaneId) -> Command {
    Command::new("refresh-client").args(["-A".to_owned(), format!("{pane}:continue")])
}
