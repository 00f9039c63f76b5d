//! Installs adapters: which files go where, and which commands of the client make it use them. The
//! adapters' files are part of the program.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::AgentClient;
use crate::config::paths::{Env, adapter_file, adapters_folder};
use crate::files;
use crate::model::{Error, quote_where_needed};
use crate::process::{ProgramEnd, run_program};

const INSTALL_FIRST: &str = "install the client first, and put it on PATH";

/// How long a command of a client may take: it starts a runtime, and may ask a server.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);

/// In a file's mode: some user may execute it.
const EXECUTABLE: u32 = 0o111;

/// A file of an adapter: its path below the adapter's folder, and its contents.
type AdapterFile = (&'static str, &'static str);

/// A file of a folder of `hooks`: its path there, and its contents.
macro_rules! file {
    ($folder:literal, $path:literal) => {
        (
            $path,
            include_str!(concat!("../../../hooks/", $folder, "/", $path)),
        )
    };
}

const PI: [AdapterFile; 3] = [
    file!("pi", "package.json"),
    file!("pi", "index.ts"),
    file!("pi", "README.md"),
];

const CLAUDE: [AdapterFile; 5] = [
    file!("claude-code", ".claude-plugin/plugin.json"),
    file!("claude-code", ".claude-plugin/marketplace.json"),
    file!("claude-code", "hooks/hooks.json"),
    file!("claude-code", ".mcp.json"),
    file!("claude-code", "skills/tmux-task/SKILL.md"),
];

const OPENCODE: [AdapterFile; 1] = [file!("opencode", "tmux-task.js")];

const COPILOT: [AdapterFile; 1] = [file!("copilot", "extension.mjs")];

const QWEN: [AdapterFile; 1] = [file!("qwen", "qwen-extension.json")];

/// While this file is there, `run` follows the threads of Codex whose shells call it.
const CODEX: [AdapterFile; 1] = [file!("codex", "enabled")];

/// Variables that say where tmux, tmux-task and Codex have their files. Codex starts MCP servers
/// without them.
const OF_PLACES: &str = "CODEX_HOME TMUX_TMPDIR TMUX_TASK_CONFIG TMUX_TASK_RUNTIME_DIR \
                         TMUX_TASK_STATE_DIR XDG_CONFIG_HOME XDG_DATA_HOME XDG_RUNTIME_DIR XDG_STATE_HOME";

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    program: &'static str,
    folder: PathBuf,
    files: &'static [AdapterFile],
    /// Whether the folder is the adapter's own.
    owns_folder: bool,
    install: Vec<Vec<OsString>>,
    remove: Vec<Vec<OsString>>,
    /// The folders in which programs are looked for.
    programs: Vec<PathBuf>,
}

/// What installing or removing an adapter did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// What was done, a line each.
    pub(crate) lines: Vec<String>,
    /// What was not done, besides what the error says, and what is left to the user.
    pub(crate) notes: Vec<String>,
}

impl Setup {
    /// Fails when there is no home folder.
    pub(crate) fn of(client: AgentClient, env: Env<'_>) -> Result<Self, Error> {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let no_home = || Error::failed("no folder for the adapter: HOME is not set");
        let adapters = adapters_folder(env).ok_or_else(no_home)?;
        let programs = std::env::split_paths(&env("PATH").unwrap_or_default()).collect();
        // The client finds its file by itself.
        let without_commands = |files: &'static [AdapterFile]| {
            let mut folder = adapter_file(client.name(), env).ok_or_else(no_home)?;
            folder.pop();
            Ok::<_, Error>((folder, files, Vec::new(), Vec::new()))
        };
        let (folder, files, install, remove): (_, &'static [AdapterFile], _, _) = match client {
            AgentClient::Pi => {
                let folder = adapters.join("pi");
                let command = |line| vec![[words(line), vec![folder.clone().into()]].concat()];
                let (install, remove) = (command("pi install"), command("pi remove"));
                (folder, &PI, install, remove)
            }
            AgentClient::Claude => {
                let folder = adapters.join("claude-code");
                let mut add = words("claude plugin marketplace add");
                add.push(folder.clone().into());
                // The plugin, and the marketplace that it is from.
                let install = vec![add, words("claude plugin install tmux-task@tmux-task")];
                let remove = vec![
                    words("claude plugin uninstall tmux-task@tmux-task"),
                    words("claude plugin marketplace remove tmux-task"),
                ];
                (folder, &CLAUDE, install, remove)
            }
            AgentClient::Codex => {
                let mut add = words("codex mcp add tmux-task");
                for name in OF_PLACES.split(' ') {
                    if let Some(value) = env(name).filter(|value| !value.is_empty()) {
                        let mut pair = OsString::from(format!("{name}="));
                        pair.push(value);
                        add.extend([OsString::from("--env"), pair]);
                    }
                }
                add.extend(words("-- tmux-task mcp"));
                let remove = vec![words("codex mcp remove tmux-task")];
                (adapters.join("codex"), &CODEX, vec![add], remove)
            }
            AgentClient::Opencode => without_commands(&OPENCODE)?,
            AgentClient::Copilot => without_commands(&COPILOT)?,
            AgentClient::Qwen => without_commands(&QWEN)?,
        };
        Ok(Self {
            program: client.name(),
            folder,
            files,
            owns_folder: client != AgentClient::Opencode,
            install,
            remove,
            programs,
        })
    }

    fn paths(&self) -> Vec<PathBuf> {
        let path = |(name, _): &AdapterFile| self.folder.join(name);
        self.files.iter().map(path).collect()
    }

    /// Returns what installing the adapter would do, a line each.
    pub(crate) fn plan(&self) -> Vec<String> {
        let would_write = |path: PathBuf| format!("would write {}", path.display());
        let files = self.paths().into_iter().map(would_write);
        let commands = self.install.iter();
        let commands = commands.map(|words| format!("would run {}", shown(words)));
        files.chain(commands).collect()
    }

    /// Writes the files and runs the client's commands, up to the first error. An adapter that is
    /// installed already is brought up to date. Without the client, nothing is written.
    pub(crate) async fn install(&self, done: &mut Done) -> Result<(), Error> {
        let name = self.program;
        if !self.has_client() {
            let why = format!("no program `{name}` on PATH, so nothing was written");
            return Err(Error::failed(why).with_hint(INSTALL_FIRST));
        }
        let installed = async {
            for (path, (_, contents)) in self.paths().into_iter().zip(self.files) {
                // Where a link leads, what it leads to.
                let real = fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                replace(&real, contents.as_bytes()).map_err(|error| not_changed(&path, &error))?;
                done.lines.push(format!("wrote {}", path.display()));
            }
            for words in &self.install {
                run(words).await?;
                done.lines.push(format!("ran {}", shown(words)));
            }
            Ok(())
        };
        let hint = format!("`tmux-task init {name} --remove` takes away what was written");
        installed
            .await
            .map_err(|error: Error| error.with_hint(hint))?;
        let next = match name {
            "copilot" => Some("once, start `copilot --experimental`: it has extensions only then"),
            "qwen" => Some("a session that runs needs `/reload-plugins`"),
            _ => None,
        };
        done.notes.extend(next.map(str::to_owned));
        Ok(())
    }

    /// Runs the client's commands, if the client is still there, and removes the files, also if a
    /// command fails. Without files, no command runs. Of several errors it returns the last one.
    pub(crate) async fn remove(&self, done: &mut Done) -> Result<(), Error> {
        let (paths, name) = (self.paths(), self.program);
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let was_installed = paths.iter().any(is_there);
        let verb = match was_installed {
            true => "removed",
            false => "nothing to remove:",
        };
        let mut failed = Vec::new();
        for words in self.remove.iter().filter(|_| was_installed) {
            let command = shown(words);
            if !self.has_client() {
                let why = format!("`{name}` is not on PATH, so this was not run: {command}");
                done.notes.push(why);
                continue;
            }
            match run(words).await {
                Ok(()) => done.lines.push(format!("ran {command}")),
                Err(error) => failed.push(error),
            }
        }
        for path in &paths {
            files::if_there(fs::remove_file(path)).map_err(|error| not_changed(path, &error))?;
        }
        let removed = |path: &PathBuf| format!("{verb} {}", path.display());
        done.lines.splice(0..0, paths.iter().map(removed));
        if self.owns_folder && was_installed {
            // Files that others put there stay, and their folders with them.
            for path in paths {
                let folders = path.ancestors().skip(1);
                for folder in folders.take_while(|folder| folder.starts_with(&self.folder)) {
                    drop(fs::remove_dir(folder));
                }
            }
        }
        let hint =
            format!("the files are removed; if {name} still lists tmux-task, remove it there");
        let last = failed.pop();
        done.notes
            .extend(failed.into_iter().map(|before| before.message));
        last.map_or(Ok(()), |error| Err(error.with_hint(hint)))
    }

    /// Whether the client's program can be started by its name.
    fn has_client(&self) -> bool {
        self.programs.iter().any(|folder| {
            let found = fs::metadata(folder.join(self.program));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & EXECUTABLE != 0)
        })
    }
}

fn not_changed(path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("could not change {}", path.display()), error)
}

async fn run(words: &[OsString]) -> Result<(), Error> {
    let Some((program, args)) = words.split_first() else {
        return Ok(());
    };
    let mut command = Command::new(program);
    command.args(args).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let reply = match run_program(&mut command, b"", COMMAND_LIMIT).await {
        Ok(()) => return Ok(()),
        Err(ProgramEnd::NotStarted(error)) => {
            let what = format_args!("could not start `{}`", program.display());
            return Err(Error::io(what, &error).with_hint(INSTALL_FIRST));
        }
        Err(ProgramEnd::TimedOut) => format!("no end within {} s", COMMAND_LIMIT.as_secs()),
        Err(ProgramEnd::Failed(_, Some(last))) => last,
        Err(ProgramEnd::Failed(status, None)) => format!("{status}, without a message"),
    };
    Err(Error::failed(format!("`{}` failed: {reply}", shown(words))))
}

/// Returns a command as a shell reads it.
fn shown(words: &[OsString]) -> String {
    let words = words.iter();
    let quoted = words.map(|word| quote_where_needed(&word.to_string_lossy()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// Replaces a file of the user at once. Missing folders are created.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let path = fs::canonicalize(folder)?.join(path.file_name().unwrap_or_default());
    let mut fresh = path.clone().into_os_string();
    fresh.push(format!(".tmux-task-{}", std::process::id()));
    files::replace_synced(&path, Path::new(&fresh), text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::env;

    const ALL: [AgentClient; 6] = [
        AgentClient::Pi,
        AgentClient::Claude,
        AgentClient::Codex,
        AgentClient::Opencode,
        AgentClient::Copilot,
        AgentClient::Qwen,
    ];

    fn setup(client: AgentClient, home: &Path) -> Setup {
        let variables = format!("HOME={}", home.display());
        Setup::of(client, &env(&variables)).unwrap()
    }

    /// What is installed for a client, which is a program that runs this line of `sh`.
    fn with_client(of: AgentClient, home: &Path, line: &str) -> Setup {
        let bin = home.join("bin");
        fs::create_dir_all(&bin).unwrap();
        let program = bin.join(of.name());
        fs::write(&program, format!("#!/bin/sh\n{line}\n")).unwrap();
        set_mode(&program, 0o755);
        let mut setup = setup(of, home);
        setup.programs = vec![bin];
        setup
    }

    fn set_mode(program: &Path, mode: u32) {
        fs::set_permissions(program, fs::Permissions::from_mode(mode)).unwrap();
    }

    async fn install(setup: &Setup) -> (Done, Result<(), Error>) {
        let mut done = Done::default();
        let outcome = setup.install(&mut done).await;
        (done, outcome)
    }

    async fn remove(setup: &Setup) -> (Done, Result<(), Error>) {
        let mut done = Done::default();
        let outcome = setup.remove(&mut done).await;
        (done, outcome)
    }

    fn lines(verb: &str, setup: &Setup) -> Vec<String> {
        let line = |path: &PathBuf| format!("{verb} {}", path.display());
        setup.paths().iter().map(line).collect()
    }

    #[tokio::test]
    async fn an_adapter_is_installed_and_removed_without_a_trace() {
        let home = tempfile::tempdir().unwrap();
        for of in ALL {
            let mut setup = with_client(of, home.path(), "");
            (setup.install, setup.remove) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                let (done, outcome) = install(&setup).await;
                outcome.unwrap();
                assert_eq!(done.lines, lines("wrote", &setup));
                assert!(setup.paths().iter().all(|path| path.exists()));
            }
            for verb in ["removed", "nothing to remove:"] {
                assert_eq!(remove(&setup).await.0.lines, lines(verb, &setup));
                assert!(!setup.paths().iter().any(|path| path.exists()));
            }
            assert_eq!(setup.folder.exists(), !setup.owns_folder);
        }
        // Files of others stay.
        let mut setup = with_client(AgentClient::Pi, home.path(), "");
        (setup.install, setup.remove) = (Vec::new(), Vec::new());
        install(&setup).await.1.unwrap();
        let other = setup.folder.join("mine.ts");
        fs::write(&other, "").unwrap();
        remove(&setup).await.1.unwrap();
        assert!(other.exists());
    }

    #[tokio::test]
    async fn without_the_client_nothing_is_written_and_all_is_removed() {
        let home = tempfile::tempdir().unwrap();
        for (of, n_commands) in [
            (AgentClient::Pi, 1),
            (AgentClient::Claude, 2),
            (AgentClient::Codex, 1),
            (AgentClient::Opencode, 0),
        ] {
            let mut setup = with_client(of, home.path(), "");
            setup.programs.insert(0, home.path().join("no such folder"));
            let program = setup.programs[1].join(of.name());
            // A file of this name that cannot be executed is not the client.
            set_mode(&program, 0o644);
            let (done, outcome) = install(&setup).await;
            let error = outcome.unwrap_err();
            assert!(error.message.starts_with("no program"), "{error}");
            assert_eq!(done.lines, [""; 0]);
            assert!(!setup.folder.exists());

            set_mode(&program, 0o755);
            setup.install = Vec::new();
            install(&setup).await.1.unwrap();
            fs::remove_file(&program).unwrap();
            let (removal, outcome) = remove(&setup).await;
            outcome.unwrap();
            assert_eq!(removal.lines, lines("removed", &setup));
            assert_eq!(removal.notes.len(), n_commands);
            assert!(!setup.paths().iter().any(|path| path.exists()));
        }
    }

    #[tokio::test]
    async fn what_was_done_before_an_error_is_reported_and_can_be_removed() {
        let home = tempfile::tempdir().unwrap();
        let line = "case $* in *add*) ;; *) echo not now; exit 7; esac";
        let mut setup = with_client(AgentClient::Claude, home.path(), line);
        let program = setup.programs[0].join("claude");
        for words in setup.install.iter_mut().chain(&mut setup.remove) {
            words[0] = program.clone().into();
        }
        let (done, outcome) = install(&setup).await;
        assert_eq!(done.lines.len(), setup.files.len() + 1);
        let error = outcome.unwrap_err().message;

        let (removal, outcome) = remove(&setup).await;
        for text in [&error, &removal.notes[0], &outcome.unwrap_err().message] {
            assert!(text.ends_with("failed: not now"), "{text}");
        }
        assert!(!setup.folder.exists());
    }

    #[tokio::test]
    async fn files_are_replaced_as_a_whole_and_links_kept() {
        let home = tempfile::tempdir().unwrap();
        let setup = with_client(AgentClient::Opencode, home.path(), "");
        let path = setup.paths().remove(0);
        install(&setup).await.1.unwrap();
        // Who has the old file open continues with the old text.
        fs::write(&path, "old").unwrap();
        let old = fs::File::open(&path).unwrap();
        install(&setup).await.1.unwrap();
        assert_eq!(io::read_to_string(old).unwrap(), "old");
        // A link of a user who keeps such files elsewhere.
        let real = home.path().join("real.js");
        fs::rename(&path, &real).unwrap();
        fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        install(&setup).await.1.unwrap();
        assert!(path.is_symlink());
        assert_ne!(fs::read_to_string(&real).unwrap(), "old");
        // Nothing else is left in the folder.
        assert_eq!(fs::read_dir(&setup.folder).unwrap().count(), 1);
    }

    #[test]
    fn an_adapter_that_is_installed_is_recognized() {
        let env = env("HOME=/h");
        for client in ALL {
            let file = adapter_file(client.name(), &env).unwrap();
            let paths = setup(client, Path::new("/h")).paths();
            assert!(paths.contains(&file), "{file:?}");
        }
        assert_eq!(adapter_file("gemini", &env), None);
    }

    #[test]
    fn commands_are_shown_as_a_shell_reads_them() {
        let commands = |client, env: &dyn Fn(&str) -> Option<OsString>| {
            let setup = Setup::of(client, env).unwrap();
            let all = setup.install.iter().map(|words| shown(words));
            all.collect::<Vec<_>>().join("\n")
        };
        let home = |name: &str| (name == "HOME").then(|| "/home/a b".into());
        let expected = "pi install '/home/a b/.local/share/tmux-task/adapters/pi'";
        assert_eq!(commands(AgentClient::Pi, &home), expected);
        let expected = "claude plugin marketplace add /h/.local/share/tmux-task/adapters/claude-code\n\
                        claude plugin install tmux-task@tmux-task";
        assert_eq!(commands(AgentClient::Claude, &env("HOME=/h")), expected);
        // It starts the server with the places of now.
        let places = env("HOME=/h XDG_RUNTIME_DIR=/run/$1");
        let expected = "codex mcp add tmux-task --env 'XDG_RUNTIME_DIR=/run/$1' -- tmux-task mcp";
        assert_eq!(commands(AgentClient::Codex, &places), expected);
    }

    #[test]
    fn manifests_are_json() {
        for (name, contents) in PI.iter().chain(&CLAUDE) {
            if name.ends_with(".json") {
                serde_json::from_str::<serde_json::Value>(contents).unwrap();
            }
        }
    }
}
