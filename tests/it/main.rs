//! Everything that is promised to users, tested from outside.

#[cfg(feature = "notice")]
mod notices;
mod wire;
