//! Tells a prompt that still stands from the same words asked again.

use crate::model::Screen;

/// Below this many rows of context a full change may be a redraw, a clock for instance.
const PAGE: usize = 5;

/// Whether the prompt at `after` was written anew after other output since `before`; both are a
/// screen and the prompt's row on it, and the prompt's words are the same on both.
///
/// A prompt that moved together with the rows above it has scrolled. One that kept its row while
/// other rows were redrawn is the old one, unless its own words now stand above it as well, or a
/// whole page of other output has taken the place of what stood above it.
pub(super) fn written_anew(before: (&Screen, usize), after: (&Screen, usize)) -> bool {
    let (old, old_row) = before;
    let (new, new_row) = after;
    let (Some(asked), true) = (new.rows.get(new_row), old_row < old.rows.len()) else {
        return false;
    };
    // A full-screen program draws where it likes: its rows tell nothing of order.
    if old.rows == new.rows || new.alternate == Some(true) {
        return false;
    }
    if old_row == new_row {
        let old_above = &old.rows[..old_row];
        let new_above = &new.rows[..new_row];
        let asked_above = old_above
            .iter()
            .zip(new_above)
            .any(|(old, new)| old != new && new.starts_with(asked.trim_end()));
        let (alike, all) = alike(old_above, new_above);
        return asked_above || (all >= PAGE && (all - alike) * 5 >= all * 4);
    }
    // Line up the two prompts and compare what both screens show above them.
    let shown = old_row.min(new_row);
    let (alike, all) = alike(
        &old.rows[old_row - shown..old_row],
        &new.rows[new_row - shown..new_row],
    );
    if all == 0 {
        new_row > old_row
    } else {
        alike * 2 < all
    }
}

/// Counts the pairs of rows that are the same, and all pairs in which the new row has text.
fn alike(old: &[String], new: &[String]) -> (usize, usize) {
    let pairs = old
        .iter()
        .zip(new)
        .filter(|(_, new)| !new.trim().is_empty());
    pairs.fold((0, 0), |(same, all), (old, new)| {
        (same + usize::from(old == new), all + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, expected: bool) {
        let screen = |text: &str| Screen {
            rows: text.split('|').map(str::to_owned).collect(),
            ..Screen::default()
        };
        let (old, new) = (screen(old), screen(new));
        let row = |screen: &Screen| {
            screen
                .rows
                .iter()
                .rposition(|row| row == "Go?")
                .expect("the prompt is there")
        };
        let found = written_anew((&old, row(&old)), (&new, row(&new)));
        assert_eq!(found, expected, "{:?} -> {:?}", old.rows, new.rows);
    }

    #[test]
    fn a_prompt_that_stands_is_the_same() {
        check("a|Go?", "a|Go?", false);
        check("12:00|Go?", "12:01|Go?", false);
        check("a|Go?|12:00", "a|Go?|12:01", false);
        check("a|b|c|Go?", "b|c|Go?|more", false);
        check("a|b|c|Go?", "Go?", false);
        check("c|Go?", "a|b|c|Go?", false);
    }

    #[test]
    fn a_prompt_asked_again_is_another() {
        check("Go?", "Go? y|ok|Go?", true);
        check("a|Go?", "a|Go? y|ok|Go?", true);
        check("a|b|Go?", "Go? y|ok|Go?", true);
        check("a|b|c|d|e|f|Go?", "1|2|3|4|5|6|Go?", true);
        check("a|b|Go?", "x|Go?", true);
    }
}
