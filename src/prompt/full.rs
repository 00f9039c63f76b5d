//! Programs that draw: pagers, editors, dialogs and lists to choose from.

use std::sync::LazyLock;

use regex::Regex;

use super::line::pattern;
use super::place::{Place, is_blank, is_boxed, is_framed, question, unframed};
use crate::model::{PromptKind, Screen};

/// How many of the last rows with text a list or a dialog may stand in.
const ROWS: usize = 24;

/// How many rows without a legend may follow a list.
const BELOW_LIST: usize = 2;

/// Marks of the choice that Enter would take, and of those that it would not.
const POINTERS: &[char] = &[
    '❯', '»', '▸', '▶', '‣', '➤', '➜', '→', '>', '›', '●', '◉', '◆', '*',
];
const OTHERS: &[char] = &['○', '◯', '◻', '◇', '☐', '□', '◌'];

/// What a drawn program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Drawn {
    pub(super) kind: PromptKind,
    /// The row that asks.
    pub(super) row: usize,
    pub(super) secret: bool,
    pub(super) rule: &'static str,
}

/// Returns what a drawn program waits for.
pub(super) fn drawn(screen: &Screen, place: Place) -> Option<Drawn> {
    editor(screen)
        .or_else(|| pager(screen, place))
        .or_else(|| dialog(screen))
        .or_else(|| finder(screen, place))
        .or_else(|| list(screen))
        .or_else(|| framed_field(screen))
        .or_else(|| legend_alone(screen))
}

fn text_rows(screen: &Screen) -> impl Iterator<Item = (usize, &str)> {
    screen
        .rows
        .iter()
        .map(String::as_str)
        .enumerate()
        .rev()
        .filter(|(_, row)| !is_blank(row))
}

fn pager(screen: &Screen, place: Place) -> Option<Drawn> {
    static PAGER: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"\(END\)$|^--\s?(?:more|man)\s?--|--more--(?:\s?\(.*\))?$|^manual page .*\bline \d+|^lines \d+-\d+",
            r"|^-- more --|\bbyte \d+/\d+|^.{1,80} \(?press h for help(?: or q to quit)?\)?$|^\[press space to continue, 'q' to quit\.?\]$",
        ))
    });
    let (row, text) = text_rows(screen).next()?;
    if place.row().is_some_and(|at| at != row) {
        return None;
    }
    let is_colon = text.trim() == ":" && (screen.alternate == Some(true) || row > 0);
    (is_colon || PAGER.is_match(text.trim())).then_some(Drawn {
        kind: PromptKind::Pager,
        row,
        secret: false,
        rule: "pager",
    })
}

fn editor(screen: &Screen) -> Option<Drawn> {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"\d+,\d+(?:-\d+)?\s+(?:all|top|bot|\d+%)$|^-- (?:insert|visual|replace|select)|^press enter or type command to continue$",
            r"|^[-=]{1,2}[-U:%*@=\\]{2,}.*\((?:[\w +/.-]+)\)|\(\d+,\d+\) \| ft:|^\s*(?:nor|ins|sel)\s.*\d+:\d+|^- .* \d+/\d+ \d+%$",
        ))
    });
    static KEYS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?:^|\s)(?:\^[A-Z_\\/]|M-[A-Z])\s\p{L}"));
    if screen.alternate == Some(false) {
        return None;
    }
    let mut last = text_rows(screen);
    let (row, text) = last.next()?;
    let (above, above_text) = last.next().unwrap_or((row, text));
    let is_editor = |rule, row| {
        Some(Drawn {
            kind: PromptKind::Editor,
            row,
            secret: false,
            rule,
        })
    };
    if KEYS.find_iter(text).count() >= 3 {
        let first = screen.rows.iter().position(|row| !is_blank(row));
        return is_editor("editor's keys", first.unwrap_or(row));
    }
    if STATUS.is_match(text.trim()) {
        return is_editor("editor's status line", row);
    }
    if STATUS.is_match(above_text.trim()) {
        return is_editor("editor's status line", above);
    }
    let empty = screen
        .rows
        .iter()
        .rev()
        .skip(1)
        .take_while(|row| *row == "~");
    (empty.count() >= 3).then_some(())?;
    is_editor("rows behind the end of a text", row)
}

fn dialog(screen: &Screen) -> Option<Drawn> {
    static BUTTONS: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"[<\[]\s*(?:ok|yes|no|cancel|continue|back|go back|finish|next|help|exit|quit|select|done|accept|abort|ja|nein|abbrechen|oui|non|annuler|weiter|zurück|sí|aceptar|cancelar)\s*[>\]]",
        )
    });
    let (bottom, _) = text_rows(screen)
        .take(ROWS)
        .find(|(_, row)| is_boxed(row) && BUTTONS.is_match(row))?;
    let top = (0..bottom)
        .rev()
        .take_while(|row| is_boxed(&screen.rows[*row]) || is_rule(&screen.rows[*row]))
        .last()
        .unwrap_or(bottom);
    let inside = || top..=bottom;
    let says = |row: &usize| {
        unframed(&screen.rows[*row])
            .chars()
            .any(char::is_alphanumeric)
    };
    let row = inside().find(says).unwrap_or(bottom);
    let secret = inside().any(|row| {
        let text = screen.rows[row].to_lowercase();
        ["password", "passphrase", "pin:"]
            .iter()
            .any(|word| text.contains(word))
    });
    Some(Drawn {
        kind: PromptKind::Dialog,
        row,
        secret,
        rule: "dialog with buttons",
    })
}

/// Whether a row is only a line that was drawn, perhaps with a title in it.
fn is_rule(row: &str) -> bool {
    let row = row.trim();
    row.starts_with(['┌', '├', '└', '╭', '╰', '┏', '┗', '╔', '╚', '+'])
        && row.chars().filter(|c| "─━═-┄".contains(*c)).count() >= 2
}

/// A fuzzy finder: a count of what matches beside the line in which to type.
fn finder(screen: &Screen, place: Place) -> Option<Drawn> {
    static COUNT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^[\s▌│┃]*(?:[⠀-⣿<>] ?)?\d+/\d+(?:\s\(\d+\))?(?:\s[+-][sST\d/]*)*\s*[─-]*[\s│┃]*$")
    });
    let (Place::Behind(at) | Place::On(at)) = place else {
        return None;
    };
    let input = unframed(&screen.rows[at]);
    let is_input = input.starts_with(['>', '❯', '›']);
    let beside = [at.checked_sub(1), Some(at + 1)];
    let counted = beside
        .into_iter()
        .flatten()
        .filter_map(|row| screen.rows.get(row))
        .any(|row| COUNT.is_match(row));
    (is_input && counted).then_some(Drawn {
        kind: PromptKind::Menu,
        row: at,
        secret: false,
        rule: "list to search in",
    })
}

fn legend_marks(row: &str) -> usize {
    static LEGEND: LazyLock<Regex> = LazyLock::new(|| {
        pattern(concat!(
            r"(?:\b(?:enter|return|esc|escape|space|tab|arrows?|arrow[ -]keys?|ctrl[-+]\w)\b|[↑↓←→⏎↵⇆␣⇥])[\])>}]?(?:/[↑↓←→\w]+)*[\s:=-]{0,3}(?:keys?\s+)?(?:to\s+)?(?:\w+\s+)?",
            r"(?:confirm|select|submit|cancel|navigate|toggle|choose|accept|move|reject|approve|reveal|proceed|pick|filter|go back)",
        ))
    });
    LEGEND.find_iter(row).count()
}

fn is_hint(row: &str) -> bool {
    let row = row.to_lowercase();
    row.contains("arrow") && row.contains(['(', '[', '-'])
}

/// A list of choices of which one is marked.
fn list(screen: &Screen) -> Option<Drawn> {
    let (pointer, run) = text_rows(screen)
        .take(ROWS)
        .find_map(|(row, _)| Some((row, run_of(screen, row)?)))?;
    let (first, last) = run;
    let below: Vec<&str> = screen.rows[last + 1..]
        .iter()
        .map(String::as_str)
        .filter(|row| unframed(row).chars().any(char::is_alphanumeric))
        .collect();
    let has_legend = below
        .iter()
        .any(|row| legend_marks(row) > 0 || is_hint(row));
    let strangers = below
        .iter()
        .filter(|row| legend_marks(row) == 0 && !is_hint(row));
    if strangers.count() > if has_legend { BELOW_LIST } else { 0 } {
        return None;
    }
    let above = (0..first)
        .rev()
        .find(|row| {
            unframed(&screen.rows[*row])
                .chars()
                .any(char::is_alphanumeric)
        })
        .filter(|row| row + 4 >= first);
    let asks = above.filter(|row| is_asking(&screen.rows[*row]));
    let row = match asks {
        Some(row) => row,
        None if has_legend => asking_above(screen, first).unwrap_or(pointer),
        None => return None,
    };
    Some(Drawn {
        kind: PromptKind::Menu,
        row,
        secret: false,
        rule: "list with a marked choice",
    })
}

/// Whether a row heads a list of choices.
fn is_asking(row: &str) -> bool {
    let text = unframed(row);
    let asked = question(row);
    asked.ends_with(['?', '？', ':', '：'])
        || is_hint(row)
        || legend_marks(row) > 0
        || ["? ", "◆ ", "[?] "]
            .iter()
            .any(|mark| text.starts_with(mark))
}

/// The nearest row above that ends with a question mark, else the first of its block.
fn asking_above(screen: &Screen, below: usize) -> Option<usize> {
    let near = (below.saturating_sub(12)..below).rev();
    let says = |row: &usize| {
        unframed(&screen.rows[*row])
            .chars()
            .any(char::is_alphanumeric)
    };
    near.clone()
        .find(|row| question(&screen.rows[*row]).ends_with(['?', '？']))
        .or_else(|| {
            near.skip_while(|row| is_blank(&screen.rows[*row]))
                .take_while(|row| !is_blank(&screen.rows[*row]))
                .filter(says)
                .last()
        })
}

/// Returns the first and the last row of the list that this row is the marked choice of.
fn run_of(screen: &Screen, pointer: usize) -> Option<(usize, usize)> {
    let (mark, column) = marked(&screen.rows[pointer])?;
    let is_sibling = |row: &str| {
        let bare: String = row
            .chars()
            .map(|c| if "│┃║|".contains(c) { ' ' } else { c })
            .collect();
        let start = bare.chars().take_while(|c| c.is_whitespace()).count();
        let Some(first) = bare.chars().nth(start) else {
            return false;
        };
        start == column || (OTHERS.contains(&first) && start <= column && start + 3 > mark)
    };
    let up = (0..pointer)
        .rev()
        .take_while(|row| is_sibling(&screen.rows[*row]));
    let down = (pointer + 1..screen.rows.len()).take_while(|row| is_sibling(&screen.rows[*row]));
    let first = up.last().unwrap_or(pointer);
    let last = down.last().unwrap_or(pointer);
    (first < last).then_some((first, last))
}

/// Returns the columns of the mark and of the text, if this row bears a mark.
fn marked(row: &str) -> Option<(usize, usize)> {
    let chars: Vec<char> = row.chars().collect();
    let mark = chars
        .iter()
        .position(|c| !c.is_whitespace() && !"│┃║|".contains(*c))?;
    if !POINTERS.contains(chars.get(mark)?) || !chars.get(mark + 1)?.is_whitespace() {
        return None;
    }
    let column = chars
        .iter()
        .skip(mark + 1)
        .position(|c| !c.is_whitespace())?
        + mark
        + 1;
    (column <= mark + 4).then_some((mark, column))
}

/// A question in a frame that is drawn along the left and open at the bottom.
fn framed_field(screen: &Screen) -> Option<Drawn> {
    let mut rows = text_rows(screen);
    let (end, text) = rows.next()?;
    if !matches!(text.trim(), "└" | "╰" | "└─" | "╰─") {
        return None;
    }
    let row = (0..end)
        .rev()
        .take_while(|row| {
            is_framed(&screen.rows[*row]) || screen.rows[*row].trim_start().starts_with('◆')
        })
        .find(|row| screen.rows[*row].trim_start().starts_with("◆ "))?;
    let body = screen.rows[row + 1..end].join(" ").to_lowercase();
    let kind = if body.contains("yes") && body.contains("no") {
        PromptKind::Confirm
    } else if body.contains(['●', '○', '◻', '◼']) {
        PromptKind::Menu
    } else {
        PromptKind::Text
    };
    Some(Drawn {
        kind,
        row,
        secret: body.contains('▪'),
        rule: "question in a frame",
    })
}

/// A last row that only tells which keys confirm and which move on.
fn legend_alone(screen: &Screen) -> Option<Drawn> {
    let (last, text) =
        text_rows(screen).find(|(_, row)| unframed(row).chars().any(char::is_alphanumeric))?;
    if legend_marks(text) < 2 {
        return None;
    }
    let row = asking_above(screen, last).unwrap_or(last);
    let kind = PromptKind::Menu;
    Some(Drawn {
        kind,
        row,
        secret: false,
        rule: "legend of keys",
    })
}
