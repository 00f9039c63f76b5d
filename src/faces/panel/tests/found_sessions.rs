//! The sessions that there are, by what happens to their daemons.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::named;
use crate::faces::panel::board::SessionKey;
use crate::faces::panel::found_sessions::{ConnectResult, FileId, FoundSessions, SessionEffect};
use crate::ops::FoundSession;

const HERE: &str = "/tmp/tmux-1/default";
const OTHER: &str = "/tmp/tmux-1/other";
const OLD: FileId = (1, 1, 0, 0);
const NEW: FileId = (1, 2, 0, 0);

/// The sessions, and the time, which only [`Sessions::until`] changes.
struct Sessions {
    sessions: FoundSessions,
    began: Instant,
    now: Instant,
}

impl Sessions {
    /// Nothing is found, and the folder has these sockets.
    fn with(sockets: &[(&str, FileId)]) -> (Self, Vec<String>) {
        let now = Instant::now();
        let mut sessions = Self {
            sessions: FoundSessions::new(HERE.into(), now),
            began: now,
            now,
        };
        assert_eq!(sessions.until(0), ["scan"]);
        let effects = sessions.sockets(sockets);
        (sessions, effects)
    }

    /// The session `a` is followed, and its server was listed.
    fn streaming() -> Self {
        let (mut sessions, effects) = Self::with(&[("a", OLD)]);
        assert_eq!(effects, ["connect a"]);
        assert_eq!(sessions.connected("a"), ["stream 0 a", "list default"]);
        assert_eq!(sessions.listed(&["a"]), ["found"]);
        sessions
    }

    /// The same after its daemon has left, and all that was tried since.
    fn left() -> Self {
        let mut sessions = Self::streaming();
        assert_eq!(sessions.ended("a", Some(OLD)), [""; 0]);
        for at in [100, 350, 850] {
            assert_eq!(sessions.until(at), ["connect a"]);
            assert_eq!(sessions.no_daemon("a"), [""; 0]);
        }
        assert_eq!(sessions.until(1850), ["connect a"]);
        assert_eq!(sessions.no_daemon("a"), ["remove 0", "list default"]);
        sessions
    }

    /// The next thing that is due without an input is due now, in milliseconds since the beginning.
    #[track_caller]
    fn until(&mut self, at: u64) -> Vec<String> {
        self.now = self.began + Duration::from_millis(at);
        assert_eq!(self.sessions.next_deadline(), Some(self.now));
        words(self.sessions.on_time(self.now))
    }

    fn sockets(&mut self, sockets: &[(&str, FileId)]) -> Vec<String> {
        let sockets = sockets.iter().map(|(name, file)| (daemon(name), *file));
        words(self.sessions.on_sockets(sockets.collect(), self.now))
    }

    fn connected(&mut self, name: &str) -> Vec<String> {
        self.connected_on(name, HERE)
    }

    fn connected_on(&mut self, name: &str, server: &str) -> Vec<String> {
        let result = ConnectResult::Connected {
            name: name.to_owned(),
            server: server.into(),
        };
        self.connect_result(name, result)
    }

    fn no_daemon(&mut self, name: &str) -> Vec<String> {
        self.connect_result(name, ConnectResult::NoDaemon)
    }

    fn failed(&mut self, name: &str, why: &str) -> Vec<String> {
        self.connect_result(name, ConnectResult::Failed(why.to_owned()))
    }

    fn connect_result(&mut self, name: &str, result: ConnectResult) -> Vec<String> {
        let daemon = daemon(name);
        words(self.sessions.on_connect_result(&daemon, result, self.now))
    }

    fn ended(&mut self, name: &str, file: Option<FileId>) -> Vec<String> {
        words(self.sessions.on_ended(&daemon(name), file, self.now))
    }

    fn listed(&mut self, names: &[&str]) -> Vec<String> {
        let session = |name: &&str| FoundSession {
            name: (*name).to_owned(),
            daemon: daemon(name),
        };
        let sessions = names.iter().map(session).collect();
        words(self.sessions.on_listed(Path::new(HERE), Some(sessions)))
    }
}

fn daemon(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/{name}.sock"))
}

/// The effects in words: sessions by key and name, daemons and servers by the names of their
/// sockets. Why a session has no daemon is shortened.
fn words(effects: Vec<SessionEffect>) -> Vec<String> {
    let stem = |path: PathBuf| path.file_stem().unwrap().display().to_string();
    let word = |effect| match effect {
        SessionEffect::Scan => "scan".to_owned(),
        SessionEffect::Connect(daemon) => format!("connect {}", stem(daemon)),
        SessionEffect::Stream { daemon, key, name } => {
            assert_eq!(stem(daemon), name.name);
            format!("stream {} {}", key.0, name.name)
        }
        SessionEffect::List(server) => format!("list {}", stem(server)),
        SessionEffect::Found => "found".to_owned(),
        SessionEffect::ShowUnknown { key, name, why } => {
            let why = why.split(';').next().unwrap();
            format!("show {} {}: {why}", key.0, name.name)
        }
        SessionEffect::Remove(key) => format!("remove {}", key.0),
    };
    effects.into_iter().map(word).collect()
}

#[test]
fn a_server_is_listed_once_all_daemons_have_answered() {
    let (mut sessions, effects) = Sessions::with(&[("a", OLD), ("b", OLD), ("c", OLD)]);
    assert_eq!(effects, ["connect a", "connect b", "connect c"]);
    assert_eq!(sessions.connected("b"), ["stream 1 b"]);
    assert_eq!(sessions.no_daemon("c"), ["remove 2"]);
    assert_eq!(sessions.connected("a"), ["stream 0 a", "list default"]);
    let expected = ["show 3 idle: no daemon runs", "found"];
    assert_eq!(sessions.listed(&["a", "b", "idle"]), expected);
}

#[test]
fn without_daemons_the_server_is_listed_at_once() {
    let (mut sessions, effects) = Sessions::with(&[]);
    assert_eq!(effects, ["list default"]);
    assert_eq!(sessions.listed(&[]), ["found"]);
}

#[test]
fn a_server_that_does_not_say_what_it_has_changes_nothing() {
    let (mut sessions, _) = Sessions::with(&[]);
    let shown = ["show 0 idle: no daemon runs", "found"];
    assert_eq!(sessions.listed(&["idle"]), shown);
    let effects = sessions.sessions.on_listed(Path::new(HERE), None);
    assert_eq!(words(effects), ["found"]);
}

#[test]
fn a_daemon_that_starts_is_found_by_its_socket() {
    let mut sessions = Sessions::streaming();
    assert_eq!(sessions.until(2000), ["scan"]);
    let both = [("a", OLD), ("b", OLD)];
    assert_eq!(sessions.sockets(&both), ["connect b"]);
    assert_eq!(sessions.connected("b"), ["stream 1 b"]);
    assert_eq!(sessions.until(4000), ["scan"]);
    assert_eq!(sessions.sockets(&both), [""; 0]);
}

#[test]
fn the_next_scan_counts_from_the_end_of_the_one_before() {
    let (mut sessions, _) = Sessions::with(&[]);
    assert_eq!(sessions.until(2000), ["scan"]);
    // While the folder is being listed nothing is due.
    assert_eq!(sessions.sessions.next_deadline(), None);
    sessions.now += Duration::from_millis(500);
    sessions.sockets(&[]);
    assert_eq!(sessions.until(4500), ["scan"]);
}

#[test]
fn a_daemon_that_leaves_may_have_a_successor() {
    let mut sessions = Sessions::streaming();
    assert_eq!(sessions.ended("a", None), [""; 0]);
    assert_eq!(sessions.until(100), ["connect a"]);
    assert_eq!(sessions.no_daemon("a"), [""; 0]);
    assert_eq!(sessions.until(350), ["connect a"]);
    // An error of a daemon that is going says nothing about the next one.
    assert_eq!(sessions.failed("a", "it left"), [""; 0]);
    assert_eq!(sessions.until(850), ["connect a"]);
    // The session keeps its key. What else its server has may have changed meanwhile.
    assert_eq!(sessions.connected("a"), ["stream 0 a", "list default"]);
}

#[test]
fn a_session_whose_daemon_has_left_is_shown_as_one_without() {
    let mut sessions = Sessions::left();
    let expected = ["show 0 a: no daemon runs", "found"];
    assert_eq!(sessions.listed(&["a"]), expected);
}

#[test]
fn a_session_that_has_left_with_its_daemon_is_not_shown() {
    let mut sessions = Sessions::left();
    assert_eq!(sessions.listed(&[]), ["found"]);
}

#[test]
fn an_error_of_the_last_attempt_is_not_shown() {
    let mut sessions = Sessions::streaming();
    sessions.ended("a", Some(OLD));
    for at in [100, 350, 850] {
        assert_eq!(sessions.until(at), ["connect a"]);
        sessions.no_daemon("a");
    }
    assert_eq!(sessions.until(1850), ["connect a"]);
    let expected = ["remove 0", "list default"];
    assert_eq!(sessions.failed("a", "odd"), expected);
}

#[test]
fn a_socket_that_was_left_behind_is_tried_again_only_when_it_is_another_file() {
    let mut sessions = Sessions::left();
    sessions.listed(&["a"]);
    assert_eq!(sessions.until(2000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", OLD)]), [""; 0]);
    assert_eq!(sessions.until(4000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", NEW)]), ["connect a"]);
    assert_eq!(sessions.connected("a"), ["stream 0 a"]);
}

#[test]
fn a_session_without_a_daemon_goes_when_its_server_no_longer_has_it() {
    let (mut sessions, effects) = Sessions::with(&[("a", OLD)]);
    assert_eq!(effects, ["connect a"]);
    sessions.connected("a");
    let shown = ["show 1 idle: no daemon runs", "found"];
    assert_eq!(sessions.listed(&["a", "idle"]), shown);
    assert_eq!(sessions.listed(&["a"]), ["remove 1", "found"]);
    // It comes back with the same key.
    assert_eq!(sessions.listed(&["a", "idle"]), shown);
    // Another server says nothing about it.
    let effects = sessions
        .sessions
        .on_listed(Path::new(OTHER), Some(Vec::new()));
    assert_eq!(words(effects), ["found"]);
}

#[test]
fn a_daemon_that_does_not_answer_is_waited_for_and_holds_up_nothing_else() {
    let (mut sessions, effects) = Sessions::with(&[("a", OLD)]);
    assert_eq!(effects, ["connect a"]);
    // Both are due: the folder, and that it is silent.
    let silent = ["scan", "show 0 a: the daemon does not answer"];
    assert_eq!(sessions.until(2000), silent);
    // It is not connected to a second time.
    assert_eq!(sessions.sockets(&[("a", NEW)]), ["list default"]);
    // Its name is known from tmux.
    let named = ["show 0 a: the daemon does not answer", "found"];
    assert_eq!(sessions.listed(&["a"]), named);
    assert_eq!(sessions.until(4000), ["scan"]);
    sessions.sockets(&[("a", NEW)]);
    assert_eq!(sessions.connected("a"), ["stream 0 a"]);
}

#[test]
fn a_silent_daemon_that_ends_is_not_shown() {
    let (mut sessions, _) = Sessions::with(&[("a", OLD)]);
    sessions.until(2000);
    sessions.sockets(&[("a", OLD)]);
    assert_eq!(sessions.no_daemon("a"), ["remove 0"]);
}

#[test]
fn a_successor_that_does_not_answer_is_silent_later_and_tried_again() {
    let mut sessions = Sessions::streaming();
    sessions.ended("a", Some(OLD));
    assert_eq!(sessions.until(100), ["connect a"]);
    assert_eq!(sessions.until(2000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", NEW)]), [""; 0]);
    let silent = ["show 0 a: the daemon does not answer", "list default"];
    assert_eq!(sessions.until(3850), silent);
    assert_eq!(sessions.failed("a", "it left"), [""; 0]);
    assert_eq!(sessions.until(4000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", NEW)]), [""; 0]);
    assert_eq!(sessions.until(4100), ["connect a"]);
    assert_eq!(sessions.connected("a"), ["stream 0 a"]);
}

#[test]
fn a_daemon_that_cannot_be_used_is_shown_with_its_error_until_there_is_another_one() {
    let (mut sessions, _) = Sessions::with(&[("a", OLD)]);
    let shown = ["show 0 a: too old", "list default"];
    assert_eq!(sessions.failed("a", "too old"), shown);
    // tmux knows no better.
    assert_eq!(sessions.listed(&["a"]), ["found"]);
    assert_eq!(sessions.until(2000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", OLD)]), [""; 0]);
    assert_eq!(sessions.until(4000), ["scan"]);
    assert_eq!(sessions.sockets(&[("a", NEW)]), ["connect a"]);
    assert_eq!(sessions.no_daemon("a"), ["remove 0"]);
}

#[test]
fn the_server_that_a_daemon_has_left_is_listed_and_no_other_one() {
    let (mut sessions, _) = Sessions::with(&[("a", OLD)]);
    assert_eq!(
        sessions.connected_on("a", OTHER),
        ["stream 0 a", "list default"]
    );
    sessions.ended("a", Some(OLD));
    assert_eq!(sessions.until(100), ["connect a"]);
    assert_eq!(
        sessions.connected_on("a", OTHER),
        ["stream 0 a", "list other"]
    );
}

#[test]
fn a_session_of_another_server_is_called_with_it_and_started_with_it() {
    let (mut sessions, _) = Sessions::with(&[]);
    let mut shown = |server: &str, name: &str| {
        let session = FoundSession {
            name: name.to_owned(),
            daemon: daemon(name),
        };
        let effects = sessions
            .sessions
            .on_listed(Path::new(server), Some(vec![session]));
        effects.into_iter().next()
    };
    let expected = |key, name, server, start: &str| {
        Some(SessionEffect::ShowUnknown {
            key: SessionKey(key),
            name: named(name, server),
            why: format!("no daemon runs; `tmux-task {start} daemon --detach` starts one"),
        })
    };
    assert_eq!(shown(HERE, "a"), expected(0, "a", None, "-s a"));
    let start = "-S /tmp/tmux-1/other -s b";
    assert_eq!(shown(OTHER, "b"), expected(1, "b", Some("other"), start));
    // What a shell would take apart is left to the user.
    let start = "-S SOCKET -s NAME";
    assert_eq!(
        shown("/tmp/my tmux", "c d"),
        expected(2, "c d", Some("my tmux"), start)
    );
}
