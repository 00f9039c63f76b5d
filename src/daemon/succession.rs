//! When a daemon makes room for one of a newer version: an update takes effect by itself where
//! no client notices.

use crate::model::text::counted;
use crate::model::{Error, ErrorKind};
use crate::wire::is_older;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What would be interrupted if a daemon stopped now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Usage {
    /// Whether a command has started the daemon. One that was started by hand, or as a service, has
    /// options that its successor would not have.
    pub(super) is_autostarted: bool,
    /// Waits in progress.
    pub(super) waits: usize,
    /// Readers of the live feed.
    pub(super) readers: usize,
    /// Requests that have not been answered, including output streams.
    pub(super) requests: usize,
    /// Whether gathered events are about to be delivered.
    pub(super) has_delivery: bool,
}

/// Returns why the daemon does not make room for a successor of this version; `None` when it does.
pub(super) fn refusal(successor: &str, usage: &Usage) -> Option<Error> {
    if !is_older(VERSION, successor) {
        let why = format!("the daemon is version {VERSION}, which is not older");
        return Some(Error::new(ErrorKind::Version, why));
    }
    let why = if !usage.is_autostarted {
        "it was not started by a command".to_owned()
    } else if usage.waits > 0 {
        format!("it serves {}", counted(usage.waits, "wait"))
    } else if usage.readers > 0 {
        format!("it serves {}", counted(usage.readers, "reader"))
    } else if usage.requests > 0 {
        format!("it serves {}", counted(usage.requests, "request"))
    } else if usage.has_delivery {
        "it has events to deliver".to_owned()
    } else {
        return None;
    };
    Some(Error::failed(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(change: impl FnOnce(&mut Usage), expected: Option<&str>) {
        let mut usage = Usage {
            is_autostarted: true,
            ..Usage::default()
        };
        change(&mut usage);
        let refused = refusal("999.0.0", &usage).map(|refusal| refusal.message);
        assert_eq!(refused.as_deref(), expected, "{usage:?}");
    }

    #[test]
    fn a_daemon_makes_room_when_no_client_notices() {
        check(|_| (), None);
        check(|usage| usage.waits = 1, Some("it serves 1 wait"));
        check(|usage| usage.readers = 2, Some("it serves 2 readers"));
        check(|usage| usage.requests = 1, Some("it serves 1 request"));
        check(
            |usage| usage.has_delivery = true,
            Some("it has events to deliver"),
        );
        let by_hand = "it was not started by a command";
        check(|usage| usage.is_autostarted = false, Some(by_hand));
    }

    #[test]
    fn only_a_newer_version_takes_over() {
        let usage = Usage {
            is_autostarted: true,
            ..Usage::default()
        };
        for version in [VERSION, "0.0.1", "odd", ""] {
            let refusal = refusal(version, &usage).expect("it is refused");
            assert_eq!(refusal.kind, ErrorKind::Version, "{version}");
        }
    }
}
