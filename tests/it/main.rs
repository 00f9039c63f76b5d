//! Everything that is promised to users, tested from outside.
