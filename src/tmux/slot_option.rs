//! The window option with the slot of a task's launch. It belongs to one launch, as the option of
//! restarts does.

use crate::model::{Millis, Slot};

/// The window option.
pub(super) const SLOT: &str = "@tmux_task_slot";

/// The version of the format.
const VERSION: &str = "1";

/// Returns the option's value for the launch at this time: `1 STARTED NAME:PLACES`.
pub(super) fn encode_slot(slot: &Slot, started: Millis) -> String {
    format!("{VERSION} {started} {slot}")
}

/// Reads an option's value; `None` when it is of another launch than the one at this time, of another
/// version, or damaged.
pub(super) fn decode_slot(text: Option<&str>, started: Option<Millis>) -> Option<Slot> {
    let fields: Vec<&str> = text?.split(' ').collect();
    let [VERSION, of, slot] = fields.as_slice() else {
        return None;
    };
    let is_of_launch = of.parse::<Millis>().ok() == Some(started?);
    is_of_launch.then(|| Slot::parse(slot).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_else() {
        let slot = Slot::parse("build:2").ok();
        let text = encode_slot(slot.as_ref().unwrap(), 77);
        assert_eq!(text, "1 77 build:2");
        assert_eq!(decode_slot(Some(&text), Some(77)), slot);
        assert_eq!(decode_slot(Some(&text), Some(78)), None);
        assert_eq!(decode_slot(Some(&text), None), None);
        for text in [
            "",
            "1 77",
            "2 77 build:2",
            "1 77 build",
            "1 77 ../x:2",
            "1 77 build:2 x",
        ] {
            assert_eq!(decode_slot(Some(text), Some(77)), None, "{text}");
        }
    }
}
