//! The tasks: those of a session, of all sessions, and as a daemon pushes them; their number by state; and why a
//! task is or is not judged to wait for input.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::timeout;

use super::lookup;
use super::session::{LostDaemons, SessionChoice, TaskSession};
use crate::client::{DaemonClient, Hello};
use crate::clock;
use crate::config::paths::{Paths, is_key};
use crate::daemon::resolve;
use crate::model::*;
use crate::process;
use crate::rules::observe::{Evidence, Observer};
use crate::rules::protocol::rows::LookRows;
use crate::rules::restarts::restarts_in;
use crate::rules::wire::{
    DaemonStatus, ExplainedState, Explanation, Filter, LsTask, LsView, ReaderStart, Request,
};
use crate::tmux::{self, Connection, ListedSession, LookKind, LookMemory, ServerChoice};

pub(crate) use crate::tmux::Server;

/// Returns the tasks. A missing session has none.
pub(crate) async fn list(session: &mut TaskSession) -> Result<LsView, Error> {
    let view = session.ask_if_exists(Request::List).await?;
    Ok(view.unwrap_or_else(|| LsView {
        session_name: session.name.clone(),
        captured_at: clock::now().wall,
        ..LsView::default()
    }))
}

/// Adds the ports that the tasks listen on. The kernel is asked for them now.
pub(crate) fn add_ports(view: &mut LsView) {
    let leader = |listed: &LsTask| listed.task.pid.filter(|_| listed.task.is_alive());
    let leaders: Vec<u32> = view.tasks.iter().filter_map(leader).collect();
    let Some(mut found) = ports(&leaders) else {
        return;
    };
    for listed in &mut view.tasks {
        let found = leader(listed).and_then(|leader| found.remove(&leader));
        Arc::make_mut(&mut listed.task).ports = Some(found.unwrap_or_default());
    }
}

/// Returns the ports of the runs with these first processes; `None` where the system hides them.
pub(crate) fn ports(leaders: &[u32]) -> Option<BTreeMap<u32, Vec<u16>>> {
    let found = process::listening(leaders, None)?.into_iter();
    let found = found.map(|(leader, listening)| (leader, listening.ports().into_iter().collect()));
    Some(found.into_map())
}

/// Returns the task of this name or window id.
pub(crate) async fn find(session: &mut TaskSession, name: &str) -> Result<Arc<Task>, Error> {
    Ok(find_listed(session, name).await?.task)
}

/// Returns the task of this name or window id, with what a daemon knows of it.
pub(super) async fn find_listed(session: &mut TaskSession, name: &str) -> Result<LsTask, Error> {
    let request = Request::Find {
        task: name.to_owned(),
    };
    session.ask(request).await
}

/// Counts the tasks. A status line asks for it again and again, also where no daemon is wanted: then those
/// that tmux shows are counted, and what they wait for is not known.
pub(crate) async fn count(session: &mut TaskSession) -> Result<StatusCounts, Error> {
    match session.ask_running(Request::Count).await? {
        Some(counts) => Ok(counts),
        None => Ok(look(session).await?.counts(|_| false, |_| false)),
    }
}

/// Looks at a session that has no daemon.
pub(super) async fn look(session: &TaskSession) -> Result<Snapshot, Error> {
    let target = format!("={}:", session.name);
    let (mut connection, mut memory) = (session.connection(), LookMemory::default());
    let look = tmux::look(&mut connection, &target, &mut memory, LookKind::Windows).await?;
    let evidence = Evidence {
        started_at: Arc::new(process::starts(look.iter().flat_map(LookRows::pids))),
        ..Evidence::default()
    };
    let observed = Observer::new(&session.name).observe(look.as_ref(), &evidence, clock::now());
    Ok(observed.snapshot)
}

// All task sessions of this user: those that have a daemon, on any tmux server, and those of the present
// server that have none.

/// How long a daemon may take to answer: one that is stopped must not hold up the others.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
pub(crate) struct ListedElsewhere {
    #[serde(flatten)]
    pub(crate) view: LsView,
    pub(crate) server: String,
    #[serde(skip)]
    pub(crate) is_here: bool,
}

#[derive(Debug)]
pub(crate) struct Everywhere {
    /// Those of the present server first, by name.
    pub(crate) sessions: Vec<ListedElsewhere>,
    /// The sockets of daemons that do not answer.
    pub(crate) silent: Vec<PathBuf>,
}

/// Lists all task sessions. `choice` says which server is the present one.
pub(crate) async fn list_everywhere(choice: &SessionChoice) -> Result<Everywhere, Error> {
    let session = TaskSession::named(choice)?;
    let here = session.server.socket().display().to_string();
    let listed = |view, server: String| ListedElsewhere {
        view,
        is_here: server == here,
        server,
    };
    let mut supervised = BTreeMap::new();
    let mut silent = Vec::new();
    let asked = session.paths.sockets().into_iter().map(|socket| async {
        let answer = timeout(PATIENCE, ask(&socket)).await;
        (socket, answer)
    });
    for (socket, answer) in join_all(asked).await {
        match answer {
            Ok(Some((server, view))) => drop(supervised.insert(socket, listed(view, server))),
            // It has left its socket behind, or leaves now.
            Ok(None) => {}
            Err(_) => silent.push(socket),
        }
    }
    let mut sessions = Vec::new();
    for FoundSession { name, daemon } in sessions_of(&session.server).await? {
        if let Some(known) = supervised.get_mut(&daemon) {
            known.view.session_name = name;
            continue;
        }
        let choice = SessionChoice {
            session: Some(name),
            server: choice.server.clone(),
        };
        // What tmux shows of its tasks.
        let look = look(&TaskSession::named(&choice)?).await?;
        let view = LsView::new(&look, false, |task| LsTask::new(Arc::clone(task), None));
        sessions.push(listed(view, here.clone()));
    }
    sessions.extend(supervised.into_values());
    sessions.retain(|listed| listed.view.exists);
    sessions.sort_by_cached_key(|listed| {
        let (server, name) = (listed.server.clone(), listed.view.session_name.clone());
        (!listed.is_here, server, name)
    });
    Ok(Everywhere { sessions, silent })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundSession {
    pub(crate) name: String,
    /// Where its daemon listens, if it has one.
    pub(crate) daemon: PathBuf,
}

/// Returns the task sessions of a tmux server, with and without a daemon.
pub(crate) async fn sessions_of(server: &Server) -> Result<Vec<FoundSession>, Error> {
    let mut sessions = tmux::list_sessions(&mut Connection::OneShot(server)).await?;
    for session in &mut sessions {
        session.folder = session.folder.take().filter(|folder| is_key(folder));
    }
    let of = |session: &ListedSession| {
        let paths = Paths::locate(server.socket(), &session.name, &lookup)?;
        Ok(FoundSession {
            daemon: resolve(&sessions, &session.name, &paths).paths.socket(),
            name: session.shown_name(),
        })
    };
    let ours = sessions.iter().filter(|session| session.root.is_some());
    ours.map(of).collect()
}

/// Returns the sockets of the user's daemons, which may have left them behind.
pub(crate) fn daemon_sockets(server: &Server) -> Result<Vec<PathBuf>, Error> {
    // The runtime folder is the same for all sessions.
    Ok(Paths::locate(server.socket(), "", &lookup)?.sockets())
}

async fn ask(socket: &Path) -> Option<(String, LsView)> {
    let mut daemon = DaemonClient::connect(socket).await.ok()?;
    let status: DaemonStatus = daemon.ask(&Request::Status).await.ok()?;
    let view = daemon.ask(&Request::List).await.ok()?;
    Some((status.server, view))
}

// Why a task is or is not judged to wait for input, also as people read it: in the terminal and in the panel.

const LINE: usize = 200;

pub(crate) async fn explain(session: &mut TaskSession, name: &str) -> Result<Explanation, Error> {
    let request = Request::Explain {
        task: name.to_owned(),
    };
    session.ask(request).await
}

/// Returns why a task is or is not judged to wait for a person, as lines of `name value`.
pub(crate) fn explanation_lines(explanation: &Explanation, now: Millis) -> Vec<String> {
    let terminal = explanation.terminal.as_ref();
    let stopped = terminal.and_then(|terminal| terminal.stopped);
    let in_background = stopped.is_some_and(Stop::is_in_background);
    let state = match explanation.state {
        ExplainedState::Working if in_background => "not reported".to_owned(),
        ExplainedState::Ended => "has ended".to_owned(),
        ExplainedState::Waiting => {
            let since = explanation.waiting_since;
            let since = since.map(|since| format!(", for {}", seconds(now - since)));
            format!("waits for input{}", since.unwrap_or_default())
        }
        ExplainedState::Muted => "waits for input; the configuration keeps it quiet".to_owned(),
        ExplainedState::Asking => "asks for input; not reported (yet)".to_owned(),
        ExplainedState::Working => "does not wait for input".to_owned(),
    };
    let state = match stopped {
        Some(_) if in_background => {
            format!("is stopped in the background, where it cannot read what is typed; {state}")
        }
        Some(_) => format!("is stopped by a signal; {state}"),
        None => state,
    };
    let prompt = explanation.prompt.as_ref().zip(explanation.prompt_kind);
    let prompt = prompt.map(|(prompt, kind)| match explanation.secret {
        Some(true) => format!("{prompt} ({kind}, secret)"),
        Some(false) | None => format!("{prompt} ({kind})"),
    });
    let screen = match explanation.alternate_on {
        Some(true) => ", alternate screen",
        Some(false) | None => "",
    };
    let cursor = explanation.cursor_x.zip(explanation.cursor_y);
    let quiet = explanation.quiet_ms;
    let quiet = quiet.map(|ms| seconds(i64::try_from(ms).unwrap_or(i64::MAX)));
    let mode = |on: Option<bool>| on.map_or("unknown", |on| if on { "on" } else { "off" });
    let modes = terminal.map(|terminal| {
        let (echo, canonical) = (mode(terminal.echo), mode(terminal.canonical));
        format!("echo {echo}, lines {canonical}")
    });
    let programs = terminal.map(|terminal| {
        let programs = terminal.programs.join(" ");
        format!("{programs}: {}, {}", terminal.reader, terminal.foreground)
    });
    let (window, name) = (&explanation.window_id, &explanation.window_name);
    let restart = explanation.next_restart;
    let shown = explanation.line.as_ref();
    let lines = [
        ("task", Some(format!("{window} ({name})"))),
        ("state", Some(state)),
        ("rule", Some(explanation.rule.clone())),
        ("advice", in_background.then(|| Stop::ADVICE.to_owned())),
        (
            "restart",
            restart.map(|restart| restart_words(restart, now)),
        ),
        (
            "restart",
            explanation
                .cannot_restart
                .as_deref()
                .map(cannot_restart_words),
        ),
        ("prompt", prompt),
        (
            "line",
            shown.map(|shown| text::one_line(shown.as_bytes(), LINE)),
        ),
        (
            "cursor",
            cursor.map(|(x, y)| format!("column {x}, row {y}{screen}")),
        ),
        ("quiet", quiet.map(|quiet| format!("for {quiet}"))),
        (
            "terminal",
            Some(modes.unwrap_or_else(|| "nothing is known".to_owned())),
        ),
        ("programs", programs),
    ];
    let lines = lines.into_iter();
    lines
        .filter_map(|(name, value)| Some(format!("{name:<9} {}", value?)))
        .collect()
}

pub(crate) fn cannot_restart_words(why: &str) -> String {
    format!("cannot be restarted: {why}")
}

/// Returns the restart that a task waits for, as a person reads it: `restarts in 4 s, 2 of 5`.
pub(crate) fn restart_words(next: NextRestart, now: Millis) -> String {
    let NextRestart {
        at, number, limit, ..
    } = next;
    let still = Duration::from_millis(u64::try_from(at - now).unwrap_or(0));
    format!("{}, {number} of {limit}", restarts_in(still))
}

fn seconds(ms: Millis) -> String {
    format!("{}.{} s", ms.max(0) / 1000, ms.max(0) % 1000 / 100)
}

// The tasks of a session as the daemon pushes them.

/// Subscribes to the session's tasks. Returns the stream and the session's present name.
pub(crate) async fn task_stream(session: &TaskSession) -> Result<(DaemonClient, String), Error> {
    let mut lost = LostDaemons::default();
    loop {
        let mut daemon = session.daemon_or_start().await?;
        match subscribe(&mut daemon).await {
            // It may have been stopping when it was found.
            Err(error) if lost.goes_on_after(&error) => {}
            Err(error) => return Err(error),
            Ok(name) => return Ok((daemon, name)),
        }
    }
}

/// Subscribes to the tasks of the daemon that listens at a socket. Returns the stream and the
/// daemon's session, on any tmux server; `None` when no daemon listens. `choice` says which tmux to
/// use.
pub(crate) async fn task_stream_at(
    socket: &Path,
    choice: &SessionChoice,
) -> Result<Option<(DaemonClient, TaskSession)>, Error> {
    let mut daemon = match DaemonClient::connect(socket).await {
        Err(error) if error.kind == ErrorKind::NoDaemon => return Ok(None),
        connected => connected?,
    };
    let status: DaemonStatus = match daemon.ask(&Request::Status).await {
        Err(error) if error.kind == ErrorKind::DaemonEnded => return Ok(None),
        status => status?,
    };
    let mut session = TaskSession::named(&SessionChoice {
        session: Some(status.session_name),
        server: ServerChoice {
            socket_name: None,
            socket_path: Some(status.server.into()),
            program: choice.server.program.clone(),
        },
    })?;
    // The session may have been renamed since its daemon started.
    if session.paths.socket() != socket {
        session.resolve_name().await?;
    }
    if session.paths.socket() != socket {
        return Ok(None);
    }
    // It is not known which project the session belongs to.
    session.project = None;
    match subscribe(&mut daemon).await {
        Err(error) if error.kind == ErrorKind::DaemonEnded => Ok(None),
        Err(error) => Err(error),
        Ok(name) => {
            session.name = name;
            Ok(Some((daemon, session)))
        }
    }
}

/// Turns a connection into a stream of tasks. Returns the session's present name.
async fn subscribe(daemon: &mut DaemonClient) -> Result<String, Error> {
    // No record of the feed is wanted, and a reader cannot say so: these are the fewest.
    let filter = Filter::new(vec![Kind::Notice], Vec::new(), Vec::new());
    let request = Request::Subscribe {
        start: ReaderStart::Now,
        filter,
        tasks: true,
        stored: None,
    };
    let hello = daemon.stream(&request).await?;
    Ok(Hello::parse(&hello)?.session_name)
}
