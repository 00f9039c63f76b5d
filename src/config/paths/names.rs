//! The names of a session: which folder has its files.
//!
//! The folder is named after the first name of its session. For each other name that the session gets,
//! its daemon makes a link to the folder, `names/KEY`. All names mean the session until another session
//! gets one of them, or a new session gets the folder. Links are written here, read by the folder's `mod.rs`, and nowhere followed.

use std::path::Path;
use std::{fs, io};

use super::{NAMES, Paths, linked, next_key, own_key};
use crate::files;

impl Paths {
    pub(crate) fn add_name(&self, server_socket: &Path, name: &str) -> io::Result<()> {
        self.link(&own_key(server_socket, name), &self.key)
    }

    /// Makes the name of a new session lead to the folder, and none of the earlier ones.
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
            let (fresh, target) = (link.with_extension("new"), Path::new("..").join(to));
            files::replace_link(&link, &fresh, &target)?;
        }
        files::sync_folder(&names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;
    use std::os::unix::fs::symlink;

    const SERVER: &str = "/t/default";

    fn locate(root: &Path, name: &str) -> Paths {
        let root = root.display();
        let variables = format!("TMUX_TASK_STATE_DIR={root} TMUX_TASK_RUNTIME_DIR=/r");
        Paths::locate(Path::new(SERVER), name, &env(&variables)).unwrap()
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
