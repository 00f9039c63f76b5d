//! `status`: the status line.

use super::args::Json;
use super::context::Context;
use super::output;
use crate::model::Error;
use crate::ops;
use crate::wire::LiveRecord;

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Error> {
    let mut session = context.given()?;
    let counts = ops::count(&mut session).await?;
    if args.json {
        return output::json(&LiveRecord::from(counts));
    }
    let line = counts.line_with_details();
    line.map_or(Ok(()), |line| output::line(&line))
}
