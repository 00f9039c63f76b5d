//! `agent`: delivers follow-ups to the conversations of a client. `init`: installs and removes the adapters that
//! run it.

use std::env;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use serde::de::DeserializeOwned;

use super::context::{self, Context};
use super::{daemon, output};
use crate::config::paths::foreign_home;
use crate::config::{self, AgentsConfig};
use crate::faces::agent::claude::{self, HookInput};
use crate::faces::agent::{AgentClient, Done, Ended, Setup, serve};
use crate::faces::agent::{codex, qwen};
use crate::model::{Error, ErrorKind};
use crate::ops::{lookup, task_names};

#[derive(Debug, Args)]
pub(super) struct Init {
    /// The agent's program, or `host`
    #[arg(value_enum)]
    pub(super) client: InitClient,
    /// For `host`: the machine onto which this program is put
    #[arg(value_name = "HOST", conflicts_with_all = ["write", "remove"], add = task_names::host_candidates())]
    pub(super) machine: Option<String>,
    /// Install the adapter
    #[arg(long, conflicts_with = "remove")]
    write: bool,
    /// Remove what --write has added
    #[arg(long)]
    remove: bool,
}

/// What can be set up: the clients that have an adapter, and other machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum InitClient {
    /// Pi: a package for `pi install`
    Pi,
    /// Claude Code: a plugin
    Claude,
    /// Codex: messages to the queue of the thread
    Codex,
    /// opencode: a plugin file
    Opencode,
    /// GitHub Copilot CLI: an extension
    Copilot,
    /// Qwen Code: an extension with hooks
    Qwen,
    /// host HOST: puts this program onto another machine, and checks it
    Host,
}

#[derive(Debug, Subcommand)]
pub(super) enum AgentCommand {
    /// Serve Pi's extension: JSON lines on standard input and output
    Pi(AgentServe),
    /// Serve opencode's plugin: JSON lines on standard input and output
    Opencode(AgentServe),
    /// Serve the extension of Copilot CLI: JSON lines on standard input and output
    Copilot(AgentServe),
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
    /// A hook of Qwen Code, whose input is read from standard input. It starts what delivers to the session
    Qwen {
        /// Deliver to this session
        #[arg(long, value_name = "ID", requires = "transcript")]
        id: Option<String>,
        /// The session's transcript
        #[arg(long, value_name = "PATH", requires = "id")]
        transcript: Option<PathBuf>,
    },
    /// A hook of Claude Code, whose input is read from standard input
    Claude {
        /// Wait for the next follow-ups, print them on stderr and exit 2
        #[arg(long)]
        wait: bool,
    },
}

#[derive(Debug, Args)]
pub(super) struct AgentServe {
    /// A conversation to follow from the start; may be given more than once
    #[arg(long, value_name = "ID")]
    id: Vec<String>,
    /// Follow also the conversations that have pending follow-ups or tasks and that no process follows
    #[arg(long)]
    adopt: bool,
}

pub(super) async fn run(context: &Context, client: AgentCommand) -> Result<(), Error> {
    context.limit.lift();
    match client {
        AgentCommand::Pi(args) => serve_adapter(context, AgentClient::Pi, args).await,
        AgentCommand::Opencode(args) => serve_adapter(context, AgentClient::Opencode, args).await,
        AgentCommand::Copilot(args) => serve_adapter(context, AgentClient::Copilot, args).await,
        AgentCommand::Codex {
            id,
            program,
            background,
        } => follow_codex(context, &id, program, background).await,
        AgentCommand::Qwen { id, transcript } => {
            let choice = context.global.choice();
            let Some((id, transcript)) = id.zip(transcript) else {
                return qwen::hook(&choice, &hook_input()?).await;
            };
            let max_per_minute = agents_config()?.max_per_minute;
            daemon::leave_terminal()?;
            qwen::follow(&choice, &id, transcript, max_per_minute).await
        }
        AgentCommand::Claude { wait } => claude_hook(context, wait).await,
    }
}

async fn serve_adapter(
    context: &Context,
    client: AgentClient,
    args: AgentServe,
) -> Result<(), Error> {
    let (AgentServe { id, adopt }, config) = (args, agents_config()?);
    let serve = serve(
        context.global.choice(),
        client,
        id,
        adopt,
        config,
        |reply| output::json(reply),
    );
    context::unless_interrupted(async {
        tokio::select! {
            served = serve => served,
            () = output::stdout_closed() => Ok(()),
        }
    })
    .await?
}

async fn follow_codex(
    context: &Context,
    id: &str,
    program: PathBuf,
    in_background: bool,
) -> Result<(), Error> {
    let max_per_minute = agents_config()?.max_per_minute;
    if in_background {
        daemon::leave_terminal()?;
    }
    let followed = || {
        if in_background {
            daemon::go_quiet();
        }
    };
    let (choice, stays) = (context.global.choice(), !in_background);
    match codex::follow(&choice, id, program, max_per_minute, stays, followed).await? {
        Some(why) if in_background => output::line(&why),
        Some(why) => Err(Error::failed(why)),
        None => Ok(()),
    }
}

fn hook_input<T: DeserializeOwned>() -> Result<T, Error> {
    serde_json::from_reader(io::stdin().lock()).map_err(|error| {
        let why = format!("standard input is not the input of a hook: {error}");
        Error::failed(why)
    })
}

async fn claude_hook(context: &Context, wait: bool) -> Result<(), Error> {
    let input: HookInput = hook_input()?;
    // The session of a conversation is its project's, in whichever folder the hook is run.
    if let Some(dir) = lookup("CLAUDE_PROJECT_DIR").filter(|dir| !dir.is_empty()) {
        env::set_current_dir(dir).map_err(Error::of)?;
    }
    let choice = context.global.choice();
    if !wait {
        return claude::hook(&choice, &input).await;
    }
    let print = |text: &str| io::stderr().write_all(text.as_bytes());
    let gone = output::stderr_closed();
    let waited = claude::wait(&choice, &input, agents_config()?, print, gone).await;
    match waited? {
        // The code with which the client takes what was printed.
        Ended::Woke => Err(Error::silent(ErrorKind::Usage)),
        Ended::Left | Ended::Replaced => Ok(()),
    }
}

fn agents_config() -> Result<AgentsConfig, Error> {
    let config = config::load(&lookup).map_err(|error| Error::of(error).about("configuration"))?;
    Ok(config.agents)
}

// `init`.

pub(super) async fn init(context: &Context, args: Init) -> Result<(), Error> {
    if let Some(name) = &args.machine {
        let why = format!("unexpected argument '{name}': only `init host` takes one");
        return Err(Error::usage(why));
    }
    if let Some((home, owner)) = foreign_home(&lookup).filter(|_| args.write || args.remove) {
        let why = format!("{} belongs to uid {owner}", home.display());
        return Err(Error::failed(why)
            .with_hint("with sudo, give -H; otherwise set HOME to your own home directory"));
    }
    let client = match args.client {
        InitClient::Host => {
            return Err(Error::usage("the host is missing")
                .with_hint("`tmux-task init host HOST`, a name under [hosts] in the configuration, or a destination for ssh"));
        }
        InitClient::Pi => AgentClient::Pi,
        InitClient::Claude => AgentClient::Claude,
        InitClient::Codex => AgentClient::Codex,
        InitClient::Opencode => AgentClient::Opencode,
        InitClient::Copilot => AgentClient::Copilot,
        InitClient::Qwen => AgentClient::Qwen,
    };
    // Each command of a client has a time limit of its own.
    context.limit.lift();
    // A command that runs is killed by an interrupt.
    context::unless_interrupted(set_up_client(context, &args, client)).await?
}

/// Shows what installing an adapter would do, installs it or removes it.
async fn set_up_client(context: &Context, args: &Init, client: AgentClient) -> Result<(), Error> {
    let setup = Setup::of(client, &lookup)?;
    if !args.write && !args.remove {
        output::lines(setup.plan())?;
        output::note(&format!(
            "hint: `tmux-task init {} --write` does it, --remove takes it away",
            client.name()
        ));
        return Ok(());
    }
    let mut done = Done::default();
    let outcome = match args.write {
        true => setup.install(&mut done).await,
        false => setup.remove(&mut done).await,
    };
    output::lines(done.lines)?;
    for note in done.notes {
        context.say(&note);
    }
    outcome
}
