//! A call of a tool: who makes it, how its progress is reported, and for how long it may take.

use std::convert::Infallible;
use std::future::{Future, pending};
use std::time::Duration;

use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::{Peer, RoleServer};
use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout};

use super::answer::ToolAnswer;
use super::arguments::Seconds;
use crate::ops::Caller;

/// How often a call that waits reports its progress. Clients end calls that are silent for long.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// How long a call that waits for nothing may take.
const ANSWERS_WITHIN: Duration = Duration::from_secs(20);

/// How long a call waits if it does not say: clients end a call after a minute.
pub(super) const USUAL_WAIT: Duration = Duration::from_secs(50);

/// The longest time that a call waits.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// A call.
pub(super) struct Call {
    pub(super) caller: Caller,
    /// Where its progress is reported, if the client wants that.
    pub(super) progress: Option<Progress>,
    /// Whether the client has closed the connection.
    pub(super) closed: watch::Receiver<bool>,
    /// Whether the client takes a handle for a result that comes later.
    pub(super) takes_handles: bool,
}

pub(super) struct Progress {
    pub(super) peer: Peer<RoleServer>,
    pub(super) token: ProgressToken,
}

impl Call {
    /// Waits for `work`, and reports progress meanwhile. Without the client nobody needs the result:
    /// the wait ends.
    pub(super) async fn attend<T>(
        &self,
        what: &str,
        limit: Option<Duration>,
        work: impl Future<Output = T>,
    ) -> Result<T, ToolAnswer> {
        tokio::select! {
            biased;
            result = work => Ok(result),
            () = self.client_is_gone() => Err(ToolAnswer::refused("the client has gone", None)),
            never = self.report(what, limit) => match never {},
        }
    }

    async fn client_is_gone(&self) {
        let mut closed = self.closed.clone();
        // An error: the connection has ended.
        drop(closed.wait_for(|closed| *closed).await);
    }

    async fn report(&self, what: &str, limit: Option<Duration>) -> Infallible {
        let Some(Progress { peer, token }) = &self.progress else {
            return pending().await;
        };
        let begun = Instant::now();
        let mut ticks = interval(REPORT_EVERY);
        loop {
            ticks.tick().await;
            let elapsed = begun.elapsed().as_secs();
            #[expect(clippy::cast_precision_loss, reason = "seconds of one call are few")]
            let mut report = ProgressNotificationParam::new(token.clone(), elapsed as f64)
                .with_message(format!("{what}, {elapsed} s"));
            report.total = limit.map(|limit| limit.as_secs_f64());
            // A client that is gone is noticed elsewhere.
            drop(peer.notify_progress(report).await);
        }
    }
}

/// Ends work that should not take long, if daemon or tmux do not answer.
pub(super) async fn within_time<T>(
    work: impl Future<Output = Result<T, ToolAnswer>>,
) -> Result<T, ToolAnswer> {
    within(ANSWERS_WITHIN, work).await
}

/// The same within another time.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ToolAnswer>>,
) -> Result<T, ToolAnswer> {
    match timeout(limit, work).await {
        Ok(result) => result,
        Err(_) => Err(ToolAnswer::refused(
            "tmux or the daemon of tmux-task does not answer",
            Some("ask the user to run `tmux-task doctor`: it says which, and what to do"),
        )),
    }
}

/// How long a wait may take, and who said so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// As the caller said.
    Given(Duration),
    /// The caller did not say.
    Usual,
    /// The caller said more than a call may take.
    Longest,
    /// There is none: a handle is polled.
    None,
}

impl Limit {
    /// Returns the limit of a call that is answered when the wait has ended.
    pub(super) fn of_call(given: Option<Seconds>) -> Self {
        match given.map(Seconds::to_duration) {
            None => Self::Usual,
            Some(given) if given > LONGEST_WAIT => Self::Longest,
            Some(given) => Self::Given(given),
        }
    }

    /// Returns the limit of a call that is answered with a handle.
    pub(super) fn of_handle(given: Option<Seconds>) -> Self {
        given.map_or(Self::None, |given| Self::Given(given.to_duration()))
    }

    pub(super) fn time(self) -> Option<Duration> {
        match self {
            Self::Given(time) => Some(time),
            Self::Usual => Some(USUAL_WAIT),
            Self::Longest => Some(LONGEST_WAIT),
            Self::None => None,
        }
    }

    /// Returns what to say about the limit when it was reached.
    pub(super) fn note(self) -> &'static str {
        match self {
            Self::Given(_) | Self::None => "",
            Self::Usual => " (the default; timeout_seconds may be up to 600)",
            Self::Longest => " (the longest time that one call waits)",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(closed: watch::Receiver<bool>) -> Call {
        Call {
            caller: Caller::default(),
            progress: None,
            closed,
            takes_handles: false,
        }
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_client() {
        let (sender, closed) = watch::channel(false);
        let call = call(closed);
        assert_eq!(call.attend("x", None, async { 3 }).await, Ok(3));
        let work = call.attend("x", None, pending::<()>());
        let close = async { sender.send(true).unwrap() };
        let (result, ()) = tokio::join!(work, close);
        assert!(result.unwrap_err().is_error);
    }

    #[tokio::test(start_paused = true)]
    async fn what_does_not_answer_is_an_error() {
        let silent = within_time(pending::<Result<(), ToolAnswer>>()).await;
        assert!(silent.unwrap_err().text.contains("tmux-task doctor"));
    }

    #[test]
    fn a_call_has_a_ceiling_and_a_handle_has_none() {
        let seconds = |seconds: f64| Some(Seconds::try_from(seconds).unwrap());
        let time = |limit: Limit| limit.time().map(|time| time.as_secs());
        assert_eq!(time(Limit::of_call(None)), Some(50));
        assert_eq!(time(Limit::of_call(seconds(7.0))), Some(7));
        assert_eq!(time(Limit::of_call(seconds(7000.0))), Some(600));
        assert!(Limit::of_call(seconds(7000.0)).note().contains("longest"));
        assert_eq!(time(Limit::of_handle(None)), None);
        assert_eq!(time(Limit::of_handle(seconds(7000.0))), Some(7000));
    }
}
