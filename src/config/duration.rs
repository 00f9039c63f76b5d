//! Durations in the configuration and on the command line.

use std::time::Duration;

use jiff::SignedDuration;

/// The seconds of a day.
const DAY: u64 = 24 * 3600;

/// Parses a duration: numbers with the units `ms`, `s`, `m`, `h` and `d`, the largest unit first,
/// such as `500ms`, `1.5m`, `1m30s` or `30d`. A number alone is seconds. A number of days is whole.
/// `None` when it is not a duration, or too long.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    if text.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return parse_with_units(&format!("{text}s"));
    }
    parse_with_units(text)
}

fn parse_with_units(text: &str) -> Option<Duration> {
    // `-1s`, `1h ago` and `1 h, 2 m` are durations for the parser, but not wanted here.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    if !text.chars().all(is_plain) {
        return None;
    }
    if let Some((days, rest)) = text.split_once('d') {
        let days = Some(days).filter(|days| days.bytes().all(|byte| byte.is_ascii_digit()))?;
        let days: u64 = days.parse().ok()?;
        let rest = match rest {
            "" => Duration::ZERO,
            rest => parse_with_units(rest).filter(|_| !rest.contains('d'))?,
        };
        return Duration::from_secs(days.checked_mul(DAY)?).checked_add(rest);
    }
    let duration: SignedDuration = match text.strip_prefix('.') {
        Some(_) => format!("0{text}").parse(),
        None => text.parse(),
    }
    .ok()?;
    duration.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units_or_seconds() {
        let ms = |text| parse_duration(text).map(|duration| duration.as_millis());
        for (text, expected) in [
            ("0s", 0),
            ("200ms", 200),
            ("0", 0),
            ("10", 10_000),
            ("1.5", 1500),
            (".5", 500),
            ("20s", 20_000),
            ("1.5m", 90_000),
            (".5s", 500),
            ("1m30s", 90_000),
            ("2h", 7_200_000),
            ("168h", 604_800_000),
            ("1h30m5s250ms", 5_405_250),
            ("0d", 0),
            ("30d", 2_592_000_000),
            ("1d12h", 129_600_000),
        ] {
            assert_eq!(ms(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "s",
            ".",
            "1h30",
            "1d12",
            "-1s",
            "1s ago",
            "1 s",
            "1.5d",
            "d",
            "1h1d",
            "1d1d",
            "99999999999999999999d",
            "1e9s",
            "nan",
            "30s1m",
            ".s",
            "+1s",
            "99999999999999999999m",
            "١s",
        ] {
            assert_eq!(ms(text), None, "{text:?}");
        }
    }
}
