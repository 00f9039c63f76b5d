//! Sizes and long times in the configuration.

use std::time::Duration;

use super::parse_duration;

/// Parses a size: a whole number with the unit `KiB`, `MiB`, `GiB` or `TiB`. Returns it in bytes;
/// `None` when it is not a size, or too large.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (number, bits) = units
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)))?;
    whole_number(number)?.checked_mul(1 << bits)
}

/// Parses a time: a whole number of days such as `30d`, or a duration such as `12h`. `None` when it
/// is neither, or too long.
pub(super) fn parse_days(text: &str) -> Option<Duration> {
    match text.strip_suffix('d') {
        Some(days) => {
            let seconds = whole_number(days)?.checked_mul(24 * 3600)?;
            Some(Duration::from_secs(seconds))
        }
        None => parse_duration(text),
    }
}

fn whole_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_a_binary_unit() {
        for (text, expected) in [
            ("1KiB", Some(1024)),
            ("64MiB", Some(64 << 20)),
            ("2GiB", Some(2 << 30)),
            ("1TiB", Some(1 << 40)),
            ("64", None),
            ("64MB", None),
            ("64 MiB", None),
            ("1.5GiB", None),
            ("+1GiB", None),
            ("MiB", None),
            ("99999999999TiB", None),
        ] {
            assert_eq!(parse_size(text), expected, "{text}");
        }
    }

    #[test]
    fn long_times_may_be_days() {
        let hours = |n: u64| Some(Duration::from_secs(3600 * n));
        for (text, expected) in [
            ("30d", hours(720)),
            ("0d", hours(0)),
            ("12h", hours(12)),
            ("1.5d", None),
            ("d", None),
            ("30", None),
            ("-1d", None),
            ("99999999999999999999d", None),
        ] {
            assert_eq!(parse_days(text), expected, "{text}");
        }
    }
}
