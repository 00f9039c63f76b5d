//! `logs --runs`: the ended runs whose output is stored.

use serde_json::{Value, json};

use super::args::Logs;
use super::context::Context;
use super::table::{self, NARROW, NARROW_NAME, Narrowing};
use super::{ls, output};
use crate::clock;
use crate::model::{Error, Millis, RunEnd, took};
use crate::ops::{self, RunInfo};

/// The columns of `logs --runs`.
const RUNS: [&str; 6] = ["NAME", "RUN", "CODE", "ENDED", "TOOK", "COMMAND"];

/// The command of a task's runs is mostly the same.
const NARROW_RUNS: Narrowing<'_> = Narrowing {
    cuts: &[(5, NARROW), (0, NARROW_NAME)],
    dispensable: &[5, 4, 3],
};

/// Lists the stored runs of tasks.
pub(super) async fn list(context: &Context, args: &Logs) -> Result<(), Error> {
    let mut session = context.session().await?;
    let runs = ops::stored_runs(&mut session, &args.names).await;
    let mut runs = runs?;
    if let Some(most) = args.lines {
        runs = ops::last_of_each(runs, &args.names, most);
    }
    if args.json.json {
        return output::json(&runs.iter().map(run_json).collect::<Vec<_>>());
    }
    let now = clock::now().wall;
    let mut rows = vec![RUNS.map(str::to_owned)];
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
    print(&rows, &NARROW_RUNS)
}

fn run_json(run: &RunInfo) -> Value {
    let mut value = json!(run);
    if let Value::Object(fields) = &mut value {
        fields.insert("durationMs".to_owned(), json!(run.duration()));
    }
    value
}

/// Returns how a run ended.
fn end(run: &RunInfo) -> String {
    if run.reason.as_deref() == Some("replaced") {
        return "replaced".to_owned();
    }
    match RunEnd::of(run.exit_signal.as_deref(), run.exit_code) {
        RunEnd::Signal(signal) => signal.to_owned(),
        RunEnd::Code(code) => code.to_string(),
        RunEnd::Unknown => unknown(),
    }
}

fn ago(at: Option<Millis>, now: Millis) -> String {
    at.map_or_else(unknown, |at| format!("{} ago", ls::age(now - at)))
}

fn unknown() -> String {
    "-".to_owned()
}

/// Prints rows with their columns below each other, so that they fit the terminal.
fn print<const N: usize>(rows: &[[String; N]], narrowing: &Narrowing<'_>) -> Result<(), Error> {
    output::lines(table::lines(rows, output::terminal_columns(), narrowing))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::columns_of;

    #[track_caller]
    fn check<const N: usize>(
        rows: [[&str; N]; 2],
        narrowing: &Narrowing<'_>,
        expected: &[(usize, [&str; 2])],
    ) {
        let rows = rows.map(|row| row.map(str::to_owned));
        let at = |columns| table::lines(&rows, Some(columns), narrowing);
        for columns in 33..=100 {
            for line in at(columns) {
                assert!(columns_of(&line) <= columns, "{columns}: {line}");
            }
        }
        for (columns, lines) in expected {
            assert_eq!(at(*columns), *lines);
        }
    }

    #[test]
    fn the_table_of_runs_fits_the_terminal() {
        let run = [
            "integration-tests-postgres",
            "12",
            "SIGTERM",
            "59m ago",
            "1h12m",
            "cargo test --workspace --all-features",
        ];
        check(
            [RUNS, run],
            &NARROW_RUNS,
            &[
                (
                    60,
                    [
                        "NAME                  RUN  CODE     ENDED    TOOK   COMMAND",
                        "integration-tests-p…  12   SIGTERM  59m ago  1h12m  cargo t…",
                    ],
                ),
                (
                    40,
                    [
                        "NAME               RUN  CODE     ENDED",
                        "integration-test…  12   SIGTERM  59m ago",
                    ],
                ),
            ],
        );
    }
}
