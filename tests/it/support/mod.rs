//! A separate world for each test: folders, a tmux server, the program, and nothing of the
//! developer's environment.

#[cfg(feature = "fleet")]
mod broker;
mod conversation;
mod far;
mod feed;
#[cfg(feature = "fleet")]
mod fleet_host;
#[cfg(feature = "webhook")]
mod http_server;
mod run;
mod short;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

#[cfg(feature = "fleet")]
pub(crate) use broker::Broker;
pub(crate) use conversation::{confirm, content_of, is_message, message};
pub(crate) use far::{Far, Place, keygen, machines, machines_in};
pub(crate) use feed::{
    all_told, append_notices, check_feed, content, deliveries, event, events, events_of, has_event,
    lengthen, names, show, story, texts,
};
#[cfg(feature = "fleet")]
pub(crate) use fleet_host::{FleetHosts, exited};
#[cfg(feature = "webhook")]
pub(crate) use http_server::HttpServer;
pub(crate) use run::{Output, Running, begins, has, lacks};
pub(crate) use short::{argv, has_fields, is_installed, rows, set_mode, sorted, without_ids};

/// Far longer than anything here takes on a busy machine: reaching it means a failure or a hang.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// The interval at which a test checks what it waits for: another process writes it, and reports it
/// to no one.
const PAUSE: Duration = Duration::from_millis(20);

/// The interval at which a test checks whether a feed has changed.
const GLANCE: Duration = Duration::from_millis(5);

/// The longest interval at which a test reads a feed whose files do not have what it waits for: only
/// the program knows which feed a name means, and what of it counts.
const REREAD: Duration = Duration::from_secs(1);

/// Feeds that are larger, in bytes, are read by the program alone.
const LARGE: u64 = 1 << 20;

/// The task session of a test that needs only one.
pub(crate) const SESSION: &str = "work";

/// One test's world. Dropping it ends the daemons and tmux servers that were started in it.
pub(crate) struct World {
    dir: TempDir,
    env: Vec<(String, String)>,
}

/// A gate that a task waits at until the test opens it. As text it is the shell command that waits.
pub(crate) struct Gate {
    path: PathBuf,
    file: File,
}

impl fmt::Display for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "read -r _ <{}", self.path.display())
    }
}

impl Gate {
    pub(crate) fn wait(&self) -> String {
        self.to_string()
    }

    /// Lets one task continue.
    pub(crate) fn open(&self) {
        (&self.file).write_all(b"\n").unwrap();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        // Sockets lie in here, and their paths have room for some 100 bytes: /tmp, whatever
        // TMPDIR says.
        let dir = tempfile::Builder::new()
            .prefix("it-")
            .tempdir_in("/tmp")
            .unwrap();
        for folder in ["home", "tmux", "run", "xdg", "state", "conf", "project"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let mut world = Self {
            dir,
            env: Vec::new(),
        };
        let folder = |name: &str| world.path(name).display().to_string();
        let env = [
            ("HOME", folder("home")),
            ("TMUX_TMPDIR", folder("tmux")),
            ("TMUX_TASK_STATE_DIR", folder("state")),
            ("TMUX_TASK_RUNTIME_DIR", folder("run")),
            ("XDG_CONFIG_HOME", folder("conf")),
            ("XDG_STATE_HOME", folder("xdg")),
            ("XDG_RUNTIME_DIR", folder("xdg")),
            ("XDG_DATA_HOME", folder("xdg")),
            ("XDG_CACHE_HOME", folder("xdg")),
            ("LANG", "C.UTF-8".to_owned()),
            ("SHELL", "/bin/sh".to_owned()),
            ("TERM", "xterm-256color".to_owned()),
            ("PATH", path_without_program()),
            ("TMUX_TASK_PROGRAM", Self::program().display().to_string()),
            ("TMUX_TASK_SESSION", SESSION.to_owned()),
        ];
        world.env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        world
    }

    /// Sets a variable for everything started from here on; an empty value unsets it.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.env.retain(|(known, _)| known != name);
        if !value.is_empty() {
            self.env.push((name.to_owned(), value.to_owned()));
        }
    }

    /// Puts a folder in front of `PATH`.
    pub(crate) fn prepend_path(&mut self, folder: &Path) {
        let path = format!("{}:{}", folder.display(), self.var("PATH"));
        self.set("PATH", &path);
    }

    /// Puts a program in front of `PATH`, a script of sh.
    pub(crate) fn install(&mut self, program: &str, script: &str) {
        let bin = self.path("bin");
        if !bin.exists() {
            fs::create_dir(&bin).unwrap();
            self.prepend_path(&bin);
        }
        self.script(&format!("bin/{program}"), &format!("#!/bin/sh\n{script}\n"));
    }

    fn var(&self, name: &str) -> &str {
        let found = self.env.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The folder that every command runs in.
    pub(crate) fn project(&self) -> PathBuf {
        self.path("project")
    }

    /// The program as installed for a user; another build of it in tests/portable.sh.
    pub(crate) fn program() -> &'static Path {
        static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
        PROGRAM.get_or_init(|| {
            let other = std::env::var_os("TMUX_TASK_TEST_PROGRAM");
            other.map_or_else(|| env!("CARGO_BIN_EXE_tmux-task").into(), PathBuf::from)
        })
    }

    pub(crate) fn helper() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("hooks/tmux-task-run.sh")
    }

    /// A program in this world, not started yet.
    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// Runs `tmux-task` with these arguments and waits for its end.
    #[track_caller]
    pub(crate) fn task<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Output {
        let mut command = self.command(Self::program());
        command.args(args);
        Output::of(command)
    }

    /// Starts `tmux-task` with these arguments in the background.
    pub(crate) fn start<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Running {
        let mut command = self.command(Self::program());
        command.args(args);
        Running::start(command)
    }

    /// Runs `tmux-task` with another environment: an empty value unsets a variable.
    #[track_caller]
    pub(crate) fn task_with<S: AsRef<OsStr>>(
        &self,
        variables: &[(&str, &str)],
        args: impl IntoIterator<Item = S>,
    ) -> Output {
        let mut command = self.command(Self::program());
        command.args(args);
        for (name, value) in variables {
            match value {
                &"" => command.env_remove(name),
                value => command.env(name, value),
            };
        }
        Output::of(command)
    }

    /// Runs `tmux-task` in a shell of this owner.
    #[track_caller]
    pub(crate) fn task_as<S: AsRef<OsStr>>(
        &self,
        owner: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Output {
        self.task_with(&[("TMUX_TASK_OWNER", owner)], args)
    }

    /// Runs `tmux-task`, which reads this.
    #[track_caller]
    pub(crate) fn task_reading<S: AsRef<OsStr>>(
        &self,
        input: &str,
        args: impl IntoIterator<Item = S>,
    ) -> Output {
        let mut command = self.command(Self::program());
        command.args(args);
        Output::with_input(command, input)
    }

    /// What `tmux-task` prints with these arguments, which is JSON.
    #[track_caller]
    pub(crate) fn json<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Value {
        serde_json::from_str(self.task(args).ok()).unwrap()
    }

    /// Starts `tmux-task` in the background, to be written to.
    pub(crate) fn start_piped<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Running {
        let mut command = self.command(Self::program());
        command.args(args).stdin(Stdio::piped());
        Running::start(command)
    }

    /// Runs a line of a shell to its end.
    #[track_caller]
    pub(crate) fn shell(&self, line: &str) -> Output {
        let mut shell = self.command("sh");
        shell.args(["-c", line]);
        Output::of(shell)
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, text: &str) {
        let file = self.config_file();
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub(crate) fn config_file(&self) -> PathBuf {
        self.path("conf/tmux-task/config.toml")
    }

    /// Starts the adapter of a conversation of opencode, which follows when this returns.
    #[track_caller]
    pub(crate) fn adapter(&self, id: &str) -> Running {
        let adapter = self.start_piped(["agent", "opencode", "--id", id]);
        adapter.records_until(|line| line["kind"] == "following");
        adapter
    }

    /// Runs tmux on the world's server and returns what it printed.
    #[track_caller]
    pub(crate) fn tmux<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> String {
        let mut command = self.command("tmux");
        command.arg("-u").args(args);
        Output::of(command).ok().trim_end().to_owned()
    }

    /// The value of a format of tmux, for a target.
    #[track_caller]
    pub(crate) fn shown(&self, target: &str, format: &str) -> String {
        self.tmux(["display-message", "-p", "-t", target, format])
    }

    /// The value of an option that is set on a window itself.
    #[track_caller]
    pub(crate) fn window_option(&self, target: &str, name: &str) -> String {
        self.tmux(["show-options", "-wqv", "-t", target, name])
    }

    /// The socket of the tmux server.
    #[track_caller]
    pub(crate) fn server_socket(&self) -> String {
        self.tmux(["display-message", "-p", "#{socket_path}"])
    }

    /// Opens a window in [`SESSION`] by hand.
    #[track_caller]
    pub(crate) fn new_window(&self, name: &str, command: &str) {
        let session = format!("={SESSION}:");
        self.tmux(["new-window", "-d", "-t", &session, "-n", name, command]);
    }

    /// Opens a window in a session by hand, with more words of `new-window`, and returns its id.
    #[track_caller]
    pub(crate) fn open_window(&self, session: &str, more: &[&str]) -> String {
        let target = format!("={session}:");
        let open = [
            "new-window",
            "-d",
            "-P",
            "-F",
            "#{window_id}",
            "-t",
            &target,
        ];
        self.tmux([&open[..], more].concat())
    }

    /// Starts a task in [`SESSION`] and returns its window's id.
    #[track_caller]
    pub(crate) fn run(&self, name: &str, line: &str) -> String {
        self.run_in(SESSION, name, line)
    }

    #[track_caller]
    pub(crate) fn run_in(&self, session: &str, name: &str, line: &str) -> String {
        let output = self.task(["-s", session, "run", name, "--", line]);
        window_of(output.ok())
    }

    /// Starts a task by tmux alone, as another launcher does, and returns its window's id: no daemon is
    /// started for it. The session is made if it is missing.
    #[track_caller]
    pub(crate) fn run_alone(&self, session: &str, name: &str, line: &str) -> String {
        let mut has_session = self.command("tmux");
        has_session.args(["has-session", "-t", &format!("={session}")]);
        let exists = has_session.output().unwrap().status.success();
        let (target, window) = (format!("={session}:"), format!("={session}:={name}"));
        let make = if exists {
            ["new-window", "-d", "-t", &target]
        } else {
            ["new-session", "-d", "-s", session]
        };
        let (project, format) = (self.project(), "#{window_id}");
        let project = project.to_str().unwrap();
        let mut words = make.to_vec();
        words.extend(["-n", name, "-c", project, "-P", "-F", format]);
        words.extend(["--", "bash", "-lc", line]);
        for (option, value) in [
            ("remain-on-exit", "on"),
            ("@tmux_task_command", line),
            ("@tmux_task_cwd", project),
            ("@tmux_task_run", "1"),
        ] {
            words.extend([";", "set-option", "-w", "-t", &window, option, value]);
        }
        words.extend([";", "set-option", "-t", &target, "@tmux_task_root", project]);
        self.tmux(words)
    }

    /// Runs a task again by tmux alone.
    #[track_caller]
    pub(crate) fn rerun_alone(&self, window: &str, line: &str) {
        let respawn = ["respawn-pane", "-k", "-t", window];
        self.tmux([&respawn[..], &["--", "bash", "-lc", line]].concat());
    }

    /// Creates an executable script.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        // A child writes it: a file that we have open for writing may stay open in another test's
        // forked child for a moment, and a file that is open for writing cannot be executed.
        let mut writer = self.command("sh");
        writer
            .args(["-c", "cat >\"$0\" && chmod +x \"$0\""])
            .arg(&path);
        Output::with_input(writer, text).ok();
        path
    }

    /// Compiles a C library that `LD_PRELOAD` can load.
    pub(crate) fn c_library(&self, name: &str, source: &str) -> PathBuf {
        let path = self.path(name).with_extension("c");
        fs::write(&path, source).unwrap();
        let library = path.with_extension("so");
        let mut compiler = Command::new("cc");
        compiler
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &path])
            .arg("-ldl");
        Output::of(compiler).ok();
        library
    }

    /// Creates a gate for tasks to wait at.
    pub(crate) fn gate(&self, name: &str) -> Gate {
        let path = self.path(name);
        rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).unwrap();
        // For reading as well: it opens at once, and what is written waits for the task.
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        Gate { path, file }
    }

    #[track_caller]
    pub(crate) fn daemon(&self) {
        self.daemon_with(&[]);
    }

    /// Starts a daemon in the background. It has taken its baseline when this returns.
    #[track_caller]
    pub(crate) fn daemon_with(&self, args: &[&str]) {
        let output = self.task([&["daemon", "--detach"], args].concat());
        assert_eq!((output.code, output.err.as_str()), (0, ""));
    }

    pub(crate) fn daemon_status(&self) -> Value {
        self.json(["daemon", "status", "--json"])
    }

    /// The pid of the daemon of [`SESSION`].
    pub(crate) fn daemon_pid(&self) -> Pid {
        pid(self.daemon_status()["pid"].as_i64().unwrap())
    }

    /// Kills the daemon of [`SESSION`] and waits until it is gone.
    pub(crate) fn kill_daemon(&self) {
        let pid = self.daemon_pid();
        kill_process(pid, Signal::KILL).unwrap();
        self.until_true("the daemon is gone", || has_ended(pid));
    }

    /// Kills the daemons that run at this moment. Returns whether there was one.
    pub(crate) fn kill_daemons(&self) -> bool {
        let daemons = self.daemons();
        daemons.iter().for_each(|daemon| end(*daemon));
        !daemons.is_empty()
    }

    /// Makes the daemon look.
    #[track_caller]
    pub(crate) fn look(&self) -> Value {
        self.json(["ls", "--json"])
    }

    /// Stops the daemon, which delivers gathered events, and returns all records.
    #[track_caller]
    pub(crate) fn finish(&self) -> Vec<Value> {
        self.task(["daemon", "stop"]).ok();
        let records = self.records();
        check_feed(&records);
        records
    }

    /// All records so far.
    #[track_caller]
    pub(crate) fn records(&self) -> Vec<Value> {
        self.records_of(&["-s", self.var("TMUX_TASK_SESSION")])
    }

    /// All records of the session that `args` name.
    #[track_caller]
    pub(crate) fn records_of(&self, args: &[&str]) -> Vec<Value> {
        let output = self.task([&["feed"], args].concat());
        match output.code {
            // No daemon has written one yet.
            3 => Vec::new(),
            _ => parse_lines(output.ok()),
        }
    }

    /// Waits until the records are as they should be, and returns them.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, are_there: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        self.until_of(&["-s", self.var("TMUX_TASK_SESSION")], what, are_there)
    }

    #[track_caller]
    pub(crate) fn until_of(
        &self,
        args: &[&str],
        what: &str,
        are_there: impl Fn(&[Value]) -> bool,
    ) -> Vec<Value> {
        let deadline = Instant::now() + DEADLINE;
        let mut again = Instant::now() + REREAD;
        let mut last_read = None;
        loop {
            // Reading as a user does takes a process, and the time of a daemon and of tmux.
            let feeds = self.feeds();
            let is_new = last_read.as_ref() != Some(&feeds);
            let is_large = feeds.iter().map(|(_, bytes)| bytes).sum::<u64>() > LARGE;
            let seem_there = is_large || stored(&feeds).iter().any(|records| are_there(records));
            if seem_there && is_new || Instant::now() >= again {
                let records = self.records_of(args);
                if are_there(&records) {
                    return records;
                }
                if Instant::now() >= deadline {
                    panic!(
                        "never came: {what}\nrecords:\n{}\n{}",
                        show(&records),
                        self.logs()
                    );
                }
                // They are shown when the disk has them; or it is another feed that has them.
                again = Instant::now()
                    + match (seem_there, is_new) {
                        (true, true) => PAUSE,
                        (true, false) => 10 * PAUSE,
                        (false, _) => REREAD,
                    };
                last_read = Some(feeds.clone());
            }
            while self.feeds() == feeds && Instant::now() < again {
                std::thread::sleep(GLANCE);
            }
        }
    }

    /// The files of all feeds, with their lengths.
    fn feeds(&self) -> Vec<(PathBuf, u64)> {
        let files_of = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let folders = files_of(&self.path("state"));
        let mut feeds: Vec<_> = folders
            .flat_map(|folder| files_of(&folder.path()))
            .filter(|file| file.path().extension() == Some(OsStr::new("jsonl")))
            .map(|file| (file.path(), file.metadata().map_or(0, |found| found.len())))
            .collect();
        feeds.sort();
        feeds
    }

    /// Waits until there are that many deliveries.
    #[track_caller]
    pub(crate) fn until_deliveries(&self, n: usize) -> Vec<Value> {
        self.until(&format!("{n} deliveries"), |records| {
            deliveries(records).len() >= n
        })
    }

    /// Waits until the task has an event of this type.
    #[track_caller]
    pub(crate) fn until_event(&self, event_type: &str, name: &str) -> Vec<Value> {
        self.until(&format!("{event_type} of {name}"), |records| {
            has_event(records, event_type, name)
        })
    }

    /// Waits until there are this many events of this type.
    #[track_caller]
    pub(crate) fn until_events(&self, n: usize, event_type: &str) -> Vec<Value> {
        self.until(&format!("{n} times {event_type}"), |records| {
            events_of(records, event_type).len() >= n
        })
    }

    /// Waits until the task has an event of this type, and all events are delivered. How many
    /// deliveries that takes depends on the speed of the machine: events within 50 ms share one.
    #[track_caller]
    pub(crate) fn until_delivered(&self, event_type: &str, name: &str) -> Vec<Value> {
        self.until(&format!("{event_type} of {name}"), |records| {
            has_event(records, event_type, name) && all_told(records)
        })
    }

    #[track_caller]
    pub(crate) fn until_true(&self, what: &str, is_true: impl Fn() -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !is_true() {
            if Instant::now() >= deadline {
                panic!(
                    "never came: {what}\nrecords:\n{}\n{}",
                    show(&self.records()),
                    self.logs()
                );
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Waits until the pane is dead and tmux has collected its status.
    #[track_caller]
    pub(crate) fn until_ended(&self, target: &str) {
        self.until_true(&format!("{target} ends"), || {
            let format = "#{pid}:#{pane_dead}:#{pane_dead_status}#{pane_dead_signal}:#{pane_pid}";
            let shown = self.tmux(["display-message", "-p", "-t", target, format]);
            let fields: Vec<&str> = shown.split(':').collect();
            let [server, "1", status, process] = fields[..] else {
                return false;
            };
            // tmux 3.2 does not know which signal ended a process: it has collected it by the time
            // that it is gone.
            let is_gone = !process.is_empty() && !Path::new("/proc").join(process).exists();
            if !status.is_empty() || is_gone {
                return true;
            }
            // tmux can lose the signal for the end of its child.
            kill_process(pid(server.parse().unwrap()), Signal::CHILD).unwrap();
            false
        });
    }

    /// Shows a session on a terminal of this size, of another server that is called `terminal`.
    pub(crate) fn attach_terminal(&self, size: &str, session: &str) {
        let socket = self.server_socket();
        self.open_terminal(size, &format!("tmux -S '{socket}' attach -t ={session}"));
    }

    /// Runs a line of shell on such a terminal, whose server the line does not know.
    pub(crate) fn open_terminal(&self, size: &str, line: &str) {
        let size = size.replace('x', " -y ");
        let new = argv(&format!("-L terminal new-session -d -x {size}"));
        self.tmux([new, vec![format!("env -u TMUX {line}")]].concat());
    }

    /// Ends the server that is called `terminal`.
    pub(crate) fn end_terminal(&self) {
        self.tmux(["-L", "terminal", "kill-server"]);
    }

    /// The terminals' sessions and windows.
    pub(crate) fn on_terminals(&self) -> Vec<String> {
        let format = "#{client_control_mode}#{client_session} #{window_name}";
        let clients = self.tmux(["list-clients", "-F", format]);
        let terminals = clients.lines().filter_map(|line| line.strip_prefix('0'));
        terminals.map(str::to_owned).collect()
    }

    /// The pid of the tmux server.
    #[track_caller]
    pub(crate) fn server(&self) -> Pid {
        let number = self.tmux(["display-message", "-p", "#{pid}"]);
        pid(number.parse().unwrap())
    }

    #[track_caller]
    pub(crate) fn until_shows(&self, target: &str, text: &str) {
        self.until_true(&format!("{target} shows {text}"), || {
            self.tmux(["capture-pane", "-p", "-t", target])
                .contains(text)
        });
    }

    /// The folder of a session's files: the only one, or that of `name`.
    pub(crate) fn state(&self, name: &str) -> PathBuf {
        let folders = fs::read_dir(self.path("state")).unwrap();
        let mut paths = folders.map(|entry| entry.unwrap().path());
        let found = paths.find(|path| {
            let folder = path.file_name().unwrap().to_string_lossy().into_owned();
            folder.rsplit_once('-').is_some_and(|(key, _)| key == name)
        });
        found.expect("the session has a folder")
    }

    /// The socket of the daemon of [`SESSION`].
    pub(crate) fn socket(&self) -> PathBuf {
        let state = self.state(SESSION);
        let name = state.file_name().unwrap();
        self.path("run").join(name).with_extension("sock")
    }

    /// The log of the daemon of [`SESSION`].
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.state(SESSION).join("daemon.log")).unwrap()
    }

    /// Waits until the log has this text: another thread writes it.
    #[track_caller]
    pub(crate) fn until_logged(&self, text: &str) -> String {
        self.until_true(&format!("the log says {text}"), || {
            self.log().contains(text)
        });
        self.log()
    }

    /// The logs of all its daemons.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        let Ok(folders) = fs::read_dir(self.path("state")) else {
            return text;
        };
        for folder in folders {
            let log = folder.unwrap().path().join("daemon.log");
            let said = fs::read_to_string(&log).unwrap_or_default();
            text.push_str(&format!("{}:\n{said}\n", log.display()));
        }
        text
    }

    /// The daemons that run in this world: the pids in their locks, if they are of our making.
    fn daemons(&self) -> Vec<Pid> {
        let in_folder = |folder: PathBuf| {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            entries.map(|entry| entry.path()).collect::<Vec<_>>()
        };
        // tmux's environment has no TMUX_TASK_RUNTIME_DIR: what a key binding starts uses XDG_RUNTIME_DIR.
        let top = ["run", "xdg/tmux-task"].map(|folder| in_folder(self.path(folder)));
        let top = top.concat();
        // A test may use a folder inside it.
        let below: Vec<_> = top.iter().cloned().flat_map(in_folder).collect();
        let locks = [top, below]
            .concat()
            .into_iter()
            .filter(|path| path.extension() == Some(OsStr::new("lock")));
        let pids = locks.filter_map(|lock| fs::read_to_string(lock).ok()?.trim().parse().ok());
        pids.filter_map(|number: i32| Pid::from_raw(number))
            .filter(|pid| self.is_ours(*pid))
            .collect()
    }

    /// Whether a process has inherited this world's folder.
    fn is_ours(&self, pid: Pid) -> bool {
        let path = format!("/proc/{}/environ", pid.as_raw_nonzero());
        let marker = format!("TMUX_TMPDIR={}", self.path("tmux").display());
        fs::read(path).is_ok_and(|environ| {
            environ
                .split(|byte| *byte == 0)
                .any(|variable| variable == marker.as_bytes())
        })
    }

    fn end_server(&self, socket: &Path) {
        let tmux = |args: &[&str]| {
            let mut command = self.command("tmux");
            command.arg("-S").arg(socket).args(args);
            command.stderr(Stdio::null());
            String::from_utf8_lossy(&command.output().unwrap().stdout).into_owned()
        };
        let deadline = Instant::now() + Duration::from_secs(2);
        // It lingers if it is terminated while a daemon's client waits; those are being closed.
        let server = loop {
            let shown = tmux(&["display-message", "-p", "#{pid}", ";", "list-clients"]);
            let mut lines = shown.lines();
            let server = lines.next().and_then(|pid| pid.parse().ok());
            if lines.next().is_none() || Instant::now() >= deadline {
                break server.and_then(Pid::from_raw);
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        tmux(&["kill-server"]);
        if let Some(server) = server {
            while !has_ended(server) && self.is_ours(server) {
                if Instant::now() >= deadline {
                    end(server);
                    break;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        }
    }
}

/// The records in these files of feeds, by folder. Lines that are no records are left out.
fn stored(feeds: &[(PathBuf, u64)]) -> Vec<Vec<Value>> {
    let mut by_folder: BTreeMap<&Path, Vec<Value>> = BTreeMap::new();
    for (path, _) in feeds.iter().filter(|(_, bytes)| *bytes <= LARGE) {
        let text = fs::read(path).unwrap_or_default();
        let lines = text.split(|byte| *byte == b'\n');
        let records = lines.filter_map(|line| serde_json::from_slice(line).ok());
        by_folder
            .entry(path.parent().unwrap())
            .or_default()
            .extend(records);
    }
    by_folder.into_values().collect()
}

impl Drop for World {
    fn drop(&mut self) {
        for daemon in self.daemons() {
            // A killed one can leave a client behind that never ends.
            kill_process(daemon, Signal::TERM).unwrap_or_default();
            let deadline = Instant::now() + Duration::from_secs(3);
            while !has_ended(daemon) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(2));
            }
            end(daemon);
        }
        let folders = fs::read_dir(self.path("tmux"));
        for folder in folders.into_iter().flatten().flatten() {
            for socket in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                self.end_server(&socket.path());
            }
        }
    }
}

/// Kills a process of ours.
fn end(pid: Pid) {
    // It may have ended meanwhile.
    kill_process(pid, Signal::KILL).unwrap_or_default();
}

/// Returns how often a test does what can fail by chance: this often in tests/run.sh, and more often
/// in tests/storms/repeats.sh.
pub(crate) fn repeated(times: i64) -> i64 {
    let factor = std::env::var("TEST_REPEATS").unwrap_or_else(|_| "1".to_owned());
    times * factor.parse::<i64>().expect("TEST_REPEATS is a number")
}

/// Numbers that look random, and are the same for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64, whose: u64) -> Self {
        let mut dice = Self(seed ^ whose.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.below(1);
        dice
    }

    /// Returns a number from 0 to `n` - 1.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What this machine is called where it asks another one.
pub(crate) fn this_machine() -> String {
    let system = rustix::system::uname();
    system.nodename().to_str().unwrap().to_owned()
}

pub(crate) fn pid(number: i64) -> Pid {
    Pid::from_raw(i32::try_from(number).unwrap()).unwrap()
}

/// Whether a process is gone, or only waits for its parent to notice that.
pub(crate) fn has_ended(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
        return true;
    };
    let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
    // As long as one of its threads lives, its files are open.
    let threads = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero()));
    state.is_none_or(|state| state.starts_with('Z'))
        && threads.is_ok_and(|threads| threads.count() <= 1)
}

/// The memory that a process has now, in KiB.
pub(crate) fn resident(pid: Pid) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// Reads the helper's four lines.
#[track_caller]
pub(crate) fn window_of(printed: &str) -> String {
    let window = printed
        .lines()
        .find_map(|line| line.strip_prefix("window_id="));
    window.expect("a window's id is printed").to_owned()
}

#[track_caller]
pub(crate) fn parse_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect()
}

/// Returns `PATH` without the folders in which a tmux-task is installed.
pub(crate) fn path_without_program() -> String {
    let path = std::env::var("PATH").unwrap();
    let without: Vec<&str> = path
        .split(':')
        .filter(|folder| !Path::new(folder).join("tmux-task").exists())
        .collect();
    without.join(":")
}

/// The blocks of a language in a page of the documentation.
#[track_caller]
pub(crate) fn blocks(page: &str, language: &str) -> Vec<String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    blocks_of(&fs::read_to_string(docs.join(page)).unwrap(), language)
}

/// The blocks of a language in a text.
pub(crate) fn blocks_of(text: &str, language: &str) -> Vec<String> {
    text.split(&format!("```{language}\n"))
        .skip(1)
        .filter_map(|rest| rest.split_once("```"))
        .map(|(block, _)| block.to_owned())
        .collect()
}
