//! The output of runs that have ended, stored on disk so that it outlives the pane; and how long runs of
//! a name usually take.
//!
//! Each run is one file: a line of JSON with the run's data, then its output. The number of files
//! and their total size are bounded; the oldest are removed first.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc as async_mpsc, oneshot};

use crate::config::LogsConfig;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Millis, RunNumbers, Task};

/// How much later than the run before a run is, if the machine's clock was set back.
const TICK: Duration = Duration::from_millis(1);

/// The data of a run whose output is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunInfo {
    pub window_id: String,
    /// Its name at that time.
    pub window_name: String,
    pub run: u32,
    pub current_command: Option<String>,
    pub task_cwd: Option<String>,
    /// When it began, in milliseconds since 1970.
    pub started_at: Option<Millis>,
    /// When it ended or was replaced by the next run, in milliseconds since 1970.
    pub ended_at: Option<Millis>,
    pub exit_code: Option<i32>,
    pub exit_signal: Option<String>,
    /// Why it was ended, as the feed says it: `replaced` by the next run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Behind how many lines some of its output may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap_after: Option<usize>,
}

impl RunInfo {
    /// Whether it ended by itself, with code 0: a handler of SIGTERM may end it with that, too.
    pub(crate) fn has_succeeded(&self) -> bool {
        self.exit_code == Some(0) && self.reason.is_none()
    }

    /// Returns how long it took, in milliseconds, if both times are known.
    pub(crate) fn duration(&self) -> Option<Millis> {
        Some((self.ended_at? - self.started_at?).max(0))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchivedRun {
    pub about: RunInfo,
    /// Its first and last lines.
    pub lines: Vec<String>,
}

/// Stores a run's output. The oldest runs beyond the limits are removed.
fn keep(run: &KeptRun) -> io::Result<()> {
    let (folder, lines, most) = (&run.folder, &run.lines, run.limits.keep_lines);
    files::make_folder(folder, OPEN_TO_OTHERS)?;
    let mut about = run.about.clone();
    let number = about.window_id.trim_start_matches('@');
    let path = folder.join(format!("{}-{number}-{}.log", run.life, about.run));
    // Of a long output a fifth of what is kept are its first lines, if they are known.
    let mut n_first = most / 5;
    let n_dropped = lines.len().saturating_sub(most);
    if n_dropped > 0 {
        n_first = n_first.min(about.gap_after.unwrap_or(n_first));
        about.gap_after = Some(n_first);
    }
    let mut text = files::json_line(&about)?;
    let (first, rest) = lines.split_at(n_first.min(lines.len()));
    for line in first.iter().chain(&rest[n_dropped..]) {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    let last = newest_first(folder)?.first().map(|(at, ..)| *at);
    files::replace(&path, &path.with_extension("new"), &text)?;
    // The order of the runs does not depend on how the machine's clock is set.
    let written = files::open_to_write(&path)?;
    if let Some(last) = last
        && written.metadata()?.modified()? <= last
    {
        written.set_modified(last + TICK)?;
    }
    prune(folder, run.limits)
}

/// Returns the latest stored run, with this number if one is given, of the task with this name or window id.
pub(crate) fn find(folder: &Path, name: &str, run: Option<u32>) -> io::Result<Option<ArchivedRun>> {
    for (_, _, path) in newest_first(folder)? {
        if let Some((about, rest)) = read(&path)?
            && run.is_none_or(|run| about.run == run)
            && (about.window_name == name || about.window_id == name)
        {
            let lines = rest.lines().collect::<io::Result<_>>()?;
            return Ok(Some(ArchivedRun { about, lines }));
        }
    }
    Ok(None)
}

/// Returns the data of all stored runs, the last one last.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<RunInfo>> {
    let mut runs = Vec::new();
    for (_, _, path) in newest_first(folder)?.into_iter().rev() {
        // A newer one may have removed it meanwhile.
        let found = files::if_there(read(&path))?.flatten();
        runs.extend(found.map(|(about, _)| about));
    }
    // The files' times can be coarse.
    runs.sort_by_key(|run| (run.ended_at, run.started_at));
    Ok(runs)
}

pub(crate) fn run_numbers(folder: &Path) -> io::Result<RunNumbers> {
    let runs = list(folder)?.into_iter();
    Ok(runs.map(|run| (run.window_name, run.run)).collect())
}

/// Reads the data of a stored run; its output follows. `None` when the file is not one of ours.
fn read(path: &Path) -> io::Result<Option<(RunInfo, BufReader<fs::File>)>> {
    let mut file = match files::open(path) {
        Ok(file) => BufReader::new(file),
        Err(error) if files::is_refusal(&error) => {
            tracing::warn!(%error, "not a kept run");
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    let mut first = String::new();
    file.read_line(&mut first)?;
    let Ok(about) = serde_json::from_str::<RunInfo>(&first) else {
        tracing::debug!(path = %path.display(), "not a kept run");
        return Ok(None);
    };
    Ok(Some((about, file)))
}

fn prune(folder: &Path, limits: LogsConfig) -> io::Result<()> {
    let mut bytes = 0;
    for (index, (_, size, path)) in newest_first(folder)?.into_iter().enumerate() {
        bytes += size;
        if index >= limits.keep_runs || (bytes > limits.keep_bytes && index > 0) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}

/// Returns the kept runs with their times and sizes. A missing folder has none; a link is an error.
fn newest_first(folder: &Path) -> io::Result<Vec<(SystemTime, u64, PathBuf)>> {
    let entries = files::check_owner_of_folder(folder).and_then(|()| fs::read_dir(folder));
    let mut runs = Vec::new();
    for entry in files::if_there(entries)?.into_iter().flatten() {
        let entry = entry?;
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "log") {
            let found = entry.metadata()?;
            runs.push((found.modified()?, found.len(), path));
        }
    }
    runs.sort();
    runs.reverse();
    Ok(runs)
}

/// How many successful runs of a name are taken into account: the last ones.
const LAST: usize = 10;

/// How many of them make a usual duration.
const LEAST: usize = 2;

/// Returns the median duration of the last successful ones of these runs that have this name. A run with
/// another command does not count, if both commands are known. `None` if there are fewer than two.
fn usual_duration(runs: &[RunInfo], name: &str, command: Option<&str>) -> Option<Millis> {
    let is_same = |run: &&RunInfo| {
        let of_run = run.current_command.as_deref();
        let is_other = of_run.is_some() && command.is_some() && of_run != command;
        run.has_succeeded() && run.window_name == name && !is_other
    };
    let same = runs.iter().rev().filter(is_same);
    let mut millis: Vec<Millis> = same.filter_map(RunInfo::duration).take(LAST).collect();
    millis.sort_unstable();
    // The upper one of two.
    let median = millis.get(millis.len() / 2).copied();
    median.filter(|_| millis.len() >= LEAST)
}

/// How many bytes of output may be queued, so that a disk that hangs does not fill the memory.
const MOST_QUEUED: usize = 128 << 20;

#[derive(Debug)]
pub(crate) struct KeptRun {
    pub(crate) folder: PathBuf,
    /// Distinguishes lives of the session.
    pub(crate) life: String,
    pub(crate) about: RunInfo,
    /// Its lines, as far as they are known.
    pub(crate) lines: Vec<String>,
    pub(crate) limits: LogsConfig,
}

/// How long the run of this task usually takes.
pub(crate) type UsualDuration = (Arc<Task>, Millis);

/// How many usual durations may be queued for the event loop. Of further ones only the display is missing.
const MOST_DURATIONS: usize = 1000;

/// Starts a thread of the store.
pub(super) fn start_thread(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map(drop)
}

/// The stored runs of the last folder that was asked for, which are read once.
type KnownRuns = Option<(PathBuf, Vec<RunInfo>)>;

type ArchiveJob = Box<dyn FnOnce(&mut KnownRuns) + Send>;

/// A handle to the archiving thread, which does jobs in order.
#[derive(Debug)]
pub(crate) struct Archiver {
    jobs: mpsc::Sender<ArchiveJob>,
    usual: async_mpsc::Sender<UsualDuration>,
    n_queued: Arc<AtomicUsize>,
}

impl Archiver {
    /// Starts the thread. The receiver gets the durations that [`Archiver::find_usual`] asks for.
    pub(crate) fn start() -> io::Result<(Self, async_mpsc::Receiver<UsualDuration>)> {
        let (jobs, queue) = mpsc::channel::<ArchiveJob>();
        let (usual, found) = async_mpsc::channel(MOST_DURATIONS);
        start_thread("archiver", move || {
            let mut known = None;
            queue.iter().for_each(|job| job(&mut known));
        })?;
        let this = Self {
            jobs,
            usual,
            n_queued: Arc::default(),
        };
        Ok((this, found))
    }

    fn queue(&self, job: impl FnOnce(&mut KnownRuns) + Send + 'static) {
        if self.jobs.send(Box::new(job)).is_err() {
            tracing::error!("the archiver's thread has gone: no output is kept");
        }
    }

    /// Stores the output of a run. The receiver resolves when it is written; without it, a failure is logged.
    pub(crate) fn keep(&self, run: KeptRun) -> oneshot::Receiver<io::Result<()>> {
        let (reply, kept) = oneshot::channel();
        let n_bytes = run.lines.iter().map(String::len).sum();
        if self.n_queued.load(Ordering::Relaxed) + n_bytes > MOST_QUEUED {
            answer(reply, Err(io::Error::other("the disk is too slow")));
            return kept;
        }
        self.n_queued.fetch_add(n_bytes, Ordering::Relaxed);
        let n_queued = Arc::clone(&self.n_queued);
        self.queue(move |known| {
            let kept = keep(&run);
            if let Some((folder, runs)) = known
                && *folder == run.folder
                && kept.is_ok()
            {
                runs.push(run.about);
                let n_removed = runs.len().saturating_sub(run.limits.keep_runs);
                runs.drain(..n_removed);
            }
            n_queued.fetch_sub(n_bytes, Ordering::Relaxed);
            answer(reply, kept);
        });
        kept
    }

    /// Reports how long the run of this task usually takes, by those in this folder, if that is known.
    pub(crate) fn find_usual(&self, folder: PathBuf, task: Arc<Task>) {
        let usual = self.usual.clone();
        self.queue(move |known| {
            let of_folder = known.take().filter(|(known, _)| *known == folder);
            let (_, runs) = known.insert(of_folder.unwrap_or_else(|| {
                let runs = list(&folder).unwrap_or_else(|error| {
                    tracing::warn!(%error, "could not read the stored runs");
                    Vec::new()
                });
                (folder, runs)
            }));
            if let Some(millis) = usual_duration(runs, &task.name, task.command.as_deref())
                && usual.try_send((task, millis)).is_err()
            {
                tracing::debug!("too many usual durations at once");
            }
        });
    }

    /// Resolves when everything queued is written.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel::<()>();
        self.queue(move |_| drop(done));
        drop(closed.await);
    }
}

fn answer(reply: oneshot::Sender<io::Result<()>>, kept: io::Result<()>) {
    if let Err(Err(error)) = reply.send(kept) {
        tracing::warn!(%error, "could not keep the output of a run");
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use serde_json::json;

    use super::*;

    const LIMITS: LogsConfig = LogsConfig {
        keep_lines: 100,
        keep_runs: 10,
        keep_bytes: 1 << 20,
    };

    fn about(window: &str, name: &str, run: u32) -> RunInfo {
        let about = json!({"windowId": window, "windowName": name, "run": run, "exitCode": 0});
        serde_json::from_value(about).unwrap()
    }

    fn lines(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("line {i}")).collect()
    }

    fn keep(
        folder: &Path,
        life: &str,
        about: &RunInfo,
        lines: &[String],
        limits: LogsConfig,
    ) -> io::Result<()> {
        super::keep(&KeptRun {
            folder: folder.to_owned(),
            life: life.to_owned(),
            about: about.clone(),
            lines: lines.to_vec(),
            limits,
        })
    }

    #[test]
    fn a_run_is_found_by_name_and_by_id() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("runs");
        assert_eq!(find(&folder, "api", Some(1)).unwrap(), None);
        keep(&folder, "a", &about("@1", "api", 1), &lines(3), LIMITS).unwrap();
        keep(&folder, "a", &about("@1", "api", 2), &lines(2), LIMITS).unwrap();
        let kept = find(&folder, "api", Some(1)).unwrap().unwrap();
        assert_eq!((kept.lines, kept.about.run), (lines(3), 1));
        assert_eq!(
            find(&folder, "@1", Some(2)).unwrap().unwrap().lines,
            lines(2)
        );
        assert_eq!(find(&folder, "api", Some(3)).unwrap(), None);
        assert_eq!(find(&folder, "ap", Some(1)).unwrap(), None);
    }

    /// File times can be coarse, and the clock may be set back.
    #[test]
    fn the_oldest_go_first_whatever_the_clock() {
        let year = Duration::from_secs(366 * 24 * 3600);
        let limits = LogsConfig {
            keep_lines: 2,
            keep_runs: 2,
            ..LIMITS
        };
        for first in [SystemTime::UNIX_EPOCH, SystemTime::now() + year] {
            let dir = tempfile::tempdir().unwrap();
            for run in 1..=6 {
                keep(dir.path(), "a", &about("@1", "api", run), &lines(5), limits).unwrap();
                let found = |run| find(dir.path(), "api", Some(run)).unwrap();
                assert_eq!(found(run).unwrap().lines, ["line 3", "line 4"]);
                assert_eq!(found(run - 1).is_some(), run > 1, "{run}");
                assert!(run < 3 || found(run - 2).is_none(), "{run}");
                if run < 3 {
                    let path = dir.path().join(format!("a-1-{run}.log"));
                    let file = fs::File::options().write(true).open(path).unwrap();
                    file.set_modified(first + year * run).unwrap();
                }
            }
        }
    }

    #[test]
    fn of_a_long_output_the_first_and_the_last_lines_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let limits = LogsConfig {
            keep_lines: 10,
            ..LIMITS
        };
        let check = |n, gap_after, expected: &str, expected_gap| {
            let about = RunInfo {
                gap_after,
                ..about("@1", "api", 1)
            };
            keep(dir.path(), "a", &about, &lines(n), limits).unwrap();
            let kept = find(dir.path(), "api", Some(1)).unwrap().unwrap();
            let kept_lines = kept.lines.join(" ").replace("line ", "");
            assert_eq!(
                (kept_lines.as_str(), kept.about.gap_after),
                (expected, expected_gap)
            );
        };
        check(4, None, "0 1 2 3", None);
        check(4, Some(2), "0 1 2 3", Some(2));
        check(20, None, "0 1 12 13 14 15 16 17 18 19", Some(2));
        check(20, Some(1), "0 11 12 13 14 15 16 17 18 19", Some(1));
        check(20, Some(5), "0 1 12 13 14 15 16 17 18 19", Some(2));
        // The first line is not the first one of the run.
        check(20, Some(0), "10 11 12 13 14 15 16 17 18 19", Some(0));
    }

    fn timed(command: Option<&str>, millis: Millis, exit_code: Option<i32>) -> RunInfo {
        RunInfo {
            current_command: command.map(str::to_owned),
            started_at: Some(1000),
            ended_at: Some(1000 + millis),
            exit_code,
            ..about("@1", "tests", 1)
        }
    }

    #[test]
    fn two_successful_runs_of_the_same_command_make_a_usual_duration() {
        let make = Some("make test");
        let mut all = vec![
            timed(make, 40_000, Some(0)),
            timed(make, 100, Some(2)),
            timed(make, 7, None),
            timed(Some("make bench"), 900_000, Some(0)),
            // Somebody ended it.
            RunInfo {
                reason: Some("userKilled".to_owned()),
                ..timed(make, 7_000, Some(0))
            },
        ];
        assert_eq!(usual_duration(&all, "tests", make), None);
        all.push(timed(make, 38_000, Some(0)));
        assert_eq!(usual_duration(&all, "tests", make), Some(40_000));
        all.push(timed(make, 50_000, Some(0)));
        assert_eq!(usual_duration(&all, "tests", make), Some(40_000));
        assert_eq!(usual_duration(&all, "tests", Some("make bench")), None);
        assert_eq!(usual_duration(&all, "test", make), None);
        // A command that is not known may be any.
        assert_eq!(usual_duration(&all, "tests", None), Some(50_000));
        // The last runs count.
        let mut all = vec![timed(None, 1, Some(0)); 2];
        all.extend(vec![timed(None, 5000, Some(0)); LAST]);
        assert_eq!(usual_duration(&all, "tests", None), Some(5000));
        let mut unknown = timed(None, 5, Some(0));
        unknown.started_at = None;
        all.push(unknown);
        assert_eq!(usual_duration(&all, "tests", None), Some(5000));
    }
}
