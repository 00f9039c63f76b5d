//! A control client that stays: commands and answers, and what tmux tells unasked.

use std::collections::VecDeque;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::error::TmuxError;
use super::one_shot::TIME_LIMIT;
use super::server::Server;
use crate::model::{PaneId, SessionId};
use crate::protocol::{Command, Frame, Item, Notice, Parser, control_line};

/// A control client attached to a session.
///
/// Dropping it closes its stdin; it then goes by itself and is reaped. It is never killed: that
/// can take the server with it.
#[derive(Debug)]
pub struct Client {
    child: Child,
    /// `None` once closed.
    stdin: Option<ChildStdin>,
    reader: Reader,
    /// What was told while an answer was awaited, for [`Client::next_notice`]. No longer than
    /// what tmux tells within [`TIME_LIMIT`].
    notices: VecDeque<Notice>,
    /// How many lines were sent: names the mark that ends each answer.
    calls: u64,
    life: Life,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Usable,
    /// An answer was given up: what comes next might belong to it.
    Lost,
}

/// What a control client says, item by item.
#[derive(Debug)]
pub(super) struct Reader {
    stdout: ChildStdout,
    parser: Parser,
}

impl Reader {
    pub(super) fn new(stdout: ChildStdout) -> Self {
        Self {
            stdout,
            parser: Parser::default(),
        }
    }

    /// Returns the next thing tmux says, `None` when it says no more.
    ///
    /// # Cancel safety
    ///
    /// What was read is in the parser before anything else is awaited.
    pub(super) async fn next(&mut self) -> Result<Option<Item>, TmuxError> {
        let mut buffer = [0; 16 * 1024];
        loop {
            if let Some(item) = self.parser.next() {
                return Ok(Some(item));
            }
            match self.stdout.read(&mut buffer).await {
                Ok(0) => return Ok(None),
                Ok(n) => self.parser.push(&buffer[..n]),
                Err(error) => return Err(TmuxError::Io(error)),
            }
        }
    }
}

impl Server {
    /// Attaches a control client to the session. It asks for no output and does not count for
    /// the size of windows.
    ///
    /// Not to be done often: tmux up to 3.3a at least crashes when a session is made or ended in
    /// the moment in which a control client connects.
    ///
    /// # Errors
    ///
    /// When the program, the server or the session is missing, or there is no answer in time.
    pub async fn attach(&self, session: SessionId) -> Result<Client, TmuxError> {
        let (mut child, reader) = self.attach_control(session)?;
        let mut client = Client {
            stdin: child.stdin.take(),
            child,
            reader,
            notices: VecDeque::new(),
            calls: 0,
            life: Life::Usable,
        };
        tokio::time::timeout(TIME_LIMIT, client.greet(self))
            .await
            .map_err(|_| TmuxError::TimedOut)??;
        Ok(client)
    }
}

impl Client {
    /// Reads the answer to the attaching itself.
    async fn greet(&mut self, server: &Server) -> Result<(), TmuxError> {
        loop {
            match self.reader.next().await? {
                Some(Item::Frame(frame)) if frame.ok => return Ok(()),
                Some(Item::Frame(frame)) => {
                    return Err(TmuxError::from_reply("attach-session", &frame.text()));
                }
                Some(Item::Notice(notice)) => self.notices.push_back(notice),
                None => return Err(server.no_server()),
            }
        }
    }

    /// Runs the commands as one line and returns exactly their frames: one for each, and for
    /// each that ran inside `if-shell`, up to the first that failed. What tmux tells meanwhile
    /// waits for [`Client::next_notice`].
    ///
    /// # Errors
    ///
    /// [`TmuxError::Closed`] when the connection has gone, [`TmuxError::TimedOut`] when there is
    /// no answer in time. After either the client is of no more use; so it is when the future is
    /// dropped before it is done. A command that failed is a frame that is not `ok`.
    pub async fn call(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        if self.life == Life::Lost {
            return Err(TmuxError::Closed);
        }
        self.life = Life::Lost;
        self.calls += 1;
        // A line of its own answers also when the one before it failed half-way: it tells where
        // that one's frames end.
        let mark = format!("end-of-call-{}", self.calls);
        let line = format!("{}\ndisplay-message -p {mark}\n", control_line(commands));
        let Self {
            stdin,
            reader,
            notices,
            ..
        } = self;
        let stdin = stdin.as_mut().ok_or(TmuxError::Closed)?;
        let talk = async {
            // Both at once: tmux may have to write before it can read all of a long line.
            let write = async {
                let written = stdin.write_all(line.as_bytes()).await;
                written.map_err(|_| TmuxError::Closed)
            };
            let read = read_answer(reader, notices, mark.as_bytes());
            tokio::try_join!(write, read).map(|((), frames)| frames)
        };
        let frames = tokio::time::timeout(TIME_LIMIT, talk)
            .await
            .map_err(|_| TmuxError::TimedOut)??;
        self.life = Life::Usable;
        Ok(frames)
    }

    /// Waits for the next thing that tmux tells unasked.
    ///
    /// # Errors
    ///
    /// [`TmuxError::Closed`] when there will be no more.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn next_notice(&mut self) -> Result<Notice, TmuxError> {
        if let Some(notice) = self.notices.pop_front() {
            return Ok(notice);
        }
        loop {
            match self.reader.next().await? {
                Some(Item::Notice(notice)) => return Ok(notice),
                // Those of the user's hooks.
                Some(Item::Frame(_)) => {}
                None => return Err(TmuxError::Closed),
            }
        }
    }

    /// From here on tells what panes print, as [`Notice::Output`]; [`Client::hush`] and a look that
    /// resumes a pane say of which.
    ///
    /// # Errors
    ///
    /// When tmux refuses or has gone.
    pub async fn listen(&mut self) -> Result<(), TmuxError> {
        let listen = Command::new("refresh-client").args(["-f", "!no-output"]);
        Connection::Attached(self).run(&[listen]).await.map(drop)
    }

    /// Lets these panes print without telling until a look resumes them. They are paused, never
    /// turned off: a pane that is off is not read by tmux, and its program would stand still.
    ///
    /// # Errors
    ///
    /// When tmux refuses or has gone.
    pub async fn hush(&mut self, panes: &[PaneId]) -> Result<(), TmuxError> {
        let pause = |pane: &PaneId| {
            Command::new("refresh-client").args(["-A".to_owned(), format!("{pane}:pause")])
        };
        let pauses: Vec<Command> = panes.iter().map(pause).collect();
        Connection::Attached(self).run(&pauses).await.map(drop)
    }

    /// Detaches and waits until the client has gone.
    pub async fn close(mut self) {
        drop(self.stdin.take());
        let gone = async {
            while let Ok(Some(_)) = self.reader.next().await {}
            self.child.wait().await
        };
        if tokio::time::timeout(TIME_LIMIT, gone).await.is_err() {
            tracing::warn!("a tmux control client does not go; it is left behind");
        }
    }
}

async fn read_answer(
    reader: &mut Reader,
    notices: &mut VecDeque<Notice>,
    mark: &[u8],
) -> Result<Vec<Frame>, TmuxError> {
    let mut frames = Vec::new();
    loop {
        match reader.next().await? {
            Some(Item::Frame(frame)) if frame.flags & 1 == 0 => {}
            Some(Item::Frame(frame)) => {
                if let [line] = frame.body.as_slice()
                    && line == mark
                {
                    return Ok(frames);
                }
                frames.push(frame);
            }
            Some(Item::Notice(notice)) => notices.push_back(notice),
            None => return Err(TmuxError::Closed),
        }
    }
}

/// Either way to a server.
#[derive(Debug)]
pub enum Connection<'a> {
    /// By a client that is attached: no process is started.
    Attached(&'a mut Client),
    /// By a client for each line.
    OneShot(&'a Server),
}

impl Connection<'_> {
    /// Runs the commands as one line; a command that failed is a frame that is not `ok`.
    ///
    /// # Errors
    ///
    /// When no answer came.
    pub async fn frames(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        match self {
            Self::Attached(client) => client.call(commands).await,
            Self::OneShot(server) => server.one_shot(commands).await,
        }
    }

    /// Runs the commands as one line and returns their frames, all of them `ok`.
    ///
    /// # Errors
    ///
    /// When no answer came or one of the commands failed; the rest of the line did not run then.
    pub async fn run(&mut self, commands: &[Command]) -> Result<Vec<Frame>, TmuxError> {
        let frames = self.frames(commands).await?;
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
}
