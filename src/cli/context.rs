//! What every command needs to know first: which session is meant, and when to find out whether
//! those that it asks answer.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Global;
use super::failure::{Failure, Kind, OrFail};
use super::liveness::Asked;
use super::time_limit::TimeLimit;
use crate::ops::{Session, SessionChoice};
use crate::tmux::ServerChoice;

/// The command line's and the environment's choice of a task session. Looked up when asked for:
/// `replay` needs none of it.
#[derive(Debug)]
pub(super) struct Context {
    global: Global,
    /// When the command finds out whether those it asks answer.
    pub(super) limit: TimeLimit,
    /// Who they are, once that is known.
    asked: RefCell<Option<Asked>>,
}

impl Context {
    pub(super) fn new(global: Global) -> Self {
        Self {
            global,
            limit: TimeLimit::new(),
            asked: RefCell::new(None),
        }
    }

    /// Resolves when one of those that the command asks does not answer, to the failure that this
    /// is.
    pub(super) async fn silence(&self) -> Failure {
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

    /// Returns the task session that is meant, whichever of its names was given; `what` is the
    /// command, for errors.
    pub(super) async fn session(&self, what: &str) -> Result<Session, Failure> {
        let mut session = self.given(what)?;
        session.settle().await.or_fail(what)?;
        // It may be supervised under another name.
        self.asks(what, &session);
        Ok(session)
    }

    /// Returns the task session as it was named; nobody is asked.
    pub(super) fn given(&self, what: &str) -> Result<Session, Failure> {
        let choice = SessionChoice {
            session: self.global.session.clone(),
            server: ServerChoice {
                socket_name: self.global.socket_name.clone().map(Into::into),
                socket_path: self.global.socket_path.clone(),
                program: self.global.tmux.clone(),
            },
        };
        let session = Session::named(&choice).or_fail(what)?;
        self.asks(what, &session);
        Ok(session)
    }

    fn asks(&self, what: &str, session: &Session) {
        *self.asked.borrow_mut() = Some(Asked {
            what: what.to_owned(),
            server: session.server.clone(),
            daemon: session.paths.socket(),
        });
    }
}

/// From here on an interrupt is ours: it does not end the process, and it is kept until it is asked
/// for.
pub(super) fn interrupts(what: &str) -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| Failure::of(Kind::Failed, what, &error))
}

/// The signals that end a command which has something to take along.
#[derive(Debug)]
pub(super) struct ExitWatch(Vec<(Signal, Kind)>);

impl ExitWatch {
    /// From here on these signals are ours.
    pub(super) fn listen(what: &str) -> Result<Self, Failure> {
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
            Err(error) => Err(Failure::of(Kind::Failed, what, &error)),
        };
        kinds
            .into_iter()
            .map(listen)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Resolves when one has come, to how the command ends then.
    pub(super) async fn recv(&mut self) -> Kind {
        poll_fn(|cx| {
            let came = |(signal, kind): &mut (Signal, Kind)| {
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

fn ended_by(signal: SignalKind) -> Kind {
    if signal == SignalKind::interrupt() {
        return Kind::Interrupted;
    }
    Kind::Signalled(u8::try_from(signal.as_raw_value()).unwrap_or(u8::MAX))
}
