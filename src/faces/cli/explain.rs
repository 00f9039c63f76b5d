//! `explain`: why a task is or is not judged to wait for input.

use super::args::Explain;
use super::context::Context;
use super::failure::{Failure, OrFail};
use super::output;
use crate::clock;
use crate::ops;

pub(super) async fn run(context: &Context, args: Explain) -> Result<(), Failure> {
    let mut session = context.given("explain")?;
    let explanation = ops::explain(&mut session, &args.name)
        .await
        .or_fail("explain")?;
    if args.json.json {
        return output::json(&explanation);
    }
    let lines = ops::explanation_lines(&explanation, clock::now().wall);
    output::lines(&lines)
}
