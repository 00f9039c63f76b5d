//! The rules, pure: no async, clock, files or environment. `engine` composes most of them; `wire` has the
//! formats.

pub(crate) mod alerts;
pub mod diff;
pub mod engine;
pub(crate) mod input_episodes;
pub mod observe;
pub mod prompt;
pub mod protocol;
pub(crate) mod restarts;
pub(crate) mod route;
pub(crate) mod terminal;
pub(crate) mod wait;
pub mod wire;
