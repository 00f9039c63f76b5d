//! `explain`: why a task is or is not judged to wait for input.

use super::args::Explain;
use super::context::Context;
use super::output;
use crate::clock;
use crate::model::Error;
use crate::ops;

pub(super) async fn run(context: &Context, args: Explain) -> Result<(), Error> {
    let mut session = context.given()?;
    let explanation = ops::explain(&mut session, &args.name).await?;
    if args.json.json {
        return output::json(&explanation);
    }
    let lines = ops::explanation_lines(&explanation, clock::now().wall);
    output::lines(&lines)
}
