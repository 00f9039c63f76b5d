//! `agent`: delivers follow-ups to the conversations of a client. `init`: installs and removes the adapters that
//! run it, and this program on another machine.

use std::env;
use std::path::PathBuf;

use super::args::{AgentCommand, AgentServe, Init, InitClient};
use super::context::{self, Context};
use super::{daemon, forward, output, usage};
use crate::client::hosts::{Host, install};
use crate::config;
use crate::config::paths::foreign_home;
use crate::faces::agent::claude::{self, HookInput};
use crate::faces::agent::codex::{self, FollowOptions};
use crate::faces::agent::{AgentClient, Done, Ended, ServeOptions, Setup, serve};
use crate::model::{Error, ErrorKind};
use crate::ops::lookup;

pub(super) async fn run(context: &Context, client: AgentCommand) -> Result<(), Error> {
    context.limit.lift();
    match client {
        AgentCommand::Pi(args) => serve_adapter(context, AgentClient::Pi, args).await,
        AgentCommand::Opencode(args) => serve_adapter(context, AgentClient::Opencode, args).await,
        AgentCommand::Codex {
            id,
            program,
            background,
        } => follow_codex(context, &id, program, background).await,
        AgentCommand::Claude { wait } => claude_hook(context, wait).await,
    }
}

async fn serve_adapter(
    context: &Context,
    client: AgentClient,
    args: AgentServe,
) -> Result<(), Error> {
    let options = ServeOptions {
        client,
        ids: args.id,
        adopt: args.adopt,
        max_per_minute: max_per_minute()?,
    };
    let serve = serve(context.choice(), options, |reply| output::json(reply));
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
    let max_per_minute = max_per_minute()?;
    if in_background {
        daemon::leave_terminal()?;
    }
    let options = FollowOptions {
        thread: id.to_owned(),
        program,
        max_per_minute,
        stays: !in_background,
    };
    let followed = || {
        // Who started it waits for the line.
        if in_background {
            daemon::go_quiet();
        }
    };
    match codex::follow(&context.choice(), options, followed).await? {
        Some(why) if in_background => output::line(&why),
        Some(why) => Err(Error::failed(why)),
        None => Ok(()),
    }
}

async fn claude_hook(context: &Context, wait: bool) -> Result<(), Error> {
    let input = serde_json::from_reader(std::io::stdin().lock());
    let input: HookInput = input.map_err(|error| {
        let why = format!("standard input is not the input of a hook: {error}");
        Error::failed(why)
    })?;
    enter_project()?;
    let choice = context.choice();
    if !wait {
        return claude::hook(&choice, &input).await;
    }
    let print = output::result_on_stderr;
    let gone = output::stderr_closed();
    let waited = claude::wait(&choice, &input, max_per_minute()?, print, gone).await;
    match waited? {
        // The code with which the client takes what was printed.
        Ended::Woke => Err(Error::silent(ErrorKind::Usage)),
        Ended::Left | Ended::Replaced => Ok(()),
    }
}

/// The session of a conversation is its project's, in whichever folder the hook is run.
fn enter_project() -> Result<(), Error> {
    match lookup("CLAUDE_PROJECT_DIR").filter(|dir| !dir.is_empty()) {
        Some(dir) => env::set_current_dir(PathBuf::from(dir)).map_err(Error::of),
        None => Ok(()),
    }
}

fn max_per_minute() -> Result<u32, Error> {
    let config = config::load(&lookup).map_err(|error| Error::of(error).about("configuration"))?;
    Ok(config.max_per_minute)
}

// `init`.

const WHAT: &str = "init";

pub(super) async fn init(context: &Context, args: &Init) -> Result<(), Error> {
    match (args.client, &args.machine) {
        (InitClient::Host, Some(name)) => return init_host(context, name).await,
        (_, None) => {}
        (_, Some(name)) => {
            let why = format!("unexpected argument '{name}': only `init host` takes one");
            return Err(Error::usage(why));
        }
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
    };
    // Each command of a client has a time limit of its own.
    context.limit.lift();
    // A command that runs is killed by an interrupt.
    context::unless_interrupted(set_up_client(args, client)).await?
}

/// Shows what installing an adapter would do, installs it or removes it.
async fn set_up_client(args: &Init, client: AgentClient) -> Result<(), Error> {
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
        output::note(&format!("tmux-task: {WHAT}: {note}"));
    }
    outcome
}

async fn init_host(context: &Context, name: &str) -> Result<(), Error> {
    // Whoever answers a question of ssh takes his time, and so does a slow line.
    context.limit.lift();
    let host = Host::named(name, &lookup)?;
    output::line(&install(&host, forward::may_ask()).await?)?;
    let args = ["tmux-task", "--host", name, "doctor"].map(Into::into);
    let (doctor, words) =
        usage::parse(&args).map_err(|error| usage::failure(&error, &args).about("usage"))?;
    let examined = forward::run(name, &context.choice(), (&words, &args), &doctor.command).await;
    examined.map_err(|error| error.about("doctor"))
}
