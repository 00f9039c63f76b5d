//! `search`: is it there already? The counterpart of `wait`.

use serde_json::json;

use super::args::{Matching, Search};
use super::context::{self, Context};
use super::failure::{Failure, Kind};
use super::output;
use crate::terminal::{Line, Pattern};
use crate::tmux::{self, Style};

pub(super) async fn run(context: &Context, args: Search) -> Result<(), Failure> {
    let session = context.session("search").await?;
    let Matching { regex, ignore_case } = args.matching;
    let pattern = Pattern::parse(&args.pattern, regex, ignore_case)
        .map_err(|error| Failure::of(Kind::Usage, "search", &error))?;
    let tasks = match &args.name {
        Some(name) => vec![session.task("search", name).await?],
        None => {
            let look = session.look("search").await?;
            if !look.exists {
                return Err(session.missing("search"));
            }
            look.tasks.into_values().collect()
        }
    };
    let mut found = Vec::new();
    for task in &tasks {
        let Some(pane) = task.pane else { continue };
        let log = tmux::read_log(&mut session.connection(), pane, Style::Plain)
            .await
            .map_err(|error| context::tmux("search", &error))?;
        for (index, line) in log.lines.iter().enumerate() {
            let runs = [(line.len(), 1)];
            if pattern.find(&Line::new(line, &runs, true), 0).is_some() {
                found.push((task, index + 1, line.clone()));
            }
        }
    }
    if args.json.json {
        let found: Vec<_> = found
            .iter()
            .map(|(task, number, line)| {
                json!({
                    "windowId": task.window.to_string(),
                    "windowName": task.name,
                    "run": task.run,
                    "lineNumber": number,
                    "line": line,
                })
            })
            .collect();
        output::json(&found)?;
    } else {
        let lines: Vec<String> = found
            .iter()
            .map(|(task, number, line)| format!("{} {}:{number}: {line}", task.window, task.name))
            .collect();
        output::lines(lines.iter().map(String::as_str))?;
    }
    // As grep does: nothing found is no success.
    if found.is_empty() {
        Err(Failure::silent(Kind::Failed))
    } else {
        Ok(())
    }
}
