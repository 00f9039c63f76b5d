//! `tmux-task-fleet`: the machines that meet at a broker, NATS with JetStream. `tmux-task fleet` runs it.
//!
//! It knows tmux-task by its public ways only: a daemon hands its records and tasks to `publish`, whoever
//! asks for another machine puts `at HOST` before the same arguments, and what is asked of this machine is
//! executed by its `tmux-task`.
//!
//! - `layout.rs`: what is where on the broker; `connection.rs`: a connection to it, and what it stores
//! - `publish.rs`: a session on the broker: its records, its tasks, and that this machine is there
//! - `command.rs`: a command to another machine, and what others may have executed here
//! - `show.rs`, `feed.rs`: what all machines have published
//! - `wakes.rs`: the follow-ups of a conversation's tasks on other machines

#![cfg_attr(
    test,
    allow(clippy::unwrap_used, reason = "a test that cannot go on fails")
)]

mod command;
mod connection;
mod feed;
mod layout;
mod publish;
mod show;
mod wakes;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;
use sha2::{Digest, Sha256};
use tmux_task::model::{
    Error, ErrorKind, EventType, FAR_CALL, Kind, Millis, Seq, host_name_of, text as words,
};

/// The longest message, in characters.
const MAX_CHARS: usize = 2000;

/// The machines that share a broker: their tasks, their records, and commands to them
#[derive(Debug, Parser)]
#[command(
    name = "tmux-task-fleet",
    bin_name = "tmux-task fleet",
    version, long_version = env!("LONG_VERSION"),
    max_term_width = 100
)]
struct Cli {
    #[command(subcommand)]
    command: FleetCommand,
}

#[derive(Debug, Subcommand)]
enum FleetCommand {
    /// List the tasks of all hosts, as each has published them last
    ///
    /// A host that has stopped publishing is shown with the time since which it is gone.
    Ls(FleetLs),
    /// Print the records of all hosts as JSON lines
    ///
    /// Each has `host`, and `fleetSeq`, its place among the records of all hosts. With --follow, `hostGone`
    /// and `hostBack` say which hosts stop publishing and begin again.
    Feed(FleetFeed),
    /// Show the broker, what it stores, and the hosts
    Status,
    /// Execute a command of tmux-task on a host
    At {
        host: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        arguments: Vec<OsString>,
    },
    /// Publish the session whose records and tasks a daemon writes to standard input
    #[command(hide = true)]
    Publish,
    /// Print the follow-ups of a conversation's tasks on other hosts
    #[command(hide = true)]
    Wakes {
        #[arg(long)]
        owner: String,
        /// The folder in which is noted what was acknowledged
        #[arg(long)]
        notes: PathBuf,
    },
    /// Check the broker
    #[command(hide = true)]
    Doctor {
        /// Whether conversations of this machine follow their tasks elsewhere
        #[arg(long)]
        wakes: bool,
    },
}

#[derive(Debug, Args)]
struct FleetLs {
    /// Do not cut commands and lines
    #[arg(short, long)]
    wide: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print each host again as a line of JSON when it changes
    #[arg(long, hide = true, requires = "json")]
    follow: bool,
}

#[derive(Debug, Args)]
struct FleetFeed {
    /// Stream new records, from now unless --after or --consumer says where it starts
    #[arg(short, long)]
    follow: bool,
    /// Start after the record with this fleetSeq; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    after: Option<Seq>,
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":FLEETSEQ} on standard input acknowledges a record and all before it; {"acked":FLEETSEQ}
    /// confirms that the broker has it. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after"
    )]
    consumer: Option<String>,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    kind: Vec<Kind>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    types: Vec<EventType>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let matches = Cli::command().get_matches();
    let what = format!("fleet {}", matches.subcommand_name().unwrap_or_default());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let mut code = 0;
    if let Err(error) = run(cli.command).await {
        code = error.kind.exit_code();
        if !error.message.is_empty() {
            complain(&error, &what);
        }
    }
    // A blocked read of standard input must not keep the process alive.
    exit(code.into());
}

async fn run(command: FleetCommand) -> Result<(), Error> {
    match command {
        FleetCommand::Ls(args) => show::ls(&args).await,
        FleetCommand::Feed(args) => feed::run(args).await,
        FleetCommand::Status => show::status().await,
        FleetCommand::At { host, arguments } if arguments[0] == FAR_CALL => {
            command::run(host).await
        }
        FleetCommand::At { host, arguments } => {
            // What is asked, and for which session, is known there.
            let mut command = Command::new(tmux_task());
            let error = command.arg("--host").arg(host).args(arguments).exec();
            Err(Error::io("could not start tmux-task", &error))
        }
        FleetCommand::Publish => publish::run().await,
        FleetCommand::Wakes { owner, notes } => wakes::run(owner, notes).await,
        FleetCommand::Doctor { wakes } => show::doctor(wakes).await,
    }
}

/// Says on standard error why the command has failed. What others say is untrusted.
fn complain(error: &Error, what: &str) {
    let clean = |text: &str| words::one_line(text.as_bytes(), MAX_CHARS);
    let mut lines = format!("tmux-task: {what}: {}\n", clean(&error.message));
    if let Some(hint) = &error.hint {
        lines += &format!("hint: {}\n", clean(hint));
    }
    // If that fails, it cannot be reported.
    drop(io::stderr().write_all(lines.as_bytes()));
}

/// Prints a value as a line of JSON.
fn print_json(value: &impl Serialize) -> Result<(), Error> {
    print(&serde_json::to_string(value).map_err(Error::of)?)
}

/// Prints a line.
fn print(line: &str) -> Result<(), Error> {
    let mut stdout = io::stdout().lock();
    let printed = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    printed.map_err(|error| {
        // Nobody may read it any more, which is not a failure.
        match error.kind() == io::ErrorKind::BrokenPipe {
            true => Error::silent(ErrorKind::OutputClosed),
            false => Error::io("could not write", &error),
        }
    })
}

/// Returns the name that the system gives this machine.
fn system_name() -> String {
    let system = rustix::system::uname();
    host_name_of(system.nodename().to_bytes())
}

/// Returns tmux-task's program: the one beside this one, else that of PATH.
fn tmux_task() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name("tmux-task"));
    let beside = beside.ok().filter(|program| program.exists());
    beside.map_or_else(|| "tmux-task".into(), Into::into)
}

/// Returns the time, in milliseconds since 1970.
fn now() -> Millis {
    millis(SystemTime::now())
}

/// Returns a time in milliseconds since 1970.
fn millis(time: impl Into<SystemTime>) -> Millis {
    let since = time.into().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns 32 hexadecimal digits of a text's hash.
fn hash(text: &str) -> String {
    let hash = Sha256::digest(text);
    let digits = hash.iter().take(16).map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Creates a folder of the user's own, if it does not exist.
fn private_folder(path: &Path) -> io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(path)
}
