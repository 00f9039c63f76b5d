//! What captured rows have that a program has not written: the banner that tmux writes into the last row
//! of a dead pane, and tabs.

use super::quoted::is_dropped;
use crate::model::text;
use crate::rules::terminal::columns_of;

/// Queries the banner that the user's `remain-on-exit-format` produces (from tmux 3.3), for dead
/// panes only. A format that runs commands is skipped, because each look would run them.
pub(super) const BANNER: &str = "#{?pane_dead,#{?#{m:*[##](*,#{remain-on-exit-format}},,\
                                 #{E:remain-on-exit-format}},}";

/// The start of tmux's default banner.
const WORDS: &str = "Pane is dead (";

/// The maximum length of a banner that is searched within a line, in characters.
const LONGEST: usize = 500;

/// Removes the banner from the last row of a dead pane that has text: the user's, given as its format
/// expands now, or tmux's default, `Pane is dead`, alone or with status, signal and time in
/// parentheses. Both are cut in narrow panes. There are rows below it if the pane became taller later.
pub(super) fn drop_banner(rows: &mut [String], banner: &str) {
    if let Some(last) = last_text(rows)
        && is_banner(last, banner)
    {
        last.clear();
    }
}

/// The same, also for a banner that is joined to output. tmux scrolls for the banner as for a full row:
/// where the output did not end its last line, a capture that joins wrapped rows appends the banner to
/// it.
pub(super) fn drop_joined_banner(rows: &mut [String], banner: &str) {
    let Some(last) = last_text(rows) else { return };
    if is_banner(last, banner) {
        last.clear();
        return;
    }
    let banner = squeezed(&unstyled(banner));
    let begins = |(start, _): &(usize, char)| squeezed(&last[*start..]) == banner;
    let of_format = if banner.is_empty() {
        None
    } else {
        let starts = last.char_indices().rev().take(LONGEST);
        starts.filter(begins).map(|(start, _)| start).last()
    };
    if let Some(start) = of_format.or_else(|| last.rfind(WORDS)) {
        last.truncate(start);
        last.truncate(last.trim_end().len());
    }
}

fn last_text(rows: &mut [String]) -> Option<&mut String> {
    rows.iter_mut().rev().find(|row| !row.is_empty())
}

fn is_banner(row: &str, banner: &str) -> bool {
    row.starts_with(WORDS)
        || (row.len() >= 4 && WORDS.trim_end_matches(" (").starts_with(row))
        || is_drawn_from(&squeezed(row), &squeezed(&unstyled(banner)))
}

/// Whether a row shows this banner. It may be cut, and values that were unknown when it was drawn
/// may be missing: a status can arrive after the end.
fn is_drawn_from(row: &str, banner: &str) -> bool {
    if row.is_empty() || banner.is_empty() {
        return false;
    }
    let same = |(a, b): &(char, char)| a == b;
    let front = row.chars().zip(banner.chars()).take_while(same).count();
    let backwards = row.chars().rev().zip(banner.chars().rev());
    let back = backwards.take_while(same).count();
    let length = row.chars().count();
    let is_most = 2 * length >= banner.chars().count();
    (front == length && length >= 4) || (front + back >= length && is_most)
}

/// Removes blanks, because tmux aligns the parts of a banner to the pane's width, and characters
/// that a banner loses on its way here.
fn squeezed(shown: &str) -> String {
    let row = text::row(shown.as_bytes());
    row.chars()
        .filter(|c| !c.is_whitespace() && !is_dropped(*c))
        .collect()
}

/// Removes styles, `#[...]`.
fn unstyled(format: &str) -> String {
    let mut rest = format;
    let mut shown = String::new();
    while let Some((before, style)) = rest.split_once("#[") {
        shown.push_str(before);
        rest = style.split_once(']').map_or("", |(_, after)| after);
    }
    shown + rest
}

// Tabs in captured rows: newer versions of tmux (3.7c, 3.8) return them as tabs, older ones as
// blanks. Counting columns needs the blanks.

/// The distance between two tab stops. Where a program has set others, columns after its tabs are
/// wrong.
const STOP: usize = 8;

/// Returns a captured row, or a line of several joined rows, as sanitised text without tabs. The
/// last column of a row is a stop.
pub(super) fn expand_tabs(bytes: &[u8], width: usize) -> String {
    if !bytes.contains(&b'\t') {
        return text::row(bytes);
    }
    let width = width.max(1);
    let line = String::from_utf8_lossy(bytes);
    let mut parts = line.split('\t');
    let mut row = parts.next().unwrap_or_default().to_owned();
    let mut columns = columns_of(&text::piece(row.as_bytes()));
    for part in parts {
        let at = columns % width;
        let stop = ((at / STOP + 1) * STOP).min(width - 1).max(at + 1);
        row.extend(std::iter::repeat_n(' ', stop - at));
        row.push_str(part);
        columns += stop - at + columns_of(&text::piece(part.as_bytes()));
    }
    text::row(row.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(row: &str, banner: &str, is_banner: bool) {
        let mut rows = ["out".to_owned(), row.to_owned()];
        drop_banner(&mut rows, banner);
        let left = if is_banner { "" } else { row };
        assert_eq!(rows, ["out", left], "{row:?} of {banner:?}");
    }

    #[test]
    fn the_users_own_banner_is_known() {
        let banner = "#[align=centre]#[fg=red][done: 3] #[align=right]at 12:00";
        check("      [done: 3]      at 12:00", banner, true);
        check("[done: 3]", "[done: 3]", true);
        check("\x1b[31m[done: 3]\x1b[m", "#[fg=red][done: 3]", true);
        check("<a|b> \\ c", "ab  c", true);
        // Cut, or drawn before the status was known.
        check("[done", "[done: 3]", true);
        check("[done: ]", "[done: 3]", true);
        check("ended , at 12:00", "ended with SIGKILL, at 12:00", true);
        check("Pane is dead (status 3, now)", "[done: 3]", true);
        // Not the banner.
        check("[do", "[done: 3] at 12:00", false);
        check("[1]", "[done: 3] at 12:00", false);
        check("total: 3", "[done: 3]", false);
        check("[done: 3]", "", false);
    }

    #[test]
    fn a_banner_that_is_glued_to_the_output_goes_alone() {
        let banner = "#[bold][done: 3]";
        for (line, banner, left) in [
            ("no end  [done: 3]", "[done: 3]", "no end"),
            ("no end [done: 3] [done: 3]", banner, "no end [done: 3]"),
            ("no end Pane is dead (status 3, now)", "", "no end"),
            ("no end", "[done: 3]", "no end"),
        ] {
            let mut rows = [line.to_owned()];
            drop_joined_banner(&mut rows, banner);
            assert_eq!(rows[0], left, "{line:?} of {banner:?}");
        }
    }

    #[test]
    fn tabs_become_blanks() {
        for (line, width, shown) in [
            ("a\tb", 80, "a       b"),
            ("\tb\t\tc", 80, "        b               c"),
            ("1234567\tb", 80, "1234567 b"),
            ("12345678\tb", 80, "12345678        b"),
            ("日\tb", 80, "日      b"),
            ("e\u{301}\tb", 80, "e\u{301}       b"),
            ("a\tb", 6, "a    b"),
            ("a\t", 80, "a"),
            // Two rows of ten columns.
            ("0123456789a\tb", 10, "0123456789a       b"),
            ("a\tb\u{1b}[31m", 0, "a b"),
        ] {
            assert_eq!(expand_tabs(line.as_bytes(), width), shown, "{line:?}");
        }
    }
}
