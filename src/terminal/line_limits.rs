//! How much of a long line is reported.

/// How many bytes of a line are reported around a change, and kept of what scrolled off.
pub(crate) const LINE_LIMIT: usize = 16 * 1024;

/// By how many bytes the pieces of a line longer than [`LINE_LIMIT`] overlap.
pub(crate) const LINE_OVERLAP: usize = 4 * 1024;
