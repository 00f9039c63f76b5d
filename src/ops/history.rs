//! The ended runs whose output is stored, and what they have in common.

use std::collections::BTreeMap;

use super::error::OpsError;
use super::list::list;
use super::session::TaskSession;
use crate::model::Millis;
use crate::store::archive;
pub(crate) use crate::store::archive::RunInfo;

/// What the stored runs of a task have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskStats {
    /// The task's name.
    pub(crate) name: String,
    /// How many runs are stored.
    pub(crate) runs: usize,
    /// How many of them failed.
    pub(crate) failed: usize,
    /// The median duration of those that succeeded, in milliseconds; `None` if there are none.
    pub(crate) usual_ms: Option<Millis>,
    /// The longest duration of all that ended by themselves, in milliseconds.
    pub(crate) longest_ms: Option<Millis>,
    /// The last one.
    pub(crate) last: RunInfo,
}

/// Returns the stored runs, of the tasks with these names or window ids or of all, the last one last.
/// A session that is gone still has those that were stored.
pub(crate) async fn stored_runs(
    session: &mut TaskSession,
    names: &[String],
) -> Result<Vec<RunInfo>, OpsError> {
    let mut runs = archive::list(&session.paths.runs()).map_err(OpsError::Archive)?;
    if runs.is_empty() && !list(session).await?.exists {
        return Err(session.missing());
    }
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_of(run, name)));
    let missing = names
        .iter()
        .find(|name| !runs.iter().any(|run| is_of(run, name)));
    match missing {
        Some(name) => Err(OpsError::missing(
            format!("no ended run of task `{name}` is stored"),
            "a run is stored when it has ended; `tmux-task ls` shows the present ones",
        )),
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

/// Returns what runs have in common, by the names of their tasks.
pub(crate) fn stats(runs: Vec<RunInfo>) -> Vec<TaskStats> {
    let mut by_name: BTreeMap<String, Vec<RunInfo>> = BTreeMap::new();
    for run in runs {
        by_name
            .entry(run.window_name.clone())
            .or_default()
            .push(run);
    }
    let of = |(name, runs): (String, Vec<RunInfo>)| {
        let all = |is_counted: fn(&RunInfo) -> bool| {
            let counted = runs.iter().filter(|run| is_counted(run));
            counted.filter_map(RunInfo::duration).collect::<Vec<_>>()
        };
        Some(TaskStats {
            name,
            runs: runs.len(),
            failed: runs.iter().filter(|run| run.has_failed()).count(),
            usual_ms: archive::median(all(RunInfo::has_succeeded)),
            longest_ms: all(|run| run.exit_code.is_some() && run.reason.is_none())
                .into_iter()
                .max(),
            last: runs.last()?.clone(),
        })
    };
    by_name.into_iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            record: None,
        }
    }

    fn ended(reason: &str, run: RunInfo) -> RunInfo {
        RunInfo {
            reason: Some(reason.to_owned()),
            ..run
        }
    }

    #[test]
    fn usual_is_the_median_of_the_runs_that_succeeded() {
        let runs = vec![
            run("a", 40_000, Some(0), None),
            run("a", 100, Some(2), None),
            run("b", 7, None, Some("SIGKILL")),
            run("a", 90_000, Some(0), None),
            run("a", 38_000, Some(0), None),
            ended("agentKilled", run("a", 700_000, Some(0), None)),
            ended("userKilled", run("b", 9, None, Some("SIGTERM"))),
            ended("timedOut", run("b", 9, Some(143), None)),
            ended("replaced", run("a", 500_000, None, None)),
        ];
        let stats = stats(runs.clone());
        let [a, b] = &stats[..] else {
            panic!("{stats:?}")
        };
        assert_eq!((a.name.as_str(), a.runs, a.failed), ("a", 6, 1));
        assert_eq!((a.usual_ms, a.longest_ms), (Some(40_000), Some(90_000)));
        assert_eq!(a.last, runs[8]);
        assert_eq!((b.name.as_str(), b.runs, b.failed), ("b", 3, 2));
        assert_eq!((b.usual_ms, b.longest_ms), (None, None));
    }

    #[test]
    fn a_run_without_times_has_no_duration() {
        let mut unknown = run("a", 5, Some(0), None);
        unknown.started_at = None;
        assert_eq!(unknown.duration(), None);
        assert_eq!(stats(vec![unknown])[0].usual_ms, None);
        assert_eq!(stats(Vec::new()), []);
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
