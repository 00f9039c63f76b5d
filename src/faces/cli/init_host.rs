//! `init host`: puts this program onto another machine, and checks that tasks can run there.

use clap::Parser;

use super::args::Cli;
use super::context::Context;
use super::failure::Failure;
use super::{forward, output};
use crate::config;
use crate::hosts::{Host, Installed, Ssh, install};
use crate::ops::lookup;

pub(super) async fn run(context: &Context, name: &str) -> Result<(), Failure> {
    // Whoever answers a question of ssh takes his time, and so does a slow line.
    context.limit.lift();
    let failed = |error| forward::failure("init", error);
    let config = config::load(&lookup).map_err(|error| failed(error.into()))?;
    let host = Host::named(name, &config).map_err(failed)?;
    let ssh = Ssh::prepare(&lookup).map_err(failed)?;
    let installed = install(&host, &ssh, forward::questions()).await;
    output::line(&match installed.map_err(failed)? {
        Installed::Already(path) => format!("{name} has this version: {path}"),
        Installed::Copied(path) => format!("copied this program to {name}: {path}"),
    })?;
    let args = ["tmux-task", "--host", name, "doctor"].map(Into::into);
    let doctor =
        Cli::try_parse_from(&args).map_err(|error| super::usage::failure(&error, &args))?;
    forward::run(name, &context.choice(), &args, &doctor.command).await
}
