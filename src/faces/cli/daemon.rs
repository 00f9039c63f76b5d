//! `daemon`: supervise, in the foreground or background; show the status; stop.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::args::{ChildOf, ConsumerCommand, Daemon, DaemonCommand, FeedFormat, Json, Supervise};
use super::context::Context;
use super::feed::{self, Acknowledging};
use super::output;
use super::table::{self, NARROW_NAME, Narrowing};
use crate::client::{self, READY};
use crate::clock;
use crate::config;
use crate::daemon::{self, DaemonError, Options, ServiceManager};
use crate::model::{Error, ErrorKind, Millis, age, owner_of_environment, text};
use crate::ops::{self, TaskSession, lookup};
use crate::rules::wire::{
    ConsumerList, ConsumerStatus, DaemonConfig, DaemonStatus, Filter, ReaderStart, Request,
    SINK_PREFIX, SinkStatus,
};

/// How long it may take until others reach this machine, and how often it is asked.
const REACHED_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

pub(super) async fn run(context: &Context, args: Daemon) -> Result<(), Error> {
    match args.command {
        None if args.supervise.detach => detach(context, &args.supervise).await,
        None => {
            context.limit.lift();
            supervise(context, args.supervise).await
        }
        Some(DaemonCommand::Status(json)) => status(context, json).await,
        Some(DaemonCommand::Stop { cleanup }) => stop(context, cleanup).await,
    }
}

/// Returns the session to supervise. If another process of ours started this one, it has resolved
/// the session already.
async fn session(context: &Context, args: &Supervise) -> Result<TaskSession, Error> {
    let Some(_) = args.as_child else {
        let session = context.session().await?;
        session.server.check_socket_folder()?;
        return Ok(session);
    };
    let mut session = context.given()?;
    if let Some(key) = &args.folder {
        session.paths = session.paths.with_key(key);
    }
    Ok(session)
}

async fn detach(context: &Context, args: &Supervise) -> Result<(), Error> {
    let session = session(context, args).await?;
    let mut more: Vec<OsString> = vec![
        "--interval".into(),
        format!("{}ms", args.interval.as_millis()).into(),
    ];
    if args.fresh {
        more.push("--fresh".into());
    }
    if let Some(id) = &args.session_id {
        more.push(format!("--session-id={id}").into());
    }
    let how = session.start_of_daemon("detach", &more)?;
    let said = client::start(&how).await?;
    if !said.is_empty() {
        output::note(&said);
    }
    if config::load(&lookup).is_ok_and(|config| config.has_fleet) {
        drop(timeout(REACHED_WITHIN, reached(session)).await);
    }
    Ok(())
}

/// Resolves when others reach this machine by the fleet, or the daemon knows why not.
async fn reached(mut session: TaskSession) {
    let is_known = |sink: &SinkStatus| sink.reached != Some(false) || sink.error.is_some();
    while let Ok(status) = ops::daemon_status(&mut session).await
        && !status.sinks.iter().all(is_known)
    {
        sleep(LOOK_AGAIN).await;
    }
}

async fn supervise(context: &Context, args: Supervise) -> Result<(), Error> {
    let session = session(context, &args).await?;
    let shown = config::show(&lookup).map_err(|error| Error::of(error).about("configuration"))?;
    let shown_config = DaemonConfig {
        file: shown.path(),
        exists: shown.exists,
    };
    let config = shown.config;
    // A harness starts it for a conversation. A user's daemon ends nothing by itself.
    let has_harness = args.session_id.is_some() || owner_of_environment(&lookup).is_some();
    let in_background = args.as_child.is_some();
    let options = Options {
        clean_after: has_harness.then_some(config.clean_after),
        session: session.name.clone(),
        server: session.server.clone(),
        paths: session.paths.clone(),
        session_id: args.session_id.or_else(|| {
            lookup("PI_SESSION_ID")
                .filter(|id| !id.is_empty())
                .map(|id| id.to_string_lossy().into_owned())
        }),
        project: session.project.clone(),
        fresh: args.fresh,
        interval: args.interval,
        leaves_when_useless: args.as_child == Some(ChildOf::Autostart),
        // Whoever was started by a service manager speaks to it, and no process that it starts.
        service_manager: (!in_background)
            .then(|| ServiceManager::from_environment(&lookup))
            .flatten(),
        stdout: args.stdout,
        config,
        shown_config,
    };
    if in_background {
        leave_terminal()?;
        // A long-lived daemon must not keep a file system from being unmounted, or a folder from being
        // removed.
        std::env::set_current_dir("/").map_err(Error::of)?;
    }
    let paths = session.paths.clone();
    let ready = move || {
        if in_background {
            go_quiet();
        } else {
            let log = paths.log();
            output::note(&format!(
                "tmux-task: supervising session {} (pid {}), log {}",
                session.name,
                std::process::id(),
                log.display()
            ));
        }
    };
    match daemon::run(options, ready).await {
        Ok(()) => Ok(()),
        // Other commands that start it look for it by this name.
        Err(
            error @ DaemonError::Running {
                folder: Some(_), ..
            },
        ) if args.as_child == Some(ChildOf::Autostart) => Err(error.into()),
        Err(DaemonError::Running { pid, .. }) => {
            output::note(&format!("already running (pid {pid})"));
            if in_background {
                go_quiet();
            }
            if args.stdout {
                stream(context).await
            } else {
                Ok(())
            }
        }
        Err(DaemonError::Failed(error)) => Err(error),
    }
}

/// Prints the feed of the daemon that is running already.
async fn stream(context: &Context) -> Result<(), Error> {
    let session = context.session().await?;
    let request = Request::Subscribe {
        start: ReaderStart::Now,
        filter: Filter::default(),
        tasks: false,
        stored: None,
    };
    let (format, nothing) = (FeedFormat::Json, Acknowledging::Nothing);
    feed::follow(context, &session, request, format, nothing).await
}

/// Starts a new session, so that the daemon survives the end of the terminal.
pub(super) fn leave_terminal() -> Result<(), Error> {
    rustix::process::setsid().map(drop).map_err(Error::of)
}

/// Reports that the daemon is ready, and closes the streams that its starter waits for.
pub(super) fn go_quiet() {
    let mut stdout = std::io::stdout();
    // The starter may have exited; then nothing waits.
    drop(writeln!(stdout, "{READY}").and_then(|()| stdout.flush()));
    let quiet = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .and_then(|null| {
            rustix::stdio::dup2_stdout(&null)?;
            rustix::stdio::dup2_stderr(&null)?;
            Ok(())
        });
    if let Err(error) = quiet {
        tracing::warn!(%error, "could not release the terminal");
    }
}

async fn status(context: &Context, args: Json) -> Result<(), Error> {
    let mut session = context.given()?;
    let status = ops::daemon_status(&mut session).await?;
    if args.json {
        return output::json(&status);
    }
    output::lines(status_lines(&status))
}

fn status_lines(status: &DaemonStatus) -> Vec<String> {
    let DaemonStatus {
        session_name,
        server,
        pid,
        version,
        ..
    } = status;
    let up = age(clock::now().wall - status.started_at);
    let tasks = if status.exists {
        let (running, waiting, dead) = (status.running, status.waiting, status.dead);
        format!("{running} running, {waiting} waiting, {dead} exited")
    } else {
        "the session does not exist".to_owned()
    };
    let last = format!("last record {}:{}", status.epoch, status.last_seq);
    let problems = status.problems.iter();
    let mut lines: Vec<String> = problems.map(|why| format!("problem  {why}")).collect();
    lines.extend([
        format!("session  {session_name}"),
        format!("server   {server}"),
        format!("daemon   pid {pid}, version {version}, up {up}"),
        format!("tasks    {tasks}"),
        format!("feed     {} ({last})", status.feed),
        format!("readers  {}, {} waits", status.readers, status.waits),
        format!("kept     {}", kept(status)),
    ]);
    let is_sink = |one: &&ConsumerStatus| one.name.starts_with(SINK_PREFIX);
    let consumers = status.consumers.iter().filter(|one| !is_sink(one));
    lines.extend(consumers.map(consumer_line));
    lines.extend(status.sinks.iter().map(sink_line));
    let (looks, late) = (status.looks, status.found_late);
    lines.push(format!(
        "looks    {looks}, {late} of them found a late event"
    ));
    lines.push(format!("log      {}", status.log));
    lines
}

/// Returns what a sink does: `sink log (exec): 3 delivered, 0 behind`.
fn sink_line(sink: &SinkStatus) -> String {
    let SinkStatus {
        name,
        kind,
        delivered,
        lag,
        ..
    } = sink;
    let error = sink.error.as_ref().map(|why| {
        let now = clock::now().wall;
        let ago = age(now - sink.error_at.unwrap_or(now));
        format!(", failed {ago} ago: {why}")
    });
    let error = error.unwrap_or_default();
    format!("sink {name} ({kind}): {delivered} delivered, {lag} behind{error}")
}

/// Returns what the feed holds: `records 501 to 1200, 12.3 MiB in 3 files`.
fn kept(status: &DaemonStatus) -> String {
    let files = match status.feed_files {
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    };
    let size = text::size(status.feed_bytes);
    if status.last_seq < status.first_seq {
        return format!("no records, {size} in {files}");
    }
    let (first, last) = (status.first_seq, status.last_seq);
    format!("records {first} to {last}, {size} in {files}")
}

async fn stop(context: &Context, cleanup: bool) -> Result<(), Error> {
    let mut session = context.session().await?;
    let stopped = ops::stop_daemon(&mut session, cleanup).await;
    stopped.map_err(|error| Error {
        // That it can be started is no help here.
        hint: error.hint.filter(|_| error.kind != ErrorKind::NoDaemon),
        ..error
    })
}

const CONSUMERS: [&str; 7] = [
    "NAME",
    "CURSOR",
    "LAG",
    "HOLDS",
    "AGE",
    "LAST USED",
    "READER",
];

/// On a narrow terminal, who is behind is shown longest.
const NARROW_CONSUMERS: Narrowing<'_> = Narrowing {
    cuts: &[(0, NARROW_NAME)],
    dispensable: &[4, 1, 3, 5, 6],
};

pub(super) async fn consumer(context: &Context, command: ConsumerCommand) -> Result<(), Error> {
    match command {
        ConsumerCommand::Ls(json) => list_consumers(context, json).await,
        ConsumerCommand::Rm { names } => remove_consumers(context, &names).await,
    }
}

async fn list_consumers(context: &Context, args: Json) -> Result<(), Error> {
    let mut session = context.session().await?;
    let list = ops::list_consumers(&mut session).await?;
    if args.json {
        return output::json(&list);
    }
    let table = table_of(&list, clock::now().wall, output::viewer().stdout_columns);
    output::lines(&table)
}

async fn remove_consumers(context: &Context, names: &[String]) -> Result<(), Error> {
    let mut session = context.session().await?;
    let mut removed = Ok(());
    // One that cannot be removed does not keep the others.
    for name in names {
        let outcome = ops::remove_consumer(&mut session, name).await;
        if let Err(failure) = outcome
            && let Err(earlier) = std::mem::replace(&mut removed, Err(failure))
        {
            context.complain(&earlier);
        }
    }
    removed
}

fn table_of(list: &ConsumerList, now: Millis, columns: Option<usize>) -> Vec<String> {
    let header = CONSUMERS.map(String::from);
    let row = |consumer: &ConsumerStatus| {
        [
            consumer.name.clone(),
            consumer.cursor.to_string(),
            consumer.lag.to_string(),
            match consumer.held_bytes {
                0 => "-".to_owned(),
                n_bytes => text::size(n_bytes),
            },
            age(now - consumer.created_at),
            format!("{} ago", age(now - consumer.used_at)),
            consumer
                .reader
                .map_or_else(|| "-".to_owned(), |pid| format!("pid {pid}")),
        ]
    };
    let rows: Vec<_> = std::iter::once(header)
        .chain(list.consumers.iter().map(row))
        .collect();
    table::lines(&rows, columns, &NARROW_CONSUMERS)
}

/// Returns what `daemon status` says of a consumer.
fn consumer_line(consumer: &ConsumerStatus) -> String {
    let ConsumerStatus {
        name, cursor, lag, ..
    } = consumer;
    let reader = match consumer.reader {
        Some(pid) => format!("read by pid {pid}"),
        None => {
            let ago = age(clock::now().wall - consumer.used_at);
            format!("last used {ago} ago")
        }
    };
    let holds = match consumer.held_bytes {
        0 => String::new(),
        n_bytes => format!(", keeps {} from being removed", text::size(n_bytes)),
    };
    format!("consumer {name}: acknowledged up to {cursor}, {lag} behind, {reader}{holds}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::wire::ConsumerAudience;

    #[test]
    fn the_table_shows_who_is_behind() {
        let consumer = |name: &str, cursor, reader| ConsumerStatus {
            name: name.to_owned(),
            cursor,
            lag: 120 - cursor,
            held_bytes: (120 - cursor) << 20,
            reader,
            created_at: 0,
            used_at: 60_000,
            audience: ConsumerAudience::default(),
        };
        let list = ConsumerList {
            epoch: Some("e".to_owned()),
            first_seq: 1,
            last_seq: 120,
            feed_bytes: 300 << 20,
            consumers: vec![
                consumer("pi", 120, Some(4711)),
                consumer("web-hook", 3, None),
            ],
        };
        let expected = [
            "NAME      CURSOR  LAG  HOLDS      AGE  LAST USED  READER",
            "pi        120     0    -          1m   5s ago     pid 4711",
            "web-hook  3       117  117.0 MiB  1m   5s ago     -",
        ];
        assert_eq!(table_of(&list, 65_000, None), expected);
        let expected = [
            "NAME      LAG  LAST USED  READER",
            "pi        0    5s ago     pid 4711",
            "web-hook  117  5s ago     -",
        ];
        assert_eq!(table_of(&list, 65_000, Some(40)), expected);
    }
}
