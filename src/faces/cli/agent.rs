//! `agent`: delivers follow-ups to the conversations of a client.

use std::env;
use std::path::PathBuf;

use super::args::{AgentCommand, AgentServe};
use super::context::{self, Context};
use super::{daemon, output};
use crate::config;
use crate::faces::agent::claude::{self, HookInput};
use crate::faces::agent::codex::{self, FollowOptions};
use crate::faces::agent::{AgentClient, Ended, ServeOptions, serve};
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
    Ok(config.agents.max_per_minute)
}
