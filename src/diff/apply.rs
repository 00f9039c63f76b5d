//! x
use crate::model::{Event, Snapshot};
/// x
pub fn apply(_s: &mut Snapshot, _e: &Event) {}
