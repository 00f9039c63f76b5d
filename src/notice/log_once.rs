//! Complaining once: a sink that cannot be reached is worth a line in the log, not one for each
//! notice.

use std::mem::{Discriminant, discriminant};

/// Remembers which kinds of failure were complained about since a sink last worked. A kind is a
/// variant of the sink's error.
#[derive(Debug)]
pub struct LogOnce<E> {
    /// Holds each variant of `E` at most once, which bounds it.
    told: Vec<Discriminant<E>>,
}

impl<E> Default for LogOnce<E> {
    fn default() -> Self {
        Self { told: Vec::new() }
    }
}

impl<E> LogOnce<E> {
    /// Returns whether nobody has heard of this kind of failure since the sink last worked, and
    /// takes it as told.
    #[must_use]
    pub fn admit(&mut self, error: &E) -> bool {
        let kind = discriminant(error);
        let is_news = !self.told.contains(&kind);
        if is_news {
            self.told.push(kind);
        }
        is_news
    }

    /// Forgets all complaints, as the sink works. Returns whether there were any.
    pub fn settle(&mut self) -> bool {
        let had_any = !self.told.is_empty();
        self.told.clear();
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_once_until_the_sink_works() {
        let mut complaints = LogOnce::default();
        assert!(!complaints.settle());
        assert!(complaints.admit(&Some("refused")));
        assert!(!complaints.admit(&Some("reset")));
        assert!(complaints.admit(&None));
        assert!(!complaints.admit(&Some("refused")));
        assert!(complaints.settle());
        assert!(!complaints.settle());
        assert!(complaints.admit(&Some("refused")));
    }
}
