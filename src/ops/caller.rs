//! On whose behalf a use case runs.

use super::lookup;
use crate::model::{machine_of_environment, owner_of_environment};

pub(crate) use crate::rules::wire::Caller;

impl Caller {
    /// Returns a person at a terminal, whatever the environment of that terminal was taken from.
    pub(crate) fn user() -> Self {
        Self::here(None)
    }

    /// Returns the caller that this process's environment names.
    pub(crate) fn of_environment() -> Self {
        Self::here(owner_of_environment(&lookup))
    }

    fn here(owner: Option<String>) -> Self {
        let asked_by = machine_of_environment(&lookup).map(|machine| match &owner {
            Some(owner) if owner.ends_with(&format!("@{machine}")) => owner.clone(),
            Some(owner) => format!("{owner}@{machine}"),
            None => machine,
        });
        Self {
            is_agent: owner.is_some(),
            owner,
            asked_by,
        }
    }
}
