//! Against a real tmux on a private server, each proving that one wire is plugged in.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::*;
use crate::model::environment::WithheldVariables;
use crate::model::{Millis, PaneId, SessionId, WindowId};
use crate::protocol::rows::{Look, WindowRow};
use crate::protocol::{Command, Notice, control_line};

struct Private {
    server: Server,
    dir: tempfile::TempDir,
}

impl Private {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("it-").tempdir().unwrap();
        let choice = ServerChoice {
            socket_path: Some(dir.path().join("s")),
            program: Some("tmux".into()),
            ..ServerChoice::default()
        };
        let server = Server::locate(&choice, &|_| None).unwrap();
        Self { server, dir }
    }

    /// With one session `keep`, whose window is `@0` with pane `%0`.
    async fn started() -> Self {
        let private = Self::new();
        let start = private.tmux(&["new-session", "-d", "-s", "keep", "--", "sleep", "1000"]);
        assert!(start.status.success(), "{start:?}");
        private
    }

    fn tmux(&self, words: &[&str]) -> std::process::Output {
        std::process::Command::new("tmux")
            .args(["-u", "-f", "/dev/null", "-S"])
            .arg(self.server.socket())
            .args(words)
            .env_remove("TMUX")
            .env_remove("TMUX_PANE")
            .output()
            .unwrap()
    }

    fn asks(&self, words: &[&str]) -> String {
        let output = self.tmux(words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().into()
    }

    fn connection(&self) -> Connection<'_> {
        Connection::OneShot(&self.server)
    }

    async fn look(&self, name: &str, captures: &mut Memory) -> Look {
        let target = Target::Name(name.into());
        let mut connection = self.connection();
        let seen = look(&mut connection, &target, captures, Extent::Whole).await;
        seen.unwrap().unwrap()
    }

    fn task(&self, session: &str, name: &str, words: &[&str]) -> Launch {
        Launch {
            session: session.into(),
            name: name.into(),
            cwd: self.dir.path().into(),
            // A login shell reads what stands in the home, and a person's may take its time.
            environment: TaskEnvironment::of_caller(
                ["HOME", "PATH"].map(|name| {
                    let value = match name {
                        "HOME" => self.dir.path().into(),
                        _ => std::env::var_os(name).unwrap(),
                    };
                    (name.into(), value)
                }),
                WithheldVariables::default(),
            ),
            runtime: self.dir.path().join("run"),
            owner: None,
            command: CommandWords::from_words(words.iter().map(Into::into).collect()),
            gate: None,
            root: Some("/pro#{ject".into()),
            started: 1_700_000_000_123,
            only_if_absent: false,
        }
    }

    async fn launch(&self, task: &Launch) -> Result<NewRun, LaunchError> {
        launch(&mut self.connection(), &self.server, task).await
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn only(look: &Look) -> &WindowRow {
    assert_eq!(look.windows.len(), 1, "{look:#?}");
    &look.windows[0]
}

/// Looks until what is wanted is there.
async fn until<T>(mut ask: impl AsyncFnMut() -> Result<T, String>) -> T {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match ask().await {
            Ok(found) => return found,
            Err(seen) => assert!(Instant::now() < deadline, "last seen: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

const HOSTILE: [&str; 17] = [
    "",
    " ",
    ";",
    "a;",
    "a\\;",
    "\\",
    "a\nb",
    "\t",
    "it's \"x\"",
    "$HOME ~ #{pid} #(id)",
    "# x",
    "{ a }",
    "-x",
    "é 日本 🎉",
    "%if",
    "a ; kill-server",
    "'\n';'\n",
];

#[tokio::test]
async fn words_arrive_as_they_are() {
    let private = Private::started().await;
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    for word in HOSTILE {
        let set = |option: &str| Command::new("set-option").args(["-g", option, word]);
        let nested = control_line(&[Command::new("if-shell").args([
            "-F",
            "1",
            &control_line(&[set("@nested")]),
        ])]);
        let commands = [
            set("@flat"),
            Command::new("if-shell").args(["-F", "1", &nested]),
            Command::new("display-message").args(["-p", "[#{@flat}][#{@nested}]"]),
        ];
        let expected = format!("[{word}][{word}]");
        let frames = client.call(&commands).await.unwrap();
        assert_eq!(frames.last().unwrap().text(), expected);
        let frames = private.server.one_shot(&commands).await.unwrap();
        assert_eq!(frames.last().unwrap().text(), expected);
    }
    client.close().await;
}

#[tokio::test]
async fn missing_servers_and_sessions_are_distinguished() {
    let private = Private::new();
    let list = [Command::new("list-windows").args(["-t", "=nope"])];
    let error = private.connection().run(&list).await.unwrap_err();
    assert!(matches!(error, TmuxError::NoServer { .. }), "{error}");
    let error = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap_err();
    assert!(error.is_missing(), "{error}");
    let private = Private::started().await;
    let error = private.connection().run(&list).await.unwrap_err();
    assert!(matches!(error, TmuxError::NoSuchSession { .. }), "{error}");
    let error = private
        .server
        .attach(SessionId(9), Output::None)
        .await
        .unwrap_err();
    assert!(matches!(error, TmuxError::NoSuchSession { .. }), "{error}");
    let wrong = [Command::new("no-such-command")];
    let error = private.connection().run(&wrong).await.unwrap_err();
    assert!(matches!(error, TmuxError::Rejected { .. }), "{error}");
    let choice = ServerChoice {
        program: Some("/no/such/tmux".into()),
        ..ServerChoice::default()
    };
    let server = Server::locate(&choice, &|_| None).unwrap();
    let error = server.check_version().await.unwrap_err();
    assert!(matches!(error, TmuxError::ProgramMissing { .. }), "{error}");
    private.server.check_version().await.unwrap();
    let mut captures = Memory::default();
    for target in [Target::Name("kee".into()), Target::Id(SessionId(7))] {
        let mut connection = private.connection();
        let seen = look(&mut connection, &target, &mut captures, Extent::Whole).await;
        assert_eq!(seen.unwrap(), None);
    }
}

#[tokio::test]
async fn a_client_answers_and_notifies() {
    let private = Private::started().await;
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    let say = |text: &str| Command::new("display-message").args(["-p", text]);
    private.asks(&[
        "set-hook",
        "-g",
        "after-list-windows",
        "display-message -p injected",
    ]);
    let listed = Command::new("list-windows");
    let failing = Command::new("has-session").args(["-t", "$99"]);
    let frames = client
        .call(&[say("a"), listed, say("b"), failing, say("c")])
        .await
        .unwrap();
    let told: Vec<_> = frames
        .iter()
        .map(|frame| (frame.ok, frame.text()))
        .collect();
    assert_eq!(told.len(), 4, "{told:?}");
    assert_eq!(told[0], (true, "a".to_owned()));
    assert_eq!(told[2], (true, "b".to_owned()));
    assert_eq!(told[3], (false, "can't find session: $99".to_owned()));
    let frames = client.call(&[Command::new("nonsense")]).await.unwrap();
    assert!(!frames[0].ok, "{frames:?}");

    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sleep", "1000"]);
    client.call(&[say("later")]).await.unwrap();
    loop {
        let notice = client.next_notice().await.unwrap();
        if notice == Notice::WindowAdd(WindowId(1)) {
            break;
        }
    }
    private.asks(&["kill-session", "-t", "keep"]);
    loop {
        match client.next_notice().await {
            Ok(_) => {}
            Err(TmuxError::Closed) => break,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(matches!(
        client.call(&[say("x")]).await,
        Err(TmuxError::Closed)
    ));
}

#[tokio::test]
async fn a_call_says_which_window_it_is_about() {
    let private = Private::started().await;
    let mut apart = private.connection();
    let daemon = std::process::id();
    install(&mut apart, SessionId(0), [], daemon).await.unwrap();
    let mut waiter = private.server.wait_on(SessionId(0)).await.unwrap();
    let script = r"while read -r line; do printf '\a'; done";
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", script]);
    // More often than waits are queued ahead.
    for _ in 0..40 {
        private.asks(&["send-keys", "-t", "keep:1", "Enter"]);
        let woken = tokio::time::timeout(Duration::from_secs(20), waiter.woken()).await;
        let Callers::Windows(callers) = woken.unwrap().unwrap() else {
            panic!("nobody said who called");
        };
        assert!(callers.iter().all(|caller| *caller == WindowId(1)));
    }
    waiter.close().await;
}

#[tokio::test]
async fn a_look_whose_formats_were_taken_away_is_no_answer() {
    let private = Private::started().await;
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sleep", "1000"]);
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    let target = Target::Own(SessionId(0));
    for (name, _) in super::rows::noted_formats() {
        for extent in [Extent::Whole, Extent::Reported] {
            let daemon = std::process::id();
            let mut apart = private.connection();
            install(&mut apart, SessionId(0), [], daemon).await.unwrap();
            let mut memory = Memory::default();
            let mut connection = Connection::Attached(&mut client);
            let seen = look(&mut connection, &target, &mut memory, Extent::Whole).await;
            assert_eq!(seen.unwrap().unwrap().windows.len(), 2);
            private.asks(&["set-option", "-u", "-t", "keep:", name]);
            memory.expect([], &BTreeSet::new(), [WindowId(1)]);
            let seen = look(&mut connection, &target, &mut memory, extent).await;
            // Windows that have just printed are queried in full: no sign is needed.
            if name.contains("sign") {
                assert_eq!(seen.unwrap().unwrap().windows.len(), 2);
            } else {
                let error = seen.unwrap_err();
                assert!(matches!(error, TmuxError::Confused { .. }), "{error:?}");
            }
        }
    }
    client.close().await;
}

#[tokio::test]
async fn a_look_shows_hostile_names_as_text() {
    let private = Private::started().await;
    let script = r"printf '\033]2;ti\ttle\033\\one\ntwo'; sleep 1000";
    let start = |name: &str| {
        let new = ["new-session", "-d", "-s", "S", "-n", name];
        private.tmux(&[&new[..], &["--", "sh", "-c", script]].concat())
    };
    // Newer versions of tmux take no control characters in a name.
    let output = start("a\tb\n@9 0");
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("invalid window name"), "{said}");
        assert!(start("a b @9 0").status.success());
    }
    let command = "raw\n<@7|\tx # ## ### #{pid}> \\|\n<@8|%8";
    private.asks(&["set-option", "-w", "-t", "=S:", "@pi_task_command", command]);
    private.asks(&["set-option", "-w", "-t", "=S:", "@tmux_task_bells", "@1 2"]);
    // Neither of these is the window's own.
    private.asks(&["set-option", "-g", "@tmux_task_bells", "7"]);
    private.asks(&["set-option", "-gw", "@tmux_task_bells", "70"]);
    private.asks(&[
        "set-option",
        "-w",
        "-t",
        "=S:",
        "@pi_tmux_task_bell_count",
        "3",
    ]);
    for scope in [
        &["-g"][..],
        &["-gw"],
        &["-t", "=S:"],
        &["-p", "-t", "=S:"],
        &["-s"],
    ] {
        private.asks(&[&["set-option"], scope, &["@pi_tmux_task_bell_count", "30"]].concat());
    }
    private.asks(&["set-option", "-t", "=S:", "@tmux_task_title", "ti\ntle"]);
    private.asks(&[
        "split-window",
        "-d",
        "-b",
        "-t",
        "=S:",
        "--",
        "sleep",
        "1000",
    ]);
    let mut captures = Memory::default();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let rows = &seen.windows[0].pane.as_ref().unwrap().screen.rows;
        if rows.len() == 2 {
            Ok(seen.clone())
        } else {
            Err(format!("{rows:?}"))
        }
    })
    .await;
    let window = only(&seen);
    assert_eq!(window.window, WindowId(1));
    assert_eq!(
        window.command.as_deref(),
        Some("raw <@7| x # ## ### #{pid}> \\| <@8|%8")
    );
    assert_eq!(window.bell_count, Some(5));
    assert_eq!(seen.session.title.as_deref(), Some("ti tle"));
    assert_eq!(seen.session.name, "S");
    let pane = window.pane.as_ref().unwrap();
    assert_eq!(pane.pane, PaneId(1), "the split has a higher id");
    assert_eq!(*pane.screen.rows, ["one", "two"]);
    let cursor = pane.screen.cursor.unwrap();
    assert_eq!((cursor.x, cursor.y), (3, 1));
    assert_eq!(pane.current_command, None);
}

#[tokio::test]
async fn an_attached_look_is_the_same_look() {
    let private = Private::started().await;
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    let one_shot = private.look("keep", &mut Memory::default()).await;
    let mut apart = private.connection();
    let daemon = std::process::id();
    install(&mut apart, SessionId(0), [], daemon).await.unwrap();
    let mut captures = Memory::default();
    let targets = [Target::Id(SessionId(0)), Target::Own(SessionId(0))];
    for target in targets.iter().cycle().take(6) {
        let mut connection = Connection::Attached(&mut client);
        let seen = look(&mut connection, target, &mut captures, Extent::Whole).await;
        let mut seen = seen.unwrap().unwrap();
        // A second may have ended in between.
        seen.time = one_shot.time;
        assert_eq!(seen, one_shot);
    }
    client.close().await;
}

#[tokio::test]
async fn screens_are_fresh_history_is_whole_and_banners_go() {
    let private = Private::started().await;
    private.asks(&["set-option", "-g", "remain-on-exit", "on"]);
    private.asks(&[
        "new-session",
        "-d",
        "-s",
        "S",
        "--",
        "sh",
        "-c",
        "seq 1 200; printf end; read x; exit 3",
    ]);
    let mut captures = Memory::default();
    let rows = |seen: &Look| only(seen).pane.as_ref().unwrap().screen.rows.clone();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let rows = rows(&seen);
        if rows.last().is_some_and(|row| row == "end") {
            Ok(rows)
        } else {
            Err(format!("{rows:?}"))
        }
    })
    .await;
    assert_eq!((seen.len(), seen[0].as_str()), (50, "152"));
    private.asks(&["send-keys", "-t", "=S:", "Enter"]);
    let server_pid: u32 = private
        .asks(&["display-message", "-p", "#{pid}"])
        .parse()
        .unwrap();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let dead = only(&seen).pane.as_ref().unwrap().dead.clone();
        match dead.map(|dead| dead.exit.code) {
            Some(Some(3)) => Ok(seen),
            other => {
                if other.is_some() {
                    nudge(server_pid);
                }
                Err(format!("{other:?}"))
            }
        }
    })
    .await;
    let rows = rows(&seen);
    assert_eq!(rows.last().map(String::as_str), Some("end"));
    let pane = only(&seen).pane.as_ref().unwrap().pane;
    let log = read_log(&mut private.connection(), pane, Style::Plain)
        .await
        .unwrap();
    let all = &log.lines;
    assert_eq!(
        (all.len(), all[0].as_str(), all[200].as_str()),
        (201, "1", "end")
    );
}

#[tokio::test]
async fn two_daemons_share_the_hooks() {
    let private = Private::started().await;
    let daemon = std::process::id();
    let mut pids = Vec::new();
    for (n, name) in [(1, "A"), (2, "B"), (3, "other")] {
        private.asks(&["new-session", "-d", "-s", name, "--", "sleep", "1000"]);
        if name != "other" {
            install(&mut private.connection(), SessionId(n), [], daemon)
                .await
                .unwrap();
        }
        prepare_windows(&mut private.connection(), &[WindowId(90), WindowId(n)])
            .await
            .unwrap();
        let target = format!("={name}:");
        private.asks(&[
            "respawn-pane",
            "-k",
            "-t",
            &target,
            "--",
            "sh",
            "-c",
            "printf '\\a'; read x; exit 4",
        ]);
        // Once it is dead, tmux may have forgotten it.
        pids.push(private.asks(&["display-message", "-p", "-t", &target, "#{pane_pid}"]));
        private.asks(&["send-keys", "-t", &target, "Enter"]);
    }
    let server_pid: u32 = private
        .asks(&["display-message", "-p", "#{pid}"])
        .parse()
        .unwrap();
    for (name, pid) in [("A", &pids[0]), ("B", &pids[1])] {
        let mut captures = Memory::default();
        let seen = until(async || {
            nudge(server_pid);
            let seen = private.look(name, &mut captures).await;
            if seen.deaths.is_empty() {
                Err(format!("{seen:?}"))
            } else {
                Ok(seen)
            }
        })
        .await;
        let deaths = &seen.deaths;
        assert_eq!(deaths.len(), 1, "{deaths:?}");
        assert_eq!(deaths[0].pid.map(|pid| pid.to_string()).as_ref(), Some(pid));
        assert_eq!(deaths[0].number, Some(1));
        assert!(deaths[0].terminal.is_some(), "{deaths:?}");
        assert_eq!(deaths[0].exit.code, Some(4));
        assert_eq!(only(&seen).bell_count, Some(1));
        let mut connection = Connection::OneShot(&private.server);
        let id = seen.session.life.id;
        forget_deaths(&mut connection, id, "another record")
            .await
            .unwrap();
        let again = private.look(name, &mut captures).await;
        assert_eq!(again.deaths, seen.deaths);
        let mut connection = Connection::OneShot(&private.server);
        forget_deaths(&mut connection, id, &again.death_record)
            .await
            .unwrap();
        assert_eq!(private.look(name, &mut captures).await.deaths, []);
    }
    assert_eq!(
        only(&private.look("other", &mut Memory::default()).await).bell_count,
        None
    );

    private.asks(&["set-hook", "-g", "alert-bell[0]", "display-message user"]);
    uninstall(&mut private.connection(), Some(SessionId(1)))
        .await
        .unwrap();
    let bells = || private.asks(&["show-hooks", "-g", "alert-bell"]);
    let died = || private.asks(&["show-hooks", "-gw", "pane-died"]);
    assert!(bells().contains("9010") && died().contains("9011"));
    // The mark of a daemon that died without a word does not keep the hooks.
    private.asks(&[
        "set-option",
        "-t",
        "=other:",
        "@tmux_task_daemon",
        "2147483646",
    ]);
    let spawned = || private.asks(&["show-hooks", "-gw"]).contains("[9013]");
    let can_spawn = private.tmux(&["show-hooks", "-gw", "pane-created"]);
    assert_eq!(spawned(), can_spawn.status.success());
    uninstall(&mut private.connection(), Some(SessionId(2)))
        .await
        .unwrap();
    assert!(!spawned());
    assert!(
        !bells().contains("9010") && bells().contains("user"),
        "{}",
        bells()
    );
    assert!(!died().contains("9011"), "{}", died());
}

#[tokio::test]
async fn deaths_have_the_process_that_died() {
    let private = Private::started().await;
    private.asks(&[
        "new-session",
        "-d",
        "-s",
        "S",
        "--",
        "sh",
        "-c",
        "read x; exit 3",
    ]);
    let asks = |format: &str| private.asks(&["display-message", "-p", "-t", "=S:", format]);
    private.asks(&["set-option", "-w", "-t", "=S:", "remain-on-exit", "on"]);
    let stale = ["set-option", "-p", "-t", "=S:", "@tmux_task_pid", "1"];
    private.asks(&stale);
    let id: SessionId = asks("#{session_id}").parse().unwrap();
    let panes = [PaneId(9000), asks("#{pane_id}").parse().unwrap()];
    install(&mut private.connection(), id, panes, std::process::id())
        .await
        .unwrap();
    let server_pid: u32 = asks("#{pid}").parse().unwrap();
    let mut pids: Vec<u32> = Vec::new();
    for _ in 0..3 {
        pids.push(asks("#{pane_pid}").parse().unwrap());
        private.asks(&["send-keys", "-t", "=S:", "Enter"]);
        let is_dead = async || {
            nudge(server_pid);
            let shown = asks("#{pane_dead}#{pane_dead_status}");
            if shown == "13" { Ok(()) } else { Err(shown) }
        };
        until(is_dead).await;
        private.asks(&["respawn-pane", "-t", "=S:"]);
    }
    let deaths = private.look("S", &mut Memory::default()).await.deaths;
    let told: Vec<_> = deaths.iter().filter_map(|death| death.pid).collect();
    assert_eq!(told, pids);
    let numbers: Vec<_> = deaths.iter().filter_map(|death| death.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn a_launch_makes_session_window_and_reruns() {
    let private = Private::new();
    let hostile = private.dir.path().join("we ird '#{q}\" é");
    std::fs::create_dir(&hostile).unwrap();
    let mut task = private.task(
        "S",
        "api",
        &["pwd; env | grep -e TASK -e PI_ -e ODD -e é; sleep 1000"],
    );
    task.cwd.clone_from(&hostile);
    task.environment = task.environment.with([
        ("ODD".into(), "a b;#{pid} 'x'\né".into()),
        ("X".into(), String::new()),
    ]);
    let first = private.launch(&task).await.unwrap();
    assert_eq!(first.replaced, None);
    assert_eq!(first.run, 1);
    let lines = [
        "TMUX_TASK_SESSION=S",
        "PI_TMUX_SESSION=S",
        "ODD=a b;#{pid} 'x'",
        "é",
    ];
    let mut captures = Memory::default();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let rows = &only(&seen).pane.as_ref().unwrap().screen.rows;
        if lines.iter().all(|line| rows.iter().any(|row| row == line)) {
            Ok(seen)
        } else {
            Err(format!("{rows:?}"))
        }
    })
    .await;
    let window = only(&seen).clone();
    let rows = &window.pane.as_ref().unwrap().screen.rows;
    let hostile = std::fs::canonicalize(hostile).unwrap();
    assert_eq!(rows[0], hostile.to_str().unwrap());
    assert_eq!(seen.session.root.as_deref(), Some("/pro#{ject"));
    assert_eq!(window.started, Some(1_700_000_000_123 as Millis));
    assert_eq!(window.run, Some(1));
    assert_eq!(window.name, "api");
    assert!(window.command.unwrap().starts_with("pwd; env | grep"));
    assert_eq!(window.cwd.as_deref(), task.cwd.to_str());
    let limit = private.asks(&[
        "display-message",
        "-p",
        "-t",
        "=S:",
        "#{history_limit} #{window_index}",
    ]);
    assert_eq!(limit, "50000 0");

    let pid = window.pane.unwrap().pid;
    private.asks(&["split-window", "-b", "-t", "=S:", "--", "sleep", "1000"]);
    task.command = CommandWords::from_words(vec!["exit 0".into()]);
    let second = private.launch(&task).await.unwrap();
    assert_eq!(
        (second.window, second.pane, second.run),
        (first.window, first.pane, 2)
    );
    assert_eq!(second.replaced, Some(PreviousRun::Live));
    let seen = private.look("S", &mut captures).await;
    assert_eq!(only(&seen).replaced, pid);
    assert_eq!(
        private
            .asks(&["list-panes", "-s", "-t", "=S"])
            .lines()
            .count(),
        2
    );

    let window = private
        .launch(&private.task("S", "api.v2", &["true", ""]))
        .await
        .unwrap();
    assert!(window.replaced.is_none() && window.window != first.window);
    let panes = private.asks(&[
        "list-panes",
        "-t",
        &window.window.to_string(),
        "-F",
        "#{history_limit}",
    ]);
    assert_eq!(panes, "50000");
}

#[tokio::test]
async fn a_client_that_is_attached_launches_too() {
    let private = Private::started().await;
    let session = SessionId(0);
    let mut client = private
        .server
        .attach(session, Output::Reported)
        .await
        .unwrap();
    let mut connection = Connection::Attached(&mut client);
    let task = private.task("keep", "api", &["echo up; exec sleep 1000"]);
    let mut launched = Vec::new();
    for _ in 0..2 {
        let prepared = task.prepare().await.unwrap();
        let done = launch_in(&mut connection, session, prepared.plan()).await;
        launched.push(done.unwrap().unwrap());
        let found = find_launched(&mut private.connection(), prepared.plan()).await;
        assert_eq!(found.unwrap().unwrap().run, launched.len() as u32);
        prepared.hand_over();
    }
    let [first, second] = launched.as_slice() else {
        unreachable!()
    };
    assert_eq!((first.replaced, first.run), (None, 1));
    assert_eq!((second.replaced, second.run), (Some(PreviousRun::Live), 2));
    assert_eq!((second.window, second.pane), (first.window, first.pane));

    let mut absent = private.task("keep", "api", &["true"]);
    absent.only_if_absent = true;
    let prepared = absent.prepare().await.unwrap();
    let refused = launch_in(&mut connection, session, prepared.plan()).await;
    assert!(matches!(refused, Err(LaunchError::Running { .. })));
    let found = find_launched(&mut private.connection(), prepared.plan()).await;
    assert_eq!(found.unwrap(), None);
    let gone = launch_in(&mut connection, SessionId(7), prepared.plan()).await;
    assert_eq!(gone.unwrap(), None);
    let mut forged = prepared.plan().clone();
    forged.token = "}#(touch owned)".to_owned();
    let refused = launch_in(&mut connection, session, &forged).await;
    assert!(matches!(refused, Err(LaunchError::Token)));
}

#[tokio::test]
async fn six_launches_at_once_make_one_window() {
    let private = Private::new();
    let task = private.task("S", "api", &["sleep", "1000"]);
    let six = tokio::join!(
        private.launch(&task),
        private.launch(&task),
        private.launch(&task),
        private.launch(&task),
        private.launch(&task),
        private.launch(&task),
    );
    let six: [Result<NewRun, LaunchError>; 6] = six.into();
    let six: Vec<NewRun> = six.into_iter().map(|done| done.unwrap()).collect();
    assert_eq!(
        six.iter().filter(|done| done.replaced.is_none()).count(),
        1,
        "{six:?}"
    );
    let mut runs: Vec<u32> = six.iter().map(|done| done.run).collect();
    runs.sort_unstable();
    assert_eq!(runs, [1, 2, 3, 4, 5, 6]);
    assert_eq!(
        private.asks(&["list-windows", "-t", "=S"]).lines().count(),
        1
    );

    let other = private.task("S", "web", &["sleep", "1000"]);
    let (a, b, c) = tokio::join!(
        private.launch(&other),
        private.launch(&other),
        private.launch(&other)
    );
    let created = [a, b, c]
        .into_iter()
        .filter(|done| done.as_ref().unwrap().replaced.is_none())
        .count();
    assert_eq!(created, 1);
}

#[tokio::test]
async fn long_commands_are_launched_too() {
    let private = Private::new();
    let long = format!("sleep 1000 # {}", "é".repeat(20_000));
    for _ in 0..2 {
        private
            .launch(&private.task("S", "api", &[&long]))
            .await
            .unwrap();
        private.asks(&["kill-window", "-t", "=S:api"]);
        private.tmux(&["new-session", "-d", "-s", "S", "--", "sleep", "1000"]);
    }
}

#[tokio::test]
async fn two_windows_of_a_name_are_an_error() {
    let private = Private::started().await;
    private.asks(&[
        "new-window",
        "-d",
        "-t",
        "keep:",
        "-n",
        "api",
        "--",
        "sleep",
        "1000",
    ]);
    private.asks(&[
        "new-window",
        "-d",
        "-t",
        "keep:",
        "-n",
        "api",
        "--",
        "sleep",
        "1000",
    ]);
    let error = private
        .launch(&private.task("keep", "api", &["true"]))
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "two windows are named `api`: @1 and @2");
    let mut task = private.task("keep", "x", &["true"]);
    task.cwd = PathBuf::from("/no/such/dir");
    assert!(matches!(
        private.launch(&task).await,
        Err(LaunchError::Directory(_))
    ));
}

#[tokio::test]
async fn lists_and_ends() {
    let private = Private::started().await;
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    private.asks(&["new-session", "-d", "-s", "S 1", "--", "sleep", "1000"]);
    private.asks(&["set-option", "-t", "=S 1:", "@tmux_task_root", "/a\tb"]);
    let mut connection = private.connection();
    let sessions = list_sessions(&mut connection).await.unwrap();
    let told: Vec<_> = sessions
        .iter()
        .map(|s| (s.name.as_str(), s.root.as_deref()))
        .collect();
    assert_eq!(told, [("S 1", Some("/ab")), ("keep", None)]);
    let clients = list_clients(&mut connection, SessionId(0)).await.unwrap();
    assert!(clients.len() == 1 && clients[0].is_control, "{clients:?}");
    let found = where_is(&mut connection, &[WindowId(1), WindowId(9)])
        .await
        .unwrap();
    assert_eq!(
        found.into_iter().collect::<Vec<_>>(),
        [(WindowId(1), SessionId(1))]
    );
    show_notice(&mut connection, SessionId(1), "#(touch x) #[fg=red]")
        .await
        .unwrap();
    let notice = private.asks(&[
        "display-message",
        "-p",
        "-t",
        "=S 1:",
        "#{@tmux_task_notice}",
    ]);
    assert_eq!(notice, "##(touch x) ##[fg=red]");
    for is_there in [true, false] {
        let mut attached = Connection::Attached(&mut client);
        let killed = kill_window(&mut attached, WindowId(1)).await.unwrap();
        assert_eq!(killed, is_there);
    }
    kill_session(&mut connection, SessionId(1)).await.unwrap();
    kill_session(&mut Connection::Attached(&mut client), SessionId(0))
        .await
        .unwrap();
    assert_eq!(list_sessions(&mut connection).await.unwrap(), []);
}
