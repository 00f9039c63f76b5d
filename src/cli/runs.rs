//! `logs --runs` and `stats`: the ended runs whose output is stored.

use serde_json::{Value, json};

use super::args::{Logs, Stats};
use super::context::Context;
use super::failure::{Failure, OrFail};
use super::{ls, output};
use crate::clock;
use crate::model::{Millis, took};
use crate::ops::{self, RunInfo, TaskStats};
use crate::terminal::columns_of;

/// Lists the stored runs of tasks.
pub(super) async fn list(context: &Context, args: &Logs) -> Result<(), Failure> {
    let session = context.session("logs").await?;
    let mut runs = ops::stored_runs(&session, &args.names).or_fail("logs")?;
    if let Some(most) = args.lines {
        runs = ops::last_of_each(runs, &args.names, most);
    }
    if args.json.json {
        return output::json(&runs.iter().map(run_json).collect::<Vec<_>>());
    }
    let now = clock::now().wall;
    let mut rows = vec![["NAME", "RUN", "CODE", "ENDED", "TOOK", "COMMAND"].map(str::to_owned)];
    rows.extend(runs.iter().map(|run| {
        [
            run.window_name.clone(),
            run.run.to_string(),
            end(run),
            ago(run.ended_at, now),
            run.duration().map_or_else(unknown, took),
            run.current_command.clone().unwrap_or_else(unknown),
        ]
    }));
    print(&rows)
}

/// Prints what the stored runs of each task have in common.
pub(super) async fn stats(context: &Context, args: &Stats) -> Result<(), Failure> {
    let session = context.session("stats").await?;
    let runs = ops::stored_runs(&session, &args.names).or_fail("stats")?;
    let stats = ops::stats(runs);
    if args.json.json {
        return output::json(&stats.iter().map(stats_json).collect::<Vec<_>>());
    }
    let now = clock::now().wall;
    let mut rows = vec![
        [
            "NAME",
            "RUNS",
            "FAILED",
            "USUALLY",
            "LONGEST",
            "LAST CODE",
            "ENDED",
        ]
        .map(str::to_owned),
    ];
    rows.extend(stats.iter().map(|task| {
        [
            task.name.clone(),
            task.runs.to_string(),
            task.failed.to_string(),
            task.usual_ms.map_or_else(unknown, took),
            task.longest_ms.map_or_else(unknown, took),
            end(&task.last),
            ago(task.last.ended_at, now),
        ]
    }));
    print(&rows)
}

fn run_json(run: &RunInfo) -> Value {
    let mut value = json!(run);
    if let Value::Object(fields) = &mut value {
        fields.insert("durationMs".to_owned(), json!(run.duration()));
    }
    value
}

fn stats_json(task: &TaskStats) -> Value {
    json!({
        "windowName": task.name,
        "runs": task.runs,
        "failed": task.failed,
        "usualMs": task.usual_ms,
        "longestMs": task.longest_ms,
        "last": run_json(&task.last),
    })
}

/// Returns how a run ended. One whose end has neither code nor signal was usually replaced.
fn end(run: &RunInfo) -> String {
    match (&run.exit_signal, run.exit_code) {
        (Some(signal), _) => signal.clone(),
        (None, Some(code)) => code.to_string(),
        (None, None) => unknown(),
    }
}

fn ago(at: Option<Millis>, now: Millis) -> String {
    at.map_or_else(unknown, |at| format!("{} ago", ls::age(now - at)))
}

fn unknown() -> String {
    "-".to_owned()
}

/// Prints rows with their columns below each other.
fn print<const N: usize>(rows: &[[String; N]]) -> Result<(), Failure> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let widths = rows.iter().map(|row| columns_of(&row[column]));
        widths.max().unwrap_or_default()
    });
    let lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                line.push_str(cell);
                let pad = width.saturating_sub(columns_of(cell)) + 2;
                line.extend(std::iter::repeat_n(' ', pad));
            }
            line.trim_end().to_owned()
        })
        .collect();
    output::lines(lines.iter().map(String::as_str))
}
