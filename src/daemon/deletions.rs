//! Files that disappear from a folder, as the kernel reports them.

#[cfg(not(target_os = "linux"))]
use std::io;
#[cfg(not(target_os = "linux"))]
use std::path::Path;

#[cfg(target_os = "linux")]
mod inotify {
    use std::io;
    use std::path::Path;

    use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
    use tokio::net::unix::pipe;

    /// A watched folder. The kernel stops reporting once the folder itself is deleted.
    ///
    /// Its queue of events is read as a pipe is.
    #[derive(Debug)]
    pub(in crate::daemon) struct Deletions(pipe::Receiver);

    impl Deletions {
        /// Watches a folder.
        ///
        /// # Errors
        ///
        /// Where the user has as many watches as the system permits (`fs.inotify` in sysctl).
        pub(in crate::daemon) fn watch(folder: &Path) -> io::Result<Self> {
            let queue = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            let events = WatchFlags::DELETE
                | WatchFlags::MOVED_FROM
                | WatchFlags::MOVED_TO
                | WatchFlags::DELETE_SELF
                | WatchFlags::MOVE_SELF
                | WatchFlags::ONLYDIR;
            inotify::add_watch(&queue, folder, events)?;
            let queue = pipe::Receiver::from_owned_fd_unchecked(queue)?;
            Ok(Self(queue))
        }

        /// Returns when something has disappeared, or was replaced, since the last call. Nothing
        /// is lost if the future is dropped.
        pub(in crate::daemon) async fn next(&mut self) -> io::Result<()> {
            self.0.readable().await?;
            let mut events = [0_u8; 4096];
            loop {
                match self.0.try_read(&mut events) {
                    Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
    }
}

#[cfg(target_os = "linux")]
pub(super) use inotify::Deletions;

/// Other systems report no deletions.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub(super) enum Deletions {}

#[cfg(not(target_os = "linux"))]
impl Deletions {
    pub(super) fn watch(_folder: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) async fn next(&mut self) -> io::Result<()> {
        match *self {}
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::Deletions;

    #[tokio::test]
    async fn a_deleted_file_and_a_deleted_folder_are_reported() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("run");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("sock"), "").unwrap();
        let mut deletions = Deletions::watch(&folder).unwrap();
        fs::remove_file(folder.join("sock")).unwrap();
        deletions.next().await.unwrap();
        fs::remove_dir(&folder).unwrap();
        deletions.next().await.unwrap();
        assert!(Deletions::watch(&folder).is_err());
    }
}
