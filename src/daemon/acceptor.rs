//! Accepts connections, even when there is no descriptor left for one.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tracing::Instrument;

use super::connection::OpenConnection;
use super::connection::{self, RequestRoom, RequestSender};
use super::signals::StopRequest;
use super::streams::Streams;
use crate::wire::{Refusal, RefusalKind, Response};

/// How long to leave the socket alone after an error when no connection could be refused: the next
/// attempt would fail at once, and the kernel does not report that a descriptor has become free.
const PAUSE: Duration = Duration::from_millis(500);

/// The minimum time between two log entries about refused connections.
const COMPLAIN_EVERY: Duration = Duration::from_secs(60);

/// Accepts connections up to a limit, and refuses further ones.
#[derive(Debug)]
pub(super) struct Acceptor {
    /// A descriptor to release for a moment when there is none left, so that a client can be sent
    /// the reason of its refusal; `None` while not even that one is available.
    spare: Option<File>,
    /// One clone per open connection.
    open: Arc<()>,
    most: usize,
    room: RequestRoom,
    paused_until: Option<Instant>,
    complained_at: Option<Instant>,
}

impl Acceptor {
    /// Returns one with at most `most` open connections.
    pub(super) fn new(most: usize) -> Self {
        Self {
            spare: spare(),
            open: Arc::new(()),
            most,
            room: RequestRoom::new(),
            paused_until: None,
            complained_at: None,
        }
    }

    /// Serves all clients; never ends. It is not part of the event loop, so that connections are
    /// accepted while that is busy.
    ///
    /// # Cancel safety
    ///
    /// Accepted connections are served by `tasks`.
    pub(super) async fn run(
        mut self,
        mut listeners: watch::Receiver<Arc<UnixListener>>,
        requests: RequestSender,
        streams: Streams,
        stopping: StopRequest,
        tasks: &mut JoinSet<()>,
    ) {
        loop {
            let listener = Arc::clone(&listeners.borrow_and_update());
            // Losing an arm is safe: nothing is taken before it is done.
            tokio::select! {
                accepted = self.accept(&listener) => {
                    let serving = connection::serve(
                        accepted,
                        requests.clone(),
                        self.room.clone(),
                        streams.clone(),
                        stopping.clone(),
                    );
                    tasks.spawn(serving.instrument(tracing::info_span!("connection")));
                }
                Some(ended) = tasks.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection panicked");
                    }
                }
                // Without a sender there will be no other listener.
                Ok(()) = listeners.changed() => {}
            }
        }
    }

    /// Resolves with the next connection that can be served. It never fails and never spins.
    ///
    /// # Cancel safety
    ///
    /// No connection is lost when the future is dropped.
    pub(super) async fn accept(&mut self, listener: &UnixListener) -> OpenConnection {
        loop {
            if let Some(until) = self.paused_until {
                sleep_until(until).await;
                self.paused_until = None;
            }
            match listener.accept().await {
                Ok((socket, _)) => {
                    if self.n_open() < self.most {
                        let is_open = Arc::clone(&self.open);
                        return OpenConnection { socket, is_open };
                    }
                    self.complain(None);
                    let why = format!("the daemon serves {} connections already", self.most);
                    turn_away(socket, why);
                }
                Err(error) => self.on_error(&error, listener),
            }
        }
    }

    fn n_open(&self) -> usize {
        Arc::strong_count(&self.open) - 1
    }

    fn on_error(&mut self, error: &io::Error, listener: &UnixListener) {
        match Errno::from_io_error(error) {
            // The client has disconnected already.
            Some(Errno::CONNABORTED | Errno::INTR | Errno::AGAIN) => return,
            Some(_) | None => self.complain(Some(error)),
        }
        let mut is_refused = false;
        if self.spare.take().is_some()
            && let Ok(socket) = rustix::net::accept(listener)
        {
            let socket = std::os::unix::net::UnixStream::from(socket);
            refuse(&socket, "the daemon has no descriptor left".to_owned());
            is_refused = true;
        }
        self.spare = spare();
        // The kernel allocates a descriptor before it checks for a connection: without a descriptor
        // the error comes at once, repeatedly, even when no client connects.
        if !is_refused || self.spare.is_none() {
            self.paused_until = Some(Instant::now() + PAUSE);
        }
    }

    fn complain(&mut self, error: Option<&io::Error>) {
        let now = Instant::now();
        let is_fresh = self
            .complained_at
            .is_some_and(|at| now < at + COMPLAIN_EVERY);
        if is_fresh {
            return;
        }
        self.complained_at = Some(now);
        let open = self.n_open();
        match error {
            Some(error) => tracing::warn!(%error, open, "connections are turned away"),
            None => tracing::warn!(open, "connections are turned away: there are too many"),
        }
    }
}

fn spare() -> Option<File> {
    File::open("/dev/null").ok()
}

fn turn_away(socket: UnixStream, why: String) {
    match socket.into_std() {
        Ok(socket) => refuse(&socket, why),
        Err(error) => tracing::debug!(%error, "closed a connection without an answer"),
    }
}

/// Sends why the connection is refused. A new connection has room for that, so this never blocks.
fn refuse(mut socket: &std::os::unix::net::UnixStream, message: String) {
    let refusal = Response::Refused(Refusal::new(RefusalKind::Failed, message));
    let mut line = serde_json::to_vec(&refusal).expect("a refusal is plain data");
    line.push(b'\n');
    if let Err(error) = socket.write_all(&line) {
        tracing::debug!(%error, "could not send a refusal");
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream as Peer;

    use super::*;

    fn said(peer: &Peer) -> String {
        let mut line = String::new();
        BufReader::new(peer).read_line(&mut line).unwrap();
        line
    }

    #[tokio::test]
    async fn too_many_are_turned_away_until_one_leaves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut acceptor = Acceptor::new(2);
        let peers = [0; 3].map(|_| Peer::connect(&path).unwrap());
        let first = acceptor.accept(&listener).await;
        let _second = acceptor.accept(&listener).await;
        let third = tokio::time::timeout(Duration::from_millis(10), acceptor.accept(&listener));
        assert!(third.await.is_err(), "there is room for two");
        assert!(said(&peers[2]).contains("serves 2 connections already"));
        drop(first);
        let _peer = Peer::connect(&path).unwrap();
        acceptor.accept(&listener).await;
    }

    #[tokio::test]
    async fn without_a_descriptor_the_spare_one_serves_to_say_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut acceptor = Acceptor::new(9);
        let peer = Peer::connect(&path).unwrap();
        let none_left = io::Error::from(Errno::MFILE);
        acceptor.on_error(&none_left, &listener);
        assert!(said(&peer).contains("no descriptor left"));
        assert!(acceptor.spare.is_some() && acceptor.paused_until.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_descriptor_and_a_connection_it_pauses() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sock");
        let listener = UnixListener::bind(&path).unwrap();
        let mut acceptor = Acceptor::new(9);
        // The only connection is refused. The next attempt fails as well, with an empty queue.
        let _refused = Peer::connect(&path).unwrap();
        let none_left = io::Error::from(Errno::MFILE);
        acceptor.on_error(&none_left, &listener);
        acceptor.on_error(&none_left, &listener);
        assert!(acceptor.spare.is_some());
        let until = acceptor.paused_until.expect("it pauses");
        // A client that connects meanwhile is served after the pause.
        let _peer = Peer::connect(&path).unwrap();
        acceptor.accept(&listener).await;
        assert!(Instant::now() >= until && acceptor.paused_until.is_none());
    }
}
