//! The daemon's limit on open descriptors.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limits of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Descriptors {
    /// The limit at our start, for the processes that we start; `None` means unlimited.
    pub(super) given: Option<u64>,
    /// The present limit; `None` means unlimited.
    pub(super) ours: Option<u64>,
}

/// Raises this process's limit on descriptors to the hard limit. The soft limit is usually low for
/// programs that use `select`. Each task costs a daemon one descriptor and each connection one or
/// two.
pub(super) fn raise() -> Descriptors {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let ours = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => maximum,
        Err(error) => {
            tracing::debug!(%error, "the limit of descriptors stays");
            current
        }
    };
    Descriptors {
        given: current,
        ours,
    }
}

impl Descriptors {
    /// Returns how many connections may be open at once. The other half is for the readers' files,
    /// the tasks' processes and tmux.
    pub(super) fn most_connections(self) -> usize {
        let most = self.ours.map(|limit| usize::try_from(limit / 2));
        most.map_or(usize::MAX, |most| most.unwrap_or(usize::MAX).max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_for_the_rest() {
        let most = |ours| Descriptors { given: None, ours }.most_connections();
        assert_eq!(most(Some(1024)), 512);
        assert_eq!(most(Some(1)), 1);
        assert_eq!(most(None), usize::MAX);
    }
}
