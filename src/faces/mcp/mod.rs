//! The MCP server: tasks as tools for a model, on standard input and output.
//!
//! Results are plain, bounded lines of text. Each call finds the session like a command of its own;
//! between calls the server keeps nothing but the handles of calls that are still waiting.

mod arguments;
mod call;
mod other_host;
mod output;
mod server;
mod tasks;
mod tools;
mod transport;
mod wait;

pub(crate) use server::{ServeOptions, serve, serve_call};
