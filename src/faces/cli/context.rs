//! State shared by all commands: the selected session, and when to check that daemon and tmux
//! answer.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use serde::de::IgnoredAny;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use super::output::{self, with_options};
use crate::client::DaemonClient;
use crate::model::{Error, ErrorKind, shown_command};
use crate::ops::{SessionChoice, TaskSession, session_words, task_names};
use crate::process;
use crate::rules::wire::Request;
use crate::tmux::{Server, ServerChoice};

/// Which task session, on which tmux server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Session and server")]
pub(super) struct Global {
    /// The task session [default: $TMUX_TASK_SESSION, $PI_TMUX_SESSION, else a name made from
    /// this directory]
    #[arg(short, long, global = true, value_name = "NAME", add = task_names::session_candidates())]
    pub(super) session: Option<String>,
    /// The tmux server's socket name, as in tmux
    #[arg(short = 'L', global = true, value_name = "NAME")]
    pub(super) socket_name: Option<String>,
    /// The tmux server's socket path, as in tmux
    #[arg(short = 'S', global = true, value_name = "PATH")]
    pub(super) socket_path: Option<PathBuf>,
    /// The tmux program [default: $TMUX_TASK_TMUX, else tmux]
    #[arg(long, global = true, value_name = "PATH")]
    pub(super) tmux: Option<PathBuf>,
    /// The machine to do it on: a name under `[hosts]` in the configuration, or a destination for ssh
    #[arg(long, global = true, value_name = "HOST", add = task_names::host_candidates())]
    pub(super) host: Option<String>,
    /// Whether this is that machine.
    #[arg(skip)]
    pub(super) is_far: bool,
}

impl Global {
    /// Returns the machine that the command is passed on to; `None` if it is executed here.
    pub(super) fn forwards_to(&self) -> Option<&str> {
        let host = self.host.as_deref();
        host.filter(|_| !self.is_far)
    }

    pub(super) fn choice(&self) -> SessionChoice {
        SessionChoice {
            session: self.session.clone(),
            server: ServerChoice {
                socket_name: self.socket_name.clone().map(Into::into),
                socket_path: self.socket_path.clone(),
                program: self.tmux.clone(),
            },
        }
    }

    /// Returns the options that were given, as words of a command; empty without any.
    pub(super) fn words(&self) -> String {
        let mut choice = self.choice();
        // The host itself adds the socket to what comes by the broker, which takes none.
        if output::viewer().is_guarded {
            choice.server.socket_path = None;
        }
        let host = self.host.iter().flat_map(|host| ["--host", host.as_str()]);
        let host = host.map(OsString::from);
        let words = session_words(&choice).into_iter().map(OsString::from);
        shown_command(&host.chain(words).collect::<Vec<_>>())
    }
}

/// The task session that command line and environment select, resolved on demand.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) global: Global,
    /// The command, as errors name it.
    pub(super) words: String,
    /// When to check that daemon and tmux still answer.
    pub(super) limit: TimeLimit,
    /// The tmux server and the daemon's socket, once known.
    asked: RefCell<Option<(Server, PathBuf)>>,
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

    /// Resolves when the daemon or tmux does not answer, with the failure.
    pub(super) async fn silence(&self) -> Error {
        loop {
            self.limit.over().await;
            let asked = self.asked.borrow().clone();
            if let Some((server, daemon)) = asked
                && let Some(failure) = silence_of(&server, &daemon).await
            {
                return failure;
            }
            self.limit.renew();
        }
    }

    pub(super) fn complain(&self, error: &Error) {
        output::complain(error, &self.words, &self.global.words());
    }

    /// Prints a message on stderr that is no failure; its commands are for the selected session.
    pub(super) fn say(&self, text: &str) {
        let text = with_options(text, &self.global.words());
        output::note(&format!("tmux-task: {}: {text}", self.words));
    }

    /// Returns the selected task session, whichever of its names was given.
    pub(super) async fn session(&self) -> Result<TaskSession, Error> {
        let mut session = self.given()?;
        session.resolve_name().await?;
        self.asks(&session);
        Ok(session)
    }

    /// Returns the task session as it was named. The first request resolves the name.
    pub(super) fn given(&self) -> Result<TaskSession, Error> {
        let session = TaskSession::named(&self.global.choice())?;
        self.asks(&session);
        Ok(session)
    }

    fn asks(&self, session: &TaskSession) {
        let asked = (session.server.clone(), session.paths.socket());
        self.asked.replace(Some(asked));
    }
}

/// From here on interrupts do not end the process, and are kept until queried.
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

/// Does a part of the command that may print nothing for long, unless nobody reads stdout any more.
pub(super) async fn unless_unread<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = output::stdout_closed() => Err(Error::silent(ErrorKind::OutputClosed)),
    }
}

/// Does the work of a command whose exit code is a result. If nobody reads what it prints, it ends before that is
/// known, and 0 would be wrong.
pub(super) async fn with_result(
    work: impl Future<Output = Result<(), Error>>,
) -> Result<(), Error> {
    work.await
        .map_err(|error| match error.kind == ErrorKind::OutputClosed {
            true => Error::silent(ErrorKind::Failed),
            false => error,
        })
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
        let listen = |kind: SignalKind| {
            let ended = match u8::try_from(kind.as_raw_value()) {
                _ if kind == SignalKind::interrupt() => ErrorKind::Interrupted,
                number => ErrorKind::Signalled(number.unwrap_or(u8::MAX)),
            };
            Ok((signal(kind).map_err(Error::of)?, ended))
        };
        let signals = kinds.into_iter().map(listen);
        signals.collect::<Result<_, _>>().map(Self)
    }

    /// Resolves when a signal has arrived, with the failure that ends the command.
    pub(super) async fn recv(&mut self) -> ErrorKind {
        poll_fn(|cx| {
            let mut signals = self.0.iter_mut();
            let ended = signals
                .find_map(|(signal, ended)| signal.poll_recv(cx).is_ready().then_some(*ended));
            ended.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// The total time for the answers of daemon and tmux: with the check after it, less than ten seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// By how much a wait may exceed its limit: the daemon keeps the time, and its answer has to arrive.
const GRACE: Duration = Duration::from_millis(500);

/// When a command checks whether daemon and tmux still answer. It fails only if one of them does not.
#[derive(Debug)]
pub(super) struct TimeLimit {
    /// The time of the next check; `None` when there is none.
    next: Cell<Option<Instant>>,
    /// The time of the one after it, from when on there is one in each interval; `None`: no other.
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

    /// From here on anything may come at any time, within `time` if given: whether they answer is checked once.
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

/// If it has run meanwhile: tmux answers nobody while it collects hundreds of panes that have ended together.
const IF_BUSY: Duration = Duration::from_secs(20);

/// Returns the failure if tmux or the daemon of this socket does not answer; not if one does not exist.
async fn silence_of(server: &Server, daemon: &Path) -> Option<Error> {
    // A daemon that waits for tmux does not answer either, so tmux is checked first.
    let (name, pid, hint) = match silent_server(server).await {
        Some(pid) => {
            let who = pid.map_or_else(String::new, |pid| format!("pid {pid}, "));
            let hint = "the cause is unknown; run the command again when the server answers";
            let socket = server.socket().display();
            (
                format!("the tmux server ({who}{socket})"),
                pid,
                hint.to_owned(),
            )
        }
        None => match silent_daemon(daemon).await? {
            Some(pid) => {
                let hint = format!("`kill {pid}` ends it, and the next command starts another");
                (format!("the daemon (pid {pid})"), Some(pid), hint)
            }
            None => {
                let hint = "end it, and the next command starts another".to_owned();
                (format!("the daemon ({})", daemon.display()), None, hint)
            }
        },
    };
    let why = format!("{name} does not answer");
    Some(match pid.filter(|pid| process::is_stopped(*pid)) {
        Some(pid) => Error::failed(format!("{why}: it is stopped"))
            .with_hint(format!("`kill -CONT {pid}` resumes it")),
        None => Error::failed(why).with_hint(hint),
    })
}

/// Returns the tmux server's pid, if known, when it does not answer.
async fn silent_server(server: &Server) -> Option<Option<u32>> {
    let pid = server.pid();
    let is_silent = pid.is_some_and(process::is_stopped)
        || !answers_if_busy(pid, |within| server.answers(within)).await;
    is_silent.then_some(pid)
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
