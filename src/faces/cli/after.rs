//! `run --after`: waits for the tasks that another one starts after.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::context::{self, Context};
use super::failure::{Failure, OrFail};
use super::{output, wait};
use crate::model::{ErrorKind, limit_words};
use crate::ops::{self, Success, WaitNews};

/// Waits until all these tasks have succeeded. `what` is the command, `task` the one that starts then.
/// Of a run that has failed, the last `tail` lines are printed.
///
/// # Errors
///
/// As soon as one of them has failed, when the time is over, and when one does not exist.
pub(super) async fn wait_for(
    context: &Context,
    what: &str,
    task: &str,
    names: &[String],
    timeout: Option<Duration>,
    tail: usize,
) -> Result<(), Failure> {
    if names.iter().any(|name| name == task) {
        let why = format!("task `{task}` cannot start after itself");
        return Err(Failure::new(ErrorKind::Usage, what, why));
    }
    let mut session = context.given(what)?;
    for name in names {
        ops::find(&mut session, name).await.or_fail(what)?;
    }
    let listed = names.join(", ");
    output::note(&format!("tmux-task: {what}: {task} waits for {listed}"));
    context.limit.wait(timeout);
    let deadline = timeout.map(|timeout| Instant::now() + timeout);
    let mut waits: FuturesUnordered<_> = names
        .iter()
        .map(|name| async move {
            let mut session = context.given(what)?;
            let report = |news: WaitNews<'_>| news_of(context, what, name, &news);
            let success = ops::wait_for_success(&mut session, name, deadline, tail, &report).await;
            Ok::<_, Failure>((name, success.or_fail(what)?))
        })
        .collect();
    let mut interrupts = context::interrupts(what)?;
    loop {
        let ended = tokio::select! {
            ended = waits.next() => ended,
            _ = interrupts.recv() => return Err(Failure::silent(ErrorKind::Interrupted)),
        };
        let Some(ended) = ended else { return Ok(()) };
        let not_started = format!("{task} was not started");
        match ended? {
            (_, Success::Yes) => {}
            (name, Success::No(failure)) => {
                output::tail(&failure.tail, Some(name));
                let why = format!("{not_started}: {name} {}", failure.why);
                return Err(Failure::new(ErrorKind::Impossible, what, why));
            }
            (name, Success::TimedOut(asks)) => {
                let limit = limit_words(timeout.unwrap_or_default());
                let asks = asks.map(|question| format!(": it asks for input: {question}"));
                let asks = asks.unwrap_or_default();
                let why = format!("{not_started}: {name} has not ended after {limit}{asks}");
                return Err(Failure::new(ErrorKind::TimedOut, what, why));
            }
        }
    }
}

/// Reports what happens to a task that another one starts after. `what` is the command.
pub(super) fn news_of(context: &Context, what: &str, name: &str, news: &WaitNews<'_>) {
    match news {
        WaitNews::Asks(result) => context.complain(wait::asks_meanwhile(what, name, result)),
        WaitNews::DaemonEnded => output::note(&format!(
            "tmux-task: {what}: the daemon ended; the wait for {name} goes on with another one"
        )),
    }
}
