//! How many daemons may end under a request before the command gives up.

use std::path::PathBuf;

use crate::model::{Error, ErrorKind};

/// The maximum number of daemons that may end before they answer. A request that makes the daemon
/// crash would otherwise be repeated for ever.
const MOST_LOST: usize = 5;

/// How many daemons have ended before they answered.
#[derive(Debug, Default)]
pub(super) struct LostDaemons(usize);

impl LostDaemons {
    /// Whether a request that can be repeated is given to the next daemon after this error: its daemon
    /// has ended, and the next one may stay.
    pub(super) fn goes_on_after(&mut self, error: &Error) -> bool {
        if error.kind != ErrorKind::DaemonEnded || self.0 >= MOST_LOST {
            return false;
        }
        self.0 += 1;
        true
    }

    /// The same for a request that can be repeated. `log` is the daemon's log.
    ///
    /// # Errors
    ///
    /// The error that ends the command: too many daemons have ended, or it is another one.
    pub(super) fn repeat_after(
        &mut self,
        error: Error,
        log: impl FnOnce() -> PathBuf,
    ) -> Result<(), Error> {
        if self.goes_on_after(&error) {
            return Ok(());
        }
        if error.kind == ErrorKind::DaemonEnded {
            let times = self.0 + 1;
            return Err(Error::failed(format!(
                "{times} daemons in a row ended before they answered"
            ))
            .with_hint(format!(
                "the request may make them crash: the end of {} says more",
                log().display()
            )));
        }
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Error {
        Error::new(ErrorKind::DaemonEnded, "the daemon ended")
    }

    #[test]
    fn a_request_outlives_a_few_daemons_and_no_other_error() {
        let mut lost = LostDaemons::default();
        let left = ended();
        for _ in 0..MOST_LOST {
            assert!(!lost.goes_on_after(&Error::failed("no")));
            assert!(lost.goes_on_after(&left));
        }
        assert!(!lost.goes_on_after(&left));
    }

    #[test]
    fn a_request_under_which_every_daemon_ends_fails_and_names_the_log() {
        let mut lost = LostDaemons::default();
        let mut repeat = || lost.repeat_after(ended(), || "/s/daemon.log".into());
        for _ in 0..MOST_LOST {
            repeat().unwrap();
        }
        let error = repeat().unwrap_err();
        assert_eq!(
            error.to_string(),
            "6 daemons in a row ended before they answered"
        );
        let hint = error.hint.unwrap();
        assert!(hint.contains("/s/daemon.log"), "{hint}");
    }
}
