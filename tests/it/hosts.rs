//! `--host`: commands on another machine, by a real ssh. The other machine is a world of its own.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Output, Running, SESSION, World, event, pid, this_machine};

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
            let mut keygen = Command::new("ssh-keygen");
            keygen
                .args(["-q", "-t", "ed25519", "-N", "", "-f"])
                .arg(key);
            Output::of(keygen).ok();
        }
        fs::copy(ssh.join("id.pub"), far.path("authorized")).unwrap();
        let host_key = fs::read_to_string(far.path("hostkey.pub")).unwrap();
        fs::write(ssh.join("known"), format!("{HOST} {host_key}")).unwrap();
        let bin = far.path("bin");
        fs::create_dir(&bin).unwrap();
        let environment = Output::of(far.command("env")).ok().to_owned();
        let exports: String = environment
            .lines()
            .filter(|line| !line.starts_with("TERM="))
            .map(|line| format!("export '{line}'\n"))
            .collect();
        let login = far.script(
            "login",
            &format!(
                "#!/bin/sh\n{exports}PATH={}:$PATH\ncd\nexec {shell} -c \"$SSH_ORIGINAL_COMMAND\"\n",
                bin.display()
            ),
        );
        let folder = far.path("").display().to_string();
        let folder = folder.trim_end_matches('/');
        // bash reads ~/.bashrc under sshd, unless it is started by a shell.
        let config = format!(
            "HostKey {folder}/hostkey\nAuthorizedKeysFile {folder}/authorized\nStrictModes no\n\
             UsePAM no\nPasswordAuthentication no\nSetEnv SHLVL=2\nForceCommand {}\nMaxSessions 100\n",
            login.display()
        );
        fs::write(far.path("sshd_config"), config).unwrap();
        let connect = far.script(
            "connect",
            &format!(
                "#!/bin/sh\necho $$ >>{folder}/connections\n\
                 exec /usr/sbin/sshd -i -f {folder}/sshd_config -E {folder}/sshd.log\n"
            ),
        );
        let config = format!(
            "Host {HOST}\nProxyCommand {}\nIdentityFile {}\nIdentitiesOnly yes\n\
             UserKnownHostsFile {}\n",
            connect.display(),
            ssh.join("id").display(),
            ssh.join("known").display()
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
        pids.lines()
            .map(|line| pid(line.parse().unwrap()))
            .collect()
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
    assert!(ran.ok().contains(&format!("session={SESSION}\n")), "{ran}");
    machines.task(&["wait", "a"]).fails_with(1);
    let ls = |output: Output| output.ok().lines().map(str::to_owned).collect::<Vec<_>>();
    let names = |lines: Vec<String>| {
        lines
            .iter()
            .map(|line| line[..12].to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(ls(machines.task(&["ls"]))),
        names(ls(machines.far.task(["ls"])))
    );
    assert_eq!(machines.task(&["logs", "a"]).ok(), "hi\n");
    let waited = machines.task(&["run", "b", "--wait", "--", "echo no; exit 7"]);
    assert_eq!(waited.code, 7, "{waited}");
    assert_eq!(
        waited.err,
        "no\ntmux-task: run b: the task exited with code 7\n"
    );
    machines.task(&["kill", "nope"]).fails(
        3,
        &format!(
            "tmux-task: kill: no task `nope` in session `{SESSION}`\n\
             hint: `tmux-task --host {HOST} ls` lists them"
        ),
    );
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
    assert!(
        fs::read_dir(machines.near.path("state"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[test]
fn standard_input_and_large_outputs_arrive_whole() {
    let machines = Machines::new();
    machines
        .task(&[
            "run",
            "asks",
            "--",
            "stty -echo; read -r a; echo \"got <$a>\"",
        ])
        .ok();
    machines.task(&["wait", "asks", "--input"]).ok();
    let mut send = machines.near.command(World::program());
    send.args(["--host", HOST, "send", "asks", "--secret"]);
    Output::with_input(send, "it's $x \u{e9}\n").ok();
    machines.task(&["wait", "asks"]).ok();
    assert_eq!(
        machines.task(&["logs", "asks"]).ok().lines().last(),
        Some("got <it's $x \u{e9}>")
    );
    let snapshot = r#"{"sessionName":"s","exists":true,"capturedAt":1000,"tasks":[]}"#;
    let snapshots = format!("{snapshot}\n").repeat(20_000);
    let mut replay = machines.near.command(World::program());
    replay.args(["--host", HOST, "replay"]);
    assert_eq!(Output::with_input(replay, &snapshots).ok(), "");
    machines
        .task(&["run", "big", "--wait", "--", "seq 1 40000"])
        .ok();
    let expected: String = (1..=40_000).map(|n| format!("{n}\n")).collect();
    assert_eq!(
        machines.task(&["logs", "big", "-n", "50000"]).ok(),
        expected
    );
    assert_eq!(machines.connections().len(), 1);
}

#[test]
fn a_consumer_acknowledges_from_here() {
    let machines = Machines::new();
    machines.task(&["run", "a", "--wait", "--", "true"]).ok();
    let mut feed = machines.near.command(World::program());
    feed.args([
        "--host",
        HOST,
        "feed",
        "-f",
        "--consumer",
        "c",
        "--type",
        "exited",
    ]);
    feed.stdin(std::process::Stdio::piped());
    let mut feed = Running::start(feed);
    let records = feed.records_until(|record| record["type"] == "exited");
    let seq = &records.last().unwrap()["seq"];
    feed.write(&format!("{{\"ack\":{seq}}}\n"));
    feed.records_until(|record| record["acked"] == *seq);
}

#[test]
fn each_thing_that_is_wrong_is_one_line() {
    let machines = Machines::new();
    let there = World::program().display();
    let version = Output::of({
        let mut command = machines.near.command(World::program());
        command.arg("--version");
        command
    });
    let version = version.ok().trim_end().replace("tmux-task ", "");
    #[track_caller]
    fn check(output: &Output, code: i32, why: &str) {
        let lines: Vec<&str> = output.err.lines().collect();
        assert_eq!(output.code, code, "{output}");
        assert!(lines[0].starts_with(why), "{output}");
        assert!(
            lines[1..].iter().all(|line| line.starts_with("hint: ")),
            "{output}"
        );
        assert!(lines.len() <= 2, "{output}");
    }
    fs::remove_file(machines.program("tmux-task")).unwrap();
    check(
        &machines.task(&["ls"]),
        1,
        &format!("tmux-task: ls: there is no tmux-task on {HOST} ("),
    );
    let other = "#!/bin/sh\necho '{\"tmuxTask\":\"9.9\"}'\n";
    machines.install(&[("tmux-task", Some(other))]);
    let why = format!("tmux-task: ls: {HOST} has tmux-task 9.9, this is {version}");
    check(&machines.task(&["ls"]), 1, &why);
    machines.install(&[("tmux-task", Some("#!/bin/sh\necho no >&2\nexit 5\n"))]);
    let why = format!("tmux-task: ls: tmux-task on {HOST} did not start (code 5): no");
    check(&machines.task(&["ls"]), 1, &why);
    // What prints for ever is not waited for.
    machines.install(&[("tmux-task", Some("#!/bin/sh\nexec yes welcome\n"))]);
    let why =
        format!("tmux-task: ls: {HOST} prints something else than tmux-task: welcome; welcome");
    check(&machines.task(&["ls"]), 1, &why);
    // A login shell may print something first.
    let noisy = format!("#!/bin/sh\necho welcome\nexec {there} \"$@\"\n");
    machines.install(&[("tmux-task", Some(&noisy))]);
    machines.task(&["signal", "x"]).fails_with(3);
    machines.disconnect();
    let known = machines.near.path("home/.ssh/known");
    fs::remove_file(known).unwrap();
    let why = format!("tmux-task: ls: could not reach {HOST}: ");
    let output = machines.task(&["ls"]);
    check(&output, 1, &why);
    assert!(
        output.err.contains("Host key verification failed"),
        "{output}"
    );
    let output = machines
        .near
        .task(["--host", "no.such.invalid", "run", "a", "--wait", "--", "x"]);
    check(
        &output,
        125,
        "tmux-task: run: could not reach no.such.invalid: ",
    );
    let output = machines.near.task(["--host=-oProxyCommand=x", "ls"]);
    check(
        &output,
        2,
        "tmux-task: ls: `-oProxyCommand=x` is not a destination for ssh",
    );
    for command in [
        &["man"][..],
        &["config", "show"],
        &["completions", "bash"],
        &["init", "claude"],
    ] {
        let why = format!("tmux-task: {}: it is about this machine", command[0]);
        check(&machines.task(command), 2, &why);
    }
}

#[test]
fn a_cut_connection_ends_a_command_with_one_line_and_a_wait_goes_on() {
    let machines = Machines::new();
    let gate = machines.far.gate("gate");
    machines.task(&["run", "a", "--", &gate.wait()]).ok();
    let until_waits = |n: u64| {
        let are = || machines.far.daemon_status()["waits"] == n;
        machines.far.until_true("waits are there", are);
    };
    let mut following =
        machines
            .near
            .start(["--host", HOST, "run", "b", "--follow", "--", "sleep 1000"]);
    let mut until = machines.near.start([
        "--host",
        HOST,
        "wait",
        "a",
        "--text",
        "done",
        "--timeout",
        "1m",
    ]);
    let mut waiting = machines.near.start(["--host", HOST, "wait", "a"]);
    until_waits(3);
    machines.cut();
    let lost = format!("the connection to {HOST} was lost");
    assert!(following.complaint().starts_with("started "));
    assert_eq!(following.complaint(), format!("tmux-task: run: {lost}"));
    assert_eq!(following.wait(), 125);
    for wait in [&mut until, &mut waiting] {
        let goes_on = format!("tmux-task: wait: {lost}; connecting again");
        assert_eq!(wait.complaint(), goes_on);
    }
    until_waits(2);
    machines.far.task(["kill", "b"]).ok();
    gate.open();
    assert_eq!(waiting.wait(), 0);
    // What a text is waited for in has ended.
    assert_eq!(until.wait(), 5);
    let mut logs = machines.near.start(["--host", HOST, "feed", "-f"]);
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
    let folder = near.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    let words = json!(words);
    let config = format!(
        "hosts.box = {{ command = {words}, cwd = '/' }}\nhosts.no = {{ command = ['/nowhere/x'] }}\n"
    );
    fs::write(folder.join("config.toml"), config).unwrap();
    (near, far)
}

#[test]
fn a_machine_is_any_command_that_reaches_its_program() {
    let (near, far) = worlds_by_command();
    let on = |args: &[&str]| near.task([&["--host", "box"], args].concat());
    let ran = on(&[
        "run",
        "a",
        "--env",
        "KEY=it's $x",
        "--wait",
        "--",
        "echo \"$KEY\"; exit 255",
    ]);
    assert_eq!(ran.code, 255, "{ran}");
    assert!(ran.out.contains("cwd=/\n"), "{ran}");
    assert_eq!(on(&["logs", "a"]).ok(), "it's $x\n");
    assert_eq!(far.task(["logs", "a"]).ok(), "it's $x\n");
    on(&["run", "b", "--", "sleep 1000"]).ok();
    let mut waiting = near.start(["--host", "box", "wait", "b"]);
    far.until_true("it waits", || far.daemon_status()["waits"] == 1);
    waiting.signal(Signal::INT);
    assert_eq!(waiting.wait(), 130);
    far.until_true("nothing waits", || far.daemon_status()["waits"] == 0);
    let mut adapter = near.adapter("one");
    let mut run = near.command(World::program());
    run.args(["--host", "box", "run", "c", "--", "exit 3"]);
    run.env("TMUX_TASK_OWNER", "opencode:one");
    Output::of(run).ok();
    let told = adapter.records_until(|line| line["kind"] == "message");
    let told = told.last().unwrap();
    let content = told["message"]["content"].as_str().unwrap();
    assert!(
        content.contains("box:@") && content.contains("(c) exited with code 3"),
        "{told}"
    );
    let receipt = json!({"received": {"to": told["to"], "id": told["id"]}});
    adapter.write(&format!("{receipt}\n"));
    let failed = near.task(["--host", "no", "ls"]);
    assert_eq!(failed.code, 1, "{failed}");
    assert!(
        failed
            .err
            .starts_with("tmux-task: ls: could not start `/nowhere/x`: "),
        "{failed}"
    );
    let init = near.task(["init", "host", "box"]);
    assert!(
        init.err
            .starts_with("tmux-task: init: box is not reached by ssh"),
        "{init}"
    );
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
    let on = |args: &[&str]| near.task([&["--host", "box"], args].concat());
    let mut adapter = near.adapter("one");
    let mut run = near.command(World::program());
    let go = far.path("go");
    let script = format!(
        "read -r -p 'Go on? [y/N] ' answer; echo got $answer; until [ -e {} ]; do sleep 0.05; done; exit 3",
        go.display()
    );
    run.args(["--host", "box", "run", "a", "--", &script]);
    run.env("TMUX_TASK_OWNER", "opencode:one");
    Output::of(run).ok();
    let is_message = |line: &Value| line["kind"] == "message";
    let asked = adapter.records_until(is_message);
    let asked = asked.last().unwrap();
    assert!(
        asked["message"]["content"].to_string().contains("Go on?"),
        "{asked}"
    );
    let receipt = json!({"received": {"to": asked["to"], "id": asked["id"]}});
    adapter.write(&format!("{receipt}\n"));
    on(&["send", "a", "--if-prompt", "Go on? [y/N]", "y"]).ok();
    far.until_true("it is answered", || {
        far.task(["feed"]).out.contains("\"inputResolved\"")
    });
    let mut waiting = near.start(["--host", "box", "wait", "a"]);
    far.until_true("it waits", || far.daemon_status()["waits"] == 1);
    let mut following = near.start(["--host", "box", "logs", "-f", "a"]);
    assert!(following.line().starts_with("Go on?"));
    for killed in [&following, &waiting, &adapter] {
        kill_way(&near, killed);
    }
    assert_eq!(following.wait(), 7);
    let complaint = waiting.complaint();
    assert!(complaint.ends_with("; connecting again"), "{complaint}");
    far.until_true("it waits again", || far.daemon_status()["waits"] == 1);
    fs::write(go, "").unwrap();
    assert_eq!(waiting.wait(), 1);
    let told = adapter.records_until(is_message);
    let told = told.last().unwrap();
    assert!(
        told["message"]["content"]
            .to_string()
            .contains("(a) exited with code 3"),
        "{told}"
    );
    let receipt = json!({"received": {"to": told["to"], "id": told["id"]}});
    adapter.write(&format!("{receipt}\n"));
    // Nothing comes twice.
    far.until_true("all is acknowledged", || {
        let listed: Value =
            serde_json::from_str(far.task(["consumer", "ls", "--json"]).ok()).unwrap();
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
    for signal in [Signal::INT, Signal::TERM] {
        let mut waiting = machines.near.start(["--host", HOST, "wait", "a"]);
        machines
            .far
            .until_true("it waits", || machines.far.daemon_status()["waits"] == 1);
        waiting.signal(signal);
        assert_eq!(waiting.wait(), 128 + signal.as_raw());
        machines.far.until_true("nothing waits", || {
            machines.far.daemon_status()["waits"] == 0
        });
    }
    // Also without a word.
    let waiting = machines.near.start(["--host", HOST, "wait", "a"]);
    machines
        .far
        .until_true("it waits", || machines.far.daemon_status()["waits"] == 1);
    kill_process(waiting.pid(), Signal::KILL).unwrap();
    machines.far.until_true("nothing waits", || {
        machines.far.daemon_status()["waits"] == 0
    });
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
        let output = machines.task(&["ls"]);
        assert!(
            output.err.contains("there is no tmux-task on"),
            "{shell}: {output}"
        );
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
    shell("#!/bin/sh\nprintf '\\033]0;title\\007welcome'\nexec sh -c \"$1\"\n");
    machines.task(&["ls"]).fails_with(3);
    let init = machines.near.task(["init", "host", HOST]);
    assert!(
        init.out.starts_with(&format!("{HOST} has this version: ")),
        "{init}"
    );
    machines.disconnect();
    shell("#!/bin/sh\necho This account is not available.\nexit 1\n");
    let why = "(code 1): This account is not available.";
    for (args, what) in [
        (
            &["--host", HOST, "ls"][..],
            "ls: tmux-task on gpu1 did not start",
        ),
        (&["init", "host", HOST], "init: could not install on gpu1"),
    ] {
        let output = machines.near.task(args);
        assert!(
            output
                .err
                .starts_with(&format!("tmux-task: {what} {why}\n")),
            "{output}"
        );
    }
    // What prints for ever is neither waited for nor kept.
    shell("#!/bin/sh\nexec yes hello\n");
    let output = machines.near.task(["init", "host", HOST]);
    let why = "tmux-task: init: could not install on gpu1 (a signal): hello; hell";
    assert!(output.err.starts_with(why), "{output}");
}

#[test]
fn a_secret_is_typed_at_the_terminal_here_and_not_shown() {
    let machines = Machines::new();
    machines
        .task(&[
            "run",
            "a",
            "--",
            "read -rsp 'Password: ' x; echo got-${#x}; sleep 1000",
        ])
        .ok();
    machines.task(&["wait", "a", "--input"]).ok();
    let line = format!(
        "{} --host {HOST} send a --secret; echo code=$?; read -r x; echo after=$x; read -r _",
        World::program().display()
    );
    machines
        .near
        .tmux(["new-session", "-d", "-s", "terminal", "-x", "100", &line]);
    machines.near.until_shows("terminal", "secret:");
    let press = |keys: &[&str]| {
        machines
            .near
            .tmux([&["send-keys", "-t", "terminal"], keys].concat());
    };
    press(&["hunter2", "Enter"]);
    machines.near.until_shows("terminal", "code=0");
    machines.far.until_shows("a", "got-7");
    // What is typed then is shown again.
    press(&["more", "Enter"]);
    machines.near.until_shows("terminal", "after=more");
    let shown = machines.near.tmux(["capture-pane", "-p", "-t", "terminal"]);
    assert!(
        !shown.contains("hunter2") && shown.matches("more").count() == 2,
        "{shown}"
    );
}

#[test]
fn names_and_words_arrive_as_they_are() {
    let machines = Machines::new();
    let session = "it's $(touch x) `y` \"z\" \u{e9} #{pid}";
    let word = "a'b\"c $HOME \\ ! * \u{1f980}\nsecond";
    let run = [
        "-s", session, "run", "a", "--wait", "--", "printf", "%s", word,
    ];
    machines.task(&run).ok();
    let logs = machines.task(&["-s", session, "logs", "a"]);
    assert_eq!(logs.ok().trim_end(), word);
    let listed = machines.task(&["-s", session, "ls", "--json"]);
    let listed: Value = serde_json::from_str(listed.ok()).unwrap();
    assert_eq!(listed["sessionName"], session);
    assert!(!machines.far.path("home/x").exists() && !machines.near.project().join("x").exists());
}

#[test]
fn the_directory_is_the_same_one_or_the_configured_one_or_the_home_directory() {
    let machines = Machines::new();
    let cwd = |output: &Output| {
        let line = output
            .out
            .lines()
            .find_map(|line| line.strip_prefix("cwd="));
        PathBuf::from(line.unwrap())
    };
    let ran = machines.task(&["run", "a", "--", "true"]);
    assert_eq!((cwd(&ran), ran.err.as_str()), (machines.near.project(), ""));
    let folder = machines.near.path("conf/tmux-task");
    fs::create_dir_all(&folder).unwrap();
    let program = World::program().display();
    let configure = |cwd: &str| {
        let text = format!("hosts.{HOST} = {{ program = '{program}', cwd = '{cwd}' }}\n");
        fs::write(folder.join("config.toml"), text).unwrap();
    };
    fs::create_dir(machines.far.path("home/src")).unwrap();
    fs::remove_file(machines.program("tmux-task")).unwrap();
    configure("~/src");
    let ran = machines.task(&["run", "a", "--", "true"]);
    assert_eq!(
        (cwd(&ran), ran.err.as_str()),
        (machines.far.path("home/src"), "")
    );
    configure("/no/such");
    let ran = machines.task(&["run", "a", "--", "true"]);
    assert_eq!(cwd(&ran), machines.far.path("home"));
    assert_eq!(
        ran.err,
        format!(
            "tmux-task: run: there is no directory /no/such on {HOST}: this runs in the home directory\n"
        )
    );
    assert_eq!(machines.task(&["ls"]).err, "");
}

#[test]
fn a_question_is_asked_at_the_terminal_here() {
    let machines = Machines::new();
    machines.task(&["run", "a", "--", "sleep 1000"]).ok();
    let line = format!(
        "{} --host {HOST} kill-all; echo code=$?; read -r _",
        World::program().display()
    );
    machines
        .near
        .tmux(["new-session", "-d", "-s", "terminal", "-x", "100", &line]);
    machines.near.until_shows(
        "terminal",
        &format!("End session {SESSION} with 1 task (1 active)? [y/N]"),
    );
    machines
        .near
        .tmux(["send-keys", "-t", "terminal", "y", "Enter"]);
    machines.near.until_shows("terminal", "code=0");
    let shown = machines.near.tmux(["capture-pane", "-p", "-t", "terminal"]);
    assert!(
        shown.contains("ended @") && !shown.contains("closed"),
        "{shown}"
    );
    machines.far.task(["ls"]).fails_with(3);
    // Without a terminal it is not asked.
    let output = machines.task(&["kill-all"]);
    assert_eq!(output.code, 3, "{output}");
}

#[test]
fn the_program_is_put_onto_a_machine_of_the_same_kind_and_checked_there() {
    let machines = Machines::new();
    let init = || machines.near.task(["init", "host", HOST]);
    fs::remove_file(machines.program("tmux-task")).unwrap();
    let missing = machines.task(&["ls"]);
    assert!(
        missing
            .err
            .contains(&format!("`tmux-task init host {HOST}`")),
        "{missing}"
    );
    let target = machines.far.path("home/.local/bin/tmux-task");
    let copied = init();
    let first = copied.ok().lines().next().unwrap().to_owned();
    assert_eq!(
        first,
        format!("copied this program to {HOST}: {}", target.display())
    );
    // The checks are those of that machine.
    let far = machines.far.path("").display().to_string();
    assert!(
        copied.out.contains(&format!("state        {far}")),
        "{copied}"
    );
    machines.task(&["run", "a", "--", "sleep 1000"]).ok();
    let again = init();
    let there = format!("{HOST} has this version: {}\n", target.display());
    assert!(again.ok().starts_with(&there), "{again}");
    // One of another version in its place is replaced.
    fs::remove_file(&target).unwrap();
    machines.far.script(
        "home/.local/bin/tmux-task",
        "#!/bin/sh\necho tmux-task 0.0.9\n",
    );
    assert!(init().ok().starts_with("copied "));
    assert_eq!(
        fs::read_dir(target.parent().unwrap()).unwrap().count(),
        1,
        "nothing else is left there"
    );
}

#[test]
fn what_keeps_the_program_from_a_machine_is_one_line() {
    let machines = Machines::new();
    let init = |args: &[&str]| machines.near.task([&["init"], args].concat());
    let target = machines.far.path("home/.local/bin/tmux-task");
    let old = "#!/bin/sh\necho tmux-task 0.0.9\n";
    machines.install(&[("tmux-task", Some(old))]);
    let elsewhere = init(&["host", HOST]);
    assert_eq!(elsewhere.code, 1, "{elsewhere}");
    let why = format!("tmux-task: init: {HOST} has tmux-task 0.0.9 at ");
    assert!(elsewhere.err.starts_with(&why), "{elsewhere}");
    assert!(!target.exists());
    fs::remove_file(machines.program("tmux-task")).unwrap();
    machines.install(&[("uname", Some("#!/bin/sh\necho Linux armv7l\n"))]);
    let other = init(&["host", HOST]);
    let why = format!("tmux-task: init: {HOST} is Linux armv7l, this is ");
    assert!(other.err.starts_with(&why) && other.code == 1, "{other}");
    fs::remove_file(machines.program("uname")).unwrap();
    // One that does not run there is not put in its place.
    machines.install(&[("chmod", Some("#!/bin/sh\nexec /bin/chmod 644 \"$2\"\n"))]);
    let broken = init(&["host", HOST]);
    let why = format!("tmux-task: init: could not install on {HOST} (code 1): ");
    assert!(broken.err.starts_with(&why) && broken.code == 1, "{broken}");
    assert_eq!(fs::read_dir(target.parent().unwrap()).unwrap().count(), 0);
    let unreachable = init(&["host", "no.such.invalid"]);
    let why = "tmux-task: init: could not reach no.such.invalid: ";
    assert!(unreachable.err.starts_with(why), "{unreachable}");
    for (args, why) in [
        (&["host"][..], "the host is missing"),
        (&["claude", "x"], "unexpected argument 'x'"),
        (&["host", "a b"], "`a b` is not a destination for ssh"),
    ] {
        let output = init(args);
        output.fails_with(2);
        assert!(
            output.err.starts_with(&format!("tmux-task: init: {why}")),
            "{output}"
        );
    }
}
