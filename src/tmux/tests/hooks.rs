//! Hooks, and the record of deaths that they write.

use super::*;

#[tokio::test]
async fn two_daemons_share_the_hooks() {
    let private = Private::started().await;
    let daemon = std::process::id();
    // A count that windows inherit is none of theirs.
    private.asks(&["set-option", "-gw", "@tmux_task_bells", "7"]);
    let mut pids = Vec::new();
    for (n, name) in [(1, "A"), (2, "B"), (3, "other")] {
        private.run(&format!("new-session -d -s {name} -- sleep 1000"));
        if name != "other" {
            private.install(SessionId(n)).await;
        }
        let settings = [90, n].map(|window| WindowSetting {
            window: WindowId(window),
            prepares: true,
            run: None,
        });
        let set = set_window_options(&mut private.connection(), &settings).await;
        set.unwrap();
        let target = format!("={name}:");
        let script = "printf '\\a'; read x; exit 4";
        let respawn = ["respawn-pane", "-k", "-t", &target, "--"];
        private.asks(&[&respawn[..], &["sh", "-c", script]].concat());
        // Once it is dead, tmux may have forgotten it.
        pids.push(private.shows(&target, "#{pane_pid}"));
        private.run(&format!("send-keys -t {target} Enter"));
    }
    let server_pid: u32 = private.shows("keep:", "#{pid}").parse().unwrap();
    let forget = async |id, record: &str| {
        let forgotten = forget_deaths(&mut private.connection(), id, record).await;
        forgotten.unwrap();
    };
    for (name, pid) in [("A", &pids[0]), ("B", &pids[1])] {
        let mut captures = LookMemory::default();
        let seen = until(async || {
            nudge(server_pid);
            let seen = private.look(name, &mut captures).await;
            let is_dead = !seen.deaths.is_empty();
            is_dead.then_some(seen).ok_or("no death".to_owned())
        })
        .await;
        let [death] = &seen.deaths[..] else {
            panic!("{:?}", seen.deaths);
        };
        assert_eq!(death.pid.map(|pid| pid.to_string()).as_ref(), Some(pid));
        assert_eq!((death.number, death.exit.code), (Some(1), Some(4)));
        assert!(death.terminal.is_some(), "{death:?}");
        assert_eq!(only(&seen).bell_count, Some(1));
        let id = seen.session.life.id;
        forget(id, "another record").await;
        let again = private.look(name, &mut captures).await;
        assert_eq!(again.deaths, seen.deaths);
        forget(id, &again.death_record).await;
        assert_eq!(private.look(name, &mut captures).await.deaths, []);
    }
    let other = private.look("other", &mut LookMemory::default()).await;
    assert_eq!(only(&other).bell_count, None);

    private.asks(&["set-hook", "-g", "alert-bell[0]", "display-message user"]);
    let may_run = |_, _: &str| true;
    let uninstalled = uninstall(&mut private.connection(), Some(SessionId(1)), may_run).await;
    uninstalled.unwrap();
    let bells = || private.run("show-hooks -g alert-bell");
    let died = || private.run("show-hooks -gw pane-died");
    assert!(bells().contains("9010") && died().contains("9011"));
    // The mark of a daemon that died without a word does not keep the hooks, though another process
    // has its pid by now.
    for (option, value) in [
        ("@tmux_task_daemon", format!("$3 {daemon}").as_str()),
        ("@tmux_task_daemon_process", "1 its namespace"),
    ] {
        private.asks(&["set-option", "-t", "=other:", option, value]);
    }
    let may_run = |pid, identity: &str| {
        assert_eq!(pid, daemon);
        identity != "1 its namespace"
    };
    let spawned = || private.run("show-hooks -gw").contains("[9013]");
    let can_spawn = private.tmux(&["show-hooks", "-gw", "pane-created"]);
    assert_eq!(spawned(), can_spawn.status.success());
    let uninstalled = uninstall(&mut private.connection(), Some(SessionId(2)), may_run).await;
    uninstalled.unwrap();
    assert!(!spawned());
    let bells = bells();
    assert!(!bells.contains("9010") && bells.contains("user"), "{bells}");
    assert!(!died().contains("9011"), "{}", died());
}

#[tokio::test]
async fn deaths_have_the_process_that_died() {
    let private = Private::started().await;
    let new = ["new-session", "-d", "-s", "S", "--"];
    private.asks(&[&new[..], &["sh", "-c", "read x; exit 3"]].concat());
    let asks = |format: &str| private.shows("=S:", format);
    private.run("set-option -w -t =S: remain-on-exit on");
    // Of an earlier process.
    private.run("set-option -p -t =S: @tmux_task_pid 1");
    let id: SessionId = asks("#{session_id}").parse().unwrap();
    private.install(id).await;
    let server_pid: u32 = asks("#{pid}").parse().unwrap();
    let mut pids: Vec<u32> = Vec::new();
    for _ in 0..3 {
        pids.push(asks("#{pane_pid}").parse().unwrap());
        private.run("send-keys -t =S: Enter");
        until(async || {
            nudge(server_pid);
            let shown = asks("#{pane_dead}#{pane_dead_status}");
            (shown == "13").then_some(()).ok_or(shown)
        })
        .await;
        private.run("respawn-pane -t =S:");
    }
    let deaths = private.look("S", &mut LookMemory::default()).await.deaths;
    let found = deaths.iter().filter_map(|death| death.pid);
    assert_eq!(found.collect::<Vec<_>>(), pids);
    let numbers = deaths.iter().filter_map(|death| death.number);
    assert_eq!(numbers.collect::<Vec<_>>(), [1, 2, 3]);
}

#[tokio::test]
async fn reported_deaths_are_forgotten_and_later_ones_stay() {
    let private = Private::started().await;
    let id = SessionId(0);
    let record = |numbers: &[u32]| -> String {
        let death = |number| format!("@7 %3 412 0  1700000000 {number} 5 api 2  %3. ;");
        numbers.iter().map(death).collect()
    };
    let (few, more) = (record(&[8, 9]), record(&[8, 9, 10, 11]));
    let later = record(&[10, 11]);
    for (written, forgotten, kept) in [
        (&*more, &*few, &*later),
        (&few, &few, ""),
        // It was cut to its most recent part, or forgotten already.
        (&more[20..], &few, &later),
        (&more, &record(&[7]), &more),
        (&more, "no record", &more),
        ("other; text;", &few, "other; text;"),
    ] {
        // A plain semicolon at the end of an argument would end the command.
        let escaped = written.strip_suffix(';').map(|rest| format!("{rest}\\;"));
        let written = escaped.unwrap_or_else(|| written.to_owned());
        private.asks(&["set-option", "-t", "$0:", "@tmux_task_deaths", &written]);
        let done = forget_deaths(&mut private.connection(), id, forgotten).await;
        done.unwrap();
        assert_eq!(
            private.shows("$0:", "#{@tmux_task_deaths}"),
            kept,
            "{written}"
        );
    }
}
