//! A connection that was accepted.

use std::sync::Arc;

use tokio::net::UnixStream;

/// A connection, counted as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    pub(super) socket: UnixStream,
    pub(super) is_open: Arc<()>,
}
