//! A history that is read in slices is the same as one that is read at once.

use super::super::history_slices::{Capture, Slice, read_older};
use super::super::output::{JoinedRows, capture_joined, capture_joined_in_slices};
use super::*;

const PANE: PaneId = PaneId(1);

/// Prints short lines, empty ones, long ones that wrap, also exactly at the border, tabs, wide
/// characters, colours that last over several lines, and line drawing.
const STORY: &str = "for n in $(seq 60); do \
    printf 'line %d\\n' $n; \
    printf '\\033[3%dm%*d' $((n % 8)) $((n * 7)) $n; \
    [ $((n % 3)) = 0 ] && printf '\\033[m'; \
    [ $((n % 5)) = 0 ] && printf '\\n\\n'; \
    printf '%80d\\n' $n; \
    printf '%81d   \\n' $n; \
    printf 'a\\tb\\t\\342\\230\\203\\344\\270\\255 %75d\\n' $n; \
    printf '\\033(0lqk\\033(B\\033[4munder\\n'; \
    done";

/// A window that has printed the story, as pane `%1`.
async fn story(private: &Private, and_then: &str) {
    private.asks(&["set-option", "-g", "remain-on-exit", "on"]);
    let line = format!("{STORY}; {and_then}");
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", &line]);
}

async fn client(private: &Private) -> Client {
    let client = private.server.attach(SessionId(0), Output::None);
    client.await.unwrap()
}

/// Waits until the program has ended.
async fn until_dead(private: &Private) {
    until(async || {
        let dead = private.asks(&["display-message", "-p", "-t", "%1", "#{pane_dead}"]);
        (dead == "1").then_some(()).ok_or(dead)
    })
    .await;
}

async fn whole(connection: &mut Connection<'_>, style: Style) -> JoinedRows {
    let whole = capture_joined(connection, PANE, style, History::Whole);
    whole.await.unwrap()
}

async fn in_slices(
    connection: &mut Connection<'_>,
    style: Style,
    history: History,
    slice: usize,
) -> JoinedRows {
    let read = capture_joined_in_slices(connection, PANE, style, history, slice);
    read.await.unwrap().unwrap()
}

#[tokio::test]
async fn slices_are_joined_to_the_lines_of_the_whole() {
    let private = Private::started().await;
    story(&private, "exit 0").await;
    until_dead(&private).await;
    let mut client = client(&private).await;
    let mut connection = Connection::Attached(&mut client);
    let expected = whole(&mut connection, Style::Plain)
        .await
        .into_log(Style::Plain);
    assert!(expected.end.history > 300, "{}", expected.end.history);
    for slice in [1, 2, 3, 7, 50, 1000] {
        let read = in_slices(&mut connection, Style::Plain, History::Whole, slice).await;
        assert_eq!(
            read.into_log(Style::Plain),
            expected,
            "{slice} rows at once"
        );
    }
    client.close().await;
}

/// tmux itself says whether two texts look the same.
#[tokio::test]
async fn slices_have_the_colours_of_the_whole() {
    let private = Private::started().await;
    story(&private, "exit 0").await;
    until_dead(&private).await;
    let mut client = client(&private).await;
    let mut connection = Connection::Attached(&mut client);
    let mut texts = vec![whole(&mut connection, Style::Raw).await];
    for slice in [1, 3, 50] {
        texts.push(in_slices(&mut connection, Style::Raw, History::Whole, slice).await);
    }
    client.close().await;
    let mut shown = Vec::new();
    for (index, rows) in texts.into_iter().enumerate() {
        let file = private.dir.path().join(format!("text-{index}"));
        let lines = rows.into_log(Style::Raw).lines;
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        // tmux can lose the end of what is printed right before an end.
        let line = format!("cat {}; echo the end; sleep 1000", file.display());
        let window = [
            "new-window",
            "-d",
            "-P",
            "-F",
            "#{pane_id}",
            "-t",
            "keep:",
            "--",
            "sh",
            "-c",
            &line,
        ];
        let pane = private.asks(&window);
        let capture = ["capture-pane", "-p", "-e", "-S", "-", "-t", &pane];
        let is_shown = async || {
            let rows = private.asks(&capture);
            let is_whole = rows.contains("the end");
            is_whole.then_some(rows.clone()).ok_or(rows)
        };
        shown.push(until(is_shown).await);
    }
    assert!(shown[0].contains("\u{1b}[4m"), "{}", shown[0]);
    for other in &shown[1..] {
        assert!(*other == shown[0], "{other}\n\nis not\n\n{}", shown[0]);
    }
}

#[tokio::test]
async fn a_followed_pane_is_completed_with_what_is_above_its_end() {
    let private = Private::started().await;
    private.asks(&["set-option", "-g", "history-limit", "5000"]);
    story(&private, "seq 3500; echo the end; exit 0").await;
    until_dead(&private).await;
    let mut client = client(&private).await;
    let name = format!("client-{}", client.pid().unwrap());
    let mut connection = Connection::Attached(&mut client);
    let extent = |history| Extent { history, lines: 0 };
    let whole = follow_output(&mut connection, &name, PANE, extent(History::Whole));
    let whole = whole.await.unwrap().output;
    let end = follow_output(&mut connection, &name, PANE, extent(PaneEnd::HISTORY));
    let end = end.await.unwrap();
    assert!(end.output.rows.len() < 1100);
    let completed = complete(&mut connection, PANE, end, History::Whole);
    assert!(completed.await.unwrap().as_ref() == Some(&whole));
    let read = read_output(&mut connection, PANE, History::Whole);
    assert!(read.await.unwrap() == whole);
    let read = read_output(&mut connection, PANE, History::LastRows(1800));
    let read = read.await.unwrap();
    assert_eq!(read.rows.len(), 1800 + read.height);
    assert_eq!(read.rows, whole.rows[whole.rows.len() - read.rows.len()..]);
    client.close().await;
}

const ROWS: Capture = Capture {
    flags: &[],
    is_joined: false,
    slice: 50,
};
const LINES: Capture = Capture {
    flags: &["-J"],
    is_joined: true,
    slice: 50,
};

#[tokio::test]
async fn rows_keep_their_place_while_a_pane_prints() {
    let private = Private::started().await;
    let prints = "seq 1000; while read -r n; do seq $n; echo printed $n; done";
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", prints]);
    let mut connection = private.connection();
    let history = until(async || {
        let history = private.asks(&["display-message", "-p", "-t", "%1", "#{history_size}"]);
        let n_rows: usize = history.parse().unwrap();
        (n_rows > 970).then_some(n_rows).ok_or(history)
    })
    .await;
    let numbers = |from: usize| -> Vec<String> {
        let to = history - 50;
        (from + 1..=to).map(|n| n.to_string()).collect()
    };
    let end = capture_joined(
        &mut connection,
        PANE,
        Style::Plain,
        History::LastRows(ROWS.slice),
    );
    let end = end.await.unwrap().end;
    assert_eq!(end.output.history, history);
    // Less than a slice, more, and more than what is missing.
    for n_printed in ["3", "70", "700"] {
        private.asks(&["send-keys", "-t", "%1", n_printed, "Enter"]);
        until(async || {
            let shown = private.asks(&["capture-pane", "-p", "-t", "%1"]);
            let is_printed = shown.contains(&format!("printed {n_printed}"));
            is_printed.then_some(()).ok_or(shown)
        })
        .await;
        for capture in [ROWS, LINES] {
            for from in [0, 1, 333, history - 51] {
                let older = read_older(
                    &mut connection,
                    PANE,
                    &end.output,
                    end.read_at,
                    from,
                    capture,
                );
                let older = older.await.unwrap().expect("only printed");
                let rows: Vec<String> = older
                    .into_iter()
                    .flat_map(|slice| slice.rows)
                    .map(|row| String::from_utf8(row).unwrap())
                    .collect();
                assert_eq!(rows, numbers(from), "{capture:?} after {n_printed}");
            }
        }
    }
}

#[tokio::test]
async fn a_pane_that_changes_between_two_slices_is_not_read_in_slices() {
    async fn older(connection: &mut Connection<'_>, end: &PaneEnd) -> Option<Vec<Slice>> {
        let older = read_older(connection, PANE, &end.output, end.read_at, 0, LINES);
        older.await.unwrap()
    }

    let private = Private::started().await;
    // It is full: tmux removes its oldest rows while the pane prints.
    private.asks(&["set-option", "-g", "history-limit", "300"]);
    story(&private, "read -r _; echo more; read -r _; exit 0").await;
    let mut connection = private.connection();
    // A pane that lives is read in slices once it has printed nothing in this second.
    let end = until(async || {
        let mut connection = private.connection();
        let last = capture_joined(&mut connection, PANE, Style::Plain, History::LastRows(50));
        let end = last.await.unwrap().end;
        let older = older(&mut connection, &end).await;
        let n_slices = older.map(|slices| slices.len()).unwrap_or_default();
        (n_slices > 3)
            .then_some(end)
            .ok_or(format!("{n_slices} slices"))
    })
    .await;
    private.asks(&["send-keys", "-t", "%1", "Enter"]);
    until(async || {
        let shown = private.asks(&["capture-pane", "-p", "-t", "%1"]);
        shown.contains("more").then_some(()).ok_or(shown)
    })
    .await;
    let older_rows = older(&mut connection, &end).await;
    assert!(older_rows.is_none(), "it has printed");

    private.asks(&["send-keys", "-t", "%1", "Enter"]);
    until_dead(&private).await;
    // A cleared history is the last: nothing is left to read in slices.
    let changes: [&[&str]; 3] = [
        &["resize-window", "-t", "@1", "-x", "70", "-y", "24"],
        &["respawn-pane", "-t", "%1", "exit 0"],
        &["clear-history", "-t", "%1"],
    ];
    for change in changes {
        until_dead(&private).await;
        let last = capture_joined(&mut connection, PANE, Style::Plain, History::LastRows(50));
        let end = last.await.unwrap().end;
        let older_rows = older(&mut connection, &end).await;
        assert!(older_rows.is_some(), "before {change:?}");
        private.asks(change);
        let older_rows = older(&mut connection, &end).await;
        assert!(older_rows.is_none(), "after {change:?}");
    }
}
