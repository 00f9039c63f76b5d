//! A wait for a task that goes on with the next daemon when its own one ends.

use super::lost_daemons::LostDaemons;
use super::session::{SessionChoice, TaskSession};
use super::wait::wait;
use crate::client::DaemonClient;
use crate::model::{Condition, Error};
use crate::wire::{WaitRequest, WaitResult};

/// Waits like [`wait`], also while the daemon ends and another one takes over, if nothing can be
/// missed by that. `choice` is where to find the other one.
pub(crate) async fn wait_across_daemons(
    choice: &SessionChoice,
    mut daemon: DaemonClient,
    request: WaitRequest,
    begun: impl FnOnce(),
) -> Result<WaitResult, Error> {
    let mut begun = Some(begun);
    let mut lost = LostDaemons::default();
    loop {
        let begin = begun.take();
        let begin = || {
            if let Some(begun) = begin {
                begun();
            }
        };
        match wait(&mut daemon, request.clone(), begin).await {
            Err(error) if misses_nothing(&request) && lost.goes_on_after(&error) => {
                let mut session = TaskSession::named(choice)?;
                session.resolve_name().await?;
                let next = session.daemon_or_start().await?;
                daemon = next.ok_or_else(|| session.no_daemon())?;
            }
            result => return result,
        }
    }
}

/// Whether a wait that begins again misses nothing that was written meanwhile.
fn misses_nothing(request: &WaitRequest) -> bool {
    let needs_no_output = |condition: &Condition| {
        matches!(
            condition,
            Condition::Exit | Condition::Input | Condition::Listen { .. }
        )
    };
    let needs_output = !request.stops.is_empty() || !request.conditions.iter().all(needs_no_output);
    request.since.is_some() || !needs_output
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_wait_without_a_cursor_begins_again_only_if_it_needs_no_output() {
        let check = |conditions: &[Condition], stops: &[&str], expected| {
            let request = WaitRequest {
                conditions: conditions.to_vec(),
                stops: stops.iter().map(|&stop| stop.to_owned()).collect(),
                ..WaitRequest::default()
            };
            assert_eq!(misses_nothing(&request), expected, "{request:?}");
            let from_there = WaitRequest {
                since: Some("cursor".to_owned()),
                ..request
            };
            assert!(misses_nothing(&from_there), "{from_there:?}");
        };
        check(&[], &[], true);
        check(&[Condition::Exit, Condition::Input], &[], true);
        check(&[Condition::Listen { port: None }], &[], true);
        check(&[Condition::Exit], &["error"], false);
        check(&[Condition::Exit, Condition::Bell], &[], false);
        check(&[Condition::Text("ready".to_owned())], &[], false);
        check(&[Condition::Change], &[], false);
        check(
            &[Condition::Idle {
                limit: Duration::from_millis(1),
            }],
            &[],
            false,
        );
    }
}
