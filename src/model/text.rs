//! Sanitising text: panes, names and titles are hostile until then.
//!
//! Sanitised text is valid UTF-8 and bounded. It has no control characters, no escape sequences and
//! no invisible characters.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// Returns `bytes` as one line of sanitised text of at most `max_chars` characters.
///
/// Escape sequences are dropped, tabs and line ends become blanks, other control characters and
/// invisible characters are removed. `…` marks a cut.
pub fn one_line(bytes: &[u8], max_chars: usize) -> String {
    let line = sanitised(bytes, |c| matches!(c, '\t' | '\n' | '\r'));
    bounded(line.trim(), max_chars)
}

/// Returns the name of a session as sanitised text. Like [`one_line`], but blanks at its ends are a part
/// of it, because tmux knows the session by no other name.
pub fn session_name(bytes: &[u8], max_chars: usize) -> String {
    let name = sanitised(bytes, |c| matches!(c, '\t' | '\n' | '\r'));
    bounded(&name, max_chars)
}

/// Returns one row of a pane as sanitised text. Like [`one_line`], but leading blanks are kept and
/// nothing is cut.
pub fn row(bytes: &[u8]) -> String {
    let mut row = sanitised(bytes, |c| c == '\t');
    row.truncate(row.trim_end().len());
    row
}

/// Returns a piece of a row of a pane as sanitised text. Like [`row`], but blanks at its end are kept.
pub fn piece(bytes: &[u8]) -> String {
    sanitised(bytes, |c| c == '\t')
}

/// Escape sequences (ECMA-48): CSI, then OSC and related strings, which end with BEL, ST or `ESC \`, or extend to
/// the end of the text, and those of a few characters.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"(?s)(?:\x1b\[|\u{9b})[\x20-\x3f]*[\x40-\x7e]?",
        r"|(?:\x1b[\]PX^_]|[\u{90}\u{98}\u{9d}-\u{9f}])[^\x07\u{9c}\x1b]*(?:\x07|\u{9c}|\x1b\\?)?",
        r"|\x1b(?:[\x20-\x2f]+[\x30-\x7e]?|.)?",
    ))
    .expect("a constant pattern compiles")
});

/// Removes escape sequences and harmful characters, and turns some characters into blanks.
fn sanitised(bytes: &[u8], is_blank: impl Fn(char) -> bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    if bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        return text.into_owned();
    }
    let text = ESCAPES.replace_all(&text, "");
    let mut sanitised = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut last = ' ';
    while let Some(c) = chars.next() {
        if is_blank(c) {
            last = ' ';
        } else if is_kept(last, c, chars.peek().copied()) {
            last = c;
        } else {
            continue;
        }
        sanitised.push(last);
    }
    sanitised
}

/// Whether a character may be shown between these two.
fn is_kept(before: char, c: char, after: Option<char>) -> bool {
    if is_joiner(c) {
        joins(before, after)
    } else if is_variation(c) {
        !before.is_whitespace() && !is_joiner(before) && !is_variation(before)
    } else {
        !is_harmful(c)
    }
}

/// Returns `text` cut to at most `max_chars` characters. `…` marks a cut.
pub fn bounded(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        None => text.to_owned(),
        Some(_) => {
            let mut cut: String = text.chars().take(max_chars.saturating_sub(1)).collect();
            cut.push('…');
            cut
        }
    }
}

/// Control characters and invisible ones: marks that reorder text, characters without width, tags
/// and fillers. With them a text could mean something else to a program, or to a model, than what
/// is displayed.
fn is_harmful(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Characters that join or separate their neighbours. Emoji and Persian and Indic scripts need
/// them; between other characters they have no use.
fn is_joiner(c: char) -> bool {
    matches!(c, '\u{200c}' | '\u{200d}')
}

/// Characters that select the appearance of the one before them: as text or as an emoji.
fn is_variation(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}')
}

/// Whether a joiner has neighbours to join.
fn joins(before: char, after: Option<char>) -> bool {
    let is_letter = |c: char| !c.is_ascii() && !c.is_whitespace() && !is_joiner(c);
    let is_shown = |c: char| is_letter(c) && !is_harmful(c) && !is_variation(c);
    is_letter(before) && after.is_some_and(is_shown)
}

/// Returns a number of things: `1 task`, `3 tasks`.
pub fn counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// Returns a size in its largest unit.
pub fn size(n_bytes: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = n_bytes.saturating_mul(10) / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match n_bytes {
        0..1024 => format!("{n_bytes} B"),
        1024..0x10_0000 => format!("{} KiB", tenths(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{} MiB", tenths(1 << 20)),
        _ => format!("{} GiB", tenths(1 << 30)),
    }
}

/// The most characters of a line in a record of another machine: what a prompt, a command or a quoted line has, with room.
const FIELD_CHARS: usize = 4096;

/// Sanitises all texts of a value from another machine. `line_end` stands for each end of a line.
pub fn sanitise_json(value: &mut Value, line_end: &str) {
    match value {
        Value::String(text) => *text = sanitised_lines(text, line_end),
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| sanitise_json(value, line_end)),
        Value::Object(fields) => {
            let cleaned = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                sanitise_json(&mut value, line_end);
                (sanitised_lines(&name, line_end), value)
            });
            *fields = cleaned.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn sanitised_lines(text: &str, line_end: &str) -> String {
    let lines = text.split('\n');
    let clean = lines.map(|line| bounded(&piece(line.as_bytes()), FIELD_CHARS));
    clean.collect::<Vec<_>>().join(line_end)
}

/// The maximum length of a line from another machine, in characters: what a prompt, a task's name and
/// a quoted line have, with room.
const LINE_CHARS: usize = 2000;

/// Returns a message from another machine as it reads on this one: its tasks are named with the host.
/// Whatever that machine has sent, it is sanitised text, and only a line that begins with a task's
/// name is changed: quoted output is indented.
pub fn from_host(content: &str, host: &str) -> String {
    let named = |line: &str| {
        let line = bounded(&row(line.as_bytes()), LINE_CHARS);
        match line.strip_prefix("tmux task ") {
            Some(task) => format!("tmux task {host}:{task}"),
            None => line,
        }
    };
    content.lines().map(named).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_of_another_machine_names_it_with_each_task() {
        let content = "[tmux-task notification]\n\
                       tmux task @12 (api) exited with code 2\n\
                       recent output:\n  tmux task @1 (x) exited with code 0\n    at line 7\n\
                       tmux task @13 (db) is waiting for input: tmux task Go?";
        let expected = content.replace("task @12", "task gpu1:@12");
        let expected = expected.replace("task @13", "task gpu1:@13");
        assert_eq!(from_host(content, "gpu1"), expected);
        let hostile = from_host("tmux task \u{1b}[31m@1\u{7}\u{202e} (a)\r\nb\u{0}", "gpu1");
        assert_eq!(hostile, "tmux task gpu1:@1 (a)\nb");
        let long = from_host(&"x".repeat(1 << 20), "gpu1");
        assert_eq!(long.chars().count(), LINE_CHARS);
    }

    #[test]
    fn texts_of_other_machines_do_nothing_to_a_terminal() {
        for (line_end, text) in [("\n", "xyz\n  z"), (" ", "xyz   z")] {
            let hostile = r#"{"a\u001b[2J": ["x\u001b]0;t\u0007y\u202ez\n  z", 1, null]}"#;
            let mut value = serde_json::from_str(hostile).unwrap();
            sanitise_json(&mut value, line_end);
            assert_eq!(value, serde_json::json!({"a": [text, 1, null]}));
        }
        let mut long = Value::from("x".repeat(10_000));
        sanitise_json(&mut long, " ");
        assert_eq!(long.as_str().unwrap().chars().count(), FIELD_CHARS);
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        assert_eq!(one_line(bytes, 20), expected);
    }

    #[test]
    fn escapes_and_controls_go_and_text_stays() {
        for (bytes, expected) in [
            (&b"plain"[..], "plain"),
            ("§ 日本 🎉".as_bytes(), "§ 日本 🎉"),
            (b"\x1b[31mred\x1b[0m", "red"),
            (b"\x1b]0;title\x07after", "after"),
            (b"\x1b]0;title\x1b\\after", "after"),
            (b"\x1bPq#0\x1b\\after", "after"),
            (b"\x1b(Bascii", "ascii"),
            (b"a\tb\nc\rd", "a b c d"),
            (b"a\0b\x7fc\x08d", "abcd"),
            ("\u{9b}31mred".as_bytes(), "red"),
            ("evil\u{202e}txt".as_bytes(), "eviltxt"),
            (b"\xff\xfe", "\u{fffd}\u{fffd}"),
            (b"\x1b", ""),
            (b"\x1b[", ""),
            (b"\x1b]never ends", ""),
            // A cut is shown.
            (b"01234567890123456789", "01234567890123456789"),
            (b"012345678901234567890", "0123456789012345678…"),
        ] {
            check(bytes, expected);
        }
        assert_eq!(row(b"  two\x1b[0m  "), "  two");
    }

    #[test]
    fn invisible_characters_are_removed() {
        let all = "\u{ad}\u{61c}\u{200b}\u{200c}\u{200d}\u{200e}\u{2028}\u{2029}\u{202a}\u{202e}\u{2060}\
                   \u{2066}\u{2069}\u{206f}\u{3164}\u{feff}\u{fff9}\u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{e01ef}";
        for hidden in all.chars() {
            check(format!("a{hidden}b").as_bytes(), "ab");
            check(format!("{hidden}").as_bytes(), "");
            let indented = row(format!("  a{hidden}b ").as_bytes());
            assert_eq!(indented, "  ab", "{hidden:?}");
        }
    }

    #[test]
    fn sizes_are_in_their_largest_unit() {
        let shown = [0, 1023, 1024, (1 << 20) - 1, 3 << 19, 5 << 30].map(size);
        let expected = "0 B, 1023 B, 1.0 KiB, 1023.9 KiB, 1.5 MiB, 5.0 GiB";
        assert_eq!(shown.join(", "), expected);
    }

    #[test]
    fn joiners_stay_where_they_join() {
        let joined = "👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3} می\u{200c}خواهم क्\u{200d}ष";
        joined
            .split(' ')
            .for_each(|shown| check(shown.as_bytes(), shown));
        for (text, expected) in [
            ("👩\u{200d}\u{200d}💻", "👩\u{200d}💻"),
            ("👩\u{200d}", "👩"),
            ("👩\u{200d} 💻", "👩 💻"),
            ("\u{fe0f}a\u{fe0f}\u{fe01}\u{fe02}", "a\u{fe0f}"),
            ("é\u{200d}\u{1b}[31mü", "é\u{200d}ü"),
        ] {
            check(text.as_bytes(), expected);
        }
    }

    #[test]
    fn blanks_at_the_ends_belong_to_the_name_of_a_session() {
        assert_eq!(session_name(b" two\twords \x1b[1m ", 20), " two words  ");
        assert_eq!(session_name(b"  ", 20), "  ");
        let long = session_name("a".repeat(21).as_bytes(), 20);
        assert_eq!(long.chars().count(), 20);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_become_proven_text(bytes: Vec<u8>) {
            let line = one_line(&bytes, 40);
            proptest::prop_assert!(line.chars().count() <= 40);
            proptest::prop_assert!(!line.chars().any(is_harmful));
            proptest::prop_assert_eq!(one_line(line.as_bytes(), 40), line);
            let name = session_name(&bytes, 40);
            proptest::prop_assert!(name.chars().count() <= 40);
            proptest::prop_assert!(!name.chars().any(is_harmful));
        }

        #[test]
        fn proven_text_stays_as_it_is(text in "[ aé日\u{200c}\u{200d}\u{fe0f}\u{202e}\u{a0}\u{1b}\\[m\t]{0,60}") {
            let line = one_line(text.as_bytes(), 40);
            proptest::prop_assert_eq!(one_line(line.as_bytes(), 40), line);
            let row = super::row(text.as_bytes());
            proptest::prop_assert_eq!(super::row(row.as_bytes()), row);
        }
    }
}
