//! Opens files and folders that belong to this user alone.
//!
//! Whoever may write to a folder can put a link, a pipe or their own file where we expect ours. So
//! nothing is opened before its folder is known to be ours, links are not followed in the last two
//! components of a path, and an opened file is used only if it is a regular file of ours. Nothing
//! is truncated and no mode is changed before that is known.

use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, readlinkat, symlinkat, unlinkat};
use rustix::io::Errno;
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(crate) const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Mode bits that give other users any access.
pub(crate) const OPEN_TO_OTHERS: u32 = 0o077;

const STICKY: u32 = 0o1000;

/// Where the kernel shows its processes and settings. Elsewhere a folder of this name has other contents,
/// so nothing is read there.
pub(crate) const PROC: &str = if cfg!(linux) { "/proc" } else { "/dev/null" };

/// A file or folder that is refused, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {fault}", .path.display())]
pub struct RefusedFile {
    /// The file or folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: Fault,
}

/// What is wrong with a file or folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A symbolic link, which leads elsewhere.
    #[error("is a symbolic link")]
    Link,
    /// A folder, a pipe, a socket or a device.
    #[error("is not a regular file")]
    NotAFile,
    /// Anything but a folder.
    #[error("is not a folder")]
    NotAFolder,
    /// Another user owns it.
    #[error("belongs to uid {0}")]
    Owner(u32),
    /// Other users can change its contents.
    #[error("can be written to by other users (mode {0:04o})")]
    Writable(u32),
}

impl From<RefusedFile> for io::Error {
    fn from(refused: RefusedFile) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, refused)
    }
}

/// Whether the error is a refusal, and not a failure to open.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    let inner = error.get_ref();
    inner.is_some_and(|inner| inner.is::<RefusedFile>())
}

pub(crate) fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Opens a file of ours for reading. Its folder has to be ours, too.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDONLY)
}

/// Reads at most `max` bytes of a file of ours that has a secret: nobody else may be able to read it.
#[cfg(feature = "webhook")]
pub(crate) fn read_secret(path: &Path, max: u64) -> Result<Vec<u8>, String> {
    let mut contents = Vec::new();
    let read = open(path).and_then(|file| {
        (&file).take(max).read_to_end(&mut contents)?;
        file.metadata()
    });
    let mode = read.map_err(|error| error.to_string())?.mode() & 0o7777;
    if mode & OPEN_TO_OTHERS != 0 {
        let why = format!("other users can read it (mode {mode:04o})");
        return Err(why + "; `chmod 600` closes it");
    }
    Ok(contents)
}

/// Opens a file of ours for reading and writing. Creates it if it is missing.
pub(crate) fn open_to_write(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::RDWR | OFlags::CREATE)
}

/// Opens a file of ours for appending. Creates it if it is missing.
pub(crate) fn open_to_append(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
}

/// Creates a new file of ours. The name must be free.
pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    open_with(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
}

pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the outcome of something that was done with a file; `None` when there is no such file.
pub(crate) fn if_there<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns a value as a line of JSON, with its end.
pub(crate) fn json_line(value: &impl serde::Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns what a file of ours has, JSON with this version; `None` without one. The error is one line.
pub(crate) fn load_json<T: DeserializeOwned>(
    path: &Path,
    version: u32,
) -> Result<Option<T>, String> {
    #[derive(Deserialize)]
    struct Version {
        v: u32,
    }
    let read = if_there(read(path)).map_err(|error| error.to_string())?;
    let Some(bytes) = read else { return Ok(None) };
    let not_json = |error: serde_json::Error| error.to_string();
    let Version { v } = serde_json::from_slice(&bytes).map_err(not_json)?;
    if v != version {
        return Err(format!("it has version {v}"));
    }
    serde_json::from_slice(&bytes).map(Some).map_err(not_json)
}

/// Returns the contents of a file that the user or the administrator wrote, behind links; of an empty device
/// such as `/dev/null` nothing. An error if another user can change it, or it is longer than `limit` bytes.
pub(crate) fn read_written(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(CWD, path, flags, Mode::empty())?);
    let found = file.metadata()?;
    let mut bytes = Vec::new();
    if found.file_type().is_char_device() && (&file).read(&mut [0])? == 0 {
        return Ok(bytes);
    }
    if !found.is_file() && !found.is_dir() {
        return Err(refused(path, Fault::NotAFile));
    }
    if found.uid() != 0 {
        check_owner(path, &found)?;
    }
    if found.mode() & 0o002 != 0 {
        return Err(refused(path, Fault::Writable(found.mode() & 0o7777)));
    }
    if (&file).take(limit + 1).read_to_end(&mut bytes)? as u64 > limit {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// Replaces a file of ours in one step, by `fresh` beside it. If that fails, the old file stays.
pub(crate) fn replace(path: &Path, fresh: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_after(path, fresh, bytes, |_| Ok(()))
}

/// The same, with bytes that are on the disk before. The new name is, after [`sync_folder`].
pub(crate) fn replace_synced(path: &Path, fresh: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_after(path, fresh, bytes, File::sync_data)
}

/// What could not be written does not stay: on a full disk it would take what is left.
fn replace_after(
    path: &Path,
    fresh: &Path,
    bytes: &[u8],
    sync: fn(&File) -> io::Result<()>,
) -> io::Result<()> {
    let mut file = open_to_write(fresh)?;
    file.set_len(0)
        .and_then(|()| file.write_all(bytes))
        .and_then(|()| sync(&file))
        .and_then(|()| fs::rename(fresh, path))
        .inspect_err(|_| fs::remove_file(fresh).unwrap_or_default())
}

/// Returns where a link of ours leads. It is not followed.
pub(crate) fn read_link(path: &Path) -> io::Result<PathBuf> {
    let (folder, name) = folder_and_name(path)?;
    let target = readlinkat(&folder, name, Vec::new())?;
    check_owner(path, &fs::symlink_metadata(path)?)?;
    Ok(OsString::from_vec(target.into_bytes()).into())
}

/// Makes a link, or replaces it, in one step. Before that the link is made as `fresh` beside it.
pub(crate) fn replace_link(path: &Path, fresh: &Path, target: &Path) -> io::Result<()> {
    let (folder, name) = folder_and_name(fresh)?;
    match unlinkat(&folder, name, AtFlags::empty()) {
        Err(Errno::NOENT) => {}
        removed => removed?,
    }
    symlinkat(target, &folder, name)?;
    fs::rename(fresh, path)
}

const MOST_ASIDE: u32 = 10_000;

/// Renames a file or folder of ours to `OTHER.SUFFIX-1`, or `-2` and so on, which is free. Returns that path.
pub(crate) fn put_aside(path: &Path, other: &Path, suffix: &str) -> io::Result<PathBuf> {
    let aside = |n: u32| {
        let mut name = other.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{suffix}-{n}"));
        other.with_file_name(name)
    };
    let mut names = (1..=MOST_ASIDE).map(aside);
    let free = names.find(|name| fs::symlink_metadata(name).is_err());
    let free = free.ok_or(io::ErrorKind::AlreadyExists)?;
    fs::rename(path, &free)?;
    Ok(free)
}

/// Writes to the disk which files a folder of ours contains.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    open_folder(path)?.sync_all()
}

/// Creates a folder and its parents, for this user alone. Removes the rights in `open` from an existing
/// folder. One that is meant for many users, such as `/tmp`, is refused.
pub(crate) fn make_folder(path: &Path, open: u32) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let folder = open_folder(path)?;
    let mode = folder.metadata()?.mode();
    if mode & STICKY != 0 {
        return Err(refused(path, Fault::Writable(mode & 0o7777)));
    }
    if mode & open != 0 {
        folder.set_permissions(fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

/// Checks that a folder is ours and that no other user can change its contents. Changes nothing.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    let found = open_folder(path)?.metadata()?;
    if found.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(refused(path, Fault::Writable(found.mode() & 0o7777)));
    }
    Ok(())
}

/// Checks that a folder is ours and not a link to one.
pub(crate) fn check_owner_of_folder(path: &Path) -> io::Result<()> {
    open_folder(path).map(drop)
}

/// Returns the nearest existing folder at or above this path, behind links, with its owner.
pub(crate) fn nearest_folder(path: &Path) -> Option<(PathBuf, u32)> {
    path.ancestors().find_map(|folder| {
        let found = fs::metadata(folder).ok()?;
        Some((folder.to_owned(), found.uid()))
    })
}

fn refused(path: &Path, fault: Fault) -> io::Error {
    let path = path.to_owned();
    RefusedFile { path, fault }.into()
}

fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = match openat(CWD, path, flags, Mode::empty()) {
        Ok(folder) => File::from(folder),
        Err(errno) => return Err(explain(path, errno.into(), Fault::NotAFolder)),
    };
    check_owner(path, &folder.metadata()?)?;
    Ok(folder)
}

fn folder_and_name(path: &Path) -> io::Result<(File, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(name)) => Ok((open_folder(folder)?, name)),
        (_, _) => Err(refused(path, Fault::NotAFile)),
    }
}

fn open_with(path: &Path, flags: OFlags) -> io::Result<File> {
    let (folder, name) = folder_and_name(path)?;
    // A pipe without a process at the other end must not block.
    let safely = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(&folder, name, flags | safely, Mode::from_raw_mode(0o600)) {
        Ok(file) => File::from(file),
        Err(errno) => return Err(explain(path, errno.into(), Fault::NotAFile)),
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(refused(path, Fault::NotAFile));
    }
    check_owner(path, &found)?;
    Ok(file)
}

fn check_owner(path: &Path, found: &Metadata) -> io::Result<()> {
    if found.uid() == our_uid() {
        Ok(())
    } else {
        Err(refused(path, Fault::Owner(found.uid())))
    }
}

/// Explains an error that the kernel returns for links, pipes and sockets.
fn explain(path: &Path, error: io::Error, otherwise: Fault) -> io::Error {
    let Ok(found) = fs::symlink_metadata(path) else {
        return error;
    };
    let is_expected = match otherwise {
        Fault::NotAFolder => found.is_dir(),
        Fault::NotAFile | Fault::Link | Fault::Owner(_) | Fault::Writable(_) => found.is_file(),
    };
    if found.is_symlink() {
        refused(path, Fault::Link)
    } else if found.uid() != our_uid() {
        refused(path, Fault::Owner(found.uid()))
    } else if is_expected {
        error
    } else {
        refused(path, otherwise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    const VICTIM: &[u8] = b"precious";

    #[track_caller]
    fn fault<T: std::fmt::Debug>(result: io::Result<T>) -> Fault {
        let error = result.unwrap_err();
        assert!(is_refusal(&error), "{error:?}");
        let inner = error.into_inner().unwrap();
        inner.downcast::<RefusedFile>().unwrap().fault
    }

    /// Checks that every way to open the file is refused for this reason, and that none blocks.
    #[track_caller]
    fn check_refused(path: &Path, expected: Fault) {
        assert_eq!(fault(open(path)), expected);
        assert_eq!(fault(open_to_write(path)), expected);
        assert_eq!(fault(open_to_append(path)), expected);
        assert_eq!(fault(read(path)), expected);
        assert!(create_new(path).is_err());
        let beside = path.with_extension("other");
        assert_eq!(fault(replace(&beside, path, b"new")), expected);
        assert!(!beside.exists());
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("victim"), VICTIM).unwrap();
        symlink(at("victim"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        fs::create_dir(at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for link in ["link", "dangling"] {
            check_refused(&at(link), Fault::Link);
        }
        for other in ["pipe", "folder", "socket"] {
            check_refused(&at(other), Fault::NotAFile);
        }
        assert_eq!(fs::read(at("victim")).unwrap(), VICTIM);
        assert!(!at("nothing").exists());
        let missing = open(&at("missing")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_folder_behind_a_link_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).unwrap();
        fs::write(real.join("victim"), VICTIM).unwrap();
        symlink(&real, &link).unwrap();
        assert_eq!(fault(open(&link.join("victim"))), Fault::Link);
        assert_eq!(fault(open_to_append(&link.join("new"))), Fault::Link);
        assert_eq!(fault(create_new(&link.join("new"))), Fault::Link);
        assert_eq!(fault(make_folder(&link, OPEN_TO_OTHERS)), Fault::Link);
        assert_eq!(fault(check_folder(&link)), Fault::Link);
        assert_eq!(fs::read_dir(&real).unwrap().count(), 1);
        let file = real.join("victim");
        assert_eq!(fault(check_folder(&file)), Fault::NotAFolder);
    }

    #[test]
    fn what_cannot_be_put_in_place_does_not_stay_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let (path, fresh) = (dir.path().join("taken"), dir.path().join("taken.new"));
        fs::create_dir_all(path.join("by a folder")).unwrap();
        for replace in [replace, replace_synced] {
            replace(&path, &fresh, b"bytes").unwrap_err();
            assert!(!fresh.exists());
        }
    }

    #[test]
    fn what_is_ours_is_read_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        open_to_append(&path).unwrap().write_all(b"one").unwrap();
        assert_eq!(read(&path).unwrap(), b"one");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let fresh = path.with_extension("new");
        fs::write(&fresh, "the longer rest of a crash").unwrap();
        replace(&path, &fresh, b"two").unwrap();
        assert_eq!(read(&path).unwrap(), b"two");
        assert!(!fresh.exists());
    }

    #[test]
    fn what_was_put_aside_before_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        let names = ["a.json.x-1", "a.json.x-2", "a.json.x-4"].map(|name| dir.path().join(name));
        fs::create_dir_all(dir.path().join("a.json.x-3/full")).unwrap();
        for (n, aside) in names.iter().enumerate() {
            fs::write(&path, n.to_string()).unwrap();
            assert_eq!(&put_aside(&path, &path, "x").unwrap(), aside);
        }
        for (n, aside) in names.iter().enumerate() {
            assert_eq!(fs::read(aside).unwrap(), n.to_string().into_bytes());
        }
        let missing = put_aside(&path, &path, "x").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_written_file_may_be_linked_to_but_not_open_to_all() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), VICTIM).unwrap();
        symlink(at("file"), at("link")).unwrap();
        rustix::fs::mkfifoat(CWD, at("pipe"), Mode::from_raw_mode(0o600)).unwrap();
        let read = |path: &Path| read_written(path, 8);
        assert_eq!(read(&at("link")).unwrap(), VICTIM);
        assert_eq!(read(Path::new("/dev/null")).unwrap(), b"");
        assert_eq!(fault(read(&at("pipe"))), Fault::NotAFile);
        assert_eq!(fault(read(Path::new("/dev/zero"))), Fault::NotAFile);
        let large = read_written(&at("file"), 7).unwrap_err();
        assert_eq!(large.kind(), io::ErrorKind::FileTooLarge);
        for (mode, expected) in [(0o664, Ok(())), (0o646, Err(Fault::Writable(0o646)))] {
            fs::set_permissions(at("file"), fs::Permissions::from_mode(mode)).unwrap();
            let found = read(&at("link"));
            assert_eq!(found.map(drop).map_err(|e| fault::<()>(Err(e))), expected);
        }
    }

    #[test]
    fn folders_are_closed_except_those_of_many_users() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("a/b");
        let mode = || fs::metadata(&folder).unwrap().mode() & 0o7777;
        let set = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        make_folder(&folder, OPEN_TO_OTHERS).unwrap();
        assert_eq!(mode(), 0o700);
        set(0o755);
        make_folder(&folder, WRITABLE_BY_OTHERS).unwrap();
        check_folder(&folder).unwrap();
        assert_eq!(mode(), 0o755, "others cannot change what is in it");
        make_folder(&folder, OPEN_TO_OTHERS).unwrap();
        assert_eq!(mode(), 0o700);
        set(0o775);
        assert_eq!(fault(check_folder(&folder)), Fault::Writable(0o775));
        make_folder(&folder, WRITABLE_BY_OTHERS).unwrap();
        assert_eq!(mode(), 0o700);
        set(0o1777);
        let shared = Fault::Writable(0o1777);
        assert_eq!(fault(make_folder(&folder, OPEN_TO_OTHERS)), shared);
        assert_eq!(mode(), 0o1777, "/tmp is not ours to close");
    }
}
