//! Installs adapters: which files go where, and which commands of the client make it use them. The
//! adapters' files are part of the program.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::conversation::AgentClient;
use crate::paths::{Env, adapters_folder, folder_of};

/// Why an adapter was not installed or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// There is no home folder.
    #[error("no folder for the adapter: HOME is not set")]
    NoHome,
    /// A file cannot be written or removed.
    #[error("could not change {}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The client is not installed.
    #[error("no program `{}` on PATH, so nothing was written", .0.display())]
    NoProgram(PathBuf),
    /// The client's program does not start.
    #[error("could not start `{}`", .program.display())]
    Spawn {
        program: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The client's command failed.
    #[error("`{command}` failed: {reply}")]
    Command {
        command: String,
        /// The last line that it wrote.
        reply: String,
    },
}

/// Where programs are looked for without `PATH`.
const USUAL_PATH: &str = "/bin:/usr/bin";

/// In a file's mode: some user may execute it.
const EXECUTABLE: u32 = 0o111;

/// A file of an adapter: its path below the adapter's folder, and its contents.
type AdapterFile = (&'static str, &'static str);

const PI: [AdapterFile; 3] = [
    ("package.json", include_str!("../../hooks/pi/package.json")),
    ("index.ts", include_str!("../../hooks/pi/index.ts")),
    ("README.md", include_str!("../../hooks/pi/README.md")),
];

const CLAUDE: [AdapterFile; 5] = [
    (
        ".claude-plugin/plugin.json",
        include_str!("../../hooks/claude-code/.claude-plugin/plugin.json"),
    ),
    (
        ".claude-plugin/marketplace.json",
        include_str!("../../hooks/claude-code/.claude-plugin/marketplace.json"),
    ),
    (
        "hooks/hooks.json",
        include_str!("../../hooks/claude-code/hooks/hooks.json"),
    ),
    (
        ".mcp.json",
        include_str!("../../hooks/claude-code/.mcp.json"),
    ),
    (
        "skills/tmux-task/SKILL.md",
        include_str!("../../hooks/skill/SKILL.md"),
    ),
];

const OPENCODE: [AdapterFile; 1] = [(
    "tmux-task.js",
    include_str!("../../hooks/opencode/tmux-task.js"),
)];

/// While this file is there, `run` follows the threads of Codex whose shells call it.
const CODEX: [AdapterFile; 1] = [("enabled", include_str!("../../hooks/codex/enabled"))];

/// Variables that say where tmux, tmux-task and Codex have their files. Codex starts MCP servers
/// without them.
const OF_PLACES: [&str; 9] = [
    "CODEX_HOME",
    "TMUX_TMPDIR",
    "TMUX_TASK_CONFIG",
    "TMUX_TASK_RUNTIME_DIR",
    "TMUX_TASK_STATE_DIR",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];

/// The name of the plugin and of its marketplace, as Claude Code takes it.
const CLAUDE_PLUGIN: &str = "tmux-task@tmux-task";

/// What installing and removing an adapter does.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    folder: PathBuf,
    files: &'static [AdapterFile],
    /// Whether the folder is the adapter's own.
    owns_folder: bool,
    install: Vec<Vec<OsString>>,
    remove: Vec<Vec<OsString>>,
    /// The folders in which programs are looked for.
    programs: Vec<PathBuf>,
}

/// What removing an adapter did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Removal {
    /// Whether there was an adapter.
    pub(crate) was_installed: bool,
    /// The client's commands that were run, as a shell would read them.
    pub(crate) run: Vec<String>,
    /// Those that were not run, because the client is gone.
    pub(crate) not_run: Vec<String>,
}

impl Setup {
    /// Returns how the adapter of this client is installed.
    ///
    /// # Errors
    ///
    /// When there is no home folder.
    pub(crate) fn of(client: AgentClient, env: Env<'_>) -> Result<Self, SetupError> {
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let adapters = adapters_folder(env).ok_or(SetupError::NoHome)?;
        let path = env("PATH").unwrap_or_else(|| USUAL_PATH.into());
        let programs = std::env::split_paths(&path).collect();
        Ok(match client {
            AgentClient::Pi => {
                let folder = adapters.join("pi");
                let with_folder = |verb: &str| {
                    let mut command = words(&["pi", verb]);
                    command.push(folder.clone().into());
                    vec![command]
                };
                Self {
                    files: &PI,
                    owns_folder: true,
                    install: with_folder("install"),
                    remove: with_folder("remove"),
                    folder,
                    programs,
                }
            }
            AgentClient::Claude => {
                let folder = adapters.join("claude-code");
                let mut add = words(&["claude", "plugin", "marketplace", "add"]);
                add.push(folder.clone().into());
                Self {
                    files: &CLAUDE,
                    owns_folder: true,
                    install: vec![add, words(&["claude", "plugin", "install", CLAUDE_PLUGIN])],
                    remove: vec![
                        words(&["claude", "plugin", "uninstall", CLAUDE_PLUGIN]),
                        words(&["claude", "plugin", "marketplace", "remove", "tmux-task"]),
                    ],
                    folder,
                    programs,
                }
            }
            AgentClient::Codex => {
                let mut add = words(&["codex", "mcp", "add", "tmux-task"]);
                for name in OF_PLACES {
                    if let Some(value) = env(name).filter(|value| !value.is_empty()) {
                        let mut pair = OsString::from(format!("{name}="));
                        pair.push(value);
                        add.extend([OsString::from("--env"), pair]);
                    }
                }
                add.extend(words(&["--", "tmux-task", "mcp"]));
                Self {
                    folder: adapters.join("codex"),
                    files: &CODEX,
                    owns_folder: true,
                    install: vec![add],
                    remove: vec![words(&["codex", "mcp", "remove", "tmux-task"])],
                    programs,
                }
            }
            AgentClient::Opencode => Self {
                folder: home_folder(env, "XDG_CONFIG_HOME", ".config")?.join("opencode/plugin"),
                files: &OPENCODE,
                owns_folder: false,
                install: Vec::new(),
                remove: Vec::new(),
                programs,
            },
        })
    }

    /// Returns the files that the adapter consists of.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        let path = |(name, _): &AdapterFile| self.folder.join(name);
        self.files.iter().map(path).collect()
    }

    /// Returns the commands of the client that install the adapter, as a shell would read them.
    pub(crate) fn install_commands(&self) -> Vec<String> {
        self.install.iter().map(|words| shown(words)).collect()
    }

    /// Writes the files and runs the client's commands. An adapter that is installed already is
    /// brought up to date. Without the client, nothing is written.
    ///
    /// # Errors
    ///
    /// When the client is not installed, a file cannot be written or a command fails.
    pub(crate) fn install(&self) -> Result<(), SetupError> {
        let mut programs = self.install.iter().filter_map(|words| words.first());
        if let Some(missing) = programs.find(|program| !self.is_on_path(program)) {
            return Err(SetupError::NoProgram(missing.into()));
        }
        for (name, contents) in self.files {
            let path = self.folder.join(name);
            let folder = path.parent().unwrap_or(&self.folder);
            fs::create_dir_all(folder)
                .and_then(|()| fs::write(&path, contents))
                .map_err(|source| SetupError::File { path, source })?;
        }
        self.install.iter().try_for_each(|words| run(words))
    }

    /// Runs the client's commands, if the client is still there, and removes the files. Without files,
    /// no command runs.
    ///
    /// # Errors
    ///
    /// When a file cannot be removed or a command fails.
    pub(crate) fn remove(&self) -> Result<Removal, SetupError> {
        if !self.paths().iter().any(|path| path.exists()) {
            return Ok(Removal::default());
        }
        let mut removal = Removal {
            was_installed: true,
            ..Removal::default()
        };
        for words in &self.remove {
            if words
                .first()
                .is_some_and(|program| self.is_on_path(program))
            {
                run(words)?;
                removal.run.push(shown(words));
            } else {
                removal.not_run.push(shown(words));
            }
        }
        for path in self.paths() {
            match fs::remove_file(&path) {
                Err(source) if source.kind() != io::ErrorKind::NotFound => {
                    return Err(SetupError::File { path, source });
                }
                Ok(()) | Err(_) => {}
            }
        }
        if self.owns_folder {
            // Files that others put there stay, and their folders with them.
            for path in self.paths() {
                let folders = path.ancestors().skip(1);
                for folder in folders.take_while(|folder| folder.starts_with(&self.folder)) {
                    drop(fs::remove_dir(folder));
                }
            }
        }
        Ok(removal)
    }

    /// Whether the program can be started by its name.
    fn is_on_path(&self, program: &OsStr) -> bool {
        self.programs.iter().any(|folder| {
            let found = fs::metadata(folder.join(program));
            found.is_ok_and(|found| found.is_file() && found.permissions().mode() & EXECUTABLE != 0)
        })
    }
}

/// Returns the folder that the variable names by an absolute path, else `usual` in the home folder.
fn home_folder(env: Env<'_>, variable: &str, usual: &str) -> Result<PathBuf, SetupError> {
    match folder_of(env, variable) {
        Some(folder) => Ok(folder),
        None => Ok(folder_of(env, "HOME")
            .ok_or(SetupError::NoHome)?
            .join(usual)),
    }
}

fn shown(words: &[OsString]) -> String {
    let word = |word: &OsString| {
        let word = word.to_string_lossy();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-@:+".contains(c);
        if word.chars().all(is_plain) {
            word.into_owned()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn run(words: &[OsString]) -> Result<(), SetupError> {
    let Some((program, args)) = words.split_first() else {
        return Ok(());
    };
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| SetupError::Spawn {
            program: Path::new(program).to_owned(),
            source,
        })?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    Err(SetupError::Command {
        command: shown(words),
        reply: last.unwrap_or("it said nothing").to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(client: AgentClient, home: &Path) -> Setup {
        let env = |name: &str| (name == "HOME").then(|| home.as_os_str().to_owned());
        Setup::of(client, &env).unwrap()
    }

    #[test]
    fn an_adapter_is_installed_and_removed_without_a_trace() {
        let home = tempfile::tempdir().unwrap();
        for client in [
            AgentClient::Pi,
            AgentClient::Claude,
            AgentClient::Codex,
            AgentClient::Opencode,
        ] {
            let mut setup = setup(client, home.path());
            (setup.install, setup.remove) = (Vec::new(), Vec::new());
            for _ in 0..2 {
                setup.install().unwrap();
                assert!(setup.paths().iter().all(|path| path.exists()));
            }
            for is_there in [true, false] {
                assert_eq!(setup.remove().unwrap().was_installed, is_there);
                assert!(!setup.paths().iter().any(|path| path.exists()));
            }
            assert_eq!(setup.folder.exists(), !setup.owns_folder);
        }
    }

    #[test]
    fn without_the_client_nothing_is_written_and_all_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).unwrap();
        for (client, name, n_commands) in [
            (AgentClient::Pi, "pi", 1),
            (AgentClient::Claude, "claude", 2),
            (AgentClient::Codex, "codex", 1),
        ] {
            let mut setup = setup(client, home.path());
            setup.programs = vec![home.path().join("no such folder"), bin.clone()];
            let program = bin.join(name);
            // A file of this name that cannot be executed is not the client.
            fs::write(&program, "#!/bin/sh\n").unwrap();
            let error = setup.install().unwrap_err();
            assert!(matches!(error, SetupError::NoProgram(_)), "{error}");
            assert!(!setup.folder.exists());

            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            setup.install = Vec::new();
            setup.install().unwrap();
            fs::remove_file(&program).unwrap();
            let removal = setup.remove().unwrap();
            assert!(removal.was_installed);
            assert_eq!(removal.run, [""; 0]);
            assert_eq!(removal.not_run.len(), n_commands);
            assert!(!setup.folder.exists());
        }
    }

    #[test]
    fn files_of_others_stay() {
        let home = tempfile::tempdir().unwrap();
        let mut setup = setup(AgentClient::Pi, home.path());
        (setup.install, setup.remove) = (Vec::new(), Vec::new());
        setup.install().unwrap();
        let other = setup.folder.join("mine.ts");
        fs::write(&other, "").unwrap();
        setup.remove().unwrap();
        assert!(other.exists());
    }

    #[test]
    fn commands_are_shown_as_a_shell_reads_them() {
        let pi = setup(AgentClient::Pi, Path::new("/home/a b"));
        assert_eq!(
            pi.install_commands(),
            ["pi install '/home/a b/.local/share/tmux-task/adapters/pi'"]
        );
        let claude = setup(AgentClient::Claude, Path::new("/h"));
        assert_eq!(
            claude.install_commands(),
            [
                "claude plugin marketplace add /h/.local/share/tmux-task/adapters/claude-code",
                "claude plugin install tmux-task@tmux-task",
            ]
        );
    }

    #[test]
    fn codex_starts_the_server_with_the_places_of_now() {
        let env = |name: &str| match name {
            "HOME" => Some("/h".into()),
            "XDG_RUNTIME_DIR" => Some("/run/user/1 0".into()),
            _ => None,
        };
        let codex = Setup::of(AgentClient::Codex, &env).unwrap();
        assert_eq!(
            codex.install_commands(),
            ["codex mcp add tmux-task --env 'XDG_RUNTIME_DIR=/run/user/1 0' -- tmux-task mcp"]
        );
    }

    #[test]
    fn a_command_that_fails_is_reported_with_what_it_said() {
        let words = ["sh", "-c", "echo no such thing >&2; exit 3"].map(OsString::from);
        let error = run(&words).unwrap_err().to_string();
        assert!(error.ends_with("failed: no such thing"), "{error}");
        let error = run(&["/no/such/program".into()]).unwrap_err().to_string();
        assert_eq!(error, "could not start `/no/such/program`");
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
