//! The names of a session, and their keys: which folder has its files.
//!
//! The folder is named after the first name of its session. For each other name that the session gets,
//! its daemon makes a link to the folder, `names/KEY`. All names mean the session until another session
//! gets one of them, or a new session gets the folder. Links are read here and nowhere followed.

use std::path::Path;
use std::{fs, io};

use sha2::{Digest, Sha256};

use super::Paths;
use crate::files;

/// The folder of the links, beside the folders that they lead to.
const NAMES: &str = "names";

/// How many hexadecimal digits of a hash a key has.
const DIGITS: usize = 12;

/// The maximum length of the readable part of a key.
const LABEL: usize = 24;

impl Paths {
    /// Makes a name lead to the folder.
    ///
    /// # Errors
    ///
    /// When the link cannot be made.
    pub(crate) fn add_name(&self, server_socket: &Path, name: &str) -> io::Result<()> {
        self.link(&own_key(server_socket, name), &self.key)
    }

    /// Makes the name of a new session lead to the folder, and no other one: not the names of the session
    /// that had it, and not the one after which it is named.
    ///
    /// # Errors
    ///
    /// When the links cannot be changed.
    pub(crate) fn begin_session(&self, server_socket: &Path, name: &str) -> io::Result<()> {
        self.forget_names()?;
        if own_key(server_socket, name) != self.key {
            let mut free = next_key(&self.key);
            while self.state.with_file_name(&free).exists() {
                free = next_key(&free);
            }
            self.link(&self.key, &free)?;
        }
        self.add_name(server_socket, name)
    }

    /// Removes the links to the folder.
    fn forget_names(&self) -> io::Result<()> {
        let entries = files::if_there(fs::read_dir(self.state.with_file_name(NAMES)))?;
        for entry in entries.into_iter().flatten() {
            let path = entry?.path();
            if linked(&path).as_ref() == Some(&self.key) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// Makes the name with the key `from` lead to the folder with the key `to`.
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let names = self.state.with_file_name(NAMES);
        let link = names.join(from);
        if linked(&link).as_deref().unwrap_or(from) == to {
            return Ok(());
        }
        if from == to {
            fs::remove_file(&link)?;
        } else {
            files::make_folder(&names, files::OPEN_TO_OTHERS)?;
            files::replace_link(
                &link,
                &link.with_extension("new"),
                &Path::new("..").join(to),
            )?;
        }
        files::sync_folder(&names)
    }
}

/// Returns the key of the folder that a name leads to: by a link, else the name's own.
pub(super) fn key_of(root: &Path, server_socket: &Path, name: &str) -> String {
    let own = own_key(server_socket, name);
    linked(&root.join(NAMES).join(&own)).unwrap_or(own)
}

/// Returns the key to which a link of ours leads; `None` if there is none, or it leads elsewhere than to
/// a folder beside its own.
fn linked(link: &Path) -> Option<String> {
    let target = files::read_link(link).ok()?;
    let key = target.to_str()?.strip_prefix("../")?;
    is_key(key).then(|| key.to_owned())
}

/// Whether this is a key, and thus the name of a file in the folder that it is looked for in.
pub(crate) fn is_key(text: &str) -> bool {
    let is_in_label = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.rsplit_once('-').is_some_and(|(label, digits)| {
        digits.len() == DIGITS
            && digits.chars().all(|c| c.is_ascii_hexdigit())
            && label.len() <= LABEL
            && label.chars().all(is_in_label)
    })
}

/// Returns the key after this one, for a session of the same name.
pub(crate) fn next_key(key: &str) -> String {
    let label = key.rsplit_once('-').map_or(key, |(label, _)| label);
    format!("{label}-{}", hex(key.as_bytes(), DIGITS))
}

/// Returns the key of a name by itself.
fn own_key(server_socket: &Path, name: &str) -> String {
    let mut identity = server_socket.as_os_str().as_encoded_bytes().to_vec();
    identity.push(0);
    identity.extend_from_slice(name.as_bytes());
    let readable = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '_' | '-' => c,
        _ => '-',
    };
    let label: String = name.chars().map(readable).take(LABEL).collect();
    format!("{label}-{}", hex(&identity, DIGITS))
}

/// Returns the first `digits` hexadecimal digits of the hash of `bytes`.
pub(crate) fn hex(bytes: &[u8], digits: usize) -> String {
    let hash = Sha256::digest(bytes);
    let mut text: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    text.truncate(digits);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::fs::symlink;

    const SERVER: &str = "/t/default";

    fn locate(root: &Path, name: &str) -> Paths {
        let env = |variable: &str| match variable {
            "TMUX_TASK_STATE_DIR" => Some(OsString::from(root)),
            "TMUX_TASK_RUNTIME_DIR" => Some("/r".into()),
            _ => None,
        };
        Paths::locate(Path::new(SERVER), name, &env).unwrap()
    }

    fn root() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn each_name_of_a_session_leads_to_its_files() {
        let root = root();
        let key = |name: &str| locate(root.path(), name).key;
        let paths = locate(root.path(), "work");
        let add = |name: &str| paths.add_name(Path::new(SERVER), name).unwrap();
        add("work");
        let links = root.path().join(NAMES);
        assert!(!links.exists(), "its own name needs no link");
        for name in ["new", "new § (2) ##{x} --", "third"] {
            add(name);
            add(name);
            assert_eq!(locate(root.path(), name), paths);
        }
        assert_eq!(links.read_dir().unwrap().count(), 3);
        assert_ne!(key("other"), paths.key);
        // Another session gets one of the names.
        let other = locate(root.path(), "other");
        other.add_name(Path::new(SERVER), "work").unwrap();
        assert_eq!((key("work"), key("new")), (other.key, paths.key.clone()));
        // And gives it back.
        add("work");
        assert_eq!(key("work"), paths.key);
        assert_eq!(links.read_dir().unwrap().count(), 3);
    }

    #[test]
    fn a_new_session_has_its_name_alone() {
        let root = root();
        let key = |name: &str| locate(root.path(), name).key;
        let paths = locate(root.path(), "work");
        let server = Path::new(SERVER);
        paths.begin_session(server, "work").unwrap();
        assert!(!root.path().join(NAMES).exists());
        paths.add_name(server, "new").unwrap();
        paths.add_name(server, "third").unwrap();
        let taken = next_key(&paths.key);
        fs::create_dir(paths.state.with_file_name(&taken)).unwrap();
        paths.begin_session(server, "third").unwrap();
        assert_eq!(key("third"), paths.key);
        assert_ne!(key("new"), paths.key);
        assert_eq!(key("work"), next_key(&taken));
        paths.begin_session(server, "work").unwrap();
        assert_eq!(key("work"), paths.key);
        assert_ne!(key("third"), paths.key);
    }

    #[test]
    fn only_a_link_to_a_folder_beside_it_counts() {
        let root = root();
        let paths = locate(root.path(), "work");
        paths.add_name(Path::new(SERVER), "new").unwrap();
        let names = root.path().join(NAMES);
        let link = names.join(own_key(Path::new(SERVER), "new"));
        let found = || locate(root.path(), "new").key;
        let own = own_key(Path::new(SERVER), "new");
        assert_eq!(found(), paths.key);
        let absolute = paths.state.display().to_string();
        let above = format!("../../{}", paths.key);
        for target in [&*absolute, &above, &paths.key, "../..", "../work", "/"] {
            fs::remove_file(&link).unwrap();
            symlink(target, &link).unwrap();
            assert_eq!(found(), own, "{target}");
        }
        fs::remove_file(&link).unwrap();
        fs::write(&link, format!("../{}", paths.key)).unwrap();
        assert_eq!(found(), own);
        // What is in the way is replaced.
        paths.add_name(Path::new(SERVER), "new").unwrap();
        assert_eq!(found(), paths.key);
        // A folder of links behind a link is not ours.
        let aside = root.path().join("aside");
        fs::rename(&names, &aside).unwrap();
        symlink(&aside, &names).unwrap();
        assert_eq!(found(), own);
        assert!(paths.add_name(Path::new(SERVER), "new").is_err());
    }
}
