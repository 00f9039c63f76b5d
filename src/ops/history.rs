//! The ended runs whose output is stored, and what they have in common.

use std::collections::BTreeMap;

use super::error::OpsError;
use super::session::Session;
use crate::archive;
pub(crate) use crate::archive::RunInfo;
use crate::model::Millis;

/// What the stored runs of a task have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskStats {
    /// The task's name.
    pub(crate) name: String,
    /// How many runs are stored.
    pub(crate) runs: usize,
    /// How many of them ended with another code than 0, or by a signal.
    pub(crate) failed: usize,
    /// The median duration of those that ended with code 0, in milliseconds; `None` if there are none.
    pub(crate) usual_ms: Option<Millis>,
    /// The longest duration of all that ended by themselves, in milliseconds.
    pub(crate) longest_ms: Option<Millis>,
    /// The last one.
    pub(crate) last: RunInfo,
}

/// Returns the stored runs, of the tasks with these names or window ids or of all, the last one last.
pub(crate) fn stored_runs(session: &Session, names: &[String]) -> Result<Vec<RunInfo>, OpsError> {
    let mut runs = archive::list(&session.paths.runs()).map_err(OpsError::Archive)?;
    let is_wanted =
        |run: &RunInfo, name: &String| run.window_name == *name || run.window_id == *name;
    runs.retain(|run| names.is_empty() || names.iter().any(|name| is_wanted(run, name)));
    let missing = names
        .iter()
        .find(|name| !runs.iter().any(|run| is_wanted(run, name)));
    match missing {
        Some(name) => Err(OpsError::NoRuns(name.clone())),
        None => Ok(runs),
    }
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
            failed: runs.iter().filter(|run| has_failed(run)).count(),
            usual_ms: archive::median(all(|run| run.exit_code == Some(0))),
            longest_ms: all(|run| run.exit_code.is_some()).into_iter().max(),
            last: runs.last()?.clone(),
        })
    };
    by_name.into_iter().filter_map(of).collect()
}

fn has_failed(run: &RunInfo) -> bool {
    run.exit_signal.is_some() || run.exit_code.is_some_and(|code| code != 0)
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
            // Replaced while it was alive.
            run("a", 500_000, None, None),
        ];
        let stats = stats(runs.clone());
        let [a, b] = &stats[..] else {
            panic!("{stats:?}")
        };
        assert_eq!((a.name.as_str(), a.runs, a.failed), ("a", 5, 1));
        assert_eq!((a.usual_ms, a.longest_ms), (Some(40_000), Some(90_000)));
        assert_eq!(a.last, runs[5]);
        assert_eq!((b.name.as_str(), b.runs, b.failed), ("b", 1, 1));
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
}
