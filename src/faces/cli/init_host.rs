//! `init host`: puts this program onto another machine, and checks that tasks can run there.

use clap::Parser;

use super::args::Cli;
use super::context::Context;
use super::{forward, output};
use crate::config;
use crate::hosts::{Host, Installed, install};
use crate::model::Error;
use crate::ops::lookup;

pub(super) async fn run(context: &Context, name: &str) -> Result<(), Error> {
    // Whoever answers a question of ssh takes his time, and so does a slow line.
    context.limit.lift();
    let config = config::load(&lookup)?;
    let host = Host::named(name, &config)?;
    let installed = install(&host, &lookup, forward::questions()).await;
    output::line(&match installed? {
        Installed::Already(path) => format!("{name} has this version: {path}"),
        Installed::Copied(path) => format!("copied this program to {name}: {path}"),
    })?;
    let args = ["tmux-task", "--host", name, "doctor"].map(Into::into);
    let doctor = Cli::try_parse_from(&args)
        .map_err(|error| super::usage::failure(&error, &args).about("usage"))?;
    let examined = forward::run(name, &context.choice(), &args, &doctor.command).await;
    examined.map_err(|error| error.about("doctor"))
}
