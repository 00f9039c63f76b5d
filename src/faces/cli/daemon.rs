//! `daemon`: supervise, in the foreground or background; show the status; stop.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use tokio::time::{sleep, timeout};

use super::context::Context;
use super::feed;
use super::output::{self, Json};
use super::table::{self, NARROW_NAME, Narrowing, or_dash};
use crate::client::{self, READY};
use crate::clock;
use crate::config::{self, read_time};
use crate::daemon::{self, DaemonError, Options, ServiceManager};
use crate::model::{Error, ErrorKind, Millis, age, owner_of_environment, text};
use crate::ops::{self, TaskSession, lookup, task_names};
use crate::rules::wire::{
    ConsumerList, ConsumerStatus, DaemonConfig, DaemonStatus, SINK_PREFIX, SinkStatus,
};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct Daemon {
    #[command(subcommand)]
    command: Option<DaemonCommand>,
    #[command(flatten)]
    supervise: Supervise,
}

#[derive(Debug, Args)]
pub(super) struct Supervise {
    /// Go to the background once the daemon is ready
    #[arg(long, conflicts_with = "stdout")]
    detach: bool,
    /// Print the live feed, from this daemon's start
    #[arg(long, hide = true)]
    stdout: bool,
    /// Discard the saved snapshot: the current state is the new baseline
    #[arg(long, hide = true)]
    fresh: bool,
    /// The longest time between two safety looks at the session, like 2s or 1m
    #[arg(long, hide = true, value_name = "D", value_parser = read_time, default_value = "1m")]
    interval: Duration,
    /// The harness's id of the conversation [default: $PI_SESSION_ID, else the session's name]
    #[arg(long, hide = true, value_name = "ID")]
    session_id: Option<String>,
    /// Used by the program itself to go to the background.
    #[arg(long, hide = true, value_enum)]
    as_child: Option<ChildOf>,
    /// Used by the program itself: the key of the folder with the session's files.
    #[arg(long, hide = true, requires = "as_child")]
    folder: Option<String>,
}

/// What started a daemon in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ChildOf {
    /// `daemon --detach`: the daemon runs until it is stopped.
    Detach,
    /// Another command that needed a daemon: it exits by itself when it is not used.
    Autostart,
}

#[derive(Debug, Subcommand)]
pub(super) enum DaemonCommand {
    /// Show the daemon's status
    Status(Json),
    /// Stop the daemon; tasks continue
    Stop {
        /// Also end the task session when no task in it is active
        #[arg(long)]
        cleanup: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(super) enum ConsumerCommand {
    /// List the consumers with their positions and readers
    Ls(Json),
    /// Remove consumers
    Rm {
        /// Their names
        #[arg(required = true, add = task_names::consumer_candidates())]
        names: Vec<String>,
    },
}

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

/// Returns the session to supervise. What has started this process in the background has resolved it.
async fn session(context: &Context, args: &Supervise) -> Result<TaskSession, Error> {
    if args.as_child.is_none() {
        let session = context.session().await?;
        session.server.check_socket_folder()?;
        return Ok(session);
    }
    let mut session = context.given()?;
    if let Some(key) = &args.folder {
        session.paths = session.paths.with_key(key);
    }
    Ok(session)
}

async fn detach(context: &Context, args: &Supervise) -> Result<(), Error> {
    let session = session(context, args).await?;
    let fresh = args.fresh.then(|| "--fresh".to_owned());
    let id = args.session_id.as_ref();
    let more = std::iter::once(format!("--interval={}ms", args.interval.as_millis()))
        .chain(fresh)
        .chain(id.map(|id| format!("--session-id={id}")));
    let more: Vec<OsString> = more.map(OsString::from).collect();
    let said = client::start(&session.start_of_daemon("detach", &more)?).await?;
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
        // Other commands that start it look for one with other files by the error's text.
        Err(DaemonError::Running { pid, folder })
            if folder.is_none() || args.as_child != Some(ChildOf::Autostart) =>
        {
            output::note(&format!("already running (pid {pid})"));
            if in_background {
                go_quiet();
            }
            if !args.stdout {
                return Ok(());
            }
            // The feed of the daemon that is running already.
            feed::live(context).await
        }
        Err(error) => Err(error.into()),
    }
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
    let now = clock::now().wall;
    let up = age(now - status.started_at);
    let tasks = if status.exists {
        let (running, waiting, dead) = (status.running, status.waiting, status.dead);
        format!("{running} running, {waiting} waiting, {dead} exited")
    } else {
        "the session does not exist".to_owned()
    };
    let (first, last, size) = (
        status.first_seq,
        status.last_seq,
        text::size(status.feed_bytes),
    );
    let records = match first <= last {
        true => format!("records {first} to {last}"),
        false => "no records".to_owned(),
    };
    let files = text::counted(status.feed_files, "file");
    let problems = status.problems.iter();
    let mut lines: Vec<String> = problems.map(|why| format!("problem  {why}")).collect();
    lines.extend([
        format!("session  {}", status.session_name),
        format!("server   {}", status.server),
        format!(
            "daemon   pid {}, version {}, up {up}",
            status.pid, status.version
        ),
        format!("tasks    {tasks}"),
        format!(
            "feed     {} (last record {}:{last})",
            status.feed, status.epoch
        ),
        format!("readers  {}, {} waits", status.readers, status.waits),
        format!("kept     {records}, {size} in {files}"),
    ]);
    let is_sink = |one: &&ConsumerStatus| one.name.starts_with(SINK_PREFIX);
    let consumers = status.consumers.iter().filter(|one| !is_sink(one));
    lines.extend(consumers.map(|one| consumer_line(one, now)));
    lines.extend(status.sinks.iter().map(|sink| sink_line(sink, now)));
    let (looks, late) = (status.looks, status.found_late);
    lines.push(format!(
        "looks    {looks}, {late} of them found a late event"
    ));
    lines.push(format!("log      {}", status.log));
    lines
}

/// Returns what a sink does: `sink log (exec): 3 delivered, 0 behind`.
fn sink_line(sink: &SinkStatus, now: Millis) -> String {
    let error = sink.error.as_ref().map_or_else(String::new, |why| {
        let ago = age(now - sink.error_at.unwrap_or(now));
        format!(", failed {ago} ago: {why}")
    });
    let (name, kind) = (&sink.name, &sink.kind);
    let (delivered, lag) = (sink.delivered, sink.lag);
    format!("sink {name} ({kind}): {delivered} delivered, {lag} behind{error}")
}

fn consumer_line(consumer: &ConsumerStatus, now: Millis) -> String {
    let reader = match consumer.reader {
        Some(pid) => format!("read by pid {pid}"),
        None => format!("last used {} ago", age(now - consumer.used_at)),
    };
    let holds = match consumer.held_bytes {
        0 => String::new(),
        n_bytes => format!(", keeps {} from being removed", text::size(n_bytes)),
    };
    let (name, cursor, lag) = (&consumer.name, consumer.cursor, consumer.lag);
    format!("consumer {name}: acknowledged up to {cursor}, {lag} behind, {reader}{holds}")
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
    let mut session = context.session().await?;
    match command {
        ConsumerCommand::Ls(args) => {
            let list = ops::list_consumers(&mut session).await?;
            if args.json {
                return output::json(&list);
            }
            let columns = output::viewer().stdout_columns;
            output::lines(table_of(&list, clock::now().wall, columns))
        }
        ConsumerCommand::Rm { names } => {
            let mut removed = Ok(());
            // One that cannot be removed does not keep the others.
            for name in &names {
                let outcome = ops::remove_consumer(&mut session, name).await;
                if outcome.is_err()
                    && let Err(earlier) = std::mem::replace(&mut removed, outcome)
                {
                    context.complain(&earlier);
                }
            }
            removed
        }
    }
}

fn table_of(list: &ConsumerList, now: Millis, columns: Option<usize>) -> Vec<String> {
    let row = |consumer: &ConsumerStatus| {
        [
            consumer.name.clone(),
            consumer.cursor.to_string(),
            consumer.lag.to_string(),
            or_dash((consumer.held_bytes > 0).then(|| text::size(consumer.held_bytes))),
            age(now - consumer.created_at),
            format!("{} ago", age(now - consumer.used_at)),
            or_dash(consumer.reader.map(|pid| format!("pid {pid}"))),
        ]
    };
    let mut rows = vec![CONSUMERS.map(String::from)];
    rows.extend(list.consumers.iter().map(row));
    table::lines(&rows, columns, &NARROW_CONSUMERS, |_| None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::consumer_status;

    #[test]
    fn the_table_shows_who_is_behind() {
        let consumer = |name: &str, cursor, reader| ConsumerStatus {
            reader,
            ..consumer_status(name, cursor, 120 - cursor, 60_000)
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
