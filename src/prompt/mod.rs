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
mod dialog;
mod drawn;
mod drawn_field;
mod form;
mod full_screen;
mod judge;
mod line;
mod list;
mod numbered;
mod pattern;
mod programs;
mod report;
mod secret;
mod shell_prompts;
mod user_rules;
mod words;
mod wrapped;

pub use judge::{Judgement, PromptMatch, find, judge, judge_task};
pub(crate) use judge::{asks_beside, rows_if_keys_are_read};
pub use user_rules::UserRules;

#[cfg(test)]
mod tests;
