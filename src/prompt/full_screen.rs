//! Programs that draw the screen: pagers, editors, finders, and fields in frames or above hints.

use std::sync::LazyLock;

use regex::Regex;

use super::cursor_context::{CursorContext, is_blank, is_framed, question, unframed};
use super::drawn::{DrawnPrompt, asking_above, legend_marks, text_rows};
use super::pattern::{pattern, plain, plain_pattern};
use super::{ansible, choices, dialog, form, line, list, marked, secret};
use crate::model::{PromptKind, Screen};

/// A search row has its mark within this many characters from its start.
const INPUT_MARK: usize = 24;

/// Returns what a full-screen program waits for.
pub(super) fn drawn(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    editor(screen)
        .or_else(|| pager(screen, context))
        .or_else(|| form::drawn(screen).filter(|_| screen.is_cursor_hidden))
        .or_else(|| dialog::drawn(screen))
        .or_else(|| form::drawn(screen))
        .or_else(|| marked::drawn(screen, context))
        .or_else(|| finder(screen, context))
        .or_else(|| framed_field(screen))
        .or_else(|| framed_toggle(screen))
        .or_else(|| list::drawn(screen, context))
        .or_else(|| hinted_field(screen, context))
        .or_else(|| legend_alone(screen))
        .or_else(|| ansible::drawn(screen))
}

fn pager(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    static PAGER: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"\(END\)$|^--\s?(?:more|man)\s?--|--more--(?:\s?\(.*\))?$|^manual page .*\bline [0-9]+|^lines [0-9]+-[0-9]+",
            r"|^-- more --|\bbyte [0-9]+/[0-9]+|^\[press space to continue, 'q' to quit\.?\]$|^press `q' to quit, `h' for help, and space to scroll\.$",
        ))
    });
    static HELP: LazyLock<Regex> =
        LazyLock::new(|| pattern(r" \(?press h for help(?: or q to quit)?\)?$"));
    const NAME: usize = 80;
    let is_named_help = |text: &str| {
        let name = HELP.find(text).map(|found| &text[..found.start()]);
        name.is_some_and(|name| (1..=NAME).contains(&name.chars().count()))
    };
    let (row, text) = text_rows(screen).next()?;
    // On the alternate screen a pager may leave the cursor anywhere.
    if screen.alternate != Some(true) && context.row().is_some_and(|at| at != row) {
        return None;
    }
    let is_colon = text.trim() == ":" && (screen.alternate == Some(true) || row > 0);
    let text = text.trim();
    (is_colon || PAGER.is_match(&plain(text)) || is_named_help(text)).then_some(DrawnPrompt::new(
        PromptKind::Pager,
        row,
        0..screen.rows.len(),
        "pager",
    ))
}

fn editor(screen: &Screen) -> Option<DrawnPrompt> {
    static STATUS: LazyLock<Regex> = LazyLock::new(|| {
        plain_pattern(concat!(
            r"[0-9]+,[0-9]+(?:-[0-9]+)?\s+(?:all|top|bot|[0-9]+%)$|^-- (?:insert|visual|replace|select)|^press enter or type command to continue$",
            r"|^[-=]{1,2}[-U:%*@=\\]{2,}.*\((?:[[:word:] +/.-]+)\)|\([0-9]+,[0-9]+\) \| ft:|^\s*(?:nor|ins|sel)\s.*[0-9]+:[0-9]+|^- .* [0-9]+/[0-9]+ [0-9]+%$",
        ))
    });
    static KEYS: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?:^|\s)(?:\^[A-Z_\\/]|M-[A-Z])\s\p{L}"));
    // Function keys, as in Midnight Commander's editor.
    static FUNCTIONS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b1help\s+2save\s+3mark\b"));
    if screen.alternate == Some(false) {
        return None;
    }
    let mut last = text_rows(screen);
    let (row, text) = last.next()?;
    let (above, above_text) = last.next().unwrap_or((row, text));
    let is_editor = |rule, row| {
        Some(DrawnPrompt::new(
            PromptKind::Editor,
            row,
            0..screen.rows.len(),
            rule,
        ))
    };
    if KEYS.find_iter(text).count() >= 3 || FUNCTIONS.is_match(text) {
        let first = screen.rows.iter().position(|row| !is_blank(row));
        return is_editor("editor's keys", first.unwrap_or(row));
    }
    if STATUS.is_match(&plain(text.trim())) {
        return is_editor("editor's status line", row);
    }
    if STATUS.is_match(&plain(above_text.trim())) {
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

/// A fuzzy finder: the number of matches next to the line in which to type.
fn finder(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    static COUNT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"^[\s▌│┃]*(?:[⠀-⣿<>] ?)?\d+/\d+(?:\s\(\d+\))?(?:\s[+-][sST\d/]*)*\s*[─-]*[\s│┃]*$")
    });
    let (CursorContext::Behind(at) | CursorContext::On(at)) = context else {
        return None;
    };
    static OWN_COUNT: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"^[>❯›] .{0,60}?\s\d+/\d+(?:\s\(\d+\))?$"));
    let input = unframed(&screen.rows[at]);
    let is_input = input.chars().take(INPUT_MARK).any(|c| ">❯›".contains(c));
    let beside = [at.checked_sub(1), Some(at + 1)];
    let counted = beside
        .into_iter()
        .flatten()
        .filter_map(|row| screen.rows.get(row))
        .any(|row| COUNT.is_match(row))
        || OWN_COUNT.is_match(input);
    (is_input && counted).then_some(DrawnPrompt::new(
        PromptKind::Menu,
        at,
        at..at + 1,
        "list to search in",
    ))
}

/// A question in a frame that is drawn on the left and open at the bottom.
fn framed_field(screen: &Screen) -> Option<DrawnPrompt> {
    let is_end = |row: &str| matches!(row.trim(), "└" | "╰" | "└─" | "╰─");
    let (end, _) = text_rows(screen).find(|(_, row)| is_end(row))?;
    let row = (0..end)
        .rev()
        .take_while(|row| {
            is_framed(&screen.rows[*row]) || screen.rows[*row].trim_start().starts_with('◆')
        })
        .find(|row| screen.rows[*row].trim_start().starts_with("◆ "))?;
    let body: Vec<&str> = screen.rows[row + 1..end]
        .iter()
        .map(|row| unframed(row))
        .filter(|row| !row.is_empty())
        .collect();
    let asked = question(&screen.rows[row]);
    let is_toggle = body.iter().any(|row| is_toggle(row));
    let is_masked = body.iter().any(|row| secret::is_masked(row));
    let kind = if is_toggle {
        PromptKind::Confirm
    } else if body.len() > 1 {
        PromptKind::Menu
    } else if is_masked || secret::is_question(asked) {
        PromptKind::Password
    } else {
        PromptKind::Text
    };
    Some(DrawnPrompt::new(
        kind,
        row,
        row..end + 1,
        "question in a frame",
    ))
}

/// `● Yes / ○ No` in a closed frame whose title asks.
fn framed_toggle(screen: &Screen) -> Option<DrawnPrompt> {
    let mut rows = text_rows(screen).skip_while(|(_, row)| legend_marks(row) > 0);
    let (end, bottom) = rows.next()?;
    let (_, body) = rows.next()?;
    let (row, top) = rows.next()?;
    let is_frame = bottom.trim().starts_with(['└', '╰', '┗', '╚'])
        && top.trim().ends_with(['┐', '╮', '┓', '╗']);
    let asks = line::asks(unframed(top)).is_some_and(|ask| ask.is_plain);
    (is_frame && is_toggle(unframed(body)) && asks).then_some(DrawnPrompt::new(
        PromptKind::Confirm,
        row,
        row..end + 1,
        "question in a frame",
    ))
}

/// Whether two choices are side by side, one of them selected: `● Yes / ○ No`.
fn is_toggle(text: &str) -> bool {
    text.split_once(" / ")
        .is_some_and(|(one, other)| one.starts_with(['●', '○']) && other.starts_with(['●', '○']))
}

/// A field with hints below it and the cursor behind them: `Your name`, `> `, `(enter to confirm)`.
fn hinted_field(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    let CursorContext::Behind(last) = context else {
        return None;
    };
    let hint = screen.rows[last].trim();
    let is_hint = hint.starts_with('(') && hint.ends_with(')') && legend_marks(hint) > 0;
    let (field, text) = text_rows(screen).find(|(row, _)| *row < last)?;
    let typed = unframed(text).strip_prefix(['>', '❯', '›'])?;
    let row = (0..field).rev().find(|row| !is_blank(&screen.rows[*row]));
    let row = row.filter(|row| is_hint && row + 2 >= field)?;
    let asked = question(&screen.rows[row]);
    let is_secret = secret::is_masked(typed.trim()) || secret::is_question(asked);
    let kind = if is_secret {
        PromptKind::Password
    } else {
        PromptKind::Text
    };
    Some(DrawnPrompt::new(
        kind,
        row,
        row..last + 1,
        "field above a hint",
    ))
}

/// A last row that only names the keys to confirm and to move on.
fn legend_alone(screen: &Screen) -> Option<DrawnPrompt> {
    let (last, text) =
        text_rows(screen).find(|(_, row)| unframed(row).chars().any(char::is_alphanumeric))?;
    if legend_marks(text) < 2 {
        return None;
    }
    let row = asking_above(screen, last).unwrap_or(last);
    // `Yes     No`, side by side.
    let is_yes_or_no = screen.rows[row..last].iter().any(|row| {
        let mut words = unframed(row).split_whitespace();
        words.next().zip(words.next()).is_some_and(|(one, other)| {
            words.next().is_none() && choices::is_yes_and_no(one, other)
        })
    });
    let kind = if is_yes_or_no {
        PromptKind::Confirm
    } else {
        PromptKind::Menu
    };
    Some(DrawnPrompt::new(kind, row, row..last + 1, "legend of keys"))
}
