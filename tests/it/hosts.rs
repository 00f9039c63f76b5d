//! `--host`: commands on another machine, by a real ssh. The other machine is a world of its own.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{
    Output, Running, SESSION, World, argv, begins, confirm, content_of, event, has, is_message,
    keygen, lacks, message, pid, this_machine,
};

/// What the near side calls it.
pub(crate) const HOST: &str = "gpu1";

/// Two machines. The near one knows the far one as [`HOST`].
pub(crate) struct Machines {
    pub(crate) near: World,
    far: World,
}

impl Machines {
    pub(crate) fn new() -> Self {
        Self::with_login_shell("/bin/sh")
    }

    /// Each connection is an sshd of its own, which ssh starts.
    fn with_login_shell(shell: &str) -> Self {
        let (near, far) = (World::new(), World::new());
        let ssh = near.path("home/.ssh");
        fs::create_dir(&ssh).unwrap();
        // sshd wants it if root starts it.
        drop(fs::create_dir_all("/run/sshd"));
        for key in [far.path("hostkey"), ssh.join("id")] {
            keygen(&key);
        }
        fs::copy(ssh.join("id.pub"), far.path("authorized")).unwrap();
        let host_key = fs::read_to_string(far.path("hostkey.pub")).unwrap();
        fs::write(ssh.join("known"), format!("{HOST} {host_key}")).unwrap();
        let bin = far.path("bin");
        fs::create_dir(&bin).unwrap();
        let (exports, bin) = (far.exports(), bin.display());
        let login = format!(
            "#!/bin/sh\n{exports}unset TERM\nPATH={bin}:$PATH\ncd\nexec {shell} -c \"$SSH_ORIGINAL_COMMAND\"\n"
        );
        let login = far.script("login", &login).display().to_string();
        let folder = far.path("").display().to_string();
        let folder = folder.trim_end_matches('/');
        // bash reads ~/.bashrc under sshd, unless it is started by a shell.
        let config = format!(
            "HostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nSetEnv SHLVL=2\nForceCommand {login}\nMaxSessions 100\n"
        );
        fs::write(far.path("sshd_config"), config).unwrap();
        let connect = format!(
            "#!/bin/sh\necho $$ >>{folder}/connections\n\
             exec /usr/sbin/sshd -i -f {folder}/sshd_config -E {folder}/sshd.log\n"
        );
        let connect = far.script("connect", &connect).display().to_string();
        let ssh_folder = ssh.display();
        let config = format!(
            "Host {HOST}\nProxyCommand {connect}\nIdentityFile {ssh_folder}/id\nIdentitiesOnly yes\n\
             UserKnownHostsFile {ssh_folder}/known\n"
        );
        fs::write(ssh.join("config"), config).unwrap();
        let machines = Self { near, far };
        machines.install(&[("tmux-task", None)]);
        machines
    }

    /// Installs programs there: links to ours, or scripts.
    pub(crate) fn install(&self, programs: &[(&str, Option<&str>)]) {
        for (name, script) in programs {
            let path = self.program(name);
            drop(fs::remove_file(&path));
            match script {
                Some(text) => drop(self.far.script(&format!("bin/{name}"), text)),
                None => std::os::unix::fs::symlink(World::program(), path).unwrap(),
            }
        }
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.far.path("bin").join(name)
    }

    #[track_caller]
    fn task(&self, args: &[&str]) -> Output {
        self.near.task([&["--host", HOST], args].concat())
    }

    /// The processes of all connections so far.
    fn connections(&self) -> Vec<rustix::process::Pid> {
        let pids = fs::read_to_string(self.far.path("connections")).unwrap_or_default();
        let pids = pids.lines().map(|line| pid(line.parse().unwrap()));
        pids.collect()
    }

    /// Cuts the connection, as when a machine is switched off.
    fn cut(&self) {
        for sshd in self.connections() {
            // It may have ended.
            kill_process(sshd, Signal::KILL).unwrap_or_default();
        }
    }

    /// Cuts the connection, and waits until no command shares it any more.
    #[track_caller]
    fn disconnect(&self) {
        self.cut();
        self.near.until_true("the connection is gone", || {
            let files = fs::read_dir(self.near.path("run/hosts")).unwrap();
            let mut kinds = files.map(|entry| entry.unwrap().file_type().unwrap());
            !kinds.any(|kind| kind.is_socket())
        });
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        self.cut();
    }
}

#[test]
fn words_answers_and_exit_codes_are_those_of_the_other_machine_over_one_connection() {
    let machines = Machines::new();
    let ran = machines.task(&["run", "a", "--", "echo hi; exit 3"]);
    has(ran.ok(), format!("session={SESSION}\n"));
    machines.task(&["wait", "a"]).fails_with(1);
    let rows = |output: Output| {
        let rows = output.ok().lines().map(|line| line[..12].to_owned());
        rows.collect::<Vec<_>>()
    };
    let here = rows(machines.task(&["ls"]));
    assert_eq!(here, rows(machines.far.task(["ls"])));
    assert_eq!(machines.task(&["logs", "a"]).ok(), "hi\n");
    let waited = machines.task(&["run", "b", "--wait", "--", "echo no; exit 7"]);
    waited.fails_with(7);
    let ended = "tmux-task: run b: the task exited with code 7\n";
    assert_eq!(waited.err, format!("no\n{ended}"));
    let why = format!("tmux-task: kill: no task `nope` in session `{SESSION}`");
    let hint = format!("hint: `tmux-task --host {HOST} ls` lists them");
    machines
        .task(&["kill", "nope"])
        .fails(3, &format!("{why}\n{hint}"));
    // What is ended says who asked, if that was not on the machine itself.
    for (name, asked_by) in [("c", json!(this_machine())), ("d", Value::Null)] {
        machines.task(&["run", name, "--", "sleep 1000"]).ok();
        let killed = if asked_by.is_null() {
            machines.far.task(["kill", name])
        } else {
            machines.task(&["kill", name])
        };
        killed.ok();
        let records = machines.far.until_delivered("disappeared", name);
        let gone = event(&records, "disappeared", name);
        assert_eq!(gone["reason"], "userKilled");
        assert_eq!(gone["askedBy"], asked_by);
    }
    assert_eq!(machines.connections().len(), 1);
    // Nothing of it is here.
    machines.near.task(["ls"]).fails_with(3);
    let state = machines.near.path("state");
    assert_eq!(fs::read_dir(state).unwrap().count(), 0);
}

#[test]
fn standard_input_names_words_and_large_outputs_arrive_whole() {
    let machines = Machines::new();
    let line = "stty -echo; read -r a; echo \"got <$a>\"";
    machines.task(&["run", "asks", "--", line]).ok();
    machines.task(&["wait", "asks", "--input"]).ok();
    let reading = |input: &str, args: &[&str]| {
        let args = [&["--host", HOST], args].concat();
        machines.near.task_reading(input, args)
    };
    reading("it's $x \u{e9}\n", &["send", "asks", "--secret"]).ok();
    machines.task(&["wait", "asks"]).ok();
    let logs = machines.task(&["logs", "asks"]);
    assert_eq!(logs.ok().lines().last(), Some("got <it's $x \u{e9}>"));
    let snapshot = r#"{"sessionName":"s","exists":true,"capturedAt":1000,"tasks":[]}"#;
    let snapshots = format!("{snapshot}\n").repeat(20_000);
    assert_eq!(reading(&snapshots, &["replay"]).ok(), "");
    let run = ["run", "big", "--wait", "--", "seq 1 40000"];
    machines.task(&run).ok();
    let expected: String = (1..=40_000).map(|n| format!("{n}\n")).collect();
    let logs = machines.task(&["logs", "big", "-n", "50000"]);
    assert_eq!(logs.ok(), expected);
    let session = "it's $(touch x) `y` \"z\" \u{e9} #{pid}";
    let word = "a'b\"c $HOME \\ ! * \u{1f980}\nsecond";
    let run = ["run", "a", "--wait", "--", "printf", "%s", word];
    let in_session = |args: &[&str]| machines.task(&[&["-s", session], args].concat());
    in_session(&run).ok();
    assert_eq!(in_session(&["logs", "a"]).ok().trim_end(), word);
    let listed = in_session(&["ls", "--json"]).json();
    assert_eq!(listed["sessionName"], session);
    for touched in [machines.far.path("home"), machines.near.project()] {
        assert!(!touched.join("x").exists());
    }
    // A consumer acknowledges from here.
    let feed = ["--host", HOST, "feed", "-f", "--consumer", "c"];
    let mut feed = machines.near.start_piped(feed);
    let records = feed.records_until(|record| record["type"] == "exited");
    let seq = &records.last().unwrap()["seq"];
    feed.write(&format!("{{\"ack\":{seq}}}\n"));
    feed.records_until(|record| record["acked"] == *seq);
    assert_eq!(machines.connections().len(), 1);
}

#[test]
fn each_thing_that_is_wrong_is_one_line() {
    let machines = Machines::new();
    let there = World::program().display();
    let version = machines.near.task(["-V"]);
    let version = version.ok().trim_end().replace("tmux-task ", "");
    #[track_caller]
    fn check(output: &Output, code: i32, why: &str) {
        output.fails_so(code, why);
        let more = output.err.lines().skip(1).collect::<Vec<_>>();
        let is_hint = more.iter().all(|line| line.starts_with("hint: "));
        assert!(is_hint && more.len() <= 1, "{output}");
    }
    fs::remove_file(machines.program("tmux-task")).unwrap();
    let why = format!("tmux-task: ls: there is no tmux-task on {HOST} (");
    check(&machines.task(&["ls"]), 1, &why);
    for (script, why) in [
        (
            "echo '{\"tmuxTask\":\"9.9\"}'",
            format!("{HOST} has tmux-task 9.9, this is {version}"),
        ),
        (
            "echo no >&2\nexit 5",
            format!("tmux-task on {HOST} did not start (code 5): no"),
        ),
        // What prints for ever is not waited for.
        (
            "exec yes welcome",
            format!("{HOST} prints something else than tmux-task: welcome; welcome"),
        ),
    ] {
        let script = format!("#!/bin/sh\n{script}\n");
        machines.install(&[("tmux-task", Some(&script))]);
        check(&machines.task(&["ls"]), 1, &format!("tmux-task: ls: {why}"));
    }
    // A login shell may print something first.
    let noisy = format!("#!/bin/sh\necho welcome\nexec {there} \"$@\"\n");
    machines.install(&[("tmux-task", Some(&noisy))]);
    machines.task(&["signal", "x"]).fails_with(3);
    machines.disconnect();
    fs::remove_file(machines.near.path("home/.ssh/known")).unwrap();
    let output = machines.task(&["ls"]);
    let why = format!("tmux-task: ls: could not reach {HOST}: ");
    check(&output, 1, &why);
    output.says("Host key verification failed");
    let far = ["--host", "no.such.invalid", "run", "a", "--wait", "--", "x"];
    let why = "tmux-task: run: could not reach no.such.invalid: ";
    check(&machines.near.task(far), 125, why);
    let option = machines.near.task(["--host=-oProxyCommand=x", "ls"]);
    let why = "tmux-task: ls: `-oProxyCommand=x` is not a destination for ssh";
    check(&option, 2, why);
    for command in ["man", "config show", "completions bash", "init claude"] {
        let words: Vec<&str> = command.split(' ').collect();
        let why = format!("tmux-task: {}: it is about this machine", words[0]);
        check(&machines.task(&words), 2, &why);
    }
}

#[test]
fn a_cut_connection_ends_a_command_with_one_line_and_a_wait_goes_on() {
    let machines = Machines::new();
    let gate = machines.far.gate("gate");
    machines.task(&["run", "a", "--", &gate.wait()]).ok();
    let start = |args: &[&str]| machines.near.start([&["--host", HOST], args].concat());
    let mut following = start(&["run", "b", "--follow", "--", "sleep 1000"]);
    let mut until = start(&["wait", "a", "--text", "done", "--timeout", "1m"]);
    let mut waiting = start(&["wait", "a"]);
    machines.far.until_waits(3);
    machines.cut();
    let lost = format!("the connection to {HOST} was lost");
    begins(following.complaint(), "started ");
    assert_eq!(following.complaint(), format!("tmux-task: run: {lost}"));
    assert_eq!(following.wait(), 125);
    for wait in [&mut until, &mut waiting] {
        let goes_on = format!("tmux-task: wait: {lost}; connecting again");
        assert_eq!(wait.complaint(), goes_on);
    }
    machines.far.until_waits(2);
    machines.far.task(["kill", "b"]).ok();
    gate.open();
    assert_eq!(waiting.wait(), 0);
    // What a text is waited for in has ended.
    assert_eq!(until.wait(), 5);
    let mut logs = start(&["feed", "-f"]);
    logs.line();
    machines.cut();
    assert_eq!(logs.complaint(), format!("tmux-task: feed: {lost}"));
    assert_eq!(logs.wait(), 7);
}

/// Two worlds, of which the second one is the machine `box` of the first one: a command that is not ssh.
fn worlds_by_command() -> (World, World) {
    let (near, far) = (World::new(), World::new());
    let environment = Output::of(far.command("env")).ok().to_owned();
    let mut words = vec!["env", "-i"];
    words.extend(environment.lines());
    words.push(World::program().to_str().unwrap());
    let words = json!(words);
    near.configure(&format!(
        "hosts.box = {{ command = {words}, cwd = '/' }}\nhosts.no = {{ command = ['/nowhere/x'] }}\n"
    ));
    (near, far)
}

#[test]
fn a_machine_is_any_command_that_reaches_its_program() {
    let (near, far) = worlds_by_command();
    let line = "echo \"$KEY\"; exit 255";
    let run = "--host box run a --env \"KEY=it's $x\" --wait --";
    let ran = near.task([argv(run), vec![line.to_owned()]].concat());
    ran.fails_with(255);
    ran.shows("cwd=/\n");
    let logs = near.task(["--host", "box", "logs", "a"]);
    assert_eq!(logs.ok(), "it's $x\n");
    assert_eq!(far.task(["logs", "a"]).ok(), "it's $x\n");
    far.run("b", "sleep 1000");
    let mut waiting = near.start(["--host", "box", "wait", "b"]);
    far.until_waits(1);
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait(), 130);
    far.until_waits(0);
    // Whoever has asked is gone.
    let mut command = near.command(World::program());
    let (reader, writer) = std::io::pipe().unwrap();
    command.args(["--host", "box", "wait", "b"]).stdout(writer);
    let mut waiting = command.spawn().unwrap();
    drop(command);
    far.until_waits(1);
    drop(reader);
    assert_eq!(waiting.wait().unwrap().code(), Some(1));
    far.until_waits(0);
    let failed = near.task(["--host", "no", "ls"]);
    failed.fails_so(1, "tmux-task: ls: could not start `/nowhere/x`: ");
    let init = near.task(["init", "host", "box"]);
    begins(init.err, "tmux-task: init: box is not reached by ssh");
}

/// Kills what connects this process with the machine, as soon as there is something.
fn kill_way(near: &World, of: &Running) {
    let parent = of.pid().as_raw_nonzero();
    let path = format!("/proc/{parent}/task/{parent}/children");
    let child = || {
        let children = fs::read_to_string(&path).unwrap();
        children.split(' ').next()?.parse::<i64>().ok()
    };
    near.until_true("the machine is reached", || child().is_some());
    kill_process(pid(child().unwrap()), Signal::KILL).unwrap();
}

#[test]
fn a_killed_way_to_a_machine_loses_and_doubles_nothing() {
    let (near, far) = worlds_by_command();
    let mut adapter = near.adapter("one");
    let go = far.path("go");
    let script = format!(
        "read -r -p 'Go on? [y/N] ' answer; echo got $answer; until [ -e {} ]; do sleep 0.05; done; exit 3",
        go.display()
    );
    let run = ["--host", "box", "run", "a", "--", &script];
    near.task_as("opencode:one", run).ok();
    let asked = message(&adapter);
    has(content_of(&asked), "box:@");
    has(content_of(&asked), "Go on?");
    confirm(&mut adapter, &asked);
    let answer = ["send", "a", "--if-prompt", "Go on? [y/N]", "y"];
    near.task([&["--host", "box"], &answer[..]].concat()).ok();
    far.until_event("inputResolved", "a");
    let mut waiting = near.start(["--host", "box", "wait", "a"]);
    far.until_waits(1);
    let mut following = near.start(["--host", "box", "logs", "-f", "a"]);
    begins(following.line(), "Go on?");
    for killed in [&following, &waiting, &adapter] {
        kill_way(&near, killed);
    }
    assert_eq!(following.wait(), 7);
    has(waiting.complaint(), "; connecting again");
    // It waits again.
    far.until_waits(1);
    fs::write(go, "").unwrap();
    assert_eq!(waiting.wait(), 1);
    let told = message(&adapter);
    has(content_of(&told), "(a) exited with code 3");
    confirm(&mut adapter, &told);
    // Nothing comes twice.
    far.until_true("all is acknowledged", || {
        let listed = far.json(["consumer", "ls", "--json"]);
        listed["consumers"][0]["lag"] == 0
    });
    adapter.signal(Signal::TERM);
    let rest = adapter.rest();
    assert!(!rest.iter().any(is_message), "{rest:?}");
}

#[test]
fn an_interrupt_ends_the_command_there() {
    let machines = Machines::new();
    machines.task(&["run", "a", "--", "sleep 1000"]).ok();
    // The last one says nothing.
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut waiting = machines.near.start(["--host", HOST, "wait", "a"]);
        machines.far.until_waits(1);
        waiting.signal(signal);
        let code = if signal == Signal::KILL {
            -1
        } else {
            128 + signal.as_raw()
        };
        assert_eq!(waiting.wait(), code);
        machines.far.until_waits(0);
    }
    assert_eq!(machines.connections().len(), 1);
}

#[test]
fn every_login_shell_starts_it() {
    let shells = [
        "/bin/sh",
        "/bin/bash",
        "/bin/dash",
        "/usr/bin/zsh",
        "/usr/bin/fish",
        "/bin/tcsh",
    ];
    for shell in shells.into_iter().filter(|shell| Path::new(shell).exists()) {
        let machines = Machines::with_login_shell(shell);
        machines.task(&["ls"]).fails_with(3);
        fs::remove_file(machines.program("tmux-task")).unwrap();
        let said = format!("{shell}: {}", machines.task(&["ls"]).err);
        has(said, "there is no tmux-task on");
    }
}

/// Start files print it in front of what the command line of ssh does, and may leave the shell.
#[test]
fn what_start_files_print_has_no_line_end_or_is_why_nothing_starts() {
    let machines = Machines::new();
    let shell = |text: &str| {
        let path = machines.far.script("shell", text);
        let login = fs::read_to_string(machines.far.path("login")).unwrap();
        let first = login.rsplit_once("exec ").unwrap().0;
        let line = format!("{first}exec {} \"$SSH_ORIGINAL_COMMAND\"\n", path.display());
        fs::write(machines.far.path("login"), line).unwrap();
    };
    let init = || machines.near.task(["init", "host", HOST]);
    shell("#!/bin/sh\nprintf '\\033]0;title\\007welcome'\nexec sh -c \"$1\"\n");
    machines.task(&["ls"]).fails_with(3);
    begins(init().out, format!("{HOST} has this version: "));
    machines.disconnect();
    shell("#!/bin/sh\necho This account is not available.\nexit 1\n");
    let why = "(code 1): This account is not available.\n";
    let ls = format!("tmux-task: ls: tmux-task on {HOST} did not start {why}");
    begins(machines.task(&["ls"]).err, ls);
    let not_installed = format!("tmux-task: init: could not install on {HOST}");
    begins(init().err, format!("{not_installed} {why}"));
    // What prints for ever is neither waited for nor kept.
    shell("#!/bin/sh\nexec yes hello\n");
    begins(
        init().err,
        format!("{not_installed} (a signal): hello; hell"),
    );
}

/// Runs a command on the other machine in a terminal of the near one, and then more lines of a shell.
fn in_terminal(near: &World, command: &str, more: &str) {
    let program = World::program().display();
    let line = format!("{program} --host {HOST} {command}; echo code=$?; {more}read -r _");
    let new = ["new-session", "-d", "-s", "terminal", "-x", "100"];
    near.tmux([&new[..], &[&line]].concat());
}

fn press(near: &World, keys: &str) {
    near.tmux(["send-keys", "-t", "terminal", keys, "Enter"]);
}

fn on_terminal(near: &World) -> String {
    near.tmux(["capture-pane", "-p", "-t", "terminal"])
}

#[test]
fn a_secret_is_typed_and_a_question_answered_at_the_terminal_here() {
    let machines = Machines::new();
    let near = &machines.near;
    let line = "read -rsp 'Password: ' x; echo got-${#x}; sleep 1000";
    machines.task(&["run", "a", "--", line]).ok();
    machines.task(&["wait", "a", "--input"]).ok();
    in_terminal(near, "send a --secret", "read -r x; echo after=$x; ");
    near.until_shows("terminal", "secret:");
    press(near, "hunter2");
    near.until_shows("terminal", "code=0");
    machines.far.until_shows("a", "got-7");
    // What is typed then is shown again.
    press(near, "more");
    near.until_shows("terminal", "after=more");
    let shown = on_terminal(near);
    lacks(&shown, "hunter2");
    assert_eq!(shown.matches("more").count(), 2, "{shown}");
    near.tmux(["kill-session", "-t", "=terminal"]);

    in_terminal(near, "kill-all", "");
    let question = format!("End session {SESSION} with 1 task (1 active)? [y/N]");
    near.until_shows("terminal", &question);
    press(near, "y");
    near.until_shows("terminal", "code=0");
    let shown = on_terminal(near);
    has(&shown, "ended @");
    lacks(&shown, "closed");
    machines.far.task(["ls"]).fails_with(3);
    // Without a terminal it is not asked.
    machines.task(&["kill-all"]).fails_with(3);
}

#[test]
fn the_directory_is_the_same_one_or_the_configured_one_or_the_home_directory() {
    let machines = Machines::new();
    let program = World::program().display();
    let check = |cwd: PathBuf, err: &str| {
        let ran = machines.task(&["run", "a", "--", "true"]);
        has(ran.ok(), format!("cwd={}\n", cwd.display()));
        assert_eq!(ran.err, err);
    };
    check(machines.near.project(), "");
    fs::create_dir(machines.far.path("home/src")).unwrap();
    fs::remove_file(machines.program("tmux-task")).unwrap();
    let configure = |cwd: &str| {
        let host = format!("hosts.{HOST} = {{ program = '{program}', cwd = '{cwd}' }}\n");
        machines.near.configure(&host);
    };
    configure("~/src");
    check(machines.far.path("home/src"), "");
    configure("/no/such");
    let why = format!("there is no directory /no/such on {HOST}: this runs in the home directory");
    check(
        machines.far.path("home"),
        &format!("tmux-task: run: {why}\n"),
    );
    assert_eq!(machines.task(&["ls"]).err, "");
}

#[test]
fn the_program_is_put_onto_a_machine_of_the_same_kind_and_checked_there() {
    let machines = Machines::new();
    let init = || machines.near.task(["init", "host", HOST]);
    fs::remove_file(machines.program("tmux-task")).unwrap();
    let missing = machines.task(&["ls"]);
    missing.says(format!("`tmux-task init host {HOST}`"));
    let target = machines.far.path("home/.local/bin/tmux-task");
    let copied = init();
    let first = format!("copied this program to {HOST}: {}\n", target.display());
    begins(copied.ok(), first);
    // The checks are those of that machine.
    let far = machines.far.path("").display().to_string();
    copied.shows(format!("state        {far}"));
    machines.task(&["run", "a", "--", "sleep 1000"]).ok();
    let there = format!("{HOST} has this version: {}\n", target.display());
    begins(init().ok(), there);
    // One of another version in its place is replaced.
    fs::remove_file(&target).unwrap();
    let old = "#!/bin/sh\necho tmux-task 0.0.9\n";
    machines.far.script("home/.local/bin/tmux-task", old);
    begins(init().ok(), "copied ");
    let left = fs::read_dir(target.parent().unwrap()).unwrap();
    assert_eq!(left.count(), 1, "nothing else is left there");
}

#[test]
fn where_this_program_does_not_start_the_static_one_beside_it_is_copied() {
    let machines = Machines::new();
    fs::remove_file(machines.program("tmux-task")).unwrap();
    let chmod = "case $(head -c 4 \"$2\") in *ELF) set 644 \"$2\" ;; esac; exec /bin/chmod \"$@\"";
    machines.install(&[("chmod", Some(&format!("#!/bin/sh\n{chmod}\n")))]);
    let ours = machines.near.path("home/tmux-task");
    let mut copy = machines.near.command("cp");
    copy.arg(World::program()).arg(&ours);
    Output::of(copy).ok();
    let init = || {
        let mut init = machines.near.command(&ours);
        init.args(["init", "host", HOST]);
        Output::of(init)
    };
    let why = format!("tmux-task: init: this program does not start on {HOST}: ");
    init().fails_so(1, &why);
    let folder = machines.far.path("home/.local/bin");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 0);
    let program = World::program().display();
    let script = format!("#!/bin/sh\nexec {program} \"$@\"\n");
    machines.near.script("home/tmux-task-static", &script);
    begins(init().ok(), "copied ");
    machines.task(&["ls"]).fails_with(3);
}

#[test]
fn what_keeps_the_program_from_a_machine_is_one_line() {
    let machines = Machines::new();
    let init = |args: &[&str]| machines.near.task([&["init"], args].concat());
    let fails = |code: i32, args: &[&str], why: &str| {
        init(args).fails_so(code, &format!("tmux-task: init: {why}"));
    };
    let target = machines.far.path("home/.local/bin/tmux-task");
    let old = "#!/bin/sh\necho tmux-task 0.0.9\n";
    machines.install(&[("tmux-task", Some(old))]);
    let why = format!("{HOST} has tmux-task 0.0.9 at ");
    fails(1, &["host", HOST], &why);
    assert!(!target.exists());
    fs::remove_file(machines.program("tmux-task")).unwrap();
    machines.install(&[("uname", Some("#!/bin/sh\necho Linux armv7l\n"))]);
    let why = format!("{HOST} is Linux armv7l, this is ");
    fails(1, &["host", HOST], &why);
    fs::remove_file(machines.program("uname")).unwrap();
    let unreachable = "could not reach no.such.invalid: ";
    fails(1, &["host", "no.such.invalid"], unreachable);
    fails(2, &["host"], "the host is missing");
    fails(2, &["claude", "x"], "unexpected argument 'x'");
    let none = "`a b` is not a destination for ssh";
    fails(2, &["host", "a b"], none);
}
