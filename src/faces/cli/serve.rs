//! `serve`: the program's own processes for other machines.

use super::args::Serve;
use super::context::Context;
use super::daemon::{end_output, leave_folder, leave_terminal};
use super::output;
use crate::config;
use crate::hosts::{self, FarCall, Host, LINK_READY, Ssh, hold_link};
use crate::model::Error;
use crate::ops::lookup;

pub(super) async fn run(context: &Context, args: Serve) -> Result<(), Error> {
    context.limit.lift();
    if let Some(name) = args.link {
        leave_terminal()?;
        leave_folder()?;
        if let Err(error) = link(&name).await {
            return output::json(&error);
        }
        return Ok(());
    }
    if let Some(word) = args.call {
        let call = FarCall::of_word(&word).ok_or_else(|| Error::usage("this is no call"))?;
        let error = call.exec(output::note);
        return Err(Error::of(&error));
    }
    hosts::serve(tokio::io::stdin(), tokio::io::stdout())
        .await
        .map_err(Error::of)
}

async fn link(name: &str) -> Result<(), Error> {
    let host = Host::named(name, &config::load(&lookup)?)?;
    let ssh = Ssh::prepare(&lookup)?;
    hold_link(&host, &ssh, || end_output(LINK_READY)).await
}
