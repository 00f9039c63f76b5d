//! Looks and captured screens.

use super::*;

#[tokio::test]
async fn a_look_whose_formats_were_taken_away_is_no_answer() {
    let private = Private::started().await;
    private.run("new-window -d -t keep: -- sleep 1000");
    let mut client = private.client().await;
    let mut connection = Connection::Attached(&mut client);
    for (name, _) in super::rows::noted_formats() {
        for kind in [LookKind::Slice, LookKind::Windows] {
            private.install(SessionId(0)).await;
            let mut memory = LookMemory::default();
            let seen = look(&mut connection, "$0:", &mut memory, LookKind::Windows).await;
            assert_eq!(seen.unwrap().unwrap().windows.len(), 2);
            private.run(&format!("set-option -u -t keep: {name}"));
            memory.expect([], &BTreeSet::new(), [WindowId(1)]);
            let seen = look(&mut connection, "$0:", &mut memory, kind).await;
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
    let (w, bells_of_pi) = (["-w", "-t", "=S:"], "@pi_tmux_task_bell_count");
    // Of the counts of bells, only those of the window are its own.
    for (scope, option, value) in [
        (&w[..], "@pi_task_command", command),
        (&w, "@tmux_task_bells", "@1 2"),
        (&w, bells_of_pi, "3"),
        (&["-g"], "@tmux_task_bells", "7"),
        (&["-gw"], "@tmux_task_bells", "70"),
        (&["-g"], bells_of_pi, "30"),
        (&["-gw"], bells_of_pi, "30"),
        (&["-t", "=S:"], bells_of_pi, "30"),
        (&["-p", "-t", "=S:"], bells_of_pi, "30"),
        (&["-s"], bells_of_pi, "30"),
        (&["-t", "=S:"], "@tmux_task_title", "ti\ntle"),
    ] {
        private.asks(&[&["set-option"], scope, &[option, value]].concat());
    }
    private.run("split-window -d -b -t =S: -- sleep 1000");
    let mut captures = LookMemory::default();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let rows = &seen.windows[0].pane.as_ref().unwrap().screen.rows;
        let is_whole = rows.len() == 2;
        is_whole.then(|| seen.clone()).ok_or(format!("{rows:?}"))
    })
    .await;
    let window = only(&seen);
    assert_eq!(window.window, WindowId(1));
    let shown = "raw <@7| x # ## ### #{pid}> \\| <@8|%8";
    assert_eq!(window.command.as_deref(), Some(shown));
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
    let mut client = private.client().await;
    let one_shot = private.look("keep", &mut LookMemory::default()).await;
    private.install(SessionId(0)).await;
    let mut captures = LookMemory::default();
    let mut connection = Connection::Attached(&mut client);
    for target in ["$0:", "=keep:"].into_iter().cycle().take(6) {
        let seen = look(&mut connection, target, &mut captures, LookKind::Slice).await;
        let mut seen = seen.unwrap().unwrap();
        // A second may have ended in between.
        seen.time = one_shot.time;
        assert_eq!(seen, one_shot);
    }
    client.close().await;
}

#[cfg(linux)]
#[tokio::test]
async fn a_look_at_a_long_record_costs_the_server_no_memory() {
    let private = Private::started().await;
    let record = "@7 %3 412 0  1700000000 8 5 api 2  %3. ;".repeat(360) + "x";
    private.asks(&["set-option", "-t", "=keep:", "@tmux_task_deaths", &record]);
    let looks = async |n: usize| {
        for _ in 0..n {
            let seen = private.look("keep", &mut LookMemory::default()).await;
            assert_eq!(seen.deaths.len(), 360);
        }
    };
    looks(5).await;
    let more = private.least_growth(async || looks(20).await).await;
    assert!(more < 200, "{more} KiB for records of 14 KiB");
}
