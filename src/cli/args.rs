//! The command line's arguments and their help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};

use super::task_names;
use crate::config;
use crate::restarts;
use crate::tmux::CommandWords;
use crate::wire::{After, EventType, Kind};

/// Supervises the tmux windows in which an agent's tasks run, and reports once, within
/// milliseconds, when a task starts, exits, rings the bell, asks for input or disappears
#[derive(Debug, Parser)]
#[command(
    name = "tmux-task",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(
    after_help = "Exit codes: 0 success, 1 failure, 2 usage, 3 no such session, task or daemon, \
                        4 a wait timed out, 5 a wait can no longer succeed, 6 the task asks for \
                        input, 130 interrupted. `run --wait` exits with the task's own code, or \
                        with 123 if the task asks for input, 124 if it timed out, 125 if `run` \
                        itself failed."
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Which task session, on which tmux server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Session and server")]
pub(crate) struct Global {
    /// The task session [default: $TMUX_TASK_SESSION, $PI_TMUX_SESSION, else a name made from
    /// this directory]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// The tmux server's socket name, as in tmux
    #[arg(short = 'L', global = true, value_name = "NAME")]
    pub(crate) socket_name: Option<String>,
    /// The tmux server's socket path, as in tmux
    #[arg(short = 'S', global = true, value_name = "PATH")]
    pub(crate) socket_path: Option<PathBuf>,
    /// The tmux program [default: $TMUX_TASK_TMUX, else tmux]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) tmux: Option<PathBuf>,
}

impl Global {
    /// Returns the options that were given, as words of a command; empty without any.
    pub(crate) fn words(&self) -> String {
        let path = |path: &Option<PathBuf>| path.clone().map(PathBuf::into_os_string);
        let name = |name: &Option<String>| name.clone().map(OsString::from);
        let options = [
            ("-L", name(&self.socket_name)),
            ("-S", path(&self.socket_path)),
            ("--tmux", path(&self.tmux)),
            ("-s", name(&self.session)),
        ];
        let given = options
            .into_iter()
            .filter_map(|(option, value)| Some([option.into(), value?]));
        let words: Vec<OsString> = given.flatten().collect();
        if words.is_empty() {
            return String::new();
        }
        CommandWords::from_words(words).shown()
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a task, or rerun it in its window
    Run(Run),
    /// Run tasks again with their commands and directories
    Restart(Restart),
    /// Start the tasks of a file, each after those that it needs
    Up(Up),
    /// End the tasks of a file, the last ones first
    Down(Down),
    /// Supervise the task session, or manage the daemon that does
    Daemon(Daemon),
    /// Print the records of events and deliveries
    Feed(Feed),
    /// List or remove the feed's consumers
    Consumer(Consumer),
    /// List the tasks
    #[command(visible_alias = "ps")]
    Ls(Ls),
    /// Show the session, or a task, in this terminal; inside tmux, switch to it
    Attach(Attach),
    /// Show the tasks full-screen: what needs you on top, with keys to answer, read and kill
    #[cfg(feature = "panel")]
    Panel(Panel),
    /// Print a task's output
    Logs(Logs),
    /// Show how often tasks ran, failed, and how long they usually take
    Stats(Stats),
    /// Search the tasks' current output for a text
    Search(Search),
    /// Wait for a task to exit, print text, ring the bell or ask for input
    Wait(Wait),
    /// Wake the commands that wait on a channel
    Signal(Signal),
    /// Show why a task is or is not judged to wait for input
    Explain(Explain),
    /// Type into a task
    Send(Send),
    /// End a task and remove its window
    #[command(visible_alias = "stop")]
    Kill(Kill),
    /// End the task session with all its tasks
    KillAll(KillAll),
    /// Remove the tasks that have ended, or the state of sessions that are gone
    Prune(Prune),
    /// Print the status line; nothing when the session is missing
    Status(Json),
    /// Check everything that tmux-task depends on, and suggest what to do
    Doctor(Json),
    /// Show the settings that apply and where each is from, or an example of a file
    Config(Config),
    /// Turn snapshots (JSON lines) into the records a daemon would have made of them
    Replay(Replay),
    /// Show or install the adapter that wakes an agent when its tasks need it, a shell's completion, or tmux's key for the panel
    Init(Init),
    /// Serve MCP on standard input and output: tasks as tools for a model
    #[cfg(feature = "mcp")]
    Mcp(Mcp),
    /// Print how an agent uses tasks: one page to give to a model
    Guide,
    /// Print the script that lets a shell complete commands, options and the names of tasks
    Completions(Completions),
    /// Print a manual page: `tmux-task man run | man -l -`
    Man(Man),
    /// Deliver follow-ups to the conversations of a client. Its adapter runs this.
    #[command(hide = true)]
    Agent(Agent),
    /// Used by the program itself when a task starts.
    #[command(hide = true)]
    SetEnvironment(SetEnvironment),
}

#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Print each setting with its value and where that is from
    Show(Json),
    /// Print a configuration file with all settings, their defaults and what they mean
    Example,
}

/// What the program does for the shells of a task: see `tmux::TaskEnvironment`.
#[derive(Debug, Args)]
pub(crate) struct SetEnvironment {
    /// The file with the variables.
    pub(crate) file: PathBuf,
    /// The command that replaces this program.
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

/// The shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// For ~/.bashrc: source <(tmux-task completions bash)
    Bash,
    /// For config.fish: tmux-task completions fish | source
    Fish,
    /// For ~/.zshrc, after compinit: source <(tmux-task completions zsh)
    Zsh,
}

impl Shell {
    /// Returns its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct Man {
    /// The command whose page is printed [default: the page of tmux-task]
    pub(crate) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(feature = "mcp")]
#[derive(Debug, Args)]
pub(crate) struct Mcp {
    /// Offer only the tools that change nothing
    #[arg(long)]
    pub(crate) read_only: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// The agent's program, the shell, or tmux
    #[arg(value_enum)]
    pub(crate) client: InitClient,
    /// Install the adapter, or add the lines
    #[arg(long, conflicts_with = "remove")]
    pub(crate) write: bool,
    /// Remove what --write has added
    #[arg(long)]
    pub(crate) remove: bool,
}

/// What can be set up: the clients that have an adapter, and shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitClient {
    /// Pi: a package for `pi install`
    Pi,
    /// Claude Code: a plugin
    Claude,
    /// Codex: messages to the queue of the thread
    Codex,
    /// opencode: a plugin file
    Opencode,
    /// bash: completion, by lines in ~/.bashrc
    Bash,
    /// fish: completion, by a file in ~/.config/fish/completions
    Fish,
    /// tmux: a key for the panel in a popup, by lines in ~/.tmux.conf
    #[cfg(feature = "panel")]
    Tmux,
    /// zsh: completion, by lines in ~/.zshrc
    Zsh,
}

#[derive(Debug, Args)]
pub(crate) struct Agent {
    #[command(subcommand)]
    pub(crate) client: AgentCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Serve Pi's extension: JSON lines on standard input and output
    Pi(AgentServe),
    /// Serve opencode's plugin: JSON lines on standard input and output
    Opencode(AgentServe),
    /// Deliver to a thread of Codex
    Codex {
        /// The thread
        #[arg(long, value_name = "ID")]
        id: String,
        /// Codex's program, for threads without an app-server
        #[arg(long, value_name = "PATH", default_value = "codex")]
        program: PathBuf,
        /// Leave the terminal, say whether the thread takes messages, and end when no task is active;
        /// so it is started by `run`
        #[arg(long)]
        background: bool,
    },
    /// A hook of Claude Code, whose input is read from standard input
    Claude {
        /// Wait for the next follow-ups, print them on stderr and exit 2
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AgentServe {
    /// A conversation to follow from the start; may be given more than once
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<String>,
    /// Follow also the conversations that have pending follow-ups and that no process follows
    #[arg(long)]
    pub(crate) adopt: bool,
}

/// `--json` on its own.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("limited").args(["wait", "until", "after"]).multiple(true)))]
#[command(
    after_help = "Without a command, the task runs again: the command of its last launch, in the \
                        directory of that launch, with the environment that this command has now."
)]
pub(crate) struct Run {
    /// The task's name: 1 to 40 of A-Z a-z 0-9 . _ -, the first a letter or digit
    #[arg(add = task_names::candidates())]
    pub(crate) name: String,
    /// Where to run it [default: this directory; without a command, that of its last launch]
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// A variable for its environment; may be given more than once
    #[arg(long, value_name = "K=V", value_parser = parse_variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Fail when the task is running already, instead of replacing its run
    #[arg(long)]
    pub(crate) if_absent: bool,
    /// Run it in tmux's environment instead of this one; --env is added last
    #[arg(long)]
    pub(crate) clean_env: bool,
    /// Run it again when it ends with another code than 0 or by a signal: at most N times in a row
    /// (5). A run of a minute or more resets the count
    #[arg(
        long,
        value_name = "on-failure[:N]",
        value_parser = restarts::parse_limit,
        conflicts_with = "wait"
    )]
    pub(crate) restart: Option<u32>,
    /// With --restart: the pause before the first restart in a row [default: 1s]; it doubles with each
    /// one, up to a minute
    #[arg(long, value_name = "D", value_parser = parse_backoff, requires = "restart")]
    pub(crate) backoff: Option<Duration>,
    /// Wait until the present run of this task has ended with code 0, and start then; may be given
    /// more than once. If it fails, nothing is started
    #[arg(long, value_name = "TASK", add = task_names::candidates())]
    pub(crate) after: Vec<String>,
    #[command(flatten)]
    pub(crate) follow: FollowRun,
    #[command(flatten)]
    pub(crate) json: Json,
    /// The command: one word is a shell line, several are a program and its arguments [default: that
    /// of the task's last launch, in its directory]
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// How `run` waits for what it has started.
#[derive(Debug, Args)]
pub(crate) struct FollowRun {
    /// Wait until the run ends, and exit with its code (128+N for signal N); 123: the task asks for
    /// input, 124: timed out, 125: run itself failed
    #[arg(long, conflicts_with = "until", group = "waits")]
    pub(crate) wait: bool,
    /// With --wait: continue to wait while the task asks for input
    #[arg(long, requires = "wait")]
    pub(crate) through_prompts: bool,
    /// With --wait: how many of the last lines of a failed run to print on stderr
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse_lines, requires = "wait")]
    pub(crate) tail: usize,
    /// Wait until this text is written, as `wait --text` does
    #[arg(long, value_name = "PATTERN", group = "waits")]
    pub(crate) until: Vec<String>,
    /// With --until: give up when this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN", requires = "until")]
    pub(crate) stop: Vec<String>,
    /// With --wait or --until, or run's --after: the longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = parse_duration, requires = "limited")]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(
    group(ArgGroup::new("limited").args(["wait", "until"]).multiple(true)),
    after_help = "A live run is replaced. Each task gets the environment that this command has now \
                        (tmux's if it was started with --clean-env); values of --env are not \
                        recorded, so a task that was started with it is refused: \
                        `tmux-task run NAME --env K=V` runs it again with these."
)]
pub(crate) struct Restart {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) follow: FollowRun,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "The file is TOML: a table [tasks.NAME] for each task, with `command` (a shell line, or \
                        a list of a program and its arguments), and if needed `cwd`, `env`, `restart`, \
                        `backoff`, `after` (a list of tasks) and `ready` (a text of its output). A task \
                        starts when those in `after` are ready: have printed that text, or have ended \
                        with code 0 if they have none. A task that runs already with the same command \
                        is left alone."
)]
pub(crate) struct Up {
    /// The file [default: tmux-task.toml in the project's folder]
    pub(crate) file: Option<PathBuf>,
    /// Wait also until each task with `ready` is ready or has failed
    #[arg(long)]
    pub(crate) wait: bool,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Down {
    /// The file [default: tmux-task.toml in the project's folder]
    pub(crate) file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Daemon {
    #[command(subcommand)]
    pub(crate) command: Option<DaemonCommand>,
    #[command(flatten)]
    pub(crate) supervise: Supervise,
}

#[derive(Debug, Args)]
pub(crate) struct Supervise {
    /// Go to the background once the daemon is ready
    #[arg(long, conflicts_with = "stdout")]
    pub(crate) detach: bool,
    /// Print the live feed, from this daemon's start
    #[arg(long)]
    pub(crate) stdout: bool,
    /// Discard the saved snapshot: the current state is the new baseline
    #[arg(long)]
    pub(crate) fresh: bool,
    /// The longest time between two looks at the session, like 2s or 1m
    #[arg(long, value_name = "D", value_parser = parse_duration, default_value = "1m")]
    pub(crate) interval: Duration,
    /// The harness's id of the conversation [default: $PI_SESSION_ID, else the session's name]
    #[arg(long, value_name = "ID")]
    pub(crate) session_id: Option<String>,
    /// Used by the program itself to go to the background.
    #[arg(long, hide = true, value_enum)]
    pub(crate) as_child: Option<ChildOf>,
    /// Used by the program itself: the name that clients use for the session, if it differs from
    /// the session's name.
    #[arg(long, hide = true, requires = "as_child")]
    pub(crate) asked: Option<String>,
}

/// What started a daemon in the background.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ChildOf {
    /// `daemon --detach`: the daemon runs until it is stopped.
    Detach,
    /// Another command that needed a daemon: it exits by itself when it is not used.
    Autostart,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DaemonCommand {
    /// Show the daemon's status
    Status(Json),
    /// Stop the daemon; tasks continue
    Stop {
        /// Also end the task session when no task in it is active
        #[arg(long)]
        cleanup: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Feed {
    /// Stream new records, from now unless --after, --lines, --since or --consumer says where it starts
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Start after this record, SEQ or EPOCH:SEQ; 0 is before the first
    #[arg(long, value_name = "SEQ")]
    pub(crate) after: Option<After>,
    /// Only the last N records of those that the other options select; with --follow, new ones follow
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_records, conflicts_with = "consumer")]
    pub(crate) lines: Option<usize>,
    /// Only records that are not older than this, like 90s, 10m or 2h; with --follow, new ones follow
    #[arg(long, value_name = "D", value_parser = parse_duration, conflicts_with = "consumer")]
    pub(crate) since: Option<Duration>,
    #[command(flatten)]
    pub(crate) consume: Consume,
    /// Only records of this kind; may be given more than once
    #[arg(long, value_name = "K")]
    pub(crate) kind: Vec<KindArg>,
    /// Only events of this type; may be given more than once
    #[arg(long = "type", value_name = "T")]
    pub(crate) types: Vec<TypeArg>,
    /// Only this task, by name or window id; may be given more than once
    #[arg(long, value_name = "NAME", add = task_names::candidates())]
    pub(crate) task: Vec<String>,
    /// Only notices and follow-ups for this owner, CLIENT:ID, and for everyone; events of all
    #[arg(long, value_name = "ID")]
    pub(crate) owner: Option<String>,
    /// How to print a record [default: json; text on a terminal, where each event is printed once
    /// unless --kind says what to print]
    #[arg(long, value_enum)]
    pub(crate) format: Option<FeedFormat>,
}

/// Reading as a consumer.
#[derive(Debug, Args)]
pub(crate) struct Consume {
    /// Read as this consumer: start at the first record that it has not acknowledged. A line
    /// {"ack":SEQ} on standard input acknowledges a record and all before it; {"acked":SEQ}
    /// confirms that this is on the disk. A new consumer starts at the first record
    #[arg(
        long,
        value_name = "NAME",
        requires = "follow",
        conflicts_with = "after"
    )]
    pub(crate) consumer: Option<String>,
    /// Acknowledge each record after printing it; standard input is not read
    #[arg(long, requires = "consumer")]
    pub(crate) auto_ack: bool,
    /// Where a new consumer starts, instead of at the first record
    #[arg(long, value_name = "WHERE", requires = "consumer")]
    pub(crate) from: Option<StartOfConsumer>,
    /// End the stream of the process that reads as this consumer now, if there is one
    #[arg(long, requires = "consumer")]
    pub(crate) take_over: bool,
}

/// Where a new consumer starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StartOfConsumer {
    /// After the existing records
    Now,
}

#[derive(Debug, Args)]
pub(crate) struct Consumer {
    #[command(subcommand)]
    pub(crate) command: ConsumerCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConsumerCommand {
    /// List the consumers with their positions and readers
    Ls(Json),
    /// Remove consumers
    Rm {
        /// Their names
        #[arg(required = true)]
        names: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FeedFormat {
    /// JSON lines as stored
    Json,
    /// For people
    Text,
    /// CloudEvents 1.0, one per line; durable records only
    Cloudevents,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum KindArg {
    /// A task changed
    Event,
    /// A message shown to the user
    Notice,
    /// A message to the agent
    #[value(name = "followUp")]
    FollowUp,
}

impl From<KindArg> for Kind {
    fn from(kind: KindArg) -> Self {
        match kind {
            KindArg::Event => Self::Event,
            KindArg::Notice => Self::Notice,
            KindArg::FollowUp => Self::FollowUp,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TypeArg {
    /// A run began
    Started,
    /// A run ended
    Exited,
    /// The bell rang
    Notify,
    /// A task waits for input
    Input,
    /// A task no longer waits
    #[value(name = "inputResolved")]
    InputResolved,
    /// A live task left the session
    Disappeared,
}

impl From<TypeArg> for EventType {
    fn from(event_type: TypeArg) -> Self {
        match event_type {
            TypeArg::Started => Self::Started,
            TypeArg::Exited => Self::Exited,
            TypeArg::Notify => Self::Notify,
            TypeArg::Input => Self::Input,
            TypeArg::InputResolved => Self::InputResolved,
            TypeArg::Disappeared => Self::Disappeared,
        }
    }
}

#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Ls {
    /// All task sessions: those of this tmux server, and those of others that have a daemon
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Do not cut commands and lines
    #[arg(short, long)]
    pub(crate) wide: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Attach {
    /// The task, by name or window id [default: the session's current window]
    #[arg(add = task_names::candidates())]
    pub(crate) name: Option<String>,
}

#[cfg(feature = "panel")]
#[derive(Debug, Args)]
pub(crate) struct Panel {
    /// All task sessions of yours that have a daemon, also those of other tmux servers
    #[arg(short, long)]
    pub(crate) all: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Logs {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    /// Only the last N lines
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_lines)]
    pub(crate) lines: Option<usize>,
    /// Follow new output until the run ends
    #[arg(short, long, conflicts_with_all = ["json", "run"])]
    pub(crate) follow: bool,
    /// Start at this cursor, from `run --json`, `logs --json` or `wait --json`
    #[arg(long, value_name = "CURSOR", conflicts_with = "run")]
    pub(crate) since: Option<String>,
    /// The stored output of an earlier run
    #[arg(long, value_name = "N", value_parser = parse_run, conflicts_with = "raw")]
    pub(crate) run: Option<u32>,
    /// List the ended runs whose output is stored, the last one last; -n N the last N of each task
    #[arg(long, conflicts_with_all = ["follow", "since", "run", "raw"])]
    pub(crate) runs: bool,
    /// Keep escape sequences, as the task wrote them or tmux has them
    #[arg(long)]
    pub(crate) raw: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
#[command(
    after_help = "From the stored runs, as many as `logs` in the configuration says: 200 of a session. \
                        A run whose window was closed while it was alive is not stored. USUALLY is \
                        the median of the runs that ended with code 0."
)]
pub(crate) struct Stats {
    /// The tasks, by name or window id [default: all]
    #[arg(value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Search {
    /// The text to look for
    pub(crate) pattern: String,
    /// Only in this task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) matching: MatchOptions,
    #[command(flatten)]
    pub(crate) json: Json,
}

/// How texts match.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MatchOptions {
    /// The texts are regular expressions
    #[arg(long)]
    pub(crate) regex: bool,
    /// Ignore case
    #[arg(short, long)]
    pub(crate) ignore_case: bool,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Without a condition, the command waits for the end of the run. The first \
                        condition that holds ends the wait.\n\nExit codes: 0 the condition holds, \
                        1 the run ended as awaited, but its code was not 0, 4 timed out, 5 the \
                        wait can no longer succeed: the run ended or was replaced, its window is \
                        gone, a --stop text was written, or some of the output is missing, 6 the \
                        task asks for input before its run can end."
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a condition of its own"
)]
pub(crate) struct Wait {
    /// The tasks, by name or window id
    #[arg(required_unless_present = "channel", value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    /// With several tasks: end with the first outcome
    #[arg(long, conflicts_with = "channel")]
    pub(crate) any: bool,
    /// With several tasks: wait for the outcomes of all (the default)
    #[arg(long, conflicts_with_all = ["any", "channel"])]
    pub(crate) all: bool,
    /// Until the run ends (the default)
    #[arg(long)]
    pub(crate) exit: bool,
    /// Until this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub(crate) text: Vec<String>,
    #[command(flatten)]
    pub(crate) matching: MatchOptions,
    /// Until anything is written
    #[arg(long)]
    pub(crate) change: bool,
    /// Until the bell rings
    #[arg(long)]
    pub(crate) bell: bool,
    /// Until the task waits for input
    #[arg(long)]
    pub(crate) input: bool,
    /// Until nothing was written for this long
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) idle: Option<Duration>,
    /// Wait for the end of the run even while the task asks for input
    #[arg(long)]
    pub(crate) through_prompts: bool,
    /// Until `tmux-task signal NAME` or `tmux wait-for -S NAME`
    #[arg(long, value_name = "NAME",
          conflicts_with_all = ["names", "exit", "text", "change", "bell", "input", "idle", "through_prompts", "stop", "since"])]
    pub(crate) channel: Option<String>,
    /// Give up when this text is written; may be given more than once
    #[arg(long, value_name = "PATTERN")]
    pub(crate) stop: Vec<String>,
    /// The longest time to wait, like 500ms, 30s or 5m
    #[arg(long, value_name = "D", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Count output since this cursor too
    #[arg(long, value_name = "CURSOR")]
    pub(crate) since: Option<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Signal {
    /// The channel
    pub(crate) name: String,
}

#[derive(Debug, Args)]
pub(crate) struct Explain {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Send {
    /// The task, by name or window id
    #[arg(add = task_names::candidates())]
    pub(crate) name: String,
    /// The text to type, words joined by spaces; Enter follows
    #[arg(conflicts_with_all = ["key", "secret"], value_name = "TEXT")]
    pub(crate) text: Vec<String>,
    /// A key by tmux's name, Enter, C-c or Up; may be given more than once
    #[arg(long, value_name = "KEY", allow_hyphen_values = true, conflicts_with = "secret", value_parser = parse_key)]
    pub(crate) key: Vec<String>,
    /// Read the text from standard input; it is never displayed or logged
    #[arg(long)]
    pub(crate) secret: bool,
    /// No Enter after the text
    #[arg(long)]
    pub(crate) no_enter: bool,
    /// Only if the task waits for exactly this
    #[arg(long, value_name = "TEXT")]
    pub(crate) if_prompt: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Kill {
    /// The tasks, by name or window id
    #[arg(required = true, value_name = "NAME", add = task_names::candidates())]
    pub(crate) names: Vec<String>,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct KillAll {
    /// Do not ask for confirmation
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Remove the state folders of all sessions that are gone, and the environments kept for restarts of
    /// their tasks, instead of tasks; list them and ask for confirmation first
    #[arg(long)]
    pub(crate) state: bool,
    /// With --state: also those with messages that are not read or acknowledged
    #[arg(long, requires = "state")]
    pub(crate) unread: bool,
    /// With --state: do not ask for confirmation
    #[arg(short, long, requires = "state")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) json: Json,
}

#[derive(Debug, Args)]
pub(crate) struct Replay {
    /// The file of snapshots [default: standard input]
    pub(crate) file: Option<PathBuf>,
    /// No effect: records are always JSON lines
    #[command(flatten)]
    pub(crate) json: Json,
}

fn parse_key(text: &str) -> Result<String, String> {
    if crate::tmux::is_key(text) {
        Ok(text.to_owned())
    } else {
        Err("tmux has no such key; keys are called Enter, Escape, Up, C-c, M-x, F1".to_owned())
    }
}

fn parse_lines(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number of lines, like 20"))
}

fn parse_records(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number of records, like 20"))
}

fn parse_run(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not the number of a run, like 3"))
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is given as NAME=VALUE".to_owned()),
    }
}

/// Reads a duration that is not zero; without a unit it is seconds.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_any_duration(text)?;
    if duration.is_zero() {
        return Err(format!("`{text}` must be more than zero"));
    }
    Ok(duration)
}

/// Reads the pause before the first restart; without a unit it is seconds.
fn parse_backoff(text: &str) -> Result<Duration, String> {
    restarts::check_backoff(parse_any_duration(text)?)
}

fn parse_any_duration(text: &str) -> Result<Duration, String> {
    let is_bare = text.chars().all(|c| c.is_ascii_digit() || c == '.');
    let duration = if is_bare {
        config::parse_duration(&format!("{text}s"))
    } else {
        config::parse_duration(text)
    };
    duration.ok_or_else(|| not_a_duration(text))
}

fn not_a_duration(text: &str) -> String {
    format!("`{text}` is not a duration like 500ms, 2s, 1.5m or 1h")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_have_units() {
        let ms = |text| parse_duration(text).map(|d| d.as_millis()).ok();
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("2s"), Some(2000));
        assert_eq!(ms("2"), Some(2000));
        assert_eq!(ms("1.5m"), Some(90_000));
        assert_eq!(ms("1h"), Some(3_600_000));
        assert_eq!(ms("1.5"), Some(1500));
        assert_eq!(ms(".5s"), Some(500));
        assert_eq!(ms("1m30s"), Some(90_000));
        assert_eq!(ms("2d"), Some(172_800_000));
        for wrong in [
            "", "0s", "1h30", "s", "0", "-1s", "1.5d", "1e9s", "1 s", "nan",
        ] {
            assert_eq!(ms(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn variables_are_name_and_value() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(parse_variable("A="), Ok(("A".into(), String::new())));
        assert!(parse_variable("A").is_err());
        assert!(parse_variable("=b").is_err());
    }
}
