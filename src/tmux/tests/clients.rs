//! Clients and commands.

use super::super::client_processes::running_clients;
use super::*;

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
    let actual: Vec<_> = frames
        .iter()
        .map(|frame| (frame.ok, frame.text()))
        .collect();
    assert_eq!(actual.len(), 4, "{actual:?}");
    assert_eq!(actual[0], (true, "a".to_owned()));
    assert_eq!(actual[2], (true, "b".to_owned()));
    assert_eq!(actual[3], (false, "can't find session: $99".to_owned()));
    let frames = client.call(&[Command::new("nonsense")]).await.unwrap();
    assert!(!frames[0].ok, "{frames:?}");

    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sleep", "1000"]);
    client.call(&[say("later")]).await.unwrap();
    loop {
        let added = Notification::WindowAdd(WindowId(1));
        if client.next_received().await.unwrap() == ReceivedItem::Notification(added) {
            break;
        }
    }
    private.asks(&["kill-session", "-t", "keep"]);
    loop {
        match client.next_received().await {
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
    install(&mut apart, SessionId(0), daemon, "").await.unwrap();
    let server = &private.server;
    let channel = new_channel(SessionId(0));
    let connected = server.connect(&channel, SessionId(0), Output::None);
    let connected = connected.await.unwrap();
    let mut connection = private.connection();
    connection.signal(&channel).await.unwrap();
    let mut waiter = connected.into_wakeups(server, SessionId(0)).await.unwrap();
    let script = r"while read -r line; do printf '\a'; done";
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", script]);
    // More often than waits are queued ahead.
    for _ in 0..40 {
        private.asks(&["send-keys", "-t", "keep:1", "Enter"]);
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
    let mut client = private
        .server
        .attach(SessionId(0), Output::None)
        .await
        .unwrap();
    private.asks(&["new-session", "-d", "-s", "S 1", "--", "sleep", "1000"]);
    private.asks(&["set-option", "-t", "=S 1:", "@tmux_task_root", "/a\tb"]);
    let mut connection = private.connection();
    let sessions = list_sessions(&mut connection).await.unwrap();
    let actual: Vec<_> = sessions
        .iter()
        .map(|s| (s.name.as_str(), s.root.as_deref()))
        .collect();
    assert_eq!(actual, [("S 1", Some("/a b")), ("keep", None)]);
    assert_eq!(list_viewers(&mut connection).await.unwrap(), []);
    for (except, expected) in [(None, true), (Some(SessionId(1)), false)] {
        let found = existing_windows(&mut connection, &[WindowId(1), WindowId(9)], except)
            .await
            .unwrap();
        assert_eq!(found, expected.then_some(WindowId(1)).into_iter().collect());
    }
    show_notice(&mut connection, SessionId(1), &[], "#(touch x) #[fg=red]")
        .await
        .unwrap();
    let notification = private.asks(&[
        "display-message",
        "-p",
        "-t",
        "=S 1:",
        "#{@tmux_task_notice}",
    ]);
    assert_eq!(notification, "##(touch x) ##[fg=red]");
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

#[tokio::test]
async fn a_client_that_has_connected_attaches_when_it_is_released() {
    let private = Private::started().await;
    let server = &private.server;
    let id = SessionId(0);
    let channel = new_channel(id);
    let client = server.connect(&channel, id, Output::None).await.unwrap();
    let attached = || {
        private.asks(&[
            "display-message",
            "-p",
            "-t",
            "keep:",
            "#{session_attached}",
        ])
    };
    assert_eq!(attached(), "0");
    // A daemon that is killed now leaves it behind. While the daemon runs it is not ended, whoever
    // attaches.
    assert_eq!(running_clients(server, Some(id)).len(), 1);
    end_clients_left_behind(server, id).await;
    assert!(running_clients(server, Some(SessionId(1))).is_empty());
    let mut connection = private.connection();
    connection.signal(&channel).await.unwrap();
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
