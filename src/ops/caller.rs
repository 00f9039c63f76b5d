//! On whose behalf a use case runs.

use super::lookup;
use crate::model::{machine_of_environment, owner_of_environment};

/// Who gives a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The conversation; `None` for a person at a terminal, and for an agent whose conversation is
    /// not known.
    pub(crate) owner: Option<String>,
    /// Whether it is an agent. A caller with an owner always is one.
    pub(crate) is_agent: bool,
}

impl Caller {
    /// Returns a person at a terminal, whatever the environment of that terminal was taken from.
    pub(crate) fn user() -> Self {
        Self::default()
    }

    /// Returns the caller that this process's environment names.
    pub(crate) fn of_environment() -> Self {
        let owner = owner_of_environment(&lookup);
        Self {
            is_agent: owner.is_some(),
            owner,
        }
    }

    /// Returns the caller for a record, where the command comes from another machine: `OWNER@MACHINE`,
    /// for a person `MACHINE`.
    pub(crate) fn remote_name(&self) -> Option<String> {
        let machine = machine_of_environment(&lookup)?;
        Some(match &self.owner {
            Some(owner) if owner.ends_with(&format!("@{machine}")) => owner.clone(),
            Some(owner) => format!("{owner}@{machine}"),
            None => machine,
        })
    }
}
