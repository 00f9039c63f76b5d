//! Logs each kind of failure once, not once for each notice.

use std::mem::{Discriminant, discriminant};

/// The kinds of failure that were logged since a display last worked. A kind is a variant of the
/// display's error.
#[derive(Debug)]
pub struct LogOnce<E> {
    /// Contains each variant of `E` at most once, which bounds it.
    logged: Vec<Discriminant<E>>,
}

impl<E> Default for LogOnce<E> {
    fn default() -> Self {
        Self { logged: Vec::new() }
    }
}

impl<E> LogOnce<E> {
    /// Whether this kind of failure has not been logged since the display last worked. Marks it as
    /// logged.
    #[must_use]
    pub fn admit(&mut self, error: &E) -> bool {
        let kind = discriminant(error);
        let is_news = !self.logged.contains(&kind);
        if is_news {
            self.logged.push(kind);
        }
        is_news
    }

    /// Clears the kinds, because the display works. Returns whether there were any.
    pub fn clear(&mut self) -> bool {
        let had_any = !self.logged.is_empty();
        self.logged.clear();
        had_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_logged_once_until_the_display_works() {
        let mut complaints = LogOnce::default();
        assert!(!complaints.clear());
        assert!(complaints.admit(&Some("refused")));
        assert!(!complaints.admit(&Some("reset")));
        assert!(complaints.admit(&None));
        assert!(!complaints.admit(&Some("refused")));
        assert!(complaints.clear());
        assert!(!complaints.clear());
        assert!(complaints.admit(&Some("refused")));
    }
}
