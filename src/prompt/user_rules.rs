//! The user's own rules about prompts.

use std::collections::BTreeSet;

use regex::Regex;

use crate::model::{Prompt, Task};

/// Additional patterns, and what is muted.
#[derive(Debug, Clone, Default)]
pub struct UserRules {
    /// Patterns of lines that ask, in addition to the built-in ones.
    pub asks: Vec<Regex>,
    /// Patterns of lines that do not ask, whatever else says so.
    pub mutes: Vec<Regex>,
    /// Names of tasks whose waiting is not reported.
    pub muted_tasks: BTreeSet<String>,
}

impl UserRules {
    /// Returns the rules: regular expressions for lines that ask and for lines that do not, and
    /// tasks to mute.
    ///
    /// # Errors
    ///
    /// When one of the texts is not a regular expression.
    pub fn new(
        asks: &[String],
        mutes: &[String],
        muted_tasks: BTreeSet<String>,
    ) -> Result<Self, regex::Error> {
        Ok(Self {
            asks: compile(asks)?,
            mutes: compile(mutes)?,
            muted_tasks,
        })
    }

    /// Whether one of the user's patterns says that this line asks.
    pub(super) fn asks(&self, line: &str) -> bool {
        self.asks.iter().any(|pattern| pattern.is_match(line))
    }

    /// Whether one of the user's patterns says that this line does not ask.
    pub(super) fn mutes_line(&self, line: &str) -> bool {
        self.mutes.iter().any(|pattern| pattern.is_match(line))
    }

    /// Whether the user has muted all prompts of this task.
    pub fn mutes_task(&self, task: &Task) -> bool {
        self.muted_tasks.contains(&task.name) || self.muted_tasks.contains(&task.window.to_string())
    }

    /// Whether the user has muted this prompt of this task.
    pub fn mutes(&self, task: &Task, prompt: &Prompt) -> bool {
        self.mutes_task(task) || self.mutes_line(&prompt.text)
    }
}

fn compile(texts: &[String]) -> Result<Vec<Regex>, regex::Error> {
    texts.iter().map(|text| Regex::new(text)).collect()
}
