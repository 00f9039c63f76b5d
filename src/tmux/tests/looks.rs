//! Looks and captured screens.

use super::*;
use crate::terminal::{Extent, History};

#[tokio::test]
async fn a_look_whose_formats_were_taken_away_is_no_answer() {
    let private = Private::started().await;
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sleep", "1000"]);
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    for (name, _) in super::rows::noted_formats() {
        for kind in [LookKind::Slice, LookKind::Windows] {
            let daemon = std::process::id();
            let mut apart = private.connection();
            install(&mut apart, SessionId(0), daemon, "").await.unwrap();
            let mut memory = LookMemory::default();
            let mut connection = Connection::Attached(&mut client);
            let seen = look(&mut connection, "$0:", &mut memory, LookKind::Windows).await;
            assert_eq!(seen.unwrap().unwrap().windows.len(), 2);
            private.asks(&["set-option", "-u", "-t", "keep:", name]);
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
    let mut captures = LookMemory::default();
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
    let one_shot = private.look("keep", &mut LookMemory::default()).await;
    let mut apart = private.connection();
    let daemon = std::process::id();
    install(&mut apart, SessionId(0), daemon, "").await.unwrap();
    let mut captures = LookMemory::default();
    for target in ["$0:", "=keep:"].into_iter().cycle().take(6) {
        let mut connection = Connection::Attached(&mut client);
        let seen = look(&mut connection, target, &mut captures, LookKind::Slice).await;
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
    let mut captures = LookMemory::default();
    let rows = |seen: &LookRows| only(seen).pane.as_ref().unwrap().screen.rows.clone();
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
    let extent = Extent::of_lines(History::Whole, false);
    let read = read_output(&mut private.connection(), pane, extent).await;
    let all = &read.unwrap().lines;
    assert_eq!(
        (all.len(), all[0].as_str(), all[200].as_str()),
        (201, "1", "end")
    );
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
