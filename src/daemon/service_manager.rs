//! Messages to the service manager that started the daemon: that it is ready, what it does, that it
//! is alive. The protocol is that of `sd_notify(3)`: a datagram of `NAME=VALUE` lines.

use std::ffi::{OsStr, OsString};
#[cfg(linux)]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::text;

const MAX_STATUS_CHARS: usize = 500;

/// How long to wait for room in the queue of the service manager, which has it for ten messages unless
/// `net.unix.max_dgram_qlen` is changed. It shares the queue with all services.
const PATIENCE: Duration = Duration::from_millis(10);

/// The same for the message without which it ends the daemon.
const PATIENCE_WHEN_READY: Duration = Duration::from_secs(1);

/// A service manager that waits for messages of this process.
#[derive(Debug, Clone)]
pub(crate) struct ServiceManager {
    address: SocketAddr,
    /// How often it gets a sign of life: twice as often as it expects; `None` when it expects none.
    alive_every: Option<Duration>,
    /// When it gets the next sign of life: [`ServiceManager::send_due`] is due.
    pub(super) alive_at: Option<Instant>,
}

impl ServiceManager {
    /// Returns the service manager that the environment names. Only the process that it has started may
    /// speak to it: a process in the background was started by another one.
    pub(crate) fn from_environment(env: &dyn Fn(&str) -> Option<OsString>) -> Option<Self> {
        let address = address(&env("NOTIFY_SOCKET")?)?;
        let number = |name: &str| env(name)?.to_str()?.parse::<u64>().ok();
        // Set for one process, and inherited by others.
        let ours = u64::from(std::process::id());
        let is_for_us = number("WATCHDOG_PID").is_none_or(|pid| pid == ours);
        let watchdog = number("WATCHDOG_USEC").filter(|micros| is_for_us && *micros > 0);
        let alive_every = watchdog.map(|micros| Duration::from_micros(micros) / 2);
        Some(Self {
            address,
            alive_every,
            alive_at: alive_every.map(|_| Instant::now()),
        })
    }

    /// Sends a sign of life if that is due. To be called by the event loop, which works as long as it does.
    pub(super) fn send_due(&mut self, now: Instant) {
        if self.alive_at.is_some_and(|at| at <= now) {
            self.send("WATCHDOG=1", PATIENCE);
            self.alive_at = self.alive_every.map(|every| now + every);
        }
    }

    /// Says that the daemon listens and has taken its first look.
    pub(super) fn is_ready(&self) {
        self.send("READY=1", PATIENCE_WHEN_READY);
    }

    /// Says what is shown as the service's status. A session's name in it is untrusted, and a line end would
    /// be another message.
    pub(super) fn status(&self, status: &str) {
        let status = text::one_line(status.as_bytes(), MAX_STATUS_CHARS);
        self.send(&format!("STATUS={status}"), PATIENCE);
    }

    pub(super) fn is_stopping(&self) {
        self.send("STOPPING=1", PATIENCE);
    }

    /// Sends a message, which is lost if nobody listens or the queue stays full for so long.
    fn send(&self, message: &str, patience: Duration) {
        let sent = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(patience))?;
            socket.send_to_addr(message.as_bytes(), &self.address)
        });
        if let Err(error) = sent {
            tracing::debug!(%error, message, "the service manager does not take a message");
        }
    }
}

/// Reads `$NOTIFY_SOCKET`: a path, or a name that begins with `@` in place of a NUL byte.
fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_encoded_bytes() {
        [b'/', ..] => SocketAddr::from_pathname(name).ok(),
        #[cfg(linux)]
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(variables: &[(&str, &str)]) -> Option<ServiceManager> {
        ServiceManager::from_environment(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    fn alive_every(variables: &[(&str, &str)]) -> Option<Duration> {
        let socket = [("NOTIFY_SOCKET", "/run/notify")];
        named(&[&socket[..], variables].concat())?.alive_every
    }

    #[test]
    fn the_environment_names_a_service_manager() {
        assert!(named(&[]).is_none());
        assert!(named(&[("NOTIFY_SOCKET", "")]).is_none());
        assert!(named(&[("NOTIFY_SOCKET", "relative")]).is_none());
        assert!(named(&[("NOTIFY_SOCKET", "/run/notify")]).is_some());
        let is_linux = cfg!(linux);
        assert_eq!(named(&[("NOTIFY_SOCKET", "@notify")]).is_some(), is_linux);
    }

    #[test]
    fn signs_of_life_are_for_the_process_that_has_to_give_them() {
        let usec = ("WATCHDOG_USEC", "30000000");
        let ours = std::process::id().to_string();
        let every = Some(Duration::from_secs(15));
        assert_eq!(alive_every(&[usec]), every);
        assert_eq!(alive_every(&[usec, ("WATCHDOG_PID", &ours)]), every);
        assert_eq!(alive_every(&[usec, ("WATCHDOG_PID", "1")]), None);
        assert_eq!(alive_every(&[("WATCHDOG_USEC", "0")]), None);
        assert_eq!(alive_every(&[("WATCHDOG_USEC", "soon")]), None);
    }

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 100];
        let n = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..n]).into_owned()
    }

    #[test]
    fn messages_without_a_receiver_are_lost_and_a_full_queue_delays_nobody_for_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = named(&[("NOTIFY_SOCKET", path.to_str().unwrap())]).unwrap();
        manager.status("lost");
        assert_eq!(manager.alive_at, None);
        let socket = UnixDatagram::bind(&path).unwrap();
        manager.is_ready();
        assert_eq!(received(&socket), "READY=1");
        manager.status("a\nREADY=1\u{1b}[31m");
        assert_eq!(received(&socket), "STATUS=a READY=1");
        socket.set_nonblocking(true).unwrap();
        for _ in 0..20 {
            manager.send("WATCHDOG=1", Duration::from_micros(1));
        }
        manager.is_stopping();
        assert_eq!(received(&socket), "WATCHDOG=1");
    }
}
