//! The keys, for the help.

/// Keys and what they do.
pub(super) const KEYS: [(&str, &str); 14] = [
    ("j k ↓ ↑", "choose a task"),
    ("g G", "first, last task"),
    ("a", "answer what it asks"),
    ("s", "send it a line"),
    ("Enter", "go to its window"),
    ("l", "its log; / n N search"),
    ("e", "why it waits, or not"),
    ("x", "kill it"),
    ("r", "run it again"),
    ("p", "remove ended tasks"),
    ("/", "filter; Esc shows all"),
    ("?", "this help"),
    ("q", "quit"),
    ("mouse", "click, wheel"),
];

/// Returns the help as lines.
pub(super) fn lines() -> Vec<String> {
    let line = |(key, does): &(&str, &str)| {
        let pad = 8_usize.saturating_sub(key.chars().count());
        format!("{key}{:pad$} {does}", "")
    };
    KEYS.iter().map(line).collect()
}
