//! Hooks, and the record of deaths that they write.

use super::*;

#[tokio::test]
async fn two_daemons_share_the_hooks() {
    let private = Private::started().await;
    let daemon = std::process::id();
    let mut pids = Vec::new();
    for (n, name) in [(1, "A"), (2, "B"), (3, "other")] {
        private.asks(&["new-session", "-d", "-s", name, "--", "sleep", "1000"]);
        if name != "other" {
            install(&mut private.connection(), SessionId(n), daemon, "")
                .await
                .unwrap();
        }
        let settings = [90, n].map(|window| WindowSetting {
            window: WindowId(window),
            prepares: true,
            run: None,
        });
        set_window_options(&mut private.connection(), &settings)
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
        let mut captures = LookMemory::default();
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
        only(&private.look("other", &mut LookMemory::default()).await).bell_count,
        None
    );

    private.asks(&["set-hook", "-g", "alert-bell[0]", "display-message user"]);
    uninstall(&mut private.connection(), Some(SessionId(1)), |_, _| true)
        .await
        .unwrap();
    let bells = || private.asks(&["show-hooks", "-g", "alert-bell"]);
    let died = || private.asks(&["show-hooks", "-gw", "pane-died"]);
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
    let spawned = || private.asks(&["show-hooks", "-gw"]).contains("[9013]");
    let can_spawn = private.tmux(&["show-hooks", "-gw", "pane-created"]);
    assert_eq!(spawned(), can_spawn.status.success());
    uninstall(&mut private.connection(), Some(SessionId(2)), may_run)
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
    install(&mut private.connection(), id, std::process::id(), "")
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
    let deaths = private.look("S", &mut LookMemory::default()).await.deaths;
    let actual: Vec<_> = deaths.iter().filter_map(|death| death.pid).collect();
    assert_eq!(actual, pids);
    let numbers: Vec<_> = deaths.iter().filter_map(|death| death.number).collect();
    assert_eq!(numbers, [1, 2, 3]);
}

#[tokio::test]
async fn reported_deaths_are_forgotten_and_later_ones_stay() {
    let private = Private::started().await;
    let id = SessionId(0);
    let target = format!("{id}:");
    let death = |number: u32| format!("@7 %3 412 0  1700000000 {number} 5 api 2  %3. ");
    let record = |numbers: &[u32]| -> String {
        let deaths = numbers.iter().map(|number| death(*number) + ";");
        deaths.collect()
    };
    let kept = async |written: &str, forgotten: &str| {
        // A plain semicolon at the end of an argument would end the command.
        let written = written
            .strip_suffix(';')
            .map_or_else(|| written.to_owned(), |rest| format!("{rest}\\;"));
        private.asks(&["set-option", "-t", &target, "@tmux_task_deaths", &written]);
        forget_deaths(&mut private.connection(), id, forgotten)
            .await
            .unwrap();
        private.asks(&[
            "display-message",
            "-p",
            "-t",
            &target,
            "#{@tmux_task_deaths}",
        ])
    };
    let (few, more) = (record(&[8, 9]), record(&[8, 9, 10, 11]));
    assert_eq!(kept(&more, &few).await, record(&[10, 11]));
    assert_eq!(kept(&few, &few).await, "");
    // It was cut to its most recent part, or forgotten already.
    assert_eq!(kept(&more[20..], &few).await, record(&[10, 11]));
    assert_eq!(kept(&more, &record(&[7])).await, more);
    assert_eq!(kept(&more, "no record").await, more);
    assert_eq!(kept("other; text;", &few).await, "other; text;");
}
