//! Short forms of what many tests say.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Output, SESSION, World, lacks};

/// Splits a line into words as a shell does: at blanks that are in no quotes, single or double.
#[track_caller]
pub(crate) fn argv(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ' | '\n') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    assert_eq!(quote, None, "a quote without its end: {line}");
    words.extend(word);
    words
}

/// The rows of a table, whose columns are separated by ` => `.
pub(crate) fn rows<const N: usize>(table: &'static str) -> impl Iterator<Item = [&'static str; N]> {
    let rows = table.lines().map(str::trim_start);
    rows.filter(|row| !row.is_empty()).map(|row| {
        let columns: Vec<&str> = row.split(" => ").collect();
        columns.try_into().unwrap_or_else(|_| panic!("{row}"))
    })
}

/// The lines without ids of windows.
pub(crate) fn without_ids(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let words = line.split(' ').filter(|word| !word.starts_with('@'));
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect()
}

/// The same in the order of the alphabet, of what succeeded.
#[track_caller]
pub(crate) fn sorted(output: &Output) -> Vec<String> {
    let mut lines = without_ids(output.ok());
    lines.sort();
    lines
}

/// Checks the fields with these names, which may be paths like `task.run` or `tasks.0.run`.
#[track_caller]
pub(crate) fn has_fields(value: &Value, names: &str, expected: Value) {
    let find = |path: &str| {
        let pointer = format!("/{}", path.replace('.', "/"));
        value.pointer(&pointer).cloned().unwrap_or_default()
    };
    let found: Value = names.split(' ').map(find).collect();
    assert_eq!(found, expected, "{value}");
}

/// Whether there is such a program.
pub(crate) fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

impl World {
    /// Runs `tmux-task` with the words of this line, and waits for its end.
    #[track_caller]
    pub(crate) fn call(&self, line: &str) -> Output {
        self.task(argv(line))
    }

    /// Writes a file into the project's folder.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.project().join(name);
        fs::write(&path, text).unwrap();
        path
    }

    /// A world whose windows have this size while no client is attached.
    pub(crate) fn with_size(size: &str) -> Self {
        let world = Self::new();
        let settings = format!("set -g default-size {size}\nset -g status off\n");
        fs::write(world.path("home/.tmux.conf"), settings).unwrap();
        world
    }

    /// A tmux that does something of a shell's before.
    pub(crate) fn tmux_after(&self, before: &str) -> String {
        let script = format!("#!/bin/sh\n{before}\nexec tmux \"$@\"\n");
        self.script("own-tmux", &script).display().to_string()
    }

    /// The tasks of `ls --json`.
    #[track_caller]
    pub(crate) fn tasks(&self) -> Vec<Value> {
        self.look()["tasks"].as_array().unwrap().clone()
    }

    /// Their names.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        let name = |task: &Value| task["windowName"].as_str().unwrap().to_owned();
        self.tasks().iter().map(name).collect()
    }

    /// The one of this name; null where there is none.
    #[track_caller]
    pub(crate) fn listed(&self, name: &str) -> Value {
        let tasks = self.tasks();
        let found = tasks.into_iter().find(|task| task["windowName"] == name);
        found.unwrap_or_default()
    }

    #[track_caller]
    pub(crate) fn explain(&self, name: &str) -> Value {
        self.task(["explain", name, "--json"]).json()
    }

    /// What tmux says of a target in this format.
    #[track_caller]
    pub(crate) fn says(&self, target: &str, format: &str) -> String {
        self.tmux(["display-message", "-p", "-t", target, format])
    }

    #[track_caller]
    pub(crate) fn pane_pid(&self, target: &str) -> String {
        self.says(target, "#{pane_pid}")
    }

    /// The windows of [`SESSION`] in this format.
    #[track_caller]
    pub(crate) fn windows(&self, format: &str) -> String {
        let session = format!("={SESSION}:");
        self.tmux(["list-windows", "-t", &session, "-F", format])
    }

    #[track_caller]
    pub(crate) fn sessions(&self) -> Vec<String> {
        let names = self.tmux(["list-sessions", "-F", "#{session_name}"]);
        names.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    pub(crate) fn screen(&self, target: &str) -> String {
        self.tmux(["capture-pane", "-p", "-t", target])
    }

    /// Checks that tmux shows this nowhere, and that neither the command line of a process nor a file in
    /// these folders of the world has it.
    #[track_caller]
    pub(crate) fn has_nowhere(&self, secret: &str, folders: &[&str]) {
        const SHOWN: &str = "list-buffers|list-panes -a -F #{pane_start_command}|\
            show-environment -g|show-environment -gh|show-environment -t =work:|\
            show-environment -h -t =work:|show-options -g|show-options -s|show-options -t =work:|\
            show-options -wg";
        for line in SHOWN.split('|') {
            lacks(self.tmux(argv(line)), secret);
        }
        // It fails where nobody is attached, not even a daemon.
        let mut messages = self.command("tmux");
        messages.arg("show-messages");
        lacks(Output::of(messages).out, secret);
        for window in self.windows("#{window_id}").lines() {
            for scope in ["-w", "-p"] {
                lacks(self.tmux(["show-options", scope, "-t", window]), secret);
            }
        }
        for process in fs::read_dir("/proc").unwrap().flatten() {
            let line = fs::read(process.path().join("cmdline")).unwrap_or_default();
            lacks(String::from_utf8_lossy(&line), secret);
        }
        let mut grep = self.command("grep");
        let folders = folders.iter().map(|folder| self.path(folder));
        grep.args(["-rlsF", "-e", secret, "/dev/null"])
            .args(folders);
        assert_eq!(Output::of(grep).out, "");
    }

    /// Waits until the daemon has that many waits.
    #[track_caller]
    pub(crate) fn until_waits(&self, n: u64) {
        self.until_true(&format!("there are {n} waits"), || {
            // There may be no daemon yet.
            let status = self.task(["daemon", "status", "--json"]);
            let status: Value = serde_json::from_str(&status.out).unwrap_or_default();
            status["waits"] == n
        });
    }
}

impl Output {
    /// Its stdout, after a successful end: one line of JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(self.ok()).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The same, whether it succeeded or not.
    #[track_caller]
    pub(crate) fn any_json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// Checks that it succeeded, and that its stdout contains this.
    #[track_caller]
    pub(crate) fn prints(&self, part: &str) {
        assert!(self.ok().contains(part), "{part}: {self}");
    }

    /// Checks that it failed with this code, and that its message contains this.
    #[track_caller]
    pub(crate) fn fails_saying(&self, code: i32, part: &str) {
        assert!(self.code == code && self.err.contains(part), "{self}");
    }
}
