//! `logs`: a task's output as tmux has it now.

use serde_json::json;

use super::args::Logs;
use super::context::{self, Context};
use super::failure::{Failure, Kind};
use super::output;
use crate::tmux;

pub(super) async fn run(context: &Context, args: Logs) -> Result<(), Failure> {
    let session = context.session("logs")?;
    let task = session.task("logs", &args.name).await?;
    let Some(pane) = task.pane else {
        return Err(Failure::new(
            Kind::Failed,
            "logs",
            format!("{} has no pane", args.name),
        ));
    };
    let lines = tmux::history(
        &mut session.connection(),
        pane,
        args.lines.unwrap_or(usize::MAX),
    )
    .await
    .map_err(|error| context::tmux("logs", &error))?;
    if args.json.json {
        return output::json(&json!({
            "windowId": task.window.to_string(),
            "windowName": task.name,
            "run": task.run,
            "lines": lines,
        }));
    }
    output::lines(lines.iter().map(String::as_str))
}
