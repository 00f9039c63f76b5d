//! The window option with the lines that a task's owner is notified of.
//!
//! It belongs to one launch, as the option of restarts does.

use super::recorded::{bytes, hex};
use crate::model::{Millis, NotifyOn};

/// The window option.
pub(super) const NOTIFY_ON: &str = "@tmux_task_notify_on";

/// The version of the format.
const VERSION: &str = "1";

/// Returns the option's value for the launch at this time: `1 STARTED REGEX IGNORE_CASE TEXT...`, the
/// texts as hexadecimal digits.
pub(super) fn encode_notify_on(notify_on: &NotifyOn, started: Millis) -> String {
    let NotifyOn {
        patterns,
        regex,
        ignore_case,
    } = notify_on;
    let (regex, ignore_case) = (u8::from(*regex), u8::from(*ignore_case));
    let mut value = format!("{VERSION} {started} {regex} {ignore_case}");
    for pattern in patterns {
        value.push(' ');
        value.push_str(&hex(pattern.as_bytes()));
    }
    value
}

/// Reads an option's value; `None` when it is of another launch than the one at this time, of another
/// version, or damaged.
pub(super) fn decode_notify_on(text: Option<&str>, started: Option<Millis>) -> Option<NotifyOn> {
    let mut fields = text?.split(' ');
    if fields.next()? != VERSION || fields.next()?.parse::<Millis>().ok() != Some(started?) {
        return None;
    }
    let flag = |field: &str| match field {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    };
    let (regex, ignore_case) = (flag(fields.next()?)?, flag(fields.next()?)?);
    // Others can write the option too.
    let pattern = |digits: &str| {
        let text = String::from_utf8(bytes(digits)?).ok()?;
        (!text.is_empty() && !text.contains(char::is_control)).then_some(text)
    };
    let notify_on = NotifyOn {
        patterns: fields.map(pattern).collect::<Option<_>>()?,
        regex,
        ignore_case,
    };
    notify_on.is_small().then_some(notify_on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notify_on(patterns: &[&str]) -> NotifyOn {
        NotifyOn {
            patterns: patterns.iter().map(ToString::to_string).collect(),
            regex: true,
            ignore_case: false,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let given = notify_on(&["ERROR", "a|b; #{x} %ü"]);
        let text = encode_notify_on(&given, 77);
        assert!(text.starts_with("1 77 1 0 4552524f52 "), "{text}");
        assert_eq!(decode_notify_on(Some(&text), Some(77)), Some(given));
        let longest = "x".repeat(NotifyOn::MOST_BYTES);
        let text = encode_notify_on(&notify_on(&[&longest]), i64::MAX);
        // A look reads this much of an option.
        assert!(text.len() < 4096);
        assert!(decode_notify_on(Some(&text), Some(i64::MAX)).is_some());
    }

    #[test]
    fn nothing_else_counts() {
        let text = encode_notify_on(&notify_on(&["a"]), 77);
        assert_eq!(decode_notify_on(Some(&text), Some(78)), None);
        assert_eq!(decode_notify_on(Some(&text), None), None);
        assert_eq!(decode_notify_on(None, Some(77)), None);
        let many = encode_notify_on(&notify_on(&["a"; NotifyOn::MOST + 1]), 77);
        let long = encode_notify_on(&notify_on(&[&"x".repeat(NotifyOn::MOST_BYTES + 1)]), 77);
        for text in [
            "",
            "1 77 1 0",
            "2 77 1 0 61",
            "1 77 1 61",
            "1 77 1 2 61",
            "1 77 1 0 6",
            "1 77 1 0 ff",
            "1 77 1 0 61 ",
            "1 77 1 0 1b5b",
            &many,
            &long,
        ] {
            assert_eq!(decode_notify_on(Some(text), Some(77)), None, "{text}");
        }
    }
}
