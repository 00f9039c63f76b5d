//! Sizes in the configuration.

/// Parses a size: a whole number with the unit `KiB`, `MiB`, `GiB` or `TiB`. Returns it in bytes;
/// `None` when it is not a size, or too large.
pub(super) fn parse_size(text: &str) -> Option<u64> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30), ("TiB", 40)];
    let (number, bits) = units
        .iter()
        .find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)))?;
    whole_number(number)?.checked_mul(1 << bits)
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
}
