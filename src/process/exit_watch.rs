//! Reports at once when processes end, whoever their parents are.
//!
//! The descriptor of a process becomes readable when it ends. One thread sleeps until one of them is: idle
//! processes cost nothing, and the exit status is read before the parent has had time to reap the
//! process. Only Linux shows that status. Where there are no such descriptors, nothing is reported here,
//! and tmux's hooks have to.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use tokio::sync::mpsc;

use super::{exit_of_zombie, stat};
use crate::model::Exit;

/// The thread needs almost no stack.
const STACK: usize = 64 * 1024;

/// A process that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProcessExit {
    pub pid: u32,
    /// How it ended, where the kernel still knew.
    pub exit: Option<Exit>,
}

/// Watches processes and reports when they end.
#[derive(Debug)]
pub(crate) struct ExitWatch {
    files: WatchedFiles,
    /// A byte makes the thread look at the files again; it ends when this is closed.
    wake: UnixStream,
    ended: mpsc::UnboundedReceiver<ProcessExit>,
    /// For processes that had ended before they could be watched.
    sender: mpsc::UnboundedSender<ProcessExit>,
    watched: BTreeSet<u32>,
}

/// The descriptors of watched processes that have not ended, by pid.
#[derive(Debug, Clone, Default)]
struct WatchedFiles(Arc<Mutex<BTreeMap<u32, Arc<OwnedFd>>>>);

impl WatchedFiles {
    /// Nothing that could panic is done while it is locked.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Arc<OwnedFd>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ExitWatch {
    /// Returns a watch without processes.
    ///
    /// # Errors
    ///
    /// When the system is out of descriptors or threads.
    pub(crate) fn new() -> io::Result<Self> {
        // Unbounded, but each watched process is sent at most once.
        let (sender, ended) = mpsc::unbounded_channel();
        let (wake, woken) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let files = WatchedFiles::default();
        let (watched, reporter) = (files.clone(), sender.clone());
        thread::Builder::new()
            .name("process-ends".to_owned())
            .stack_size(STACK)
            .spawn(move || sleep(&watched, &woken, &reporter))?;
        Ok(Self {
            files,
            wake,
            ended,
            sender,
            watched: BTreeSet::new(),
        })
    }

    /// Watches exactly these processes from now on. `pids` is in ascending order.
    pub(crate) fn watch(&mut self, pids: &[u32]) {
        if self.watched.iter().eq(pids) {
            return;
        }
        let is_wanted = |pid: &u32| pids.binary_search(pid).is_ok();
        self.watched.retain(is_wanted);
        let mut files = self.files.lock();
        files.retain(|pid, _| is_wanted(pid));
        for &pid in pids {
            if !self.watched.insert(pid) {
                continue;
            }
            match stat::open(pid) {
                Ok(file) => drop(files.insert(pid, Arc::new(file))),
                // The receiver is ours.
                Err(Errno::SRCH) => drop(self.sender.send(ProcessExit { pid, exit: None })),
                Err(Errno::NOSYS) => {}
                Err(error) => {
                    self.watched.remove(&pid);
                    tracing::debug!(pid, %error, "could not watch a process");
                }
            }
        }
        drop(files);
        // With a full buffer, the thread has enough to look at the files again.
        if let Err(error) = self.wake.write(&[0])
            && error.kind() != io::ErrorKind::WouldBlock
        {
            tracing::debug!(%error, "processes that end are not noticed at once");
        }
    }

    /// Returns the next process that has ended. Each is returned once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> ProcessExit {
        match self.ended.recv().await {
            Some(ended) => ended,
            // There is always a sender.
            None => std::future::pending().await,
        }
    }

    /// Returns all processes that have ended by now, without waiting.
    pub(crate) fn take(&mut self) -> Vec<ProcessExit> {
        std::iter::from_fn(|| self.ended.try_recv().ok()).collect()
    }
}

/// Reports the ends of processes until nobody watches any more.
fn sleep(files: &WatchedFiles, mut woken: &UnixStream, ended: &mpsc::UnboundedSender<ProcessExit>) {
    loop {
        // What is not watched any more stays open until the next round.
        let watched = files.lock().clone();
        let mut polled = vec![PollFd::new(woken, PollFlags::IN)];
        polled.extend(
            watched
                .values()
                .map(|file| PollFd::new(file, PollFlags::IN)),
        );
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => {
                tracing::error!(%error, "processes that end are no longer noticed at once");
                return;
            }
        }
        let mut are_ready = polled.iter().map(|polled| !polled.revents().is_empty());
        let is_woken = are_ready.next() == Some(true);
        for ((&pid, file), _) in watched.iter().zip(are_ready).filter(|(_, is)| *is) {
            let exit = exit_of_zombie(pid);
            // Another process may have the pid by now, and be watched.
            let mut files = files.lock();
            if files
                .get(&pid)
                .is_some_and(|known| Arc::ptr_eq(known, file))
            {
                files.remove(&pid);
            }
            drop(files);
            if ended.send(ProcessExit { pid, exit }).is_err() {
                return;
            }
        }
        if is_woken && woken.read(&mut [0; 64]).unwrap_or_default() == 0 {
            return;
        }
    }
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::model::Signal;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap()
    }

    #[test]
    fn an_end_is_reported_once_with_its_exit() {
        let mut ends = ExitWatch::new().unwrap();
        // They are not reaped until the end of the test: zombies keep their exit status.
        let mut exits = Command::new("sh")
            .args(["-c", "read x; exit 7"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut killed = Command::new("sleep").arg("1000").spawn().unwrap();
        let mut pids = [exits.id(), killed.id()];
        pids.sort_unstable();
        ends.watch(&pids);
        assert_eq!(ends.take(), []);

        drop(exits.stdin.take());
        let runtime = runtime();
        let first = runtime.block_on(ends.next());
        assert_eq!(
            first,
            ProcessExit {
                pid: exits.id(),
                exit: Some(Exit::with_code(7))
            }
        );
        killed.kill().unwrap();
        let second = runtime.block_on(ends.next());
        let by_kill = Exit::with_signal(Signal::parse("KILL"));
        assert_eq!(
            second,
            ProcessExit {
                pid: killed.id(),
                exit: Some(by_kill)
            }
        );
        ends.watch(&pids);
        assert_eq!(ends.take(), []);
        exits.wait().unwrap();
        killed.wait().unwrap();
    }

    #[test]
    fn a_process_that_had_ended_before_is_reported_too() {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let mut ends = ExitWatch::new().unwrap();
        ends.watch(&[child.id()]);
        assert_eq!(
            ends.take(),
            [ProcessExit {
                pid: child.id(),
                exit: None
            }]
        );
        ends.watch(&[child.id()]);
        assert_eq!(ends.take(), []);
    }
}
