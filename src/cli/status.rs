//! `status`: the status line.

use super::args::Json;
use super::context::{self, Context};
use super::failure::Failure;
use super::{ls, output};
use crate::model::StatusCounts;
use crate::wire::{LiveRecord, Request, Response};

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Failure> {
    let session = context.session("status").await?;
    let counts: StatusCounts = match session.ask("status", &Request::Count).await? {
        Some(Response::Counted(counts)) => counts.into(),
        Some(_) => return Err(context::unexpected("status")),
        None => ls::counts(&ls::view(&session, "status").await?),
    };
    if args.json {
        return output::json(&LiveRecord::from(counts));
    }
    counts.line().map_or(Ok(()), |line| output::line(&line))
}
