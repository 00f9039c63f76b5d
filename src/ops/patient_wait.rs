//! Waits that go on while the task asks for input, and when the daemon ends.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::lost_daemons::LostDaemons;
use super::wait::wait;
use crate::client::DaemonClient;
use crate::model::{Condition, Error, NextRestart, WaitOutcome, whole_millis};
use crate::wire::{WaitRequest, WaitResult};

/// How long a restart that is due may take until its run is there. Asked again, it says so.
const RESTARTING: Duration = Duration::from_millis(50);

/// What is reported while a task is waited for.
#[derive(Debug)]
pub(crate) enum WaitNews<'a> {
    /// It asks for input. Each question is reported once.
    Asks(&'a WaitResult),
    /// The daemon has ended. The wait goes on with the next one.
    DaemonEnded,
}

pub(super) struct PatientWait<'a> {
    deadline: Option<Instant>,
    /// How many of the last lines of a failed run are wanted.
    tail: usize,
    report: &'a dyn Fn(WaitNews<'_>),
    /// The last question that was reported.
    reported: Option<String>,
    /// The question that the task waits at.
    pub(super) asks: Option<String>,
    lost: LostDaemons,
}

impl<'a> PatientWait<'a> {
    pub(super) fn new(
        deadline: Option<Instant>,
        tail: usize,
        report: &'a dyn Fn(WaitNews<'_>),
    ) -> Self {
        Self {
            deadline,
            tail,
            report,
            reported: None,
            asks: None,
            lost: LostDaemons::default(),
        }
    }

    /// Waits for the conditions of the request. `begun` is called when the wait has begun, if the request
    /// asks for that.
    ///
    /// A wait for a text also ends with [`WaitOutcome::Input`] when the task asks for input, and
    /// with [`WaitOutcome::Changed`] when it may have got its answer: what was written until the next
    /// wait begins has to be read.
    pub(super) async fn wait(
        &mut self,
        daemon: &mut DaemonClient,
        request: WaitRequest,
        begun: impl FnOnce(),
    ) -> Result<WaitResult, Error> {
        let is_text = |condition: &Condition| matches!(condition, Condition::Text(_));
        let is_for_text = request.conditions.iter().any(is_text);
        let mut begun = Some(begun);
        loop {
            // An answer makes the terminal show something.
            let news = match self.asks {
                Some(_) => Condition::Change,
                None => Condition::Input,
            };
            let mut conditions = request.conditions.clone();
            conditions.push(news);
            let asked = WaitRequest {
                conditions,
                timeout_ms: self.left().map(whole_millis),
                through_prompts: true,
                tail: Some(self.tail),
                says_when_it_begins: request.says_when_it_begins && begun.is_some(),
                ..request.clone()
            };
            let begin = begun.take();
            let begin = || {
                if let Some(begun) = begin {
                    begun();
                }
            };
            let result = wait(daemon, asked, begin).await?;
            let is_news = matches!(result.outcome, WaitOutcome::Input | WaitOutcome::Changed);
            if result.outcome == WaitOutcome::Input {
                if self.reported != result.line {
                    (self.report)(WaitNews::Asks(&result));
                }
                self.reported.clone_from(&result.line);
                self.asks = Some(result.line.clone().unwrap_or_default());
            } else if result.outcome != WaitOutcome::Timeout {
                self.asks = None;
            }
            if is_for_text || !is_news {
                return Ok(result);
            }
        }
    }

    /// Whether the wait goes on after this error: the daemon has ended, and there will be another one.
    pub(super) fn goes_on_after(&mut self, error: &Error) -> bool {
        if !self.lost.goes_on_after(error) {
            return false;
        }
        self.asks = None;
        (self.report)(WaitNews::DaemonEnded);
        true
    }

    /// Waits until a restart is due. Returns whether there was time for it.
    pub(super) async fn sleep_until(&self, restart: NextRestart) -> bool {
        let pause = Duration::from_millis(restart.in_ms).max(RESTARTING);
        let left = self.left().unwrap_or(pause);
        if left.is_zero() {
            return false;
        }
        sleep(pause.min(left)).await;
        true
    }

    /// Returns how much time is left, if there is a limit.
    pub(super) fn left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }
}
