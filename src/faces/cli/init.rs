//! `init`: installs and removes the adapters of agents, and this program on another machine.

use super::args::{Init, InitClient};
use super::context::{self, Context};
use super::{forward, output, usage};
use crate::faces::agent::{AgentClient, Done, Setup};
use crate::hosts::{Host, install};
use crate::model::Error;
use crate::ops::lookup;
use crate::paths::foreign_home;

const WHAT: &str = "init";

pub(super) async fn run(context: &Context, args: &Init) -> Result<(), Error> {
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

pub(super) async fn init_host(context: &Context, name: &str) -> Result<(), Error> {
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
