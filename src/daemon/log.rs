//! The daemon's log: a file in the state folder.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Mutex;

use tracing_subscriber::EnvFilter;

/// A log that is longer than this at a start is put aside, in the place of the one before.
const MAX_BYTES: u64 = 1 << 20;

/// The environment variable that says what is logged, as `tracing` filters read it.
const LEVEL_VARIABLE: &str = "TMUX_TASK_LOG";

/// From here on the program logs into this file.
pub(super) fn open(path: &Path) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|found| found.len() > MAX_BYTES) {
        fs::rename(path, path.with_extension("log.old"))?;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    let filter = EnvFilter::builder()
        .with_env_var(LEVEL_VARIABLE)
        .try_from_env()
        .unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt()
        .with_writer(Mutex::new(file))
        .with_env_filter(filter)
        .with_ansi(false)
        .try_init();
    // Somebody else's logging is as good as ours.
    logging.or(Ok(()))
}
