//! Decides whether a task waits for input, and for what.
//!
//! Two kinds of evidence are combined: what the kernel knows of the terminal and its foreground
//! programs, and what the screen shows. Where the kernel says that no program reads, text does not
//! count. Where it says that a program is blocked reading, any text counts. In between, the text
//! must have the shape of a question and be where an answer would be typed. `docs/design/prompt-rules.md`
//! has the details.

mod addressed;
mod choices;
mod cursor_context;
mod form;
mod full_screen;
mod judge;
mod line;
mod list;
mod secret;
mod shell_prompts;
mod words;
mod wrapped;

use std::collections::BTreeSet;

use regex::Regex;

pub use judge::{Judgement, PromptMatch, find, judge, judge_task};
pub(crate) use judge::{asks_beside, rows_if_keys_are_read};

use crate::model::{Prompt, Task};

#[cfg(test)]
mod tests;

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

    fn asks(&self, line: &str) -> bool {
        self.asks.iter().any(|pattern| pattern.is_match(line))
    }

    fn mutes_line(&self, line: &str) -> bool {
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
