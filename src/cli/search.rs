//! `search`: searches existing output. The counterpart of `wait`.

use serde_json::json;

use super::args::{MatchOptions, Search};
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use super::output;
use crate::ops;
use crate::terminal::Pattern;

pub(super) async fn run(context: &Context, args: Search) -> Result<(), Failure> {
    let session = context.session("search").await?;
    let MatchOptions { regex, ignore_case } = args.matching;
    let pattern = Pattern::parse(&args.pattern, regex, ignore_case)
        .map_err(|error| Failure::of(Kind::Usage, "search", &error))?;
    let found = ops::search(&session, args.name.as_deref(), &pattern).await;
    let found = found.or_fail("search")?;
    if args.json.json {
        let found: Vec<_> = found
            .iter()
            .map(|found| {
                json!({
                    "windowId": found.task.window.to_string(),
                    "windowName": found.task.name,
                    "run": found.task.run,
                    "lineNumber": found.line_number,
                    "line": found.line,
                })
            })
            .collect();
        output::json(&found)?;
    } else {
        let lines: Vec<String> = found
            .iter()
            .map(|found| {
                let task = &found.task;
                let (number, line) = (found.line_number, &found.line);
                format!("{} {}:{number}: {line}", task.window, task.name)
            })
            .collect();
        output::lines(lines.iter().map(String::as_str))?;
    }
    // As with grep: no match is not a success.
    if found.is_empty() {
        Err(Failure::silent(Kind::Failed))
    } else {
        Ok(())
    }
}
