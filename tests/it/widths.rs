//! Panes of any width: what is quoted of a task's output are its lines, not rows of the screen.

use serde_json::json;

use crate::support::{World, content, deliveries, events};

/// A line with a blank at the edge of the pane, one that fills a row exactly, one with a wide character
/// that does not fit into its row, and a compiler's error.
fn lines(columns: usize) -> [String; 4] {
    let before = "x".repeat(columns - 1);
    let error = "the cause is a type that has too many words ".repeat(3);
    [
        format!("{before} at a blank"),
        "=".repeat(columns),
        format!("{before}日本 at a wide character"),
        format!("src/main.rs:10:5: error: {error}END"),
    ]
}

fn printing(lines: &[String]) -> String {
    let words: Vec<String> = lines.iter().map(|line| format!("'{line}'")).collect();
    format!("printf '%s\\n' {}", words.join(" "))
}

fn quoted(lines: &[String]) -> String {
    format!("recent output:\n  {}", lines.join("\n  "))
}

/// Returns the message about the last event of this type.
#[track_caller]
fn message(world: &World, kind: &str, name: &str) -> String {
    let records = world.until_delivered(kind, name);
    let messages = deliveries(&records).into_iter().map(content);
    let mut about = messages.filter(|text| text.contains(&format!("({name})")));
    about.next_back().unwrap().to_owned()
}

#[test]
fn a_message_a_list_and_a_wait_quote_whole_lines_at_any_width() {
    for columns in [20, 80, 150] {
        let world = World::with_size(&format!("{columns}x24"));
        world.run("stays", "exec sleep 1000");
        let lines = lines(columns);
        let printed = printing(&lines);
        world.run("bad", &format!("{printed}; exit 3"));
        let message = message(&world, "exited", "bad");
        assert!(message.ends_with(&quoted(&lines[1..])), "{message}");
        let cause = " src/main.rs:10:5: error: the cause";
        world.task(["ls"]).prints(cause);
        assert_eq!(world.listed("bad")["lastLines"], json!(lines[1..]));
        let waited = world.task(["wait", "bad", "--json"]).any_json();
        assert_eq!(waited["tail"], json!(lines));
        let run = world.task(["run", "bad", "--wait", "--", &format!("{printed}; exit 3")]);
        let shown = format!("{}\n{}", run.out, run.err);
        assert!(shown.contains(&lines.join("\n")), "{shown}");
    }
}

#[test]
fn a_preview_has_the_rows_of_the_screen_and_the_last_lines_survive_a_new_size() {
    let world = World::with_size("80x24");
    world.run("stays", "exec sleep 1000");
    let gate = world.gate("go");
    let lines = lines(80);
    let line = format!(
        "{}; printf '\\a'; {gate}; printf '\\a'; exec sleep 1000",
        printing(&lines)
    );
    let window = world.run("rings", &line);
    let mut quotes = vec![message(&world, "notify", "rings")];
    // The rows that it has at another width begin and end elsewhere.
    world.tmux(["resize-window", "-t", &window, "-x", "33"]);
    gate.open();
    world.until("the second bell", |records| {
        let bells = events(records).into_iter();
        bells.filter(|event| event["type"] == "notify").count() == 2
    });
    quotes.push(message(&world, "notify", "rings"));
    for message in quotes {
        assert!(message.ends_with(&quoted(&lines[1..])), "{message}");
    }
    let rows = world.tmux(["capture-pane", "-p", "-S", "-", "-t", &window]);
    let rows: Vec<&str> = rows.trim_end().lines().map(str::trim_end).collect();
    let preview = world.listed("rings")["outputPreview"].clone();
    let preview: Vec<&str> = preview.as_str().unwrap().trim_end().lines().collect();
    assert!(preview.len() > 10 && rows.ends_with(&preview), "{rows:?}");
}

/// Of a line that is longer than what is captured, the beginning is missing, which is marked.
#[test]
fn a_long_line_is_cut_and_the_cut_is_marked() {
    let world = World::with_size("80x24");
    world.run("stays", "exec sleep 1000");
    world.run(
        "bad",
        "printf 'BEGIN '; printf '%0.sword ' $(seq 110); echo; exit 3",
    );
    let cut = format!("BEGIN {}", "word ".repeat(110));
    let cut: String = cut.chars().take(499).collect();
    let message = message(&world, "exited", "bad");
    assert!(message.ends_with(&quoted(&[cut + "…"])), "{message}");
    world.run(
        "long",
        "printf BEGIN; printf '%0.sword ' $(seq 3000); echo END; exit 3",
    );
    let message = self::message(&world, "exited", "long");
    let (_, line) = message.rsplit_once("recent output:\n  ").unwrap();
    assert!(line.starts_with('…') && line.ends_with('…'), "{message}");
    assert_eq!(line.chars().count(), 500);
}
