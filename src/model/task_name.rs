//! The names that a launch accepts for tasks.

/// Which names tasks can have, in words.
pub const TASK_NAME_RULE: &str = "1 to 40 of `A-Z a-z 0-9 . _ -`, the first a letter or digit";

/// Whether a task can be started with this name.
pub fn is_task_name(name: &str) -> bool {
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    starts && name.len() <= 40 && name.bytes().all(is_part)
}
