//! State shared by all commands: the selected session, and when to check that daemon and tmux
//! answer.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::select_all;
use serde::de::IgnoredAny;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::args::Global;
use super::output::{self, with_options};
use crate::client::DaemonClient;
use crate::model::{Error, ErrorKind};
use crate::ops::{SessionChoice, TaskSession};
use crate::process;
use crate::rules::wire::Request;
use crate::tmux::Server;

/// The task session selected by command line and environment. Resolved on demand: `replay` needs
/// none.
#[derive(Debug)]
pub(super) struct Context {
    global: Global,
    /// The command, as errors name it.
    words: String,
    /// When to check that daemon and tmux still answer.
    pub(super) limit: TimeLimit,
    /// Their addresses, once known.
    asked: RefCell<Option<Peers>>,
}

impl Context {
    pub(super) fn new(global: Global, words: String) -> Self {
        Self {
            global,
            words,
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
    pub(super) fn what(&self) -> &str {
        &self.words
    }

    /// Prints a failure of a part of the command.
    pub(super) fn complain(&self, error: &Error) {
        output::complain(error, self.what(), &self.global.words());
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
        self.asks(&session);
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
        self.global.choice()
    }

    fn asks(&self, session: &TaskSession) {
        *self.asked.borrow_mut() = Some(Peers {
            server: session.server.clone(),
            daemon: session.paths.socket(),
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
        let listen = |kind| Ok((signal(kind).map_err(Error::of)?, ended_by(kind)));
        kinds
            .into_iter()
            .map(listen)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Resolves when a signal has arrived, with the failure that ends the command.
    pub(super) async fn recv(&mut self) -> ErrorKind {
        let signals = self.0.iter_mut();
        let (kind, ..) = select_all(signals.map(|(signal, kind)| {
            Box::pin(async {
                signal.recv().await;
                *kind
            })
        }))
        .await;
        kind
    }
}

fn ended_by(signal: SignalKind) -> ErrorKind {
    if signal == SignalKind::interrupt() {
        return ErrorKind::Interrupted;
    }
    ErrorKind::Signalled(u8::try_from(signal.as_raw_value()).unwrap_or(u8::MAX))
}

/// The total time for the answers of daemon and tmux. Including the check which of them does not
/// answer, a command ends within ten seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// By how much a wait may exceed its own time limit: the daemon keeps the time, and its answer has
/// to arrive.
const GRACE: Duration = Duration::from_millis(500);

/// When a command checks whether daemon and tmux still answer. It fails only if one of them does
/// not; otherwise it continues, however long it takes.
#[derive(Debug)]
pub(super) struct TimeLimit {
    /// The time of the next check; `None` when there is none.
    next: Cell<Option<Instant>>,
    /// The time of the one after it, and from when on there is one in each interval; `None`: there is no
    /// other, the answer may take any time.
    regular_from: Cell<Option<Instant>>,
    changed: Notify,
}

impl TimeLimit {
    pub(super) fn new() -> Self {
        let begun = Instant::now();
        Self {
            next: Cell::new(Some(begun + PATIENCE)),
            regular_from: Cell::new(Some(begun)),
            changed: Notify::new(),
        }
    }

    /// From here on the command waits for something that may come at any time, within `time` if
    /// given. Whether daemon and tmux answer at all is checked once.
    pub(super) fn wait(&self, time: Option<Duration>) {
        let now = Instant::now();
        let first = now + PATIENCE;
        let end = time.map(|time| now + time + GRACE);
        self.set(Some(end.map_or(first, |end| end.min(first))), end);
    }

    /// From here on nothing is asked that could fail to answer.
    pub(super) fn lift(&self) {
        self.set(None, None);
    }

    /// Resolves when it is time to check whether daemon and tmux answer.
    pub(super) async fn over(&self) {
        loop {
            let changed = self.changed.notified();
            match self.next.get() {
                Some(at) => tokio::select! {
                    () = sleep_until(at) => return,
                    () = changed => {}
                },
                None => changed.await,
            }
        }
    }

    /// They answer: sets the time of the next check.
    pub(super) fn renew(&self) {
        let now = Instant::now();
        let next = |from: Instant| if now < from { from } else { now + PATIENCE };
        self.next.set(self.regular_from.get().map(next));
    }

    fn set(&self, next: Option<Instant>, regular_from: Option<Instant>) {
        self.next.set(next);
        self.regular_from.set(regular_from);
        self.changed.notify_one();
    }
}

/// How long each of them may take for the simplest request.
const ANSWERS_WITHIN: Duration = Duration::from_millis(1700);

/// How much longer a process may take that has run meanwhile: it is busy. tmux answers nobody while it
/// collects the processes of some hundred panes that have ended together.
const IF_BUSY: Duration = Duration::from_secs(20);

/// The daemon and the tmux server that a command uses.
#[derive(Debug, Clone)]
pub(super) struct Peers {
    pub(super) server: Server,
    /// The daemon's socket.
    pub(super) daemon: PathBuf,
}

impl Peers {
    /// Returns the failure of a command when one of them does not answer; `None` when both answer
    /// or do not exist.
    pub(super) async fn silence(&self) -> Option<Error> {
        // A daemon that waits for tmux does not answer either, so tmux is checked first.
        if let Some(pid) = self.silent_server().await {
            let who = match pid {
                Some(pid) => format!("pid {pid}, {}", self.server.socket().display()),
                None => self.server.socket().display().to_string(),
            };
            let hint =
                "the cause is unknown; run the command again when the server answers".to_owned();
            return Some(self.failure("the tmux server", &who, pid, hint));
        }
        let socket = &self.daemon;
        let pid = silent_daemon(socket).await?;
        let who = pid.map_or_else(|| socket.display().to_string(), |pid| format!("pid {pid}"));
        let hint = match pid {
            Some(pid) => format!("`kill {pid}` ends it, and the next command starts another"),
            None => "end it, and the next command starts another".to_owned(),
        };
        Some(self.failure("the daemon", &who, pid, hint))
    }

    fn failure(&self, name: &str, who: &str, pid: Option<u32>, hint: String) -> Error {
        let stopped = pid.filter(|pid| process::is_stopped(*pid));
        let (why, hint) = match stopped {
            Some(pid) => (
                format!("{name} ({who}) does not answer: it is stopped"),
                format!("`kill -CONT {pid}` resumes it"),
            ),
            None => (format!("{name} ({who}) does not answer"), hint),
        };
        Error::failed(why).with_hint(hint)
    }

    /// Returns the tmux server's pid, if known, when it does not answer.
    async fn silent_server(&self) -> Option<Option<u32>> {
        let pid = self.server.pid();
        if pid.is_some_and(process::is_stopped) {
            return Some(pid);
        }
        let answers = |within| self.server.answers(within);
        let silent = !answers_if_busy(pid, answers).await;
        silent.then_some(pid)
    }
}

/// Whether a process answers: within the usual time, or later if it has run meanwhile.
async fn answers_if_busy(pid: Option<u32>, mut answers: impl AsyncFnMut(Duration) -> bool) -> bool {
    let run_time = || pid.and_then(process::run_time);
    let before = run_time();
    answers(ANSWERS_WITHIN).await
        || before.is_some() && run_time() != before && answers(IF_BUSY).await
}

/// Returns the daemon's pid, if known, when it does not answer.
async fn silent_daemon(socket: &Path) -> Option<Option<u32>> {
    // If it does not exist or has ended, nothing waits for it.
    let connected = timeout(ANSWERS_WITHIN, DaemonClient::connect(socket)).await;
    let mut daemon = match connected {
        Ok(Ok(daemon)) => daemon,
        Ok(Err(_)) => return None,
        Err(_) => return Some(None),
    };
    let pid = daemon.pid();
    if pid.is_some_and(process::is_stopped) {
        return Some(pid);
    }
    let mut answer = pin!(daemon.ask::<IgnoredAny>(&Request::Status));
    let answers = async |within| timeout(within, &mut answer).await.is_ok();
    let silent = !answers_if_busy(pid, answers).await;
    silent.then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time of each check in milliseconds from the start, if it is renewed each time.
    async fn times(limit: &TimeLimit, most: usize) -> Vec<u128> {
        let (mut times, begun) = (Vec::new(), Instant::now());
        for _ in 0..most {
            let over = tokio::time::timeout(Duration::from_secs(100), limit.over());
            if over.await.is_err() {
                break;
            }
            times.push(begun.elapsed().as_millis());
            limit.renew();
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn it_comes_again_and_again_and_a_wait_ends_soon_after_its_own_time() {
        type Change = fn(&TimeLimit);
        let changes: [(Change, usize, &[u128]); 5] = [
            (|_| (), 3, &[6000, 12000, 18000]),
            (
                |limit| limit.wait(Some(Duration::from_secs(2))),
                2,
                &[2500, 8500],
            ),
            (
                |limit| limit.wait(Some(Duration::from_secs(60))),
                2,
                &[6000, 60500],
            ),
            // It asks once whether anybody answers.
            (|limit| limit.wait(None), 3, &[6000]),
            (TimeLimit::lift, 3, &[]),
        ];
        for (change, most, expected) in changes {
            let limit = TimeLimit::new();
            change(&limit);
            assert_eq!(times(&limit, most).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_can_be_lifted_while_it_runs() {
        let limit = TimeLimit::new();
        let lift = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            limit.lift();
        };
        let over = tokio::time::timeout(Duration::from_secs(100), limit.over());
        let (over, ()) = tokio::join!(over, lift);
        assert!(over.is_err());
    }
}
