//! Lists to choose from: one row is marked, or each row has a box.

use std::time::Duration;

use super::choices::kind_of_choice;
use super::cursor_context::*;
use super::words::is_one_of;
use super::{addressed, line, shell_prompts};
use crate::model::{PromptKind, Screen};

/// How many rows without a legend may follow a list.
const BELOW_LIST: usize = 2;

/// Marks of the choice that Enter would select, and of the others.
const POINTERS: &[char] = &[
    '❯', '»', '▸', '▶', '‣', '➤', '➜', '→', '>', '›', '●', '◉', '◆', '*',
];
const OTHERS: &[char] = &['○', '◯', '◻', '◇', '☐', '□', '◌'];
const TAKEN: &[char] = &['●', '◉', '◼', '☑', '☒', '■', '✔', '✓', '⬢', '⬡', '⊙'];

/// Marks of a field to type in.
const MARKS: &[char] = &['>', '›', '❯'];

/// Characters drawn on the left of choices that do not belong to them.
const SIDES: &str = "│┃║|";

/// A row with the mark of a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Choice {
    mark: usize,
    /// The column of the text behind the mark.
    text: usize,
    is_pointed: bool,
}

/// Whether this row could belong to a list.
pub(super) fn is_choice(row: &str) -> bool {
    is_numbered(row) || choice(row).is_some()
}

/// Whether a row starts with the mark of the choice that Enter would select, however far behind it
/// the text is.
pub(super) fn is_pointed(row: &str) -> bool {
    let mut chars = unframed(row).chars();
    chars.next().is_some_and(|c| POINTERS.contains(&c))
        && chars.next().is_some_and(char::is_whitespace)
}

/// Returns what marks a row as a choice.
fn choice(row: &str) -> Option<Choice> {
    let is_mark = |c: &char| {
        "=-[(".contains(*c)
            || [POINTERS, OTHERS, TAKEN]
                .iter()
                .any(|marks| marks.contains(c))
    };
    let mut columns = row.chars().enumerate();
    let (mark, _) = columns
        .find(|(_, c)| !c.is_whitespace() && !SIDES.contains(*c))
        .filter(|(_, c)| is_mark(c))?;
    let chars: Vec<char> = row.chars().collect();
    let at = |column: usize| chars.get(column).copied().unwrap_or(' ');
    let is_long = matches!(at(mark), '=' | '-') && at(mark + 1) == '>';
    let behind = if is_long { mark + 2 } else { mark + 1 };
    let is_pointed = (is_long || POINTERS.contains(&at(mark)))
        && (at(behind).is_whitespace() || has_box(&chars, behind));
    let is_boxed = has_box(&chars, mark);
    if !is_pointed && !is_boxed {
        return None;
    }
    let behind = if is_pointed {
        behind
    } else {
        box_end(&chars, mark)
    };
    let text = (behind..behind + 4).find(|column| !at(*column).is_whitespace())?;
    Some(Choice {
        mark,
        text,
        is_pointed,
    })
}

/// Whether there is a box to tick in this column: `◯`, `[x]`, `( )`.
fn has_box(chars: &[char], column: usize) -> bool {
    let end = box_end(chars, column);
    end > column && chars.get(end).is_some_and(|c| c.is_whitespace())
}

/// Returns the column behind the box in this column, or this column where there is none.
fn box_end(chars: &[char], column: usize) -> usize {
    match chars.get(column..) {
        Some([c, ..]) if OTHERS.contains(c) || TAKEN.contains(c) => column + 1,
        Some(
            [
                '[' | '(',
                ' ' | 'x' | 'X' | '*' | '•' | '●' | '✓' | '✔',
                ']' | ')',
                ..,
            ],
        ) => column + 3,
        Some(_) | None => column,
    }
}

/// Returns the list at the end of a screen.
pub(super) fn drawn(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    let pointed = text_rows(screen)
        .take(ROWS)
        .find_map(|(row, _)| Some((row, run_of(screen, row)?)));
    if let (None, Some(unmarked)) = (pointed, unmarked(screen)) {
        return Some(unmarked);
    }
    let ticked = || ticked(screen).map(|run| (run.0, run));
    let (pointer, (first, last)) = pointed.or_else(ticked)?;
    let below = screen.rows[last + 1..].iter().filter(|row| has_words(row));
    let (legend, strangers): (Vec<_>, Vec<_>) =
        below.partition(|row| legend_marks(row) > 0 || is_hint(row));
    let has_legend = !legend.is_empty();
    if strangers.len() > if has_legend { BELOW_LIST } else { 0 } {
        return None;
    }
    let above = (0..first)
        .rev()
        .find(|row| has_words(&screen.rows[*row]))
        .filter(|row| row + 4 >= first);
    // Boxes alone also show progress: the cursor has to be in the list.
    let is_at_list = match context {
        CursorContext::Behind(row) => row == last,
        CursorContext::On(row) => (first..=last).contains(&row),
        CursorContext::Below(_) | CursorContext::Unknown(_) => false,
    };
    if pointed.is_none() && !has_legend && !is_at_list {
        return None;
    }
    let is_counted = choice(&screen.rows[pointer])
        .is_some_and(|choice| counts(&screen.rows[pointer], choice.text));
    let asks = above.filter(|row| is_asking(&screen.rows[*row]));
    let row = match asks {
        // A hint in its own row is below the question.
        Some(row) if question(&screen.rows[row]).starts_with(['(', '[']) => {
            text_above(screen, row).unwrap_or(row)
        }
        Some(row) => row,
        None if has_legend => heading_of(screen, first, is_counted)
            .or_else(|| asking_above(screen, first))
            .unwrap_or(pointer),
        None if is_under_cursor(screen, pointer) => above.unwrap_or(pointer),
        None => return None,
    };
    let is_confirm = line::asks(&screen.rows[row])
        .is_some_and(|ask| ask.kind == PromptKind::Confirm && ask.rule == line::CHOICES_RULE);
    let (kind, rows) = (kind_of_choice(is_confirm), row.min(first)..last + 1);
    Some(DrawnPrompt {
        row,
        ..DrawnPrompt::new(kind, rows, "list with a marked choice")
    })
}

/// Choices without any mark but the cursor, which is before one of them, or hidden below the last one:
/// below a question, with nothing below the last one.
fn unmarked(screen: &Screen) -> Option<DrawnPrompt> {
    let cursor = screen.cursor.filter(|_| screen.alternate != Some(true))?;
    let (at, x) = (
        usize::try_from(cursor.y).ok()?,
        usize::try_from(cursor.x).ok()?,
    );
    let (last, _) = text_rows(screen).next()?;
    let is_below = screen.is_cursor_hidden && at == last + 1;
    let (at, x) = if is_below { (last, 0) } else { (at, x) };
    let indent = |row: usize| {
        let row = screen.rows.get(row)?;
        let text = row.trim_start_matches(|c: char| c.is_whitespace() || POINTERS.contains(&c));
        (!is_blank(row)).then(|| row.chars().count() - text.chars().count())
    };
    let column = indent(at).filter(|column| x <= *column && (at < last || is_below))?;
    let is_row = |row: &usize| indent(*row) == Some(column);
    if column == 0 || !(at..=last).all(|row| is_row(&row)) {
        return None;
    }
    let first = (0..=at).rev().take_while(is_row).last()?;
    let row = text_above(screen, first).filter(|row| row + 3 > first)?;
    let heading = question(&screen.rows[row]);
    // Lists of what a program does have a heading, too.
    let asks = || {
        is_marked(&screen.rows[row])
            || addressed::asks(heading).is_some()
            || begins_choices(heading) && line::asks(heading).is_some()
    };
    let is_headed =
        heads_choices(heading) && (!is_below || first < last && row + 1 == first && asks());
    is_headed.then(|| DrawnPrompt {
        // Programs that only print indent what they list, too.
        still_for: if is_below { LOG_STILL } else { Duration::ZERO },
        ..DrawnPrompt::new(
            PromptKind::Menu,
            row..last + 1,
            "list without a marked choice",
        )
    })
}

/// Returns the list right above the cursor, which is on a fresh line, if nothing but a short title
/// heads it and one of its choices is marked with `❯`.
pub(super) fn titled(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    const LENGTH: usize = 60;
    let CursorContext::Below(Some(at)) = context else {
        return None;
    };
    let is_marked = |row: usize| screen.rows[row].trim_start().starts_with("❯ ");
    let (end, _) = text_rows(screen).next().filter(|(end, _)| *end == at)?;
    let pointer = (end.saturating_sub(ROWS)..=end)
        .rev()
        .find(|row| is_marked(*row))?;
    let (first, last) = run_of(screen, pointer)?;
    let is_fresh = screen.cursor.is_some_and(|cursor| {
        cursor.x == 0 && usize::try_from(cursor.y).is_ok_and(|y| y == end + 1)
    });
    let n_marked = (first..=last).filter(|row| is_marked(*row)).count();
    let title = first.checked_sub(1)?;
    let text = screen.rows[title].trim_end();
    let is_title = text.starts_with(char::is_alphabetic) && text.chars().count() <= LENGTH;
    let rule = "list with a marked choice below a title";
    let list = DrawnPrompt::new(PromptKind::Menu, title..last + 1, rule);
    (last == end && is_fresh && n_marked == 1 && is_title).then_some(list)
}

/// Returns the list with a marked choice of a program that takes keys, whatever is shown below it.
/// `may_relay` is whether the keys may be for another program.
///
/// Lists that were answered stay on some screens: what is below them says so.
pub(super) fn standing(
    screen: &Screen,
    context: CursorContext,
    may_relay: bool,
) -> Option<DrawnPrompt> {
    let lists = text_rows(screen).take(ROWS).filter_map(|(pointer, _)| {
        let (first, last) = run_of(screen, pointer)?;
        let is_counted = counts(&screen.rows[pointer], choice(&screen.rows[pointer])?.text);
        (is_counted || !may_relay).then_some((first, last, is_counted))
    });
    let mut asked = lists.filter_map(|(first, last, is_counted)| {
        let row = heading_of(screen, first, is_counted)?;
        let is_open = !is_answered(screen, context, last, is_counted)
            && !shell_prompts::has_hints_of_watcher(&screen.rows[last + 1..]);
        let rule = "list with a marked choice above other text";
        is_open.then(|| DrawnPrompt::new(PromptKind::Menu, row..last + 1, rule))
    });
    asked.next()
}

/// Returns the row that a list of choices answers, which is near above it.
fn heading_of(screen: &Screen, first: usize, is_counted: bool) -> Option<usize> {
    const NEAR: usize = 4;
    const FAR: usize = 12;
    let above = |n: usize| (first.saturating_sub(n)..first).rev();
    let says = |row: &usize| has_words(&screen.rows[*row]);
    let nearest = above(NEAR).find(says).filter(|row| {
        let row = &screen.rows[*row];
        heads_choices(row)
            && (is_counted || !question(row).ends_with([':', '：']) || is_question(row))
    });
    // What is asked about may be shown in between.
    nearest.or_else(|| {
        let mut far = above(if is_counted { FAR } else { NEAR + 2 });
        far.find(|row| {
            let asked = question(&screen.rows[*row]);
            // The rest of a line explains what it asks.
            let ends = |end: usize| addressed::asks(&asked[..=end]).is_some();
            addressed::asks(asked).is_some()
                || is_counted && (heads_choices(asked) || asked.rfind("? ").is_some_and(ends))
        })
    })
}

fn is_question(row: &str) -> bool {
    line::asks(question(row)).is_some_and(|ask| ask.is_plain)
}

/// Whether a row is one of a program's text, which compilers quote: `> 3 | let x = y`.
fn is_code(row: &str) -> bool {
    let text = row.trim_start_matches(|c: char| c.is_whitespace() || POINTERS.contains(&c));
    let number = text.trim_start_matches(|c: char| c.is_ascii_digit());
    number.len() < text.len() && number.trim_start().starts_with(['|', '│'])
}

/// Whether something newer than a list that ends with this row is asked below it: the cursor is
/// behind it, or there is a mark to type behind, and more than the list's legend in between.
fn is_answered(screen: &Screen, context: CursorContext, last: usize, is_counted: bool) -> bool {
    if let CursorContext::Behind(row) | CursorContext::On(row) = context {
        let line = unframed(&screen.rows[row]);
        let is_prompt = shell_prompts::is_idle_prompt(line) && !line.ends_with('%');
        if row > last && (is_prompt || line::asks(line).is_some()) {
            return true;
        }
        if row <= last {
            return false;
        }
    }
    let is_field = |row: &usize| {
        let mut chars = unframed(&screen.rows[*row]).chars();
        chars.next().is_some_and(|c| MARKS.contains(&c))
            && chars.next().is_none_or(char::is_whitespace)
    };
    let is_between = |row: usize| {
        let row = &screen.rows[row];
        has_words(row) && legend_marks(row) == 0 && !is_hint(row)
    };
    let field = (last + 1..screen.rows.len()).find(is_field);
    field.is_some_and(|field| !is_counted || (last + 1..field).any(is_between))
}

/// Whether a row asks, or starts as questions do.
fn heads_choices(row: &str) -> bool {
    is_asking(row) || begins_choices(question(row))
}

fn begins_choices(asked: &str) -> bool {
    let word = asked.split_whitespace().next().unwrap_or_default();
    is_one_of(word, "what which where who how pick choose select")
}

/// Whether the cursor is on the mark of this row: only a program that draws leaves it there.
fn is_under_cursor(screen: &Screen, row: usize) -> bool {
    let mark = choice(&screen.rows[row]).map(|choice| choice.mark);
    screen.cursor.is_some_and(|cursor| {
        usize::try_from(cursor.y) == Ok(row) && usize::try_from(cursor.x).ok() == mark
    })
}

/// Whether a row is the heading of a list of choices.
fn is_asking(row: &str) -> bool {
    let asked = question(row);
    asked.ends_with(['?', '？', ':', '：'])
        || is_hint(row)
        || legend_marks(row) > 0
        || is_marked(row)
        || unframed(row).starts_with("◆ ")
        || line::asks(asked).is_some_and(|ask| ask.is_plain)
}

/// Returns the first and the last row of the last block of rows with boxes.
fn ticked(screen: &Screen) -> Option<(usize, usize)> {
    let column = |row: usize| {
        let choice = choice(screen.rows.get(row)?)?;
        (!choice.is_pointed).then_some(choice.mark)
    };
    let (last, _) = text_rows(screen)
        .take(ROWS)
        .find(|(row, _)| column(*row).is_some())?;
    let first = (0..=last)
        .rev()
        .take_while(|row| column(*row) == column(last))
        .last()?;
    (first < last).then_some((first, last))
}

/// Returns the first and the last row of the list whose marked choice is this row. Rows that are
/// indented further than the choices describe the choice above them.
fn run_of(screen: &Screen, pointer: usize) -> Option<(usize, usize)> {
    let Choice {
        mark,
        text: column,
        is_pointed,
    } = choice(&screen.rows[pointer])?;
    let is_counted = counts(&screen.rows[pointer], column);
    if !is_pointed {
        return None;
    }
    let part_of = |row: &str| {
        // A hint above the choices is not a choice.
        if row.trim_start().starts_with('(') && is_hint(row) {
            return None;
        }
        let bare: String = row
            .chars()
            .map(|c| if SIDES.contains(c) { ' ' } else { c })
            .collect();
        let start = bare.chars().take_while(|c| c.is_whitespace()).count();
        let Some(first) = bare.chars().nth(start) else {
            return is_counted.then_some(Part::Detail);
        };
        // `↓   Thursday`: more choices than are shown.
        let rest = bare
            .chars()
            .skip(start + 1)
            .take_while(|c| c.is_whitespace());
        let is_choice = matches!(first, '↑' | '↓') && start + 1 + rest.count() == column
            || start == column && (!is_counted || counts(row, column))
            || (OTHERS.contains(&first) && start <= column && start + 3 > mark);
        if is_choice {
            Some(Part::Choice)
        } else {
            (start > column).then_some(Part::Detail)
        }
    };
    let end_of = |rows: &mut dyn Iterator<Item = usize>| {
        let parts = rows.map_while(|row| Some((row, part_of(&screen.rows[row])?)));
        let choices = parts.filter(|(_, part)| *part == Part::Choice);
        choices.last().map_or(pointer, |(row, _)| row)
    };
    let first = end_of(&mut (0..pointer).rev());
    let last = end_of(&mut (pointer + 1..screen.rows.len()));
    // The question may be as far to the right as the choices.
    let is_heading = first < pointer && !is_counted && is_question(&screen.rows[first]);
    let first = first + usize::from(is_heading);
    // Of choices one is marked; of branches, commits and log lines each.
    let sign = screen.rows[pointer].chars().nth(mark);
    let is_like_pointer = |row: usize| {
        let row = screen.rows.get(row);
        row.is_some_and(|row| row.chars().nth(mark) == sign)
    };
    let mut others = (first.saturating_sub(1)..=last + 1).filter(|row| *row != pointer);
    let is_only = sign.is_some_and(|sign| TAKEN.contains(&sign)) || !others.any(is_like_pointer);
    let has_code = screen.rows[first..=last].iter().any(|row| is_code(row));
    (first < last && is_only && !has_code).then_some((first, last))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Choice,
    Detail,
}

/// Whether a choice begins with its number in this column.
fn counts(row: &str, column: usize) -> bool {
    let start = row.char_indices().nth(column);
    start.is_some_and(|(start, _)| is_numbered(&row[start..]))
}

// Rows of numbered or lettered choices.

/// Whether a row starts with the number or letter of a choice: `1) Install`, ` 2. Quit`, `q) Quit`.
pub(super) fn is_numbered(row: &str) -> bool {
    let row = row.trim_start();
    // Letters, as in `n) New remote` and `a. sword`.
    if let Some((letter, rest)) = row.split_once([')', '.'])
        && letter.len() == 1
        && letter.starts_with(|c: char| c.is_ascii_lowercase())
    {
        return rest.starts_with(' ');
    }
    let row = row.trim_start_matches(['(', '[']);
    let digits = row.chars().take_while(char::is_ascii_digit).count();
    let rest = &row[digits..];
    (1..=3).contains(&digits)
        && rest.starts_with([')', '.', ':', ']'])
        && rest[1..].starts_with(char::is_whitespace)
}

/// Returns the row above the choices at the end of these rows that are counted without a mark behind
/// the number, `1 red` and then `2 blue`; `None` where these rows do not end in such choices.
pub(super) fn above_counted(rows: &[String]) -> Option<usize> {
    let number = |row: &String| -> Option<usize> {
        let (number, choice) = row.trim().split_once(char::is_whitespace)?;
        let is_counted = number.len() <= 3 && number.bytes().all(|c| c.is_ascii_digit());
        (is_counted && !choice.is_empty())
            .then(|| number.parse().ok())
            .flatten()
    };
    let last = number(rows.last()?).filter(|last| *last >= 2)?;
    let heading = rows.len().checked_sub(last + 1)?;
    let choices = rows[heading + 1..].iter().zip(1..);
    let mut are_counted = choices.map(|(row, n)| number(row) == Some(n));
    are_counted.all(|is_counted| is_counted).then_some(heading)
}
