//! What is typed into a task.

use serde::{Deserialize, Serialize};

/// What to type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TypedInput {
    /// A text, character by character.
    Text(String),
    /// Keys, by tmux's names.
    Keys(Vec<String>),
    /// A text that must not be visible anywhere.
    Secret(SecretText),
}

/// A text that must not be visible anywhere: no log contains it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretText(pub String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretText(..)")
    }
}
