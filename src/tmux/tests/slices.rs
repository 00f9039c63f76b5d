//! A history that is read in slices is the same as one that is read at once.

use super::super::output::Captured;
use super::*;
use crate::rules::terminal::{Extent, History, PaneOutput};

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
    private.run("set-option -g remain-on-exit on");
    let line = format!("{STORY}; {and_then}");
    private.asks(&["new-window", "-d", "-t", "keep:", "--", "sh", "-c", &line]);
}

async fn whole(connection: &mut Connection<'_>, extent: Extent) -> PaneOutput {
    let whole = Captured::read(connection, PANE, extent, None).await;
    whole.unwrap().into_output(extent)
}

/// Returns the end of lines, with so much history.
async fn end(connection: &mut Connection<'_>, slice: usize, is_raw: bool) -> Captured {
    let extent = Extent::of_lines(History::LastRows(slice), is_raw);
    let end = Captured::read(connection, PANE, extent, None).await;
    end.unwrap()
}

async fn in_slices(connection: &mut Connection<'_>, extent: Extent, slice: usize) -> PaneOutput {
    let mut captured = end(connection, slice, extent.is_raw).await;
    let older = captured.add_older(connection, PANE, extent, slice).await;
    assert!(older.unwrap());
    captured.into_output(extent)
}

const LINES: Extent = Extent {
    lines: Some(History::Whole),
    ..Extent::SCREEN
};

/// tmux itself says whether two texts look the same.
#[tokio::test]
async fn slices_are_joined_to_the_lines_of_the_whole_and_have_its_colours() {
    let private = Private::started().await;
    story(&private, "exit 0").await;
    private.until_dead("%1").await;
    let mut client = private.client().await;
    let mut connection = Connection::Attached(&mut client);
    let expected = whole(&mut connection, LINES).await;
    assert!(expected.history > 300, "{}", expected.history);
    for slice in [1, 2, 3, 7, 50, 1000] {
        let read = in_slices(&mut connection, LINES, slice).await;
        assert_eq!(read, expected, "{slice} rows at once");
    }
    let raw = Extent::of_lines(History::Whole, true);
    let mut texts = vec![whole(&mut connection, raw).await.lines];
    for slice in [1, 3, 50] {
        texts.push(in_slices(&mut connection, raw, slice).await.lines);
    }
    client.close().await;
    let mut shown = Vec::new();
    for (index, lines) in texts.into_iter().enumerate() {
        let file = private.dir.path().join(format!("text-{index}"));
        std::fs::write(&file, lines.join("\n") + "\n").unwrap();
        // tmux can lose the end of what is printed right before an end.
        let line = format!("cat {}; echo the end; sleep 1000", file.display());
        let window = ["new-window", "-d", "-P", "-F", "#{pane_id}", "-t", "keep:"];
        let pane = private.asks(&[&window[..], &["--", "sh", "-c", &line]].concat());
        let is_shown = async || {
            let rows = private.run(&format!("capture-pane -p -e -S - -t {pane}"));
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
    private.run("set-option -g history-limit 5000");
    story(&private, "seq 3500; echo the end; exit 0").await;
    private.until_dead("%1").await;
    let mut client = private.client().await;
    let name = format!("client-{}", client.pid().unwrap());
    let mut connection = Connection::Attached(&mut client);
    let whole = whole(&mut connection, Extent::ALL).await;
    let followed = follow_output(&mut connection, &name, PANE, Extent::ALL);
    assert!(followed.await.unwrap() == (whole.clone(), 1));
    let last = Extent {
        rows: History::LastRows(1800),
        ..Extent::ALL
    };
    let read = read_output(&mut connection, PANE, last).await.unwrap();
    assert_eq!(read.rows.len(), 1800 + read.height);
    assert_eq!(read.rows, whole.rows[whole.rows.len() - read.rows.len()..]);
    client.close().await;
}

#[tokio::test]
async fn a_pane_that_changes_between_two_slices_is_not_read_in_slices() {
    async fn is_read(connection: &mut Connection<'_>, end: &Captured) -> bool {
        let mut captured = end.clone();
        let older = captured.add_older(connection, PANE, LINES, 50).await;
        older.unwrap()
    }

    let private = Private::started().await;
    // It is full: tmux removes its oldest rows while the pane prints.
    private.run("set-option -g history-limit 300");
    story(&private, "read -r _; echo more; read -r _; exit 0").await;
    let mut connection = private.connection();
    let before = until(async || {
        let mut connection = private.connection();
        let end = end(&mut connection, 50, false).await;
        let history = end.state.history;
        let is_read = history > 200 && is_read(&mut connection, &end).await;
        is_read.then_some(end).ok_or(format!("{history} rows"))
    })
    .await;
    private.run("send-keys -t %1 Enter");
    until(async || {
        let shown = private.run("capture-pane -p -t %1");
        shown.contains("more").then_some(()).ok_or(shown)
    })
    .await;
    let is_older_read = is_read(&mut connection, &before).await;
    assert!(!is_older_read, "it has printed");

    private.run("send-keys -t %1 Enter");
    private.until_dead("%1").await;
    // A cleared history is the last: nothing is left to read in slices.
    let changes: [&[&str]; 3] = [
        &["resize-window", "-t", "@1", "-x", "70", "-y", "24"],
        &["respawn-pane", "-t", "%1", "exit 0"],
        &["clear-history", "-t", "%1"],
    ];
    for change in changes {
        private.until_dead("%1").await;
        let before = end(&mut connection, 50, false).await;
        let is_older_read = is_read(&mut connection, &before).await;
        assert!(is_older_read, "before {change:?}");
        private.asks(change);
        let is_older_read = is_read(&mut connection, &before).await;
        assert!(!is_older_read, "after {change:?}");
    }
}
