//! Who ends tasks with a command, and the reason that is recorded for their owners.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::model::{GoneReason, Ordered as _, Task, WindowId};

/// Who gives a command that ends tasks.
#[derive(Debug, Clone)]
pub(crate) struct Killer {
    /// The conversation; `None` for a user, and for an agent whose conversation is not known.
    pub(crate) owner: Option<String>,
    /// Whether it is an agent. A caller with an owner always is one.
    pub(crate) is_agent: bool,
    /// `OWNER@MACHINE` or `MACHINE`, where the command comes from another machine.
    pub(crate) asked_by: Option<String>,
}

impl Killer {
    /// Notes on these tasks who asks for their ends.
    pub(crate) fn sign(&self, tasks: &mut [Arc<Task>]) {
        for task in tasks {
            if task.asked_by != self.asked_by {
                Arc::make_mut(task).asked_by.clone_from(&self.asked_by);
            }
        }
    }

    /// Returns why each of these tasks disappears.
    pub(crate) fn reasons<'a>(
        &self,
        tasks: impl IntoIterator<Item = &'a Arc<Task>>,
    ) -> BTreeMap<WindowId, GoneReason> {
        let tasks = tasks.into_iter();
        tasks
            .map(|task| (task.window, self.reason(task)))
            .into_map()
    }

    /// An agent knows of its own commands only: the owner of the task may be another one. An agent
    /// whose conversation is not known counts as another one, so that no owner misses an end.
    fn reason(&self, task: &Task) -> GoneReason {
        if !self.is_agent && self.owner.is_none() {
            GoneReason::UserKilled
        } else if task.owner.is_none() || task.owner == self.owner {
            GoneReason::AgentKilled
        } else {
            GoneReason::OtherAgentKilled
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::task;

    #[test]
    fn only_the_agent_that_owns_the_task_knows_of_its_end() {
        use GoneReason::{AgentKilled, OtherAgentKilled, UserKilled};
        for (owner, is_agent, of_nobody, of_pi_1) in [
            (None, false, UserKilled, UserKilled),
            (None, true, AgentKilled, OtherAgentKilled),
            (Some("pi:1"), false, AgentKilled, AgentKilled),
            (Some("pi:1"), true, AgentKilled, AgentKilled),
            (Some("pi:2"), false, AgentKilled, OtherAgentKilled),
        ] {
            let killer = Killer {
                owner: owner.map(str::to_owned),
                is_agent,
                asked_by: None,
            };
            let tasks = [
                Arc::new(task("@1 a running")),
                Arc::new(task("@2 b running owner=pi:1")),
            ];
            let expected = BTreeMap::from([(WindowId(1), of_nobody), (WindowId(2), of_pi_1)]);
            assert_eq!(killer.reasons(&tasks), expected, "{owner:?} {is_agent}");
        }
    }
}
