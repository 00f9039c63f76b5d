//! Reports at once when processes end, whoever their parents are.
//!
//! A pidfd becomes readable when its process ends. All pidfds are in one epoll, on which one thread
//! sleeps: idle processes cost nothing, and the exit status is read before the parent has had time
//! to reap the process. macOS and the BSDs have a kqueue in place of both, which does not know the exit
//! status. Where there is neither, nothing is reported here, and tmux's hooks have to.

use std::collections::BTreeMap;
use std::io;

use tokio::sync::mpsc;

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
    sleeper: system::WatchThread,
    ended: mpsc::UnboundedReceiver<ProcessExit>,
    /// Processes that had ended before they could be watched.
    ended_before: Vec<ProcessExit>,
    watched: BTreeMap<u32, system::WatchedPid>,
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
        let sleeper = system::WatchThread::start(sender)?;
        Ok(Self {
            sleeper,
            ended,
            ended_before: Vec::new(),
            watched: BTreeMap::new(),
        })
    }

    /// Watches exactly these processes from now on. `pids` is in ascending order.
    pub(crate) fn watch(&mut self, pids: &[u32]) {
        if self.watched.keys().eq(pids) {
            return;
        }
        self.watched
            .retain(|pid, _| pids.binary_search(pid).is_ok());
        for &pid in pids {
            if self.watched.contains_key(&pid) {
                continue;
            }
            match self.sleeper.add(pid) {
                Ok(watched) => {
                    self.watched.insert(pid, watched);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.watched.insert(pid, system::WatchedPid::default());
                    self.ended_before.push(ProcessExit { pid, exit: None });
                }
                Err(error) => tracing::debug!(pid, %error, "could not watch a process"),
            }
        }
    }

    /// Returns the next process that has ended. Each is returned once.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> ProcessExit {
        if let Some(ended) = self.ended_before.pop() {
            return ended;
        }
        match self.ended.recv().await {
            Some(ended) => ended,
            // The thread is gone: looks have to notice.
            None => std::future::pending().await,
        }
    }

    /// Returns all processes that have ended by now, without waiting.
    pub(crate) fn take(&mut self) -> Vec<ProcessExit> {
        let mut all = std::mem::take(&mut self.ended_before);
        while let Ok(ended) = self.ended.try_recv() {
            all.push(ended);
        }
        all
    }
}

#[cfg(linux)]
mod system {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::sync::Arc;
    use std::thread;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::sync::mpsc;

    use super::ProcessExit;
    use crate::process::exit_of_zombie;

    /// No process has this number: it means "stop".
    const STOP: u64 = 0;

    /// The thread needs almost no stack.
    const STACK: usize = 64 * 1024;

    /// A process in the epoll. Dropping it closes the pidfd, which removes it from the epoll.
    #[derive(Debug, Default)]
    pub(super) struct WatchedPid {
        _pidfd: Option<OwnedFd>,
    }

    #[derive(Debug)]
    pub(super) struct WatchThread {
        epoll: Arc<OwnedFd>,
        stop: OwnedFd,
    }

    impl WatchThread {
        pub(super) fn start(ended: mpsc::UnboundedSender<ProcessExit>) -> io::Result<Self> {
            let epoll = Arc::new(epoll::create(CreateFlags::CLOEXEC)?);
            let stop = eventfd(0, EventfdFlags::CLOEXEC)?;
            epoll::add(&epoll, &stop, EventData::new_u64(STOP), EventFlags::IN)?;
            let sleeping = Arc::clone(&epoll);
            thread::Builder::new()
                .name("process-ends".to_owned())
                .stack_size(STACK)
                .spawn(move || sleep(&sleeping, &ended))?;
            Ok(Self { epoll, stop })
        }

        pub(super) fn add(&self, pid: u32) -> io::Result<WatchedPid> {
            let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let pidfd = pidfd_open(known.ok_or(Errno::INVAL)?, PidfdFlags::empty());
            let pidfd = pidfd.map_err(|errno| match errno {
                Errno::SRCH => io::Error::from(io::ErrorKind::NotFound),
                errno => errno.into(),
            })?;
            // One-shot: a process ends once, and must not wake the thread repeatedly.
            let flags = EventFlags::IN | EventFlags::ONESHOT;
            epoll::add(
                &self.epoll,
                &pidfd,
                EventData::new_u64(u64::from(pid)),
                flags,
            )?;
            Ok(WatchedPid {
                _pidfd: Some(pidfd),
            })
        }
    }

    impl Drop for WatchThread {
        fn drop(&mut self) {
            if let Err(error) = rustix::io::write(&self.stop, &1_u64.to_ne_bytes()) {
                tracing::debug!(%error, "a thread stays until the program ends");
            }
        }
    }

    fn sleep(epoll: &OwnedFd, ended: &mpsc::UnboundedSender<ProcessExit>) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            match epoll::wait(epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "processes that end are no longer noticed at once");
                    return;
                }
            }
            for event in &events {
                let Ok(pid @ 1..) = u32::try_from(event.data.u64()) else {
                    return;
                };
                if ended
                    .send(ProcessExit {
                        pid,
                        exit: exit_of_zombie(pid),
                    })
                    .is_err()
                {
                    return;
                }
            }
        }
    }
}

#[cfg(kqueue)]
mod system {
    use std::io;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::thread;

    use nix::sys::event::Kqueue;
    use rustix::io::Errno;
    use tokio::sync::mpsc;

    use super::super::kqueue;
    use super::ProcessExit;

    /// A process in the queue. Dropping it removes it.
    #[derive(Debug, Default)]
    pub(super) struct WatchedPid(Option<(Arc<Kqueue>, u32)>);

    impl Drop for WatchedPid {
        fn drop(&mut self) {
            if let Some((queue, pid)) = &self.0 {
                kqueue::remove_process(queue, *pid);
            }
        }
    }

    #[derive(Debug)]
    pub(super) struct WatchThread {
        queue: Arc<Kqueue>,
        /// Closing it ends the thread.
        _stop: UnixStream,
    }

    impl WatchThread {
        pub(super) fn start(ended: mpsc::UnboundedSender<ProcessExit>) -> io::Result<Self> {
            let queue = Arc::new(kqueue::new()?);
            let (stop, stopped) = UnixStream::pair()?;
            kqueue::add_file(&queue, &stopped)?;
            let sleeping = Arc::clone(&queue);
            thread::Builder::new()
                .name("process-ends".to_owned())
                .spawn(move || {
                    sleep(&sleeping, &ended);
                    drop(stopped);
                })?;
            Ok(Self { queue, _stop: stop })
        }

        pub(super) fn add(&self, pid: u32) -> io::Result<WatchedPid> {
            kqueue::add_process(&self.queue, pid).map_err(|errno| match errno {
                Errno::SRCH => io::Error::from(io::ErrorKind::NotFound),
                errno => errno.into(),
            })?;
            Ok(WatchedPid(Some((Arc::clone(&self.queue), pid))))
        }
    }

    fn sleep(queue: &Kqueue, ended: &mpsc::UnboundedSender<ProcessExit>) {
        loop {
            match kqueue::next_end(queue) {
                Ok(Some(pid)) => {
                    if ended.send(ProcessExit { pid, exit: None }).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(Errno::INTR) => {}
                Err(error) => {
                    tracing::error!(%error, "processes that end are no longer noticed at once");
                    return;
                }
            }
        }
    }
}

#[cfg(not(any(linux, kqueue)))]
mod system {
    use std::io;

    use tokio::sync::mpsc;

    use super::ProcessExit;

    #[derive(Debug, Default)]
    pub(super) struct WatchedPid;

    #[derive(Debug)]
    pub(super) struct WatchThread {
        _ended: mpsc::UnboundedSender<ProcessExit>,
    }

    impl WatchThread {
        pub(super) fn start(ended: mpsc::UnboundedSender<ProcessExit>) -> io::Result<Self> {
            Ok(Self { _ended: ended })
        }

        pub(super) fn add(&self, _pid: u32) -> io::Result<WatchedPid> {
            Ok(WatchedPid)
        }
    }
}

#[cfg(all(test, linux))]
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
