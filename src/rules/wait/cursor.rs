//! A position in a run's output to return to.
//!
//! Rows are counted from the start of a run, over history and screen. A full history drops its
//! oldest tenth at once, so a hash of the row's text is kept with its number, and the row is
//! searched where it can be after any number of drops.

use std::fmt;
use std::str::FromStr;

use crate::model::{Error, SessionLife, WindowId};
use crate::rules::terminal::{Line, PaneOutput, comparable, split_at_column};

/// A position in the output of one run of one task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// A short hash of the life of the session.
    pub life: String,
    pub window: WindowId,
    pub run: u32,
    pub anchor: Anchor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Anchor {
    pub row: usize,
    /// The column. Text before it is old.
    pub column: usize,
    /// A hash of the row's old text and of the row above it.
    pub text: u64,
}

impl Cursor {
    /// Returns the cursor of this position in a run.
    pub(crate) fn new(life: &SessionLife, window: WindowId, run: u32, anchor: Anchor) -> Self {
        Self {
            life: Self::life_of(life),
            window,
            run,
            anchor,
        }
    }

    /// Parses the cursor of a request, which has to be of this run of this window, and returns its position.
    pub(crate) fn anchor_in(
        text: &str,
        life: Option<&SessionLife>,
        window: WindowId,
        run: Option<u32>,
    ) -> Result<Anchor, Error> {
        let cursor: Self = text.parse()?;
        if cursor.window != window || life.map(Self::life_of).as_ref() != Some(&cursor.life) {
            let why = "the cursor is of another task or of another life of the session";
            return Err(Error::failed(why));
        }
        if run != Some(cursor.run) {
            let present = run.unwrap_or_default();
            return Err(Error::failed(format!(
                "the cursor is of run {}, the task is at run {present}",
                cursor.run
            )));
        }
        Ok(cursor.anchor)
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
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parse = || {
            let parts: Vec<&str> = text.split('.').collect();
            let ["c1", life, window, run, row, column, text] = parts[..] else {
                return None;
            };
            Some(Self {
                life: life.to_owned(),
                window: WindowId(window.parse().ok()?),
                run: run.parse().ok()?,
                anchor: Anchor {
                    row: row.parse().ok()?,
                    column: column.parse().ok()?,
                    text: u64::from_str_radix(text, 16).ok()?,
                },
            })
        };
        let why = "not a cursor: they come from `run --json`, `logs --json` and `wait --json`";
        parse().ok_or_else(|| Error::usage(why))
    }
}

impl Anchor {
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

    /// Returns the anchor where the terminal's cursor is in a pane.
    pub(crate) fn at_cursor(output: &PaneOutput) -> Self {
        let (column, _) = output.cursor;
        Self::at(
            &output.rows,
            output.first_row(),
            output.cursor_row(),
            column,
        )
    }

    /// Finds its row in all rows of a pane that were read later; `None` if it is gone, or its position is
    /// ambiguous.
    pub(crate) fn locate(&self, output: &PaneOutput) -> Option<usize> {
        let PaneOutput {
            rows,
            history,
            limit,
            ..
        } = output;
        // tmux drops a tenth when the limit is reached; below that, nothing was dropped.
        let drop = (limit / 10).max(1);
        let may_have_dropped = history + drop >= *limit;
        if *self == Self::START {
            return (!may_have_dropped).then_some(0);
        }
        let is_here =
            |row: &usize| *row < rows.len() && fingerprint(rows, *row, self.column) == self.text;
        if !may_have_dropped {
            return Some(self.row).filter(is_here);
        }
        let places = (0..=self.row / drop).map(|drops| self.row - drops * drop);
        let mut found = places.filter(is_here);
        found.next().filter(|_| found.next().is_none())
    }
}

/// Returns a hash of the text before the column and of the row above, of what every terminal stores alike.
fn fingerprint(rows: &[String], row: usize, column: usize) -> u64 {
    let text = |row: usize| rows.get(row).map_or("", String::as_str);
    let (old, _) = split_at_column(text(row), column);
    let above = row.checked_sub(1).map_or("", text);
    let (above, old) = (comparable(above), comparable(old));
    fnv(above.bytes().chain([0]).chain(old.bytes()))
}

/// FNV-1a: stable, and short in a cursor.
fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Passes the output behind the anchor to `give`. Returns whether there is any; `None` if the anchor is not
/// known or not found.
pub(super) fn read_since(
    anchor: Option<&Anchor>,
    output: &PaneOutput,
    give: &mut dyn FnMut(&Line<'_>),
) -> Option<bool> {
    let anchor = anchor?;
    let row = anchor.locate(output)?;
    // The cursor's line may go on.
    let cursor_row = output.cursor_row().checked_sub(output.first_row());
    let cursor_row = cursor_row.filter(|_| !output.is_dead);
    let mut is_any = false;
    for line in output.unwrapped(row, anchor.column) {
        is_any |= line.is_fresh();
        give(&line.line(!cursor_row.is_some_and(|at| line.rows.contains(&at))));
    }
    Some(is_any)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(n: std::ops::Range<usize>) -> Vec<String> {
        n.map(|i| format!("line {i}")).collect()
    }

    /// Finds an anchor in these rows, of which so many are history of at most 2000.
    fn locate(anchor: &Anchor, rows: &[String], history: usize) -> Option<usize> {
        let output = PaneOutput {
            rows: rows.to_vec(),
            history,
            limit: 2000,
            ..PaneOutput::default()
        };
        anchor.locate(&output)
    }

    #[test]
    fn a_cursor_survives_being_printed() {
        let cursor = Cursor {
            life: "ab12".into(),
            window: WindowId(12),
            run: 3,
            anchor: Anchor::at(&rows(0..9), 0, 7, 4),
        };
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for wrong in [
            "",
            "c1",
            "c2.a.1.1.1.1.1",
            "c1.a.1.1.1.1",
            "c1.a.x.1.1.1.1",
            "5",
        ] {
            assert!(wrong.parse::<Cursor>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn an_anchor_is_found_again_by_its_text() {
        let anchor = Anchor::at(&rows(0..50), 0, 49, 7);
        // While nothing was dropped.
        assert_eq!(locate(&anchor, &rows(0..80), 60), Some(49));
        assert_eq!(locate(&Anchor::START, &rows(0..80), 60), Some(0));
        // A cleared history loses it.
        assert_eq!(locate(&anchor, &rows(50..60), 0), None);
        assert_eq!(locate(&anchor, &rows(50..200), 100), None);
        // A full history drops tenths, and the text tells how many: two of 200 rows each.
        let anchor = Anchor::at(&rows(0..1900), 0, 1899, 9);
        assert_eq!(locate(&anchor, &rows(400..2300), 1880), Some(1499));
        assert_eq!(locate(&anchor, &rows(3000..4900), 1880), None);
        assert_eq!(locate(&Anchor::START, &rows(400..2300), 1880), None);
        let same: Vec<String> = vec!["same".into(); 1900];
        let anchor = Anchor::at(&same, 0, 1899, 4);
        assert_eq!(locate(&anchor, &same, 1880), None);
    }
}
