//! `search`: searches existing output. The counterpart of `wait`.

use super::args::{MatchOptions, Search};
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use super::output;
use crate::ops;
use crate::wire::{SearchMatch, SearchRequest};

pub(super) async fn run(context: &Context, args: Search) -> Result<(), Failure> {
    let mut session = context.given("search")?;
    let MatchOptions { regex, ignore_case } = args.matching;
    let request = SearchRequest {
        task: args.name,
        pattern: args.pattern,
        regex,
        ignore_case,
    };
    let found = ops::search(&mut session, request).await;
    let found = found.or_fail("search")?;
    if args.json.json {
        output::json(&found)?;
    } else {
        let line = |found: &SearchMatch| {
            let (window, name) = (&found.window_id, &found.window_name);
            format!("{window} {name}:{}: {}", found.line_number, found.line)
        };
        output::lines(found.iter().map(line))?;
    }
    // As with grep: no match is not a success.
    if found.is_empty() {
        Err(Failure::silent(Kind::Failed))
    } else {
        Ok(())
    }
}
