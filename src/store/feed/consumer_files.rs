//! The files of consumers, one for each, named after it.
//!
//! Names of consumers begin with a letter or digit, so a file whose name begins with a dot is no
//! consumer: `.NAME.new` is being written, `.NAME.damaged-1` could not be read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::Millis;
use crate::wire::{SavedConsumer, check_consumer_name};

/// The version of the files.
const VERSION: u32 = 1;

/// The latest time that a file can have, in milliseconds since 1970.
const LAST_TIME: Millis = 1 << 53;

/// Returns the consumers in this folder, by name. A missing folder has none. A file that cannot be
/// parsed is logged and returned as the error.
///
/// # Errors
///
/// When the folder cannot be read.
pub fn load_consumers(folder: &Path) -> io::Result<Vec<Result<SavedConsumer, DamagedConsumer>>> {
    let entries = files::check_owner_of_folder(folder).and_then(|()| fs::read_dir(folder));
    let mut names = Vec::new();
    for entry in files::if_there(entries)?.into_iter().flatten() {
        let name = entry?.file_name().into_string().unwrap_or_default();
        if check_consumer_name(&name).is_ok() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| load(folder, name)).collect())
}

/// A consumer's file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the file of consumer `{name}` cannot be read: {why}")]
pub struct DamagedConsumer {
    /// The consumer's name.
    pub name: String,
    /// What is wrong with the file.
    pub why: String,
}

impl DamagedConsumer {
    /// Keeps the file under another name, `.NAME.damaged-1`, so that the consumer can be created
    /// again.
    ///
    /// # Errors
    ///
    /// When it cannot be renamed.
    pub fn set_aside(&self, folder: &Path) -> io::Result<PathBuf> {
        // No consumer has a name that begins with a dot.
        let hidden = folder.join(format!(".{}", self.name));
        files::put_aside_as(&folder.join(&self.name), &hidden, "damaged")
    }
}

fn load(folder: &Path, name: String) -> Result<SavedConsumer, DamagedConsumer> {
    let parsed = match files::read(&folder.join(&name)) {
        Ok(bytes) => parse(&bytes, &name),
        Err(error) => Err(error.to_string()),
    };
    parsed.map_err(|why| DamagedConsumer { name, why })
}

fn parse(bytes: &[u8], name: &str) -> Result<SavedConsumer, String> {
    let mut saved: SavedConsumer =
        serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if saved.v != VERSION {
        return Err(format!("it has version {}", saved.v));
    }
    if saved.name != name {
        return Err("it is the file of another consumer".to_owned());
    }
    // Ages are computed with them.
    saved.created_at = saved.created_at.clamp(0, LAST_TIME);
    saved.used_at = saved.used_at.clamp(0, LAST_TIME);
    Ok(saved)
}

/// Replaces a consumer's file in one step and writes it to the disk. Creates the folder if it is
/// missing. The file is durable after `sync_consumers`.
///
/// # Errors
///
/// When it cannot be written. The old file stays.
pub fn store_consumer(folder: &Path, saved: &SavedConsumer) -> io::Result<()> {
    let bytes = files::json_line(saved)?;
    let path = folder.join(&saved.name);
    let fresh = folder.join(format!(".{}.new", saved.name));
    if files::if_there(files::replace_synced(&path, &fresh, &bytes))?.is_none() {
        files::make_folder(folder, OPEN_TO_OTHERS)?;
        files::sync_folder(folder.parent().unwrap_or(folder))?;
        files::replace_synced(&path, &fresh, &bytes)?;
    }
    Ok(())
}

/// Removes a consumer's file. A missing one is fine.
///
/// # Errors
///
/// When it cannot be removed.
pub(crate) fn remove_consumer(folder: &Path, name: &str) -> io::Result<()> {
    files::if_there(fs::remove_file(folder.join(name))).map(drop)
}

/// Makes the replaced and removed files of this folder durable.
///
/// # Errors
///
/// When the disk refuses. A missing folder is fine.
pub(crate) fn sync_consumers(folder: &Path) -> io::Result<()> {
    files::if_there(files::sync_folder(folder)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ConsumerAudience;

    fn saved(name: &str, cursor: u64) -> SavedConsumer {
        SavedConsumer {
            v: VERSION,
            name: name.to_owned(),
            epoch: "e".to_owned(),
            cursor,
            first_left_out: None,
            created_at: 1,
            used_at: 2,
            used_after: 3,
            audience: ConsumerAudience::default(),
        }
    }

    fn load_all(folder: &Path) -> Vec<SavedConsumer> {
        let loaded = load_consumers(folder).unwrap();
        loaded.into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn what_was_stored_is_loaded_and_what_was_removed_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("consumers");
        assert_eq!(load_all(&folder), []);
        remove_consumer(&folder, "a").unwrap();
        sync_consumers(&folder).unwrap();
        for consumer in [saved("b", 1), saved("a", 2), saved("b", 3)] {
            store_consumer(&folder, &consumer).unwrap();
        }
        sync_consumers(&folder).unwrap();
        // What a crash left half written is no consumer.
        fs::write(folder.join(".c.new"), b"{\"v\":1,").unwrap();
        assert_eq!(load_all(&folder), [saved("a", 2), saved("b", 3)]);
        remove_consumer(&folder, "a").unwrap();
        assert_eq!(load_all(&folder), [saved("b", 3)]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named_and_kept_aside() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path();
        let later = SavedConsumer {
            v: 2,
            ..saved("later", 1)
        };
        let text = |saved: &SavedConsumer| serde_json::to_vec(saved).unwrap();
        let damaged = [
            ("cut", b"{\"v\":1,\"name\":\"cut\"".to_vec()),
            ("empty", Vec::new()),
            ("later", text(&later)),
            ("other", text(&saved("b", 1))),
        ];
        for (name, bytes) in &damaged {
            fs::write(folder.join(name), bytes).unwrap();
        }
        std::os::unix::fs::symlink(folder.join("cut"), folder.join("link")).unwrap();
        let loaded = load_consumers(folder).unwrap();
        let errors: Vec<_> = loaded.into_iter().map(Result::unwrap_err).collect();
        let names: Vec<_> = errors.iter().map(|error| error.name.as_str()).collect();
        assert_eq!(names, ["cut", "empty", "later", "link", "other"]);
        for error in &errors {
            error.set_aside(folder).unwrap();
        }
        assert!(load_consumers(folder).unwrap().is_empty());
        assert_eq!(
            fs::read(folder.join(".later.damaged-1")).unwrap(),
            text(&later)
        );
    }
}
