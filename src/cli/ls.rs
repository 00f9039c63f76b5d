//! `ls`: the tasks as a table or as JSON.

use super::args::Json;
use super::context::Context;
use super::failure::{Failure, OrFail};
use super::output;
use crate::clock;
use crate::model::Millis;
use crate::ops;
use crate::terminal::{columns_of, split_at_column};
use crate::wire::{LsTask, LsView};

/// The maximum width of the command and last line in the table, in columns.
const COLUMN: usize = 48;

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Failure> {
    let session = context.session("ls").await?;
    let view = ops::list(&session).await.or_fail("ls")?;
    if !view.exists {
        return Err(session.missing()).or_fail("ls");
    }
    if !view.supervised {
        output::note(&format!(
            "tmux-task: ls: no daemon runs for session `{}`: what waits is guessed from the screens",
            session.name
        ));
    }
    if args.json {
        return output::json(&view);
    }
    let table = table(&view, clock::now().wall);
    output::lines(table.iter().map(String::as_str))
}

fn table(view: &LsView, now: Millis) -> Vec<String> {
    let mut rows = vec![
        [
            "ID",
            "NAME",
            "STATE",
            "CODE",
            "RUN",
            "AGE",
            "COMMAND",
            "LAST LINE",
        ]
        .map(String::from),
    ];
    rows.extend(view.tasks.iter().map(|task| row(task, now)));
    let width = |column: usize| {
        rows.iter()
            .map(|row| columns_of(&row[column]))
            .max()
            .unwrap_or_default()
    };
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: &[String; 8]| {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(cell);
            let pad = width - columns_of(cell) + 2;
            line.extend(std::iter::repeat_n(' ', pad));
        }
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn row(listed: &LsTask, now: Millis) -> [String; 8] {
    let task = &listed.task;
    let code = match (task.dead, &task.exit_signal, task.exit_code) {
        (true, Some(signal), _) => signal.clone(),
        (true, None, Some(code)) => code.to_string(),
        (true, None, None) => "?".to_owned(),
        (false, _, _) => "-".to_owned(),
    };
    let last = listed.waiting_for.as_deref().or_else(|| {
        task.output_preview
            .lines()
            .rev()
            .find(|line| !line.trim().is_empty())
    });
    let short = |text: &str| fitted(text.trim(), COLUMN);
    [
        task.window_id.clone(),
        task.window_name.clone(),
        listed.state.as_str().to_owned(),
        code,
        task.run
            .map_or_else(|| "-".to_owned(), |run| run.to_string()),
        task.started_at
            .map_or_else(|| "-".to_owned(), |at| age(now - at)),
        short(task.current_command.as_deref().unwrap_or("-")),
        short(last.unwrap_or_default()),
    ]
}

/// Returns `text` cut to this many columns. `…` marks a cut.
fn fitted(text: &str, columns: usize) -> String {
    if columns_of(text) <= columns {
        return text.to_owned();
    }
    let (mut cut, _) = split_at_column(text, columns.saturating_sub(1));
    // Half of a wide character does not fit.
    while columns_of(cut) >= columns {
        cut = cut.char_indices().last().map_or("", |(at, _)| &cut[..at]);
    }
    format!("{cut}…")
}

/// Returns the number of running tasks, and how many of them are stalled.
pub(super) fn running(running: usize, stalled: usize) -> String {
    match stalled {
        0 => format!("{running} running"),
        _ => format!("{running} running, {stalled} of them stalled"),
    }
}

/// Returns a duration in its largest unit.
pub(super) fn age(millis: Millis) -> String {
    let seconds = millis.max(0) / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Returns a size in its largest unit.
pub(super) fn size(n_bytes: u64) -> String {
    let tenths = |unit: u64| {
        let tenths = n_bytes.saturating_mul(10) / unit;
        format!("{}.{}", tenths / 10, tenths % 10)
    };
    match n_bytes {
        0..1024 => format!("{n_bytes} B"),
        1024..0x10_0000 => format!("{} KiB", tenths(1 << 10)),
        0x10_0000..0x4000_0000 => format!("{} MiB", tenths(1 << 20)),
        _ => format!("{} GiB", tenths(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::TaskFields;

    #[test]
    fn ages_are_in_their_largest_unit() {
        let shown = [0, 59_999, 60_000, 3_600_000, 90_000_000, -5].map(age);
        assert_eq!(shown, ["0s", "59s", "1m", "1h", "1d", "0s"]);
    }

    #[test]
    fn sizes_are_in_their_largest_unit() {
        let shown = [0, 1023, 1024, (1 << 20) - 1, 3 << 19, 5 << 30].map(size);
        let expected = [
            "0 B",
            "1023 B",
            "1.0 KiB",
            "1023.9 KiB",
            "1.5 MiB",
            "5.0 GiB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_too_wide_is_cut_to_the_columns_that_it_has() {
        for (text, expected) in [
            ("four", "four"),
            ("fives", "fiv…"),
            ("日本", "日本"),
            ("日本語", "日…"),
            ("a日本語", "a日…"),
            ("", ""),
        ] {
            assert_eq!(fitted(text, 4), expected);
        }
    }

    #[test]
    fn the_table_lines_up() {
        let task = |id: &str, name: &str, dead, code, run| TaskFields {
            window_id: id.into(),
            window_name: name.into(),
            pane_state_known: true,
            dead,
            exit_code: code,
            run,
            current_command: Some("make test".into()),
            started_at: Some(0),
            output_preview: "one\nlast line\n\n".into(),
            ..TaskFields::default()
        };
        let view = LsView {
            session_name: "s".into(),
            exists: true,
            supervised: true,
            captured_at: 0,
            tasks: vec![
                LsTask::new(task("@1", "api", false, None, Some(1)), None, None),
                LsTask::new(
                    task("@12", "migrate-§", false, None, Some(2)),
                    Some("Proceed? [y/N]".into()),
                    None,
                ),
                LsTask::new(task("@3", "lint", true, Some(2), None), None, None),
                LsTask::new(
                    task("@4", "tunnel", false, None, Some(1)),
                    None,
                    Some(60_000),
                ),
                LsTask::new(task("@5", "日本語 n", false, None, Some(1)), None, None),
            ],
        };
        assert_eq!(
            table(&view, 65_000),
            [
                "ID   NAME       STATE    CODE  RUN  AGE  COMMAND    LAST LINE",
                "@1   api        running  -     1    1m   make test  last line",
                "@12  migrate-§  waiting  -     2    1m   make test  Proceed? [y/N]",
                "@3   lint       exited   2     -    1m   make test  last line",
                "@4   tunnel     stalled  -     1    1m   make test  last line",
                "@5   日本語 n   running  -     1    1m   make test  last line",
            ]
        );
    }
}
