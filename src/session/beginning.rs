//! What begins with a read of a pane: waits, searches and output streams.

use super::listeners::{ActiveWait, OutputStream, RequestId};
use super::wait_entry::{Row, WatchEntry, give_wait_since, search_since, unwrapped};
use crate::terminal::{PaneOutput, Pattern};

/// What begins with a read of a pane. The link has it while it reads, and judges it, because that can take
/// long.
#[derive(Debug, Default)]
pub(crate) struct Beginning {
    pub(super) waits: Vec<ActiveWait>,
    /// Runs that are searched from then on.
    pub(super) watches: Vec<WatchEntry>,
    pub(super) output_streams: Vec<OutputStream>,
}

impl Beginning {
    /// Whether the whole history is needed, and not only the last lines of it.
    pub(crate) fn needs_history(&self) -> bool {
        !self.waits.is_empty() || !self.watches.is_empty()
    }

    /// Returns the requests that wait for it.
    pub(super) fn requests(&self) -> Vec<RequestId> {
        let waits = self.waits.iter().map(|active| active.request_id);
        let streams = self.output_streams.iter().map(|stream| stream.request_id);
        waits.chain(streams).collect()
    }

    /// Judges the read: whether a text of a wait is there already, what was written behind the anchors of
    /// waits, and what is found in the runs that are searched. It can take milliseconds for a long history;
    /// the lines are joined once for all waits.
    pub(crate) fn judge(&mut self, output: &PaneOutput) {
        let mut lines = None;
        for active in &mut self.waits {
            let mut is_there = |text: &Pattern| {
                let rows = || unwrapped(&output.rows, output.width, 0);
                let lines: &Vec<Row> = lines.get_or_insert_with(rows);
                let mut lines = lines.iter();
                lines.any(|row| text.find(&row.line(true), 0).is_some())
            };
            active.matched_at_entry = active.wait.spec.texts().any(&mut is_there);
            let anchor = active.anchor.as_ref();
            let wait = &mut active.wait;
            active.since = anchor.map(|anchor| give_wait_since(wait, Some(anchor), output));
        }
        for entry in &mut self.watches {
            if output.pid.is_some() && output.pid != entry.pid {
                // The pane runs something else.
                entry.watch.on_loss();
            } else {
                search_since(&mut entry.watch, Some(&entry.anchor), output, false);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::wait_entry::tests::wait;
    use super::*;

    #[test]
    fn each_wait_learns_whether_its_own_text_is_there() {
        let entry = |texts: &[&str]| ActiveWait {
            request_id: RequestId(1),
            wait: wait(texts, &[]),
            pane: None,
            anchor: None,
            matched_at_entry: false,
            since: None,
            tail: 0,
            owner: None,
        };
        let texts: [&[&str]; 5] = [&["first"], &["second"], &[], &["x", "irst se"], &["third"]];
        let mut begins = Beginning {
            waits: texts.map(entry).into(),
            ..Beginning::default()
        };
        let rows = ["first", " second"].map(str::to_owned).to_vec();
        let output = PaneOutput {
            lines: Vec::new(),
            history: 0,
            rows,
            limit: 2000,
            width: 5,
            height: 2,
            cursor: (0, 1),
            is_alternate: false,
            is_dead: false,
            pid: Some(7),
        };
        begins.judge(&output);
        let waits = begins.waits.iter();
        let is_there: Vec<bool> = waits.map(|active| active.matched_at_entry).collect();
        assert_eq!(is_there, [true, true, false, true, false]);
    }
}
