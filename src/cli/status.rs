//! `status`: the status line.

use super::args::Json;
use super::context::Context;
use super::failure::Failure;
use super::{ls, output};
use crate::wire::LiveRecord;

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Failure> {
    let session = context.session("status").await?;
    let view = ls::view(&session, "status").await?;
    let counts = ls::counts(&view);
    if args.json {
        return output::json(&LiveRecord::from(counts));
    }
    counts.line().map_or(Ok(()), |line| output::line(&line))
}
