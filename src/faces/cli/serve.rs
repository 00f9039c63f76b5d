//! `serve`: the program's own processes for other machines.

use super::args::Serve;
use super::context::Context;
use super::daemon::{end_output, leave_folder, leave_terminal};
use super::failure::Failure;
use super::output;
use crate::config;
use crate::hosts::{self, FarCall, Host, HostError, HostFailure, LINK_READY, Ssh, hold_link};
use crate::model::ErrorKind;
use crate::ops::lookup;

const WHAT: &str = "serve";

pub(super) async fn run(context: &Context, args: Serve) -> Result<(), Failure> {
    context.limit.lift();
    if let Some(name) = args.link {
        leave_terminal()?;
        leave_folder()?;
        if let Err(error) = link(&name).await {
            return output::json(&HostFailure::from(error));
        }
        return Ok(());
    }
    if let Some(word) = args.call {
        let call = FarCall::of_word(&word)
            .ok_or_else(|| Failure::new(ErrorKind::Usage, WHAT, "this is no call"))?;
        let error = call.exec(output::note);
        return Err(Failure::of(ErrorKind::Failed, WHAT, &error));
    }
    hosts::serve(tokio::io::stdin(), tokio::io::stdout())
        .await
        .map_err(Failure::by(WHAT))
}

async fn link(name: &str) -> Result<(), HostError> {
    let host = Host::named(name, &config::load(&lookup)?)?;
    let ssh = Ssh::prepare(&lookup)?;
    hold_link(&host, &ssh, || end_output(LINK_READY)).await
}
