//! `search`: searches existing output. The counterpart of `wait`.

use super::args::{MatchOptions, Search};
use super::context::Context;
use super::output;
use crate::model::{Error, ErrorKind};
use crate::ops;
use crate::wire::{SearchMatch, SearchRequest, SearchResult};

pub(super) async fn run(context: &Context, args: Search) -> Result<(), Error> {
    let mut session = context.given()?;
    let MatchOptions { regex, ignore_case } = args.matching;
    let request = SearchRequest {
        task: args.name,
        pattern: args.pattern,
        regex,
        ignore_case,
    };
    let found = ops::search(&mut session, request).await;
    let (found, gone) = found?;
    let SearchResult {
        matches: found,
        incomplete,
    } = found;
    for note in gone.iter().chain(&incomplete) {
        output::note(&format!("tmux-task: search: {note}"));
    }
    if args.json.json {
        output::json(&found)?;
    } else {
        let line = |found: &SearchMatch| {
            let (window, name) = (&found.window_id, &found.window_name);
            format!("{window} {name}:{}: {}", found.line_number, found.line)
        };
        output::lines(found.iter().map(line))?;
    }
    // As with grep: no match is not a success. What is missing may have matched.
    match (found.is_empty(), incomplete.is_empty()) {
        (false, _) => Ok(()),
        (true, true) => Err(Error::silent(ErrorKind::Failed)),
        (true, false) => Err(Error::silent(ErrorKind::Impossible)),
    }
}
