//! Showing a value of few by its name on the wire.

/// Displays types by the name under which they are serialised.
macro_rules! shown_by_wire_name {
    ($($shown:ty),+) => {$(
        impl std::fmt::Display for $shown {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                serde::Serialize::serialize(self, f)
            }
        }
    )+};
}

pub(crate) use shown_by_wire_name;
