//! What users have taught about prompts.

use std::collections::BTreeSet;

use regex::Regex;

use crate::model::{Prompt, PromptKind, Task};

/// Patterns of a user's own, and what is not to be told.
#[derive(Debug, Clone, Default)]
pub struct UserRules {
    /// Lines that ask, besides those that are known by themselves.
    pub asks: Vec<Regex>,
    /// Lines that do not ask, whatever else says so.
    pub mutes: Vec<Regex>,
    /// Names of tasks whose waiting is not told.
    pub muted_tasks: BTreeSet<String>,
    /// Kinds of prompts that are not told.
    pub muted_kinds: BTreeSet<PromptKind>,
}

impl UserRules {
    /// Returns what these texts of a user's teach: regular expressions for lines that ask and for
    /// lines that do not, tasks and kinds to be silent about.
    ///
    /// # Errors
    ///
    /// When an expression is none.
    pub fn new(
        asks: &[String],
        mutes: &[String],
        muted_tasks: BTreeSet<String>,
        muted_kinds: BTreeSet<PromptKind>,
    ) -> Result<Self, regex::Error> {
        Ok(Self {
            asks: compile(asks)?,
            mutes: compile(mutes)?,
            muted_tasks,
            muted_kinds,
        })
    }

    /// Whether one of the user's patterns says that this line asks.
    pub(super) fn asks(&self, line: &str) -> bool {
        self.asks.iter().any(|pattern| pattern.is_match(line))
    }

    /// Whether this line is taken for no prompt.
    pub(super) fn mutes_line(&self, line: &str) -> bool {
        self.mutes.iter().any(|pattern| pattern.is_match(line))
    }

    /// Whether nobody wants to hear that this task waits, whatever for.
    #[must_use]
    pub fn mutes_task(&self, task: &Task) -> bool {
        self.muted_tasks.contains(&task.name) || self.muted_tasks.contains(&task.window.to_string())
    }

    /// Whether nobody wants to hear that this task waits for this.
    #[must_use]
    pub fn mutes(&self, task: &Task, prompt: &Prompt) -> bool {
        self.mutes_task(task)
            || self.muted_kinds.contains(&prompt.kind)
            || self.mutes_line(&prompt.text)
    }
}

fn compile(texts: &[String]) -> Result<Vec<Regex>, regex::Error> {
    texts.iter().map(|text| Regex::new(text)).collect()
}
