//! The faces: what users and programs use. Each words what the use cases answer, and decides nothing.

pub(crate) mod agent;
pub mod cli;
#[cfg(feature = "mcp")]
pub(crate) mod mcp;
#[cfg(feature = "panel")]
pub(crate) mod panel;
