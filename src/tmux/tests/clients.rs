//! Clients and commands.

use super::super::client_processes::running_clients;
use super::*;

const HOSTILE: [&str; 18] = [
    "",
    "~",
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
    let mut client = private.client().await;
    for word in HOSTILE {
        let set = |option: &str| Command::new("set-option").args(["-g", option, word]);
        let branch = |text: &str| Command::new("if-shell").args(["-F", "1", text]);
        let nested = control_line(&[branch(&control_line(&[set("@nested")]))]);
        let commands = [
            set("@flat"),
            branch(&nested),
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
    let list = [Command::new("list-windows").args(["-t", "=nope"])];
    let wrong = [Command::new("no-such-command")];
    let private = Private::new();
    let attach = async |private: &Private, id| {
        let attached = private.server.attach(SessionId(id), NO_OUTPUT).await;
        attached.map(drop).unwrap_err()
    };
    let error = private.connection().run(&list).await.unwrap_err();
    assert!(matches!(error, TmuxError::NoServer { .. }), "{error}");
    let error = attach(&private, 0).await;
    assert!(error.is_missing(), "{error}");
    let private = Private::started().await;
    let error = private.connection().run(&list).await.unwrap_err();
    assert!(matches!(error, TmuxError::NoSuchSession { .. }), "{error}");
    let error = attach(&private, 9).await;
    assert!(matches!(error, TmuxError::NoSuchSession { .. }), "{error}");
    let error = private.connection().run(&wrong).await.unwrap_err();
    assert!(matches!(error, TmuxError::Rejected { .. }), "{error}");
    let server = server_at(Path::new("/none"), Some("/no/such/tmux".into()));
    let error = server.check_version().await.unwrap_err();
    assert!(matches!(error, TmuxError::Refused(_)), "{error}");
    private.server.check_version().await.unwrap();
    let mut captures = LookMemory::default();
    for target in ["=kee:", "$7:"] {
        let mut connection = private.connection();
        let seen = look(&mut connection, target, &mut captures, LookKind::Windows).await;
        assert_eq!(seen.unwrap(), None);
    }
}

#[tokio::test]
async fn a_client_answers_and_notifies() {
    let private = Private::started().await;
    let mut client = private.client().await;
    let say = |text: &str| Command::new("display-message").args(["-p", text]);
    let injected = "display-message -p injected";
    private.asks(&["set-hook", "-g", "after-list-windows", injected]);
    let listed = Command::new("list-windows");
    let failing = Command::new("has-session").args(["-t", "$99"]);
    let commands = [say("a"), listed, say("b"), failing, say("c")];
    let frames = client.call(&commands).await.unwrap();
    let found: Vec<_> = frames
        .iter()
        .map(|frame| (frame.ok, frame.text()))
        .collect();
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(found[0], (true, "a".to_owned()));
    assert_eq!(found[2], (true, "b".to_owned()));
    assert_eq!(found[3], (false, "can't find session: $99".to_owned()));
    let frames = client.call(&[Command::new("nonsense")]).await.unwrap();
    assert!(!frames[0].ok, "{frames:?}");

    private.run("new-window -d -t keep: -- sleep 1000");
    client.call(&[say("later")]).await.unwrap();
    let added = ReceivedItem::Notification(Notification::WindowAdd(WindowId(1)));
    while client.next_received().await.unwrap() != added {}
    private.run("kill-session -t keep");
    let closed = loop {
        if let Err(error) = client.next_received().await {
            break error;
        }
    };
    assert!(matches!(closed, TmuxError::Closed), "{closed}");
    let error = client.call(&[say("x")]).await.unwrap_err();
    assert!(matches!(error, TmuxError::Closed), "{error}");
}

#[tokio::test]
async fn a_call_says_which_window_it_is_about() {
    let private = Private::started().await;
    private.install(SessionId(0)).await;
    let server = &private.server;
    let channel = new_channel(SessionId(0));
    let connected = server.connect(&channel, SessionId(0), NO_OUTPUT);
    let connected = connected.await.unwrap();
    private.connection().signal(&channel).await.unwrap();
    let mut waiter = connected.into_wakeups(server, SessionId(0)).await.unwrap();
    let script = r"while read -r line; do printf '\a'; done";
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", script]);
    // More often than waits are queued ahead.
    for _ in 0..40 {
        private.run("send-keys -t keep:1 Enter");
        let woken = tokio::time::timeout(Duration::from_secs(20), waiter.woken()).await;
        let ReportedWindows::Windows(reported) = woken.unwrap().unwrap() else {
            panic!("the reported are unknown");
        };
        assert!(reported.iter().all(|caller| caller.window == WindowId(1)));
    }
    waiter.close().await;
}

#[tokio::test]
async fn lists_and_ends() {
    let private = Private::started().await;
    let mut client = private.client().await;
    private.asks(&["new-session", "-d", "-s", "S 1", "--", "sleep", "1000"]);
    private.asks(&["set-option", "-t", "=S 1:", "@tmux_task_root", "/a\tb"]);
    let mut connection = private.connection();
    let sessions = list_sessions(&mut connection).await.unwrap();
    let shown = sessions
        .iter()
        .map(|s| (s.name.as_str(), s.root.as_deref()));
    let expected = [("S 1", Some("/a b")), ("keep", None)];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
    assert_eq!(list_viewers(&mut connection).await.unwrap(), []);
    for (except, expected) in [(None, true), (Some(SessionId(1)), false)] {
        let windows = [WindowId(1), WindowId(9)];
        let found = existing_windows(&mut connection, &windows, except).await;
        let expected = expected.then_some(WindowId(1)).into_iter().collect();
        assert_eq!(found.unwrap(), expected);
    }
    let hostile = "#(touch x) #[fg=red]";
    let shown = show_notice(&mut connection, SessionId(1), &[], hostile).await;
    shown.unwrap();
    let notice = private.shows("=S 1:", "#{@tmux_task_notice}");
    assert_eq!(notice, "##(touch x) ##[fg=red]");
    let mut attached = Connection::Attached(&mut client);
    private.run("set-option -w -t @1 @tmux_task_run 3");
    for (run, is_there) in [(2, true), (3, true), (3, false)] {
        let killed = kill_window(&mut attached, WindowId(1), Some(run)).await;
        assert_eq!(killed.unwrap(), is_there);
        // Another run than the second.
        let lives = private.shows("=S 1:", "#{@tmux_task_run}") == "3";
        assert_eq!(lives, run == 2);
    }
    kill_session(&mut connection, SessionId(1)).await.unwrap();
    kill_session(&mut attached, SessionId(0)).await.unwrap();
    assert_eq!(list_sessions(&mut connection).await.unwrap(), []);
}

#[tokio::test]
async fn a_client_that_has_connected_attaches_when_it_is_released() {
    let private = Private::started().await;
    let server = &private.server;
    let id = SessionId(0);
    let channel = new_channel(id);
    let client = server.connect(&channel, id, NO_OUTPUT).await.unwrap();
    let attached = || private.shows("keep:", "#{session_attached}");
    assert_eq!(attached(), "0");
    // A daemon that is killed now leaves it behind. While the daemon runs it is not ended, whoever
    // attaches.
    assert_eq!(running_clients(server, Some(id)).len(), 1);
    end_clients_left_behind(server, id).await;
    assert!(running_clients(server, Some(SessionId(1))).is_empty());
    private.connection().signal(&channel).await.unwrap();
    let client = client.into_client(server).await.unwrap();
    assert_eq!(attached(), "1");
    client.close().await;
    assert!(running_clients(server, Some(id)).is_empty());
}

#[tokio::test]
async fn a_hook_that_attaching_runs_is_found() {
    let private = Private::started().await;
    let has_hooks = async || private.server.has_attach_hooks(SessionId(0)).await.unwrap();
    assert!(!has_hooks().await);
    for (scope, hook) in [
        ("-g", "client-attached"),
        ("-t=keep:", "client-session-changed"),
    ] {
        private.asks(&["set-hook", scope, hook, "run-shell true"]);
        assert!(has_hooks().await, "{scope} {hook}");
        private.asks(&["set-hook", "-u", scope, hook]);
        assert!(!has_hooks().await);
    }
}
