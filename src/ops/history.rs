//! The ended runs whose output is stored.

use std::collections::BTreeMap;

use super::list::list;
use super::logs::archive_error;
use super::session::TaskSession;
use crate::model::Error;
use crate::store::archive;
pub(crate) use crate::store::archive::RunInfo;

/// Returns the stored runs, of the tasks with these names or window ids or of all, the last one last.
/// A session that is gone still has those that were stored.
pub(crate) async fn stored_runs(
    session: &mut TaskSession,
    names: &[String],
) -> Result<Vec<RunInfo>, Error> {
    let mut runs = archive::list(&session.paths.runs()).map_err(|error| archive_error(&error))?;
    if runs.is_empty() && !list(session).await?.exists {
        return Err(session.missing());
    }
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_of(run, name)));
    let missing = names
        .iter()
        .find(|name| !runs.iter().any(|run| is_of(run, name)));
    match missing {
        Some(name) => Err(
            Error::missing(format!("no ended run of task `{name}` is stored")).with_hint(
                "a run is stored when it has ended; `tmux-task ls` shows the present ones",
            ),
        ),
        None => Ok(runs),
    }
}

/// Returns the last `most` of each task that was asked for by name or window id, or of all of them if
/// none was, in their order.
pub(crate) fn last_of_each(mut runs: Vec<RunInfo>, names: &[String], most: usize) -> Vec<RunInfo> {
    let mut n_of: BTreeMap<Option<usize>, usize> = BTreeMap::new();
    let mut is_kept: Vec<bool> = runs
        .iter()
        .rev()
        .map(|run| {
            let n = n_of.entry(names.iter().position(|name| is_of(run, name)));
            let n = n.and_modify(|n| *n += 1).or_insert(1);
            *n <= most
        })
        .collect();
    runs.retain(|_| is_kept.pop().unwrap_or_default());
    runs
}

fn is_of(run: &RunInfo, name: &str) -> bool {
    run.window_name == name || run.window_id == name
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Millis;

    fn run(name: &str, ms: Millis, code: Option<i32>, signal: Option<&str>) -> RunInfo {
        RunInfo {
            window_id: "@1".to_owned(),
            window_name: name.to_owned(),
            run: 1,
            current_command: None,
            task_cwd: None,
            started_at: Some(1000),
            ended_at: Some(1000 + ms),
            exit_code: code,
            exit_signal: signal.map(str::to_owned),
            reason: None,
            gap_after: None,
        }
    }

    #[test]
    fn the_last_runs_are_those_of_each_task() {
        let runs: Vec<RunInfo> = ["a", "b", "a", "c", "a", "b"]
            .iter()
            .zip(1..)
            .map(|(name, run_number)| RunInfo {
                window_id: format!("@{name}"),
                run: run_number,
                ..run(name, 1, Some(0), None)
            })
            .collect();
        let last = |names: &[&str], most| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let asked = runs
                .iter()
                .filter(|run| names.iter().any(|name| is_of(run, name)));
            let last = last_of_each(asked.cloned().collect(), &names, most);
            last.iter().map(|run| run.run).collect::<Vec<_>>()
        };
        assert_eq!(last(&["a", "b"], 1), [5, 6]);
        assert_eq!(last(&["@b", "c", "a"], 2), [2, 3, 4, 5, 6]);
        assert_eq!(last(&["a"], 2), [3, 5]);
        assert_eq!(last(&["a", "@a"], 1), [5]);
        assert_eq!(last(&["a", "b"], 0), [0; 0]);
    }
}
