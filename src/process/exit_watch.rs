//! Reports at once when processes end, whoever their parents are.
//!
//! The descriptor of a process becomes readable when it ends. One thread waits for all of them: idle
//! processes cost nothing, and the exit status is read before the parent has had time to reap the
//! process. Only Linux shows that status. Where there are no such descriptors, nothing is reported here,
//! and tmux's hooks have to.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::io::Errno;
use tokio::net::unix::pipe;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::{exit_of_zombie, stat};
use crate::model::Exit;

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
    thread: Handle,
    /// Dropping it ends the thread.
    _stop: oneshot::Sender<()>,
    ended: mpsc::UnboundedReceiver<ProcessExit>,
    sender: mpsc::UnboundedSender<ProcessExit>,
    /// What waits for the end of each process; `None` where nothing can, or it had ended before.
    watched: BTreeMap<u32, Option<AbortHandle>>,
}

impl ExitWatch {
    /// Returns a watch without processes.
    pub(crate) fn new() -> io::Result<Self> {
        // Unbounded, but each watched process is sent at most once.
        let (sender, ended) = mpsc::unbounded_channel();
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        thread::Builder::new()
            .name("process-ends".to_owned())
            .spawn(move || drop(runtime.block_on(stopped)))?;
        Ok(Self {
            thread: handle,
            _stop: stop,
            ended,
            sender,
            watched: BTreeMap::new(),
        })
    }

    /// Watches exactly these processes from now on. `pids` is in ascending order.
    pub(crate) fn watch(&mut self, pids: &[u32]) {
        if self.watched.keys().eq(pids) {
            return;
        }
        let is_left = |pid: &u32, _: &mut _| pids.binary_search(pid).is_err();
        for (_, wait) in self.watched.extract_if(.., is_left) {
            wait.iter().for_each(AbortHandle::abort);
        }
        for &pid in pids {
            let Entry::Vacant(place) = self.watched.entry(pid) else {
                continue;
            };
            match stat::open(pid) {
                Ok(file) => {
                    let wait = report_end(pid, file, self.sender.clone());
                    place.insert(Some(self.thread.spawn(wait).abort_handle()));
                }
                Err(Errno::SRCH) => {
                    // The receiver is ours.
                    drop(self.sender.send(ProcessExit { pid, exit: None }));
                    place.insert(None);
                }
                Err(Errno::NOSYS) => drop(place.insert(None)),
                Err(error) => tracing::debug!(pid, %error, "could not watch a process"),
            }
        }
    }

    /// Returns the next process that has ended. Each is returned once. Nothing is lost when the future is
    /// dropped.
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

/// Reports the end of the process of this descriptor.
async fn report_end(pid: u32, file: OwnedFd, ended: mpsc::UnboundedSender<ProcessExit>) {
    let over = async {
        // It is waited for like a pipe.
        pipe::Receiver::from_owned_fd_unchecked(file)?
            .readable()
            .await
    };
    match over.await {
        // Nobody watches any more if it is not taken.
        Ok(()) => drop(ended.send(ProcessExit {
            pid,
            exit: exit_of_zombie(pid),
        })),
        Err(error) => tracing::error!(pid, %error, "the end of a process is not noticed at once"),
    }
}

#[cfg(linux)]
#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;
    use crate::model::Signal;

    #[tokio::test]
    async fn an_end_is_reported_once_with_its_exit() {
        let mut ends = ExitWatch::new().unwrap();
        // They are not reaped until the end of the test: zombies keep their exit status.
        let mut exits = Command::new("sh");
        exits.args(["-c", "read x; exit 7"]).stdin(Stdio::piped());
        let mut exits = exits.spawn().unwrap();
        let mut killed = Command::new("sleep").arg("1000").spawn().unwrap();
        // One that had ended before.
        let mut reaped = Command::new("true").spawn().unwrap();
        reaped.wait().unwrap();
        let ended = |pid, exit| ProcessExit { pid, exit };
        ends.watch(&[reaped.id()]);
        assert_eq!(ends.take(), [ended(reaped.id(), None)]);
        let mut pids = [exits.id(), killed.id(), reaped.id()];
        pids.sort_unstable();
        ends.watch(&pids);
        assert_eq!(ends.take(), []);

        drop(exits.stdin.take());
        let expected = ended(exits.id(), Some(Exit::with_code(7)));
        assert_eq!(ends.next().await, expected);
        killed.kill().unwrap();
        let by_kill = Exit::with_signal(Signal::parse("KILL"));
        assert_eq!(ends.next().await, ended(killed.id(), Some(by_kill)));
        ends.watch(&pids);
        assert_eq!(ends.take(), []);
        exits.wait().unwrap();
        killed.wait().unwrap();
    }
}
