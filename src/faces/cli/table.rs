//! Tables that fit the terminal.

use crate::rules::terminal::{columns_of, fitted};

/// The space between two columns.
const GAP: usize = 2;

/// The minimum width of a command or a last line on a narrow terminal.
pub(super) const NARROW: usize = 8;

/// The minimum width of a name there.
pub(super) const NARROW_NAME: usize = 12;

/// What is given up on a narrow terminal. Numbers are never cut: they would be others.
pub(super) struct Narrowing<'a> {
    /// Columns that are narrowed, each to its minimum width, the first one first.
    pub(super) cuts: &'a [(usize, usize)],
    /// Columns that are left out if that is not enough, the first one first.
    pub(super) dispensable: &'a [usize],
}

/// Returns the rows as lines with their columns below each other. Where the width of the terminal is
/// given, the lines fit it.
pub(super) fn lines<const N: usize>(
    rows: &[[String; N]],
    columns: Option<usize>,
    narrowing: &Narrowing<'_>,
) -> Vec<String> {
    let mut widths = widths(rows);
    if let Some(columns) = columns {
        fit(&mut widths, columns, narrowing);
    }
    rows.iter().map(|row| line(row, &widths, None)).collect()
}

/// Returns the width of each column's widest cell.
pub(super) fn widths<const N: usize>(rows: &[[String; N]]) -> [usize; N] {
    std::array::from_fn(|column| {
        let widths = rows.iter().map(|row| columns_of(&row[column]));
        widths.max().unwrap_or_default()
    })
}

/// Returns a row as a line. Columns whose width is 0 are left out. `coloured` is a column and the
/// parameter of its escape sequence.
pub(super) fn line<const N: usize>(
    row: &[String; N],
    widths: &[usize; N],
    coloured: Option<(usize, &str)>,
) -> String {
    let mut line = String::new();
    for (column, (cell, width)) in row.iter().zip(widths).enumerate() {
        if *width == 0 {
            continue;
        }
        let cell = fitted(cell, *width);
        let pad = (width + GAP).saturating_sub(columns_of(&cell));
        match coloured.filter(|(coloured, _)| *coloured == column) {
            Some((_, colour)) => line.push_str(&format!("\x1b[{colour}m{cell}\x1b[m")),
            None => line.push_str(&cell),
        }
        line.extend(std::iter::repeat_n(' ', pad));
    }
    line.trim_end().to_owned()
}

/// Narrows columns until the table fits. If that is not enough, it leaves out columns, whose width is 0
/// then, one after the other.
pub(super) fn fit<const N: usize>(
    widths: &mut [usize; N],
    columns: usize,
    narrowing: &Narrowing<'_>,
) {
    let dispensable = narrowing.dispensable;
    for n_left_out in 0..=dispensable.len() {
        let mut left = *widths;
        for column in &dispensable[..n_left_out] {
            left[*column] = 0;
        }
        if narrow(&mut left, columns, narrowing.cuts) || n_left_out == dispensable.len() {
            *widths = left;
            return;
        }
    }
}

/// Returns whether the columns fit in the end.
fn narrow(widths: &mut [usize], columns: usize, cuts: &[(usize, usize)]) -> bool {
    let n_shown = widths.iter().filter(|width| **width > 0).count();
    let all = widths.iter().sum::<usize>() + GAP * n_shown.saturating_sub(1);
    let mut over = all.saturating_sub(columns);
    for (column, least) in cuts {
        let cut = over.min(widths[*column].saturating_sub(*least));
        widths[*column] -= cut;
        over -= cut;
    }
    over == 0
}
