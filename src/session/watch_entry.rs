//! A run whose search begins with a read of its pane.

use super::wait_entry::{OutputSinceAnchor, give_since};
use crate::model::WindowId;
use crate::terminal::PaneOutput;
use crate::wait::{Anchor, AnchorPosition, OutputWatch, locate};

#[derive(Debug)]
pub(crate) struct WatchEntry {
    pub(super) window: WindowId,
    pub(super) run: Option<u32>,
    /// The process of the run.
    pub(super) pid: Option<u32>,
    pub(super) watch: OutputWatch,
    pub(super) anchor: Anchor,
}

/// Searches a read for all runs whose search begins with it. Like waits, the link does this.
pub(crate) fn search_entries(entries: &mut [WatchEntry], output: &PaneOutput) {
    for entry in entries {
        if output.pid.is_some() && output.pid != entry.pid {
            // The pane runs something else.
            entry.watch.on_loss();
        } else {
            search_since(&mut entry.watch, Some(&entry.anchor), output, false);
        }
    }
}

/// Searches the output behind an anchor. If that is not found, everything that is left is searched:
/// better twice than never. Where that is all output of a run that `is_over`, and the watch has read it up
/// to the anchor, what was counted is left out.
pub(super) fn search_since(
    watch: &mut OutputWatch,
    anchor: Option<&Anchor>,
    output: &PaneOutput,
    is_over: bool,
) {
    let search = |watch: &mut OutputWatch, anchor, all| {
        give_since(anchor, output, all, &mut |line| watch.line_since(line))
    };
    if search(watch, anchor, false) != OutputSinceAnchor::Lost {
        return;
    }
    let start = locate(&Anchor::START, &output.rows, output.history, output.limit);
    match anchor
        .filter(|_| is_over && !watch.has_gap())
        .and(Some(start))
    {
        // Characters have another width there, so its rows are wrapped otherwise.
        Some(AnchorPosition::At(_)) => watch.begin_again(),
        Some(AnchorPosition::Lost) | None => watch.on_loss(),
    }
    search(watch, Some(&Anchor::START), true);
}
