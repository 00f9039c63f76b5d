//! Machines: what they are called, and what one asks of another.

use serde::{Deserialize, Serialize};

use super::text;

/// The longest name of a machine, in characters.
const NAME_CHARS: usize = 64;

/// Whether this can be the name of a machine, in texts and in names of consumers.
pub fn is_host_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    starts && name.len() <= NAME_CHARS && name.chars().all(is_plain)
}

/// Returns the name of a machine to which its system gives this one: what has no place in a name is replaced.
pub fn host_name_of(system: &[u8]) -> String {
    let is_plain = |c: &char| is_host_name(&format!("a{c}"));
    let name = text::one_line(system, NAME_CHARS);
    let name = name.chars();
    let name: String = name.map(|c| if is_plain(&c) { c } else { '-' }).collect();
    let name = name.trim_start_matches(['-', '.', '_']);
    match is_host_name(name) {
        true => name.to_owned(),
        false => "localhost".to_owned(),
    }
}

/// What an execution on another machine reads from standard input. Unless that is what is sent, the end of
/// what is sent interrupts it: nobody waits for it any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FarStdin {
    /// Nothing.
    #[default]
    Nothing,
    /// What is sent after the call.
    Follows,
    /// The same, and its end is the end of the execution.
    Acknowledgements,
    /// This.
    Text(String),
}
