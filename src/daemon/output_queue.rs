//! The queue of an output stream: pieces, bounded by their bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc;

/// How many bytes a client may be behind.
const BEHIND: usize = 4 << 20;

/// What a piece costs besides its bytes.
const PIECE_COST: usize = 64;

/// Returns a queue's two ends.
pub(super) fn output_queue() -> (OutputSender, OutputReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let queued = Arc::new(AtomicUsize::new(0));
    let sender = OutputSender {
        pieces: sender,
        queued: Arc::clone(&queued),
    };
    let receiver = OutputReceiver {
        pieces: receiver,
        queued,
    };
    (sender, receiver)
}

/// The daemon's end of the queue.
#[derive(Debug)]
pub(super) struct OutputSender {
    /// Pieces of output, then `None` when the run has ended: without that, output is missing.
    pieces: mpsc::UnboundedSender<Option<String>>,
    /// Their total cost, at most [`BEHIND`].
    queued: Arc<AtomicUsize>,
}

impl OutputSender {
    /// Adds a piece. Returns whether it was added: not when the client is too far behind or has
    /// left.
    pub(super) fn send(&self, piece: String) -> bool {
        let cost = cost(&piece);
        // A single piece is added whatever its size: the client is not behind then.
        let before = self.queued.load(Ordering::Relaxed);
        if before > 0 && before + cost > BEHIND {
            return false;
        }
        self.queued.fetch_add(cost, Ordering::Relaxed);
        self.pieces.send(Some(piece)).is_ok()
    }

    /// Marks the end of the run: the output is complete.
    pub(super) fn end(&self) {
        // A client that has left needs no end.
        drop(self.pieces.send(None));
    }
}

/// The connection's end of the queue.
#[derive(Debug)]
pub(super) struct OutputReceiver {
    pieces: mpsc::UnboundedReceiver<Option<String>>,
    queued: Arc<AtomicUsize>,
}

impl OutputReceiver {
    /// Returns the next piece, `Some(None)` at the end of the run; `None` when nothing more will
    /// come.
    ///
    /// # Cancel safety
    ///
    /// No piece is lost when the future is dropped.
    pub(super) async fn recv(&mut self) -> Option<Option<String>> {
        let piece = self.pieces.recv().await?;
        if let Some(piece) = &piece {
            self.queued.fetch_sub(cost(piece), Ordering::Relaxed);
        }
        Some(piece)
    }
}

fn cost(piece: &str) -> usize {
    piece.len() + PIECE_COST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_may_be_so_many_bytes_behind_and_no_more() {
        for size in [1, 8 << 10, 1 << 20] {
            let (sender, mut receiver) = output_queue();
            let mut bytes = 0;
            while sender.send("x".repeat(size)) {
                bytes += size + PIECE_COST;
            }
            assert!(
                bytes <= BEHIND && bytes + size + PIECE_COST > BEHIND,
                "{size}"
            );
            // A client that reads again is continued.
            assert!(receiver.recv().await.flatten().is_some());
            assert!(sender.send("x".repeat(size)), "{size}");
        }
    }

    #[tokio::test]
    async fn a_piece_of_any_size_goes_to_a_reader_that_is_not_behind() {
        let (sender, mut receiver) = output_queue();
        assert!(sender.send("x".repeat(2 * BEHIND)));
        assert!(!sender.send("y".to_owned()));
        sender.end();
        drop(sender);
        assert!(receiver.recv().await.flatten().is_some());
        assert_eq!(receiver.recv().await, Some(None));
        assert_eq!(receiver.recv().await, None);
    }
}
