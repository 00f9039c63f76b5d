//! Handles of calls that are still waiting: the tasks extension of MCP, where a client polls for the
//! result and its model continues meanwhile.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use rmcp::model::{CallToolResult, DetailedTask, JsonObject, Task, TaskPayload, TaskStatus};
use tokio::task::{AbortHandle, JoinSet};

use super::answer::ToolAnswer;
use crate::clock;
use crate::model::{Millis, rfc3339};

/// How often a client should ask whether a call has ended, in milliseconds.
const POLL_MS: u64 = 500;

/// How many ended calls are kept for clients that ask again. The oldest are dropped.
const MOST_ENDED: usize = 100;

/// The calls that were answered with a handle.
#[derive(Default)]
pub(super) struct Handles(Rc<RefCell<Registry>>);

#[derive(Default)]
struct Registry {
    last: u64,
    calls: BTreeMap<u64, HandledCall>,
    /// The waits of the calls that have not ended. They end with the server.
    waits: JoinSet<()>,
}

struct HandledCall {
    id: String,
    /// What it does, for people.
    what: String,
    begun: Millis,
    changed: Millis,
    state: CallState,
}

enum CallState {
    /// Its wait runs.
    Working(AbortHandle),
    Ended(ToolAnswer),
    /// The client has cancelled it.
    Cancelled,
}

impl Handles {
    /// Runs a wait and returns its handle. `name` makes the handle's id readable.
    pub(super) fn begin(
        &self,
        name: &str,
        what: String,
        wait: impl Future<Output = ToolAnswer> + 'static,
    ) -> Task {
        let mut registry = self.0.borrow_mut();
        registry.last += 1;
        let number = registry.last;
        let now = clock::now().wall;
        // A client may still know a handle of a server that has ended.
        let id = format!("{name}-{}-{number}", std::process::id());
        let ending = Rc::downgrade(&self.0);
        let abort = registry.waits.spawn_local(async move {
            let answer = wait.await;
            if let Some(registry) = ending.upgrade() {
                registry.borrow_mut().end(number, CallState::Ended(answer));
            }
        });
        while registry.waits.try_join_next().is_some() {}
        let call = HandledCall {
            id,
            what,
            begun: now,
            changed: now,
            state: CallState::Working(abort),
        };
        let task = call.task();
        registry.calls.insert(number, call);
        task
    }

    /// Returns the state of a call; `None` when the handle is unknown.
    pub(super) fn get(&self, id: &str) -> Option<DetailedTask> {
        let registry = self.0.borrow();
        let call = registry.calls.values().find(|call| call.id == id)?;
        let payload = match &call.state {
            CallState::Working(_) => TaskPayload::Working,
            CallState::Ended(answer) => TaskPayload::Completed {
                result: result(answer.clone()),
            },
            CallState::Cancelled => TaskPayload::Cancelled,
        };
        Some(DetailedTask::new(call.task(), payload))
    }

    /// Ends the wait of a call. Returns whether the handle is known.
    pub(super) fn cancel(&self, id: &str) -> bool {
        let mut registry = self.0.borrow_mut();
        let found = registry.calls.iter().find(|(_, call)| call.id == id);
        let Some((number, call)) = found else {
            return false;
        };
        if let CallState::Working(abort) = &call.state {
            abort.abort();
            let number = *number;
            registry.end(number, CallState::Cancelled);
        }
        true
    }
}

impl Registry {
    fn end(&mut self, number: u64, state: CallState) {
        if let Some(call) = self.calls.get_mut(&number) {
            call.state = state;
            call.changed = clock::now().wall;
        }
        let is_ended = |call: &HandledCall| !matches!(call.state, CallState::Working(_));
        let ended = self.calls.iter().filter(|(_, call)| is_ended(call));
        let ended: Vec<u64> = ended.map(|(number, _)| *number).collect();
        for oldest in &ended[..ended.len().saturating_sub(MOST_ENDED)] {
            self.calls.remove(oldest);
        }
    }
}

impl HandledCall {
    fn task(&self) -> Task {
        let status = match &self.state {
            CallState::Working(_) => TaskStatus::Working,
            CallState::Ended(_) => TaskStatus::Completed,
            CallState::Cancelled => TaskStatus::Cancelled,
        };
        let (begun, changed) = (rfc3339(self.begun), rfc3339(self.changed));
        Task::new(self.id.clone(), status, begun, changed)
            .with_status_message(self.what.clone())
            .with_poll_interval_ms(POLL_MS)
    }
}

/// Returns the result of a call as the client would have got it at once.
fn result(answer: ToolAnswer) -> JsonObject {
    match serde_json::to_value(CallToolResult::from(answer)) {
        Ok(serde_json::Value::Object(fields)) => fields,
        Ok(_) | Err(_) => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use tokio::task::{LocalSet, yield_now};

    use super::*;

    fn answer(text: &str) -> ToolAnswer {
        ToolAnswer::new([text.to_owned()])
    }

    #[tokio::test]
    async fn a_handle_has_the_result_when_its_wait_has_ended() {
        let handles = Handles::default();
        LocalSet::new()
            .run_until(async {
                let task = handles.begin("build", "running".to_owned(), ready(answer("done")));
                assert_eq!(task.status, TaskStatus::Working);
                yield_now().await;
                let ended = handles.get(&task.task_id).unwrap();
                assert_eq!(ended.status(), TaskStatus::Completed);
                let TaskPayload::Completed { result } = ended.payload else {
                    panic!("it has ended");
                };
                assert_eq!(result["content"][0]["text"], "done");
            })
            .await;
    }

    #[tokio::test]
    async fn a_cancelled_wait_ends() {
        let handles = Handles::default();
        LocalSet::new()
            .run_until(async {
                let task = handles.begin("build", "running".to_owned(), pending());
                assert!(handles.cancel(&task.task_id));
                assert_eq!(
                    handles.get(&task.task_id).unwrap().status(),
                    TaskStatus::Cancelled
                );
                yield_now().await;
                assert!(handles.0.borrow_mut().waits.try_join_next().is_some());
                assert!(!handles.cancel("other") && handles.get("other").is_none());
            })
            .await;
    }

    #[tokio::test]
    async fn ended_calls_are_bounded() {
        let handles = Handles::default();
        LocalSet::new()
            .run_until(async {
                let live = handles.begin("live", String::new(), pending());
                let first = handles.begin("first", String::new(), ready(answer("")));
                for _ in 0..MOST_ENDED {
                    handles.begin("other", String::new(), ready(answer("")));
                    yield_now().await;
                }
                assert!(handles.get(&live.task_id).is_some());
                assert!(handles.get(&first.task_id).is_none());
                assert_eq!(handles.0.borrow().calls.len(), MOST_ENDED + 1);
                assert!(handles.0.borrow().waits.len() <= 2);
            })
            .await;
    }
}
