//! Hours of the day in which nothing is displayed.

/// A part of each day, in minutes since midnight of local time: from the first one to before the
/// second one, across midnight if the second one is not later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuietHours {
    pub(crate) from: u16,
    pub(crate) to: u16,
}

impl QuietHours {
    /// Reads `22:00-07:30`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (from, to) = text.split_once('-')?;
        let (from, to) = (minute(from.trim())?, minute(to.trim())?);
        (from != to).then_some(Self { from, to })
    }

    pub(super) fn contains(self, minute: u16) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&minute)
        } else {
            minute >= self.from || minute < self.to
        }
    }
}

/// Reads `07:30` as minutes.
fn minute(text: &str) -> Option<u16> {
    let (hour, minute) = text.split_once(':')?;
    let is_number = |text: &str, lengths: &[usize]| {
        lengths.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
    };
    if !is_number(hour, &[1, 2]) || !is_number(minute, &[2]) {
        return None;
    }
    let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_hours_may_cross_midnight() {
        let quiet = |text, minute| QuietHours::parse(text).unwrap().contains(minute);
        assert!(quiet("9:00-10:30", 9 * 60));
        assert!(!quiet("9:00-10:30", 10 * 60 + 30));
        assert!(!quiet("9:00-10:30", 0));
        assert!(quiet("22:00-07:00", 23 * 60));
        assert!(quiet("22:00 - 07:00", 6 * 60 + 59));
        assert!(!quiet("22:00-07:00", 7 * 60));
        for bad in [
            "",
            "22-7",
            "22:00",
            "24:00-07:00",
            "22:60-07:00",
            "8:00-8:00",
            "+8:00-9:00",
            "8:0-9:00",
        ] {
            assert_eq!(QuietHours::parse(bad), None, "{bad}");
        }
    }
}
