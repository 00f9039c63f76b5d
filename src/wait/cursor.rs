//! A position in a run's output to return to.
//!
//! Rows are counted from the start of a run, over history and screen. A full history drops its
//! oldest tenth at once, so a hash of the row's text is kept with its number, and the row is
//! searched where it can be after any number of drops.

use std::fmt;
use std::str::FromStr;

use crate::model::{SessionLife, WindowId};
use crate::terminal::{comparable, split_at_column};

/// A position in the output of one run of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// A short hash of the life of the session.
    pub life: String,
    /// The task's window.
    pub window: WindowId,
    /// The number of the run.
    pub run: u32,
    /// The position in its output.
    pub anchor: Anchor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The row, counted from the top of the history.
    pub row: usize,
    /// The column. Text before it is old.
    pub column: usize,
    /// A hash of the row's old text and of the row above it.
    pub text: u64,
}

/// The text is not a cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CursorError;

impl fmt::Display for CursorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a cursor: they come from `run --json`, `logs --json` and `wait --json`")
    }
}

impl std::error::Error for CursorError {}

impl Cursor {
    /// Checks that it is of this run of this window; an error says why it is not.
    pub(crate) fn check(
        &self,
        life: Option<&SessionLife>,
        window: WindowId,
        run: Option<u32>,
    ) -> Result<(), String> {
        if self.window != window || life.map(Self::life_of).as_ref() != Some(&self.life) {
            return Err(
                "the cursor is of another task or of another life of the session".to_owned(),
            );
        }
        if run != Some(self.run) {
            let present = run.unwrap_or_default();
            return Err(format!(
                "the cursor is of run {}, the task is at run {present}",
                self.run
            ));
        }
        Ok(())
    }

    /// Returns a short hash of a life of a session.
    pub(crate) fn life_of(life: &SessionLife) -> String {
        let SessionLife {
            server_pid,
            server_started,
            id,
            created,
        } = life;
        format!(
            "{:x}",
            fnv(format!("{server_pid} {server_started} {id} {created}").bytes())
        )
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            life,
            window,
            run,
            anchor: Anchor { row, column, text },
        } = self;
        write!(f, "c1.{life}.{}.{run}.{row}.{column}.{text:x}", window.0)
    }
}

impl FromStr for Cursor {
    type Err = CursorError;

    fn from_str(text: &str) -> Result<Self, CursorError> {
        let parts: Vec<&str> = text.split('.').collect();
        let ["c1", life, window, run, row, column, text] = parts.as_slice() else {
            return Err(CursorError);
        };
        let number = |text: &str| text.parse().map_err(|_| CursorError);
        Ok(Self {
            life: (*life).to_owned(),
            window: WindowId(number(window)?),
            run: number(run)?,
            anchor: Anchor {
                row: row.parse().map_err(|_| CursorError)?,
                column: column.parse().map_err(|_| CursorError)?,
                text: u64::from_str_radix(text, 16).map_err(|_| CursorError)?,
            },
        })
    }
}

impl Anchor {
    /// The start of a run.
    pub(crate) const START: Self = Self {
        row: 0,
        column: 0,
        text: 0,
    };

    /// Returns the anchor at this position of history and screen. `rows` are those from number
    /// `first` on; the row itself and the one above it must be among them.
    pub(crate) fn at(rows: &[String], first: usize, row: usize, column: usize) -> Self {
        if (row, column) == (0, 0) {
            return Self::START;
        }
        Self {
            row,
            column,
            text: fingerprint(rows, row.saturating_sub(first), column),
        }
    }
}

/// Where an anchor is in rows that were read later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnchorPosition {
    /// At this row.
    At(usize),
    /// It is gone, or its position is ambiguous.
    Lost,
}

/// Finds an anchor in rows of history and screen. `limit` is the pane's history limit, and
/// `history` is how many of the rows are history.
pub(crate) fn locate(
    anchor: &Anchor,
    rows: &[String],
    history: usize,
    limit: usize,
) -> AnchorPosition {
    // tmux drops a tenth when the limit is reached; below that, nothing was dropped.
    let drop = (limit / 10).max(1);
    let may_have_dropped = history + drop >= limit;
    if *anchor == Anchor::START {
        return if may_have_dropped {
            AnchorPosition::Lost
        } else {
            AnchorPosition::At(0)
        };
    }
    let is_here = |row: usize| fingerprint(rows, row, anchor.column) == anchor.text;
    if !may_have_dropped {
        let found = anchor.row < rows.len() && is_here(anchor.row);
        return if found {
            AnchorPosition::At(anchor.row)
        } else {
            AnchorPosition::Lost
        };
    }
    let places = (0..=anchor.row / drop).map(|drops| anchor.row - drops * drop);
    let mut found = places.filter(|row| *row < rows.len() && is_here(*row));
    match (found.next(), found.next()) {
        (Some(row), None) => AnchorPosition::At(row),
        (Some(_), Some(_)) | (None, _) => AnchorPosition::Lost,
    }
}

/// Returns a hash of the text before the column and of the row above, of what every terminal stores alike.
fn fingerprint(rows: &[String], row: usize, column: usize) -> u64 {
    let above = row
        .checked_sub(1)
        .and_then(|above| rows.get(above))
        .map_or("", String::as_str);
    let row = rows.get(row).map_or("", String::as_str);
    let (old, _) = split_at_column(row, column);
    let (above, old) = (comparable(above), comparable(old));
    fnv(above.bytes().chain([0]).chain(old.bytes()))
}

/// FNV-1a: stable, and short in a cursor.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: std::ops::Range<usize>) -> Vec<String> {
        n.map(|i| format!("line {i}")).collect()
    }

    #[test]
    fn a_cursor_survives_being_printed() {
        let cursor = Cursor {
            life: "ab12".into(),
            window: WindowId(12),
            run: 3,
            anchor: Anchor::at(&rows(0..9), 0, 7, 4),
        };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        for wrong in [
            "",
            "c1",
            "c2.a.1.1.1.1.1",
            "c1.a.1.1.1.1",
            "c1.a.x.1.1.1.1",
            "5",
        ] {
            assert_eq!(wrong.parse::<Cursor>(), Err(CursorError), "{wrong:?}");
        }
    }

    #[test]
    fn an_anchor_is_where_it_was_while_nothing_was_dropped() {
        let anchor = Anchor::at(&rows(0..50), 0, 49, 7);
        assert_eq!(
            locate(&anchor, &rows(0..80), 60, 2000),
            AnchorPosition::At(49)
        );
        assert_eq!(
            locate(&Anchor::START, &rows(0..80), 60, 2000),
            AnchorPosition::At(0)
        );
    }

    #[test]
    fn a_cleared_history_loses_it() {
        let anchor = Anchor::at(&rows(0..50), 0, 49, 7);
        assert_eq!(
            locate(&anchor, &rows(50..60), 0, 2000),
            AnchorPosition::Lost
        );
        assert_eq!(
            locate(&anchor, &rows(50..200), 100, 2000),
            AnchorPosition::Lost
        );
    }

    #[test]
    fn a_full_history_drops_tenths_and_the_text_tells_how_many() {
        let anchor = Anchor::at(&rows(0..1900), 0, 1899, 9);
        // Two drops of 200 rows each.
        assert_eq!(
            locate(&anchor, &rows(400..2300), 1880, 2000),
            AnchorPosition::At(1499)
        );
        assert_eq!(
            locate(&anchor, &rows(3000..4900), 1880, 2000),
            AnchorPosition::Lost
        );
        assert_eq!(
            locate(&Anchor::START, &rows(400..2300), 1880, 2000),
            AnchorPosition::Lost
        );
        let same: Vec<String> = vec!["same".into(); 1900];
        let anchor = Anchor::at(&same, 0, 1899, 4);
        assert_eq!(locate(&anchor, &same, 1880, 2000), AnchorPosition::Lost);
    }
}
