//! Launches.

use super::*;

#[tokio::test]
async fn a_launch_makes_session_window_and_reruns() {
    let private = Private::new();
    let hostile = private.dir.path().join("we ird '#{q}\" é");
    std::fs::create_dir(&hostile).unwrap();
    let hostile = std::fs::canonicalize(hostile).unwrap();
    let script = "pwd; env | grep -e TASK -e PI_ -e ODD -e é; sleep 1000";
    let mut task = private.task("S", "api", &[script]);
    task.spec.cwd = Some(hostile.clone());
    task.spec.env = vec![("ODD".into(), "a b;#{pid} 'x'\né".into())];
    task.environment = private.environment(&task.spec);
    let first = private.launch(&task).await.unwrap();
    assert_eq!((first.replaced, first.run), (None, 1));
    let lines = [
        hostile.to_str().unwrap(),
        "TMUX_TASK_SESSION=S",
        "PI_TMUX_SESSION=S",
        "ODD=a b;#{pid} 'x'",
        "é",
    ];
    let mut captures = LookMemory::default();
    let seen = until(async || {
        let seen = private.look("S", &mut captures).await;
        let rows = &only(&seen).pane.as_ref().unwrap().screen.rows;
        let is_whole = lines.iter().all(|line| rows.iter().any(|row| row == line));
        is_whole.then(|| seen.clone()).ok_or(format!("{rows:?}"))
    })
    .await;
    assert_eq!(seen.session.root.as_deref(), Some("/pro#{ject"));
    let window = only(&seen).clone();
    assert_eq!(window.started, Some(1_700_000_000_123 as Millis));
    assert_eq!((window.run, &*window.name), (Some(1), "api"));
    assert!(window.command.unwrap().starts_with("pwd; env | grep"));
    assert_eq!(window.cwd.as_deref(), Some(task.cwd()));
    let limit = private.shows("=S:", "#{history_limit} #{window_index}");
    assert_eq!(limit, "50000 0");

    let pid = window.pane.unwrap().pid;
    private.run("split-window -b -t =S: -- sleep 1000");
    task.spec.command = vec!["exit 0".into()];
    let second = private.launch(&task).await.unwrap();
    let place = (second.window, second.pane, second.run);
    assert_eq!(place, (first.window, first.pane, 2));
    assert_eq!(second.replaced, Some(ReplacedRun::Live));
    let seen = private.look("S", &mut captures).await;
    assert_eq!(only(&seen).replaced, pid);
    assert_eq!(private.run("list-panes -s -t =S").lines().count(), 2);

    let other = private.task("S", "api.v2", &["true", ""]);
    let other = private.launch(&other).await.unwrap();
    assert!(other.replaced.is_none() && other.window != first.window);
    assert_eq!(
        private.shows(&other.window.to_string(), "#{history_limit}"),
        "50000"
    );
}

#[tokio::test]
async fn a_client_that_is_attached_launches_and_is_refused() {
    let private = Private::started().await;
    let session = SessionId(0);
    let mut client = private
        .server
        .attach(session, REPORTED_OUTPUT)
        .await
        .unwrap();
    let mut launch = async |session, task: &Launch, ended: &[u32]| {
        let (mut connection, slots) = (Connection::Attached(&mut client), Slots::OfName);
        launch(
            &mut connection,
            &private.server,
            Some(session),
            task,
            slots,
            ended,
        )
        .await
    };
    let found = async |task: &Launch| {
        let found = find_launched(&mut private.connection(), task)
            .await
            .unwrap();
        found.map(|run| run.run)
    };
    let mut task = private.task("keep", "api", &["echo up; exec sleep 1000"]);
    let (first, file) = private.prepare(&task).unwrap();
    let launched = launch(session, &first, &[]).await.unwrap();
    assert!(matches!(launched, LaunchAnswer::Started(run) if run.run == 1));
    assert_eq!(found(&first).await, Some(1));
    file.release("%9");
    let (again, _files) = private.prepare(&task).unwrap();
    let LaunchAnswer::Live(window, pid) = launch(session, &again, &[]).await.unwrap() else {
        panic!("it lives");
    };
    assert_eq!(window, WindowId(1));
    let launched = launch(session, &again, &[pid]).await.unwrap();
    assert!(matches!(launched, LaunchAnswer::Started(run) if run.run == 2));

    task.replaces = Replaces::Ended;
    let (absent, _files) = private.prepare(&task).unwrap();
    let refused = launch(session, &absent, &[]).await.unwrap_err().to_string();
    assert!(refused.contains("is running in"), "{refused}");
    assert_eq!(found(&absent).await, None);
    let gone = launch(SessionId(7), &absent, &[]).await.unwrap();
    assert!(matches!(gone, LaunchAnswer::NoSession));
    let mut forged = absent.clone();
    forged.token = "}#(touch owned)".to_owned();
    let refused = launch(session, &forged, &[]).await.unwrap_err().to_string();
    assert!(refused.contains("token"), "{refused}");
}

#[tokio::test]
async fn a_launch_finds_its_window_whatever_the_name_means_to_tmux() {
    let private = Private::started().await;
    for name in ["api", "7", "api.1"] {
        let task = private.task("keep", name, &["exec sleep 1000"]);
        let first = private.launch(&task).await.unwrap();
        let second = private.launch(&task).await.unwrap();
        assert_eq!((second.window, second.run), (first.window, 2), "{name}");
    }
    // A person's shell of that name is no task; with a second task of the name there are two.
    private.run("new-window -d -t keep: -n own");
    let task = private.task("keep", "own", &["exec sleep 1000"]);
    let first = private.launch(&task).await.unwrap();
    assert_eq!(first.replaced, None);
    let again = private.launch(&task).await.unwrap();
    assert_eq!(again.replaced, Some(ReplacedRun::Live));
    private.run("new-window -d -t keep: -n own -- sleep 1000");
    let windows = private.run("list-windows -t keep: -F #{window_id}");
    let last = windows.lines().last().unwrap();
    let error = private.launch(&task).await.unwrap_err().to_string();
    let expected = format!("two windows are named `own`: {} and {last}", first.window);
    assert_eq!(error, expected);
    let mut task = private.task("keep", "x", &["true"]);
    task.spec.cwd = Some("/no/such/dir".into());
    let error = private.launch(&task).await.unwrap_err();
    let expected = "`/no/such/dir` is not a directory to run in";
    assert_eq!(error.to_string(), expected);
    // A long command, into a new window and a new session.
    let long = format!("sleep 1000 # {}", "é".repeat(20_000));
    for session in ["keep", "new"] {
        let task = private.task(session, "long", &[&long]);
        private.launch(&task).await.unwrap();
    }
}

/// Its launcher is lost, or has only made the window so far.
#[tokio::test]
async fn a_window_that_no_launch_has_described_has_had_no_run() {
    let private = Private::new();
    let other = private.task("S", "other", &["sleep", "1000"]);
    private.launch(&other).await.unwrap();
    let waiting = "sleep 1000 && tmux-task --exec-pane /folder/exec-task-1";
    private.tmux(&["new-window", "-d", "-t", "=S:", "-n", "api", waiting]);
    let task = private.task("S", "api", &["sleep", "1000"]);
    let run = private.launch(&task).await.unwrap();
    assert_eq!((run.run, run.replaced), (1, None));
    let run = private.launch(&task).await.unwrap();
    assert_eq!((run.run, run.replaced.is_some()), (2, true));
}

#[cfg(linux)]
#[tokio::test]
async fn a_launch_costs_the_server_no_memory() {
    let private = Private::started().await;
    // tmux remembers its last thousand commands.
    private.run("set-option -s message-limit 0");
    let words = ["sleep", &"1".repeat(4000)];
    let task = private.task("keep", "api", &words);
    let launches = async |n: usize| {
        for _ in 0..n {
            // Into a new window, and again.
            private.launch(&task).await.unwrap();
            private.launch(&task).await.unwrap();
            private.run("kill-window -t =keep:=api");
        }
    };
    launches(5).await;
    let more = private.least_growth(async || launches(25).await).await;
    assert!(more < 100, "{more} KiB for commands of 4 KiB");
}

#[tokio::test]
async fn only_versions_before_3_8_have_their_clients_paused() {
    let private = Private::started().await;
    let is_before = |version: &&str| {
        let format = crate::tmux::server::IS_BEFORE_3_8.replace("#{version}", version);
        private.shows("keep:", &format) == "1"
    };
    let versions = "3.2 3.3a 3.7c next-3.7 openbsd-7.9 next-3.8 3.8 3.8a 3.10 4.2 master";
    let before: Vec<&str> = versions.split(' ').filter(is_before).collect();
    assert_eq!(before, ["3.2", "3.3a", "3.7c", "next-3.7", "openbsd-7.9"]);
}
