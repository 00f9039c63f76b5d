//! Client of the daemon's socket: sends requests and subscribes.

mod start;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::time::sleep;

pub(crate) use start::{READY, Start, StartError, connect_or_start, start};

use crate::files;
use crate::model::Seq;
use crate::wire::{
    Acknowledgement, ConsumeRequest, Filter, ReaderStart, Refusal, Request, Response, request_line,
};

/// Why the daemon did not answer a request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// Nothing listens: no daemon runs for this task session.
    #[error("no daemon runs")]
    NoDaemon,
    /// The socket's folder, or the process that listens there, is another user's.
    #[error("refused to talk to what listens at {}: {why}", .path.display())]
    NotOurs {
        /// The daemon's socket.
        path: PathBuf,
        /// Whose it is.
        why: String,
    },
    /// The connection failed.
    #[error("could not talk to the daemon at {}", .path.display())]
    Io {
        /// The daemon's socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The daemon ended before it answered.
    #[error("the daemon ended before it answered")]
    Left,
    /// The daemon ended during a wait: whether its condition holds is not known.
    #[error("the daemon ended during the wait")]
    LeftWait,
    /// The answer cannot be parsed; it may come from another version.
    #[error("could not read the daemon's answer")]
    Answer {
        /// Why.
        #[source]
        source: serde_json::Error,
    },
    /// The daemon refused the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The daemon gave an answer of another kind than the request expects.
    #[error("the daemon's answer does not fit the request")]
    Unexpected,
}

/// The answer to a request that named its session.
#[derive(Debug)]
pub(crate) enum NamedAnswer {
    /// The session's present name, if it exists, and the answer.
    Answered(Option<String>, Box<Response>),
    /// The name belongs to another session. Nothing was done.
    OtherSession,
}

/// A connection to a daemon.
#[derive(Debug)]
pub(crate) struct DaemonClient {
    path: PathBuf,
    /// The daemon's pid, where the kernel reports it.
    pid: Option<u32>,
    lines: Lines<BufReader<OwnedReadHalf>>,
    writer: OwnedWriteHalf,
}

/// How long to wait before connecting again to a daemon whose queue is full.
const TRY_AGAIN: Duration = Duration::from_millis(20);

impl DaemonClient {
    /// Connects to the daemon that listens at `path`.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoDaemon`] when nothing listens, [`ClientError::NotOurs`] when another user
    /// may listen there; nothing is sent then.
    pub(crate) async fn connect(path: &Path) -> Result<Self, ClientError> {
        check_folder(path)?;
        let connected = loop {
            match UnixStream::connect(path).await {
                // More clients are connecting than it has accepted.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => sleep(TRY_AGAIN).await,
                connected => break connected,
            }
        };
        let stream = match connected {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound
                        | io::ErrorKind::ConnectionRefused
                        // It ended before it accepted.
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                return Err(ClientError::NoDaemon);
            }
            Err(source) => {
                return Err(ClientError::Io {
                    path: path.to_owned(),
                    source,
                });
            }
        };
        check_peer(path, &stream)?;
        let peer = stream.peer_cred().ok().and_then(|peer| peer.pid());
        let (reader, writer) = stream.into_split();
        Ok(Self {
            path: path.to_owned(),
            pid: peer.and_then(|pid| u32::try_from(pid).ok()),
            lines: BufReader::new(reader).lines(),
            writer,
        })
    }

    /// Returns the daemon's pid, where the kernel reports it.
    pub(crate) fn pid(&self) -> Option<u32> {
        self.pid
    }

    /// Sends a request and returns the answer. A connection can be used for many requests, one
    /// after the other.
    ///
    /// # Errors
    ///
    /// When the daemon refuses, ends or cannot be understood.
    pub(crate) async fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        self.send(request).await?;
        self.answer().await
    }

    /// Sends a request to the session of this name, unless the name belongs to another session than
    /// the daemon's. A wait may say when it begins.
    ///
    /// # Errors
    ///
    /// As [`DaemonClient::ask`], and [`ClientError::LeftWait`] when the daemon ends after a wait has begun.
    pub(crate) async fn ask_session(
        &mut self,
        session: String,
        request: &Request,
    ) -> Result<NamedAnswer, ClientError> {
        let request = Request::To {
            session,
            request: Box::new(request.clone()),
        };
        let mut response = self.ask(&request).await?;
        if response == Response::Waiting {
            response = match self.answer().await {
                Err(ClientError::Left) => return Err(ClientError::LeftWait),
                answer => answer?,
            };
        }
        if let Response::From { session, response } = response {
            return Ok(NamedAnswer::Answered(session, response));
        }
        if response == Response::OtherSession {
            return Ok(NamedAnswer::OtherSession);
        }
        Err(ClientError::Unexpected)
    }

    /// Reads a further answer to the last request.
    ///
    /// # Errors
    ///
    /// As [`DaemonClient::ask`].
    pub(crate) async fn answer(&mut self) -> Result<Response, ClientError> {
        let line = self.line().await?.ok_or(ClientError::Left)?;
        match serde_json::from_str(&line) {
            Ok(Response::Refused(refusal)) => Err(ClientError::Refused(refusal)),
            Ok(response) => Ok(response),
            Err(source) => Err(ClientError::Answer { source }),
        }
    }

    /// Subscribes to a task's output. [`DaemonClient::line`] returns it, one JSON string per line.
    ///
    /// # Errors
    ///
    /// When the daemon refuses, ends or cannot be understood.
    pub(crate) async fn follow(
        &mut self,
        window: String,
        raw: bool,
        lines: usize,
    ) -> Result<(), ClientError> {
        self.send(&Request::Follow { window, raw, lines }).await?;
        let line = self.line().await?.ok_or(ClientError::Left)?;
        match serde_json::from_str(&line) {
            Ok(Response::Refused(refusal)) => Err(ClientError::Refused(refusal)),
            Ok(_) => Err(ClientError::Unexpected),
            Err(_) => Ok(()),
        }
    }

    /// Subscribes to the feed and returns the stream's first line. [`DaemonClient::line`] returns the
    /// others.
    ///
    /// # Errors
    ///
    /// When the daemon refuses, ends or cannot be understood.
    pub(crate) async fn subscribe(
        &mut self,
        start: ReaderStart,
        filter: Filter,
    ) -> Result<String, ClientError> {
        self.stream(&Request::Subscribe {
            start,
            filter,
            tasks: false,
        })
        .await
    }

    /// Subscribes to the feed as a consumer and returns the stream's first line. [`DaemonClient::line`]
    /// returns the others.
    ///
    /// # Errors
    ///
    /// When the daemon refuses, ends or cannot be understood.
    pub(crate) async fn consume(&mut self, request: ConsumeRequest) -> Result<String, ClientError> {
        self.stream(&Request::Consume(request)).await
    }

    /// Acknowledges the record `seq` and all before it, as the consumer that this connection reads
    /// as. The confirmation is a line of the stream.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub(crate) async fn acknowledge(&mut self, seq: Seq) -> Result<(), ClientError> {
        let acknowledgement = Acknowledgement { ack: seq };
        let mut line = serde_json::to_vec(&acknowledgement).expect("a number is plain data");
        line.push(b'\n');
        self.write(&line).await
    }

    /// Sends a request that begins a stream and returns the stream's first line. [`DaemonClient::line`]
    /// returns the others.
    ///
    /// # Errors
    ///
    /// When the daemon refuses, ends or cannot be understood.
    pub(crate) async fn stream(&mut self, request: &Request) -> Result<String, ClientError> {
        self.send(request).await?;
        let line = self.line().await?.ok_or(ClientError::Left)?;
        match serde_json::from_str(&line) {
            Ok(Response::Refused(refusal)) => Err(ClientError::Refused(refusal)),
            Ok(_) => Err(ClientError::Unexpected),
            Err(_) => Ok(line),
        }
    }

    /// Returns the next line; `None` when the daemon has ended.
    ///
    /// # Cancel safety
    ///
    /// No line is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the connection fails.
    pub(crate) async fn line(&mut self) -> Result<Option<String>, ClientError> {
        match self.lines.next_line().await {
            Ok(line) => Ok(line),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(None),
            Err(source) => Err(ClientError::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }

    async fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        self.write(&request_line(request)).await
    }

    async fn write(&mut self, line: &[u8]) -> Result<(), ClientError> {
        match self.writer.write_all(line).await {
            Ok(()) => Ok(()),
            // A daemon that leaves, or refuses connections, says so before it reads the request. The
            // next line is what it said, or that it has ended.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) =>
            {
                Ok(())
            }
            Err(source) => Err(ClientError::Io {
                path: self.path.clone(),
                source,
            }),
        }
    }
}

/// Checks that no other user can have put the socket there.
fn check_folder(socket: &Path) -> Result<(), ClientError> {
    let path = socket.to_owned();
    match files::check_folder(socket.parent().unwrap_or(socket)) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(ClientError::NoDaemon),
        Err(error) if files::is_refusal(&error) => Err(ClientError::NotOurs {
            path,
            why: format!("{error}; set TMUX_TASK_RUNTIME_DIR to a folder of yours"),
        }),
        Err(source) => Err(ClientError::Io { path, source }),
    }
}

/// Checks that the process on the other side is this user's, whatever the folder says.
fn check_peer(socket: &Path, stream: &UnixStream) -> Result<(), ClientError> {
    let path = socket.to_owned();
    match stream.peer_cred() {
        Ok(peer) if peer.uid() == files::our_uid() => Ok(()),
        Ok(peer) => Err(ClientError::NotOurs {
            path,
            why: format!("its process belongs to uid {}", peer.uid()),
        }),
        Err(source) => Err(ClientError::Io { path, source }),
    }
}
