//! This machine: its name, its programs, its clock.

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use std::{fs, io};

use sha2::{Digest, Sha256};
use tmux_task::model::{Millis, host_name_of};

/// Returns the name that the system gives this machine.
pub(crate) fn system_name() -> String {
    let system = rustix::system::uname();
    host_name_of(system.nodename().to_bytes())
}

/// Returns tmux-task's program: the one beside this one, else that of PATH.
pub(crate) fn tmux_task() -> OsString {
    let beside = std::env::current_exe().map(|program| program.with_file_name("tmux-task"));
    let beside = beside.ok().filter(|program| program.exists());
    beside.map_or_else(|| "tmux-task".into(), Into::into)
}

/// Returns the time, in milliseconds since 1970.
pub(crate) fn now() -> Millis {
    millis(SystemTime::now())
}

/// Returns a time in milliseconds since 1970.
pub(crate) fn millis(time: impl Into<SystemTime>) -> Millis {
    let since = time.into().duration_since(UNIX_EPOCH).unwrap_or_default();
    Millis::try_from(since.as_millis()).unwrap_or(Millis::MAX)
}

/// Returns 32 hexadecimal digits of a text's hash.
pub(crate) fn hash(text: &str) -> String {
    let hash = Sha256::digest(text);
    let digits = hash.iter().take(16).map(|byte| format!("{byte:02x}"));
    digits.collect()
}

/// Creates a folder of the user's own, if it does not exist.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    let mut folder = fs::DirBuilder::new();
    folder.recursive(true).mode(0o700).create(path)
}
