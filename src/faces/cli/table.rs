//! Tables that fit the terminal.

use crate::rules::terminal::{columns_of, fitted};

const GAP: usize = 2;

/// The minimum width of a command or a last line on a narrow terminal.
pub(super) const NARROW: usize = 8;

pub(super) const NARROW_NAME: usize = 12;

/// What is given up on a narrow terminal. Numbers are never cut: they would be others.
pub(super) struct Narrowing<'a> {
    /// Columns that are narrowed, each to its minimum width, the first one first.
    pub(super) cuts: &'a [(usize, usize)],
    /// Columns that are left out if that is not enough, the first one first.
    pub(super) dispensable: &'a [usize],
}

/// Returns a cell for what may not be known.
pub(super) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

/// Returns the rows as lines with their columns below each other, without columns that are empty. Where the width
/// of the terminal is given, the lines fit it. `colour` returns, for the number of a row, which of its cells has
/// a colour, and the parameter of its escape sequence.
pub(super) fn lines<const N: usize>(
    rows: &[[String; N]],
    columns: Option<usize>,
    narrowing: &Narrowing<'_>,
    colour: impl Fn(usize) -> Option<(usize, &'static str)>,
) -> Vec<String> {
    let width = |column: usize| rows.iter().map(|row| columns_of(&row[column])).max();
    let mut widths = std::array::from_fn(|column| width(column).unwrap_or_default());
    if let Some(columns) = columns {
        fit(&mut widths, columns, narrowing);
    }
    let rows = rows.iter().enumerate();
    rows.map(|(index, row)| line(row, &widths, colour(index)))
        .collect()
}

fn line<const N: usize>(
    row: &[String; N],
    widths: &[usize; N],
    coloured: Option<(usize, &str)>,
) -> String {
    let mut line = String::new();
    let cells = row.iter().zip(widths).enumerate();
    for (column, (cell, width)) in cells.filter(|(_, (_, width))| **width > 0) {
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

/// Narrows columns until the table fits, and leaves out one after the other: their width is 0 then.
fn fit<const N: usize>(widths: &mut [usize; N], columns: usize, narrowing: &Narrowing<'_>) {
    let mut left = *widths;
    let mut dispensable = narrowing.dispensable.iter();
    loop {
        *widths = left;
        if narrow(widths, columns, narrowing.cuts) {
            return;
        }
        let Some(column) = dispensable.next() else {
            return;
        };
        left[*column] = 0;
    }
}

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
