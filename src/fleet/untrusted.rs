//! What other machines have published is untrusted text.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::model::text;

/// The most characters of a line: what a prompt, a command or a quoted line has, with room.
const LINE_CHARS: usize = 4096;

/// Reads a record of another machine. Its texts have no control characters, escape sequences or
/// invisible characters; only line ends are left.
pub(super) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse_with(bytes, "\n")
}

/// Reads a value whose texts are lines: names, commands, the last line of an output.
pub(super) fn parse_of_lines<T: DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    parse_with(bytes, " ")
}

fn parse_with<T: DeserializeOwned>(bytes: &[u8], line_end: &str) -> Option<T> {
    serde_json::from_value(clean(serde_json::from_slice(bytes).ok()?, line_end)).ok()
}

fn clean(value: Value, line_end: &str) -> Value {
    match value {
        Value::String(text) => Value::String(clean_text(&text, line_end)),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| clean(value, line_end));
            Value::Array(values.collect())
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let clean =
                fields.map(|(name, value)| (clean_text(&name, line_end), clean(value, line_end)));
            Value::Object(clean.collect())
        }
        value @ (Value::Null | Value::Bool(_) | Value::Number(_)) => value,
    }
}

fn clean_text(text: &str, line_end: &str) -> String {
    let lines = text.split('\n');
    let clean = lines.map(|line| text::bounded(&text::piece(line.as_bytes()), LINE_CHARS));
    clean.collect::<Vec<_>>().join(line_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_other_machines_do_nothing_to_a_terminal() {
        let hostile = "{\"a\\u001b[2J\": [\"x\\u001b]0;t\\u0007y\\u202ez\\n  z\", 1, null]}";
        let clean: Value = parse(hostile.as_bytes()).unwrap();
        assert_eq!(clean, serde_json::json!({"a": ["xyz\n  z", 1, null]}));
        let line: Value = parse_of_lines(hostile.as_bytes()).unwrap();
        assert_eq!(line, serde_json::json!({"a": ["xyz   z", 1, null]}));
        let long = serde_json::to_vec(&"x".repeat(10_000)).unwrap();
        assert_eq!(parse::<String>(&long).unwrap().chars().count(), LINE_CHARS);
        assert_eq!(parse::<Value>(b"{"), None);
    }
}
