//! Which requests were executed: a request that comes twice is executed once. The daemons of a user
//! share the folder, because any of them may get the second one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use crate::paths::hex;

/// After which time a key is forgotten.
const KEPT: Duration = Duration::from_secs(3600);

/// The folder of the keys.
#[derive(Debug)]
pub(super) struct ExecutionKeys(pub(super) PathBuf);

/// What is known of a request.
#[derive(Debug)]
pub(super) enum Claim {
    /// It is new, and may be executed.
    New(Claimed),
    /// It was executed, with this exit code.
    Ended(u8),
    /// It is being executed, or its execution was cut off.
    Taken,
}

#[derive(Debug)]
pub(super) struct Claimed(File);

impl ExecutionKeys {
    /// Claims the execution of the request with this key.
    pub(super) fn claim(&self, key: &str) -> io::Result<Claim> {
        let mut folder = fs::DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.0)?;
        self.forget_old()?;
        let path = self.0.join(hex(key.as_bytes(), 32));
        let mut options = OpenOptions::new();
        match options.write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => Ok(Claim::New(Claimed(file))),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let code = fs::read_to_string(&path)?;
                Ok(code.trim().parse().map_or(Claim::Taken, Claim::Ended))
            }
            Err(error) => Err(error),
        }
    }

    fn forget_old(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.0)? {
            let entry = entry?;
            let age = entry
                .metadata()
                .and_then(|known| known.modified())?
                .elapsed();
            if age.is_ok_and(|age| age > KEPT) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Claimed {
    /// Notes how the execution has ended.
    pub(super) fn end(mut self, code: u8) {
        if let Err(error) = writeln!(self.0, "{code}") {
            tracing::warn!(%error, "the outcome of a command was not noted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_executed_once() {
        let dir = tempfile::tempdir().unwrap();
        let keys = ExecutionKeys(dir.path().join("fleet"));
        let Claim::New(claimed) = keys.claim("../a").unwrap() else {
            panic!("it is new");
        };
        assert!(matches!(keys.claim("../a").unwrap(), Claim::Taken));
        claimed.end(3);
        assert!(matches!(keys.claim("../a").unwrap(), Claim::Ended(3)));
        assert!(matches!(keys.claim("b").unwrap(), Claim::New(_)));
        let entries = fs::read_dir(keys.0).unwrap();
        assert_eq!(entries.count(), 2);
    }
}
