//! State shared by all commands: the selected session, and when to check that daemon and tmux
//! answer.

use std::cell::RefCell;
use std::ffi::OsString;
use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Global;
use super::liveness::Peers;
use super::output::{self, with_options};
use super::time_limit::TimeLimit;
use super::usage;
use crate::model::{Error, ErrorKind};
use crate::ops::{SessionChoice, TaskSession};
use crate::tmux::ServerChoice;

/// The task session selected by command line and environment. Resolved on demand: `replay` needs
/// none.
#[derive(Debug)]
pub(super) struct Context {
    global: Global,
    /// The command line.
    args: Vec<OsString>,
    /// When to check that daemon and tmux still answer.
    pub(super) limit: TimeLimit,
    /// Their addresses, once known.
    asked: RefCell<Option<Peers>>,
}

impl Context {
    pub(super) fn new(global: Global, args: Vec<OsString>) -> Self {
        Self {
            global,
            args,
            limit: TimeLimit::new(),
            asked: RefCell::new(None),
        }
    }

    /// Returns the machine that the command is passed on to; `None` if it is executed here.
    pub(super) fn forwards_to(&self) -> Option<&str> {
        self.global.forwards_to()
    }

    /// Resolves when the daemon or tmux does not answer, with the failure.
    pub(super) async fn silence(&self) -> Error {
        loop {
            self.limit.over().await;
            let asked = self.asked.borrow().clone();
            if let Some(asked) = asked
                && let Some(failure) = asked.silence().await
            {
                return failure;
            }
            self.limit.renew();
        }
    }

    /// Returns the command, as errors name it.
    pub(super) fn what(&self) -> String {
        usage::command_words(&self.args)
    }

    /// Prints a failure of a part of the command.
    pub(super) fn complain(&self, error: &Error) {
        output::complain(error, &self.what(), &self.global.words());
    }

    /// Prints a message on stderr that is no failure.
    pub(super) fn say(&self, text: &str) {
        output::note(&format!("tmux-task: {}: {text}", self.what()));
    }

    /// Prints one line of results with commands in it, which are for the selected session.
    pub(super) fn line(&self, text: &str) -> Result<(), Error> {
        output::line(&with_options(text, &self.global.words()))
    }

    /// The same on stderr, for what is not a failure.
    pub(super) fn note(&self, text: &str) {
        output::note(&with_options(text, &self.global.words()));
    }

    /// Returns the selected task session, whichever of its names was given.
    pub(super) async fn session(&self) -> Result<TaskSession, Error> {
        let mut session = self.given()?;
        session.resolve_name().await?;
        Ok(session)
    }

    /// Returns the task session as it was named, without asking the daemon or tmux. The first request
    /// resolves the name.
    pub(super) fn given(&self) -> Result<TaskSession, Error> {
        let session = TaskSession::named(&self.choice())?;
        self.asks(&session);
        Ok(session)
    }

    /// Returns what the command line says of session and server.
    pub(super) fn choice(&self) -> SessionChoice {
        SessionChoice {
            session: self.global.session.clone(),
            server: ServerChoice {
                socket_name: self.global.socket_name.clone().map(Into::into),
                socket_path: self.global.socket_path.clone(),
                program: self.global.tmux.clone(),
            },
        }
    }

    /// Returns what the command line says, for a command on all sessions. It can do without a daemon
    /// that does not answer.
    pub(super) fn all_sessions(&self) -> Result<SessionChoice, Error> {
        let choice = self.choice();
        let session = TaskSession::named(&choice)?;
        *self.asked.borrow_mut() = Some(Peers {
            server: session.server,
            daemon: None,
        });
        Ok(choice)
    }

    fn asks(&self, session: &TaskSession) {
        *self.asked.borrow_mut() = Some(Peers {
            server: session.server.clone(),
            daemon: Some(session.daemon_socket()),
        });
    }
}

/// From here on the program handles interrupts: they do not end the process, and are kept until
/// queried.
pub(super) fn interrupts() -> Result<Signal, Error> {
    signal(SignalKind::interrupt()).map_err(Error::of)
}

/// Does a part of the command, unless the user interrupts it.
pub(super) async fn unless_interrupted<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let mut interrupts = interrupts()?;
    tokio::select! {
        biased;
        _ = interrupts.recv() => Err(Error::silent(ErrorKind::Interrupted)),
        done = work => Ok(done),
    }
}

/// The signals that end a command which has to clean up.
#[derive(Debug)]
pub(super) struct ExitWatch(Vec<(Signal, ErrorKind)>);

impl ExitWatch {
    /// From here on the program handles these signals.
    pub(super) fn listen() -> Result<Self, Error> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
            SignalKind::quit(),
            SignalKind::alarm(),
            SignalKind::user_defined1(),
            SignalKind::user_defined2(),
        ];
        let listen = |kind| match signal(kind) {
            Ok(signal) => Ok((signal, ended_by(kind))),
            Err(error) => Err(Error::of(error)),
        };
        kinds
            .into_iter()
            .map(listen)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Resolves when a signal has arrived, with the failure that ends the command.
    pub(super) async fn recv(&mut self) -> ErrorKind {
        poll_fn(|cx| {
            let came = |(signal, kind): &mut (Signal, ErrorKind)| {
                signal.poll_recv(cx).is_ready().then_some(*kind)
            };
            self.0
                .iter_mut()
                .find_map(came)
                .map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

fn ended_by(signal: SignalKind) -> ErrorKind {
    if signal == SignalKind::interrupt() {
        return ErrorKind::Interrupted;
    }
    ErrorKind::Signalled(u8::try_from(signal.as_raw_value()).unwrap_or(u8::MAX))
}
