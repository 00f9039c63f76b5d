//! How much two looks differ.

/// How much two looks, or two looks at one task, differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// At most in what changes all the time: the time of the look, the text on the screens, and the
    /// evidence on the terminals.
    Cosmetic,
    /// In bell counts or flags as well.
    InBells,
    /// In anything else.
    Otherwise,
}
