//! Programs that draw the screen: pagers, editors, finders, and fields in frames or above hints.

use std::sync::LazyLock;

use regex::Regex;

use super::cursor_context::*;
use super::words::{pattern, plain, plain_pattern};
use super::{choices, form, line, list, secret};
use crate::model::{PromptKind, Screen};

/// A search row has its mark within this many characters from its start.
const INPUT_MARK: usize = 24;

/// Returns what a full-screen program waits for.
pub(super) fn drawn(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    editor(screen)
        .or_else(|| pager(screen, context))
        .or_else(|| form::drawn(screen).filter(|_| screen.is_cursor_hidden))
        .or_else(|| form::dialog(screen))
        .or_else(|| form::drawn(screen))
        .or_else(|| drawn_with_mark(screen, context))
        .or_else(|| finder(screen, context))
        .or_else(|| framed_field(screen))
        .or_else(|| framed_toggle(screen))
        .or_else(|| list::drawn(screen, context))
        .or_else(|| hinted_field(screen, context))
        .or_else(|| legend_alone(screen))
        .or_else(|| drawn_by_ansible(screen))
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
    let is_pager = is_colon || PAGER.is_match(&plain(text)) || is_named_help(text);
    is_pager.then(|| DrawnPrompt {
        row,
        ..DrawnPrompt::new(PromptKind::Pager, 0..screen.rows.len(), "pager")
    })
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
        Some(DrawnPrompt {
            row,
            ..DrawnPrompt::new(PromptKind::Editor, 0..screen.rows.len(), rule)
        })
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
    let rows = screen.rows.iter().rev().skip(1);
    let n_empty = rows.take_while(|row| *row == "~").count();
    (n_empty >= 3).then(|| is_editor("rows behind the end of a text", row))?
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
    let finder = DrawnPrompt::new(PromptKind::Menu, at..at + 1, "list to search in");
    (is_input && counted).then_some(finder)
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
    let body = screen.rows[row + 1..end].iter().map(|row| unframed(row));
    let body: Vec<&str> = body.filter(|row| !row.is_empty()).collect();
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
    Some(DrawnPrompt::new(kind, row..end + 1, "question in a frame"))
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
    let toggle = DrawnPrompt::new(PromptKind::Confirm, row..end + 1, "question in a frame");
    (is_frame && is_toggle(unframed(body)) && asks).then_some(toggle)
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
    let row = text_above(screen, field).filter(|row| is_hint && row + 2 >= field)?;
    let asked = question(&screen.rows[row]);
    let is_secret = secret::is_masked(typed.trim()) || secret::is_question(asked);
    let kind = if is_secret {
        PromptKind::Password
    } else {
        PromptKind::Text
    };
    Some(DrawnPrompt::new(kind, row..last + 1, "field above a hint"))
}

/// A last row that only names the keys to confirm and to move on.
fn legend_alone(screen: &Screen) -> Option<DrawnPrompt> {
    let (last, text) = text_rows(screen).find(|(_, row)| has_words(row))?;
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
    let kind = choices::kind_of_choice(is_yes_or_no);
    Some(DrawnPrompt::new(kind, row..last + 1, "legend of keys"))
}

/// The maximum number of rows of a pause's text.
const PAUSE_ROWS: usize = 12;

/// Returns the pause at the end of a screen.
fn drawn_by_ansible(screen: &Screen) -> Option<DrawnPrompt> {
    let (last, text) = text_rows(screen).next()?;
    let text = text.trim();
    // A pause that ends by itself says how, without a colon at the end.
    text.ends_with(':').then_some(())?;
    let first = (last.saturating_sub(PAUSE_ROWS)..last).rev().find(|row| {
        let row = screen.rows[*row].trim();
        row.starts_with('[') && row.ends_with(']')
    })?;
    let named = screen.rows[first].trim();
    let banner = screen.rows[first.checked_sub(1)?].trim_end();
    // `TASK [role : name] *****` above `[role : name]`.
    let is_banner = banner
        .trim_end_matches('*')
        .trim_end()
        .ends_with(&format!(" {named}"));
    let is_one = (first..=last).all(|row| !is_blank(&screen.rows[row]));
    if !is_banner || !banner.ends_with("**") || !is_one || first == last {
        return None;
    }
    let kind = if secret::is_label(text) {
        PromptKind::Password
    } else {
        let asked = text.trim_end_matches(':').trim_end();
        line::asks(asked).map_or(PromptKind::Key, |ask| ask.kind)
    };
    Some(DrawnPrompt {
        row: last,
        ..DrawnPrompt::new(kind, first..last + 1, "pause of Ansible")
    })
}

/// A row at least this long may continue in the next one.
const WRAPS_FROM: usize = 40;

/// Returns what is asked by the marked question that the cursor is in, or behind the end of.
fn drawn_with_mark(screen: &Screen, context: CursorContext) -> Option<DrawnPrompt> {
    let (end, _) = text_rows(screen).next()?;
    let at = match context {
        CursorContext::Behind(row) | CursorContext::On(row) => row,
        CursorContext::Unknown(Some(row)) => row,
        // A blank row of a list that is still drawn: within it, or in a row that was started.
        CursorContext::Below(near) => {
            let cursor = screen.cursor?;
            let y = usize::try_from(cursor.y).ok()?;
            near.filter(|near| y < end || (*near == end && cursor.x > 0))?
        }
        CursorContext::Unknown(None) => return None,
    };
    let row = (at.saturating_sub(ROWS)..=at)
        .rev()
        .find(|row| screen.rows.get(*row).is_some_and(|row| is_marked(row)))?;
    let body = screen.rows[row + 1..=end.max(row)].iter();
    let body = body.map(String::as_str).filter(|row| !is_blank(row));
    let body: Vec<&str> = body.collect();
    let asked = question(&screen.rows[row]);
    if !asked.chars().any(char::is_alphanumeric) {
        return None;
    }
    let choices = body.iter().filter(|row| !is_help(row)).count();
    // A program drew the rows below the cursor and went back to the question.
    let is_above = at == row;
    if choices > 0 && !is_above && !are_choices(&screen.rows[row], &body) {
        return None;
    }
    let (kind, last, rule) = match choices {
        0 => {
            let kind = kind_of_field(&screen.rows[row], asked, &body);
            (kind, at, "marked as a question")
        }
        _ => (PromptKind::Menu, end, "choices below a marked question"),
    };
    Some(DrawnPrompt::new(kind, row..last.max(row) + 1, rule))
}

/// Whether these rows are the rest of a question too long for its row, then choices, at least one
/// with a mark or a number, and hints.
fn are_choices(first: &str, body: &[&str]) -> bool {
    let mut above = first;
    let mut rows = body
        .iter()
        .skip_while(|row| {
            let goes_on = above.chars().count() >= WRAPS_FROM && !list::is_choice(row);
            above = row;
            goes_on
        })
        .peekable();
    let is_choice = |row: &str| list::is_choice(row) || list::is_pointed(row);
    let is_part = |row: &&&str| is_choice(row) || is_help(row) || is_indented(row);
    rows.peek().is_some() && body.iter().any(|row| is_choice(row)) && rows.all(|row| is_part(&row))
}

fn is_indented(row: &str) -> bool {
    row.starts_with(char::is_whitespace) || row.starts_with(['┌', '└', '╭', '╰', '│'])
}

/// Whether a row explains how to answer.
fn is_help(row: &str) -> bool {
    let text = row.trim_end();
    legend_marks(row) > 0
        || is_hint(row)
        || text.ends_with("nstructions:")
        || text.ends_with("Answer:")
        || text.to_lowercase().contains("filter")
}

/// Returns the kind of answer to type behind the question.
fn kind_of_field(row: &str, asked: &str, below: &[&str]) -> PromptKind {
    let text = unframed(row);
    let typed = text.rsplit(['›', '»', '‣', '…']).next().unwrap_or_default();
    let is_masked = secret::unmasked(text).is_some() || secret::is_masked(typed.trim());
    // The library offers to show what was typed.
    let can_show = below
        .iter()
        .any(|row| row.contains("toggle") && row.contains("visib"));
    if is_masked || can_show || secret::is_question(asked) {
        return PromptKind::Password;
    }
    if let Some(ask) = line::asks(asked).filter(|ask| ask.kind != PromptKind::Text) {
        return ask.kind;
    }
    if let Some((one, other)) = typed.trim().split_once(" / ")
        && choices::is_yes_and_no(one, other)
    {
        return PromptKind::Confirm;
    }
    glued_letters(asked).unwrap_or_else(|| line::kind_of_question(asked))
}

/// The letters that may be typed, in brackets: `Conflict in a.txt (yaxH)`.
fn glued_letters(asked: &str) -> Option<PromptKind> {
    // The letter that Enter would select may follow them.
    let bare = asked.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let letters = if asked.len() - bare.len() <= 1 {
        bare.trim_end()
    } else {
        asked
    };
    let inside = letters.strip_suffix(')')?.rsplit_once('(')?.1;
    let letters = inside.to_lowercase();
    let are_letters = letters.bytes().all(|c| c.is_ascii_alphabetic());
    // In all such lists the last letter shows help.
    ((2..=12).contains(&letters.len())
        && are_letters
        && choices::is_each_once(&letters)
        && letters.ends_with('h'))
    .then_some(PromptKind::Menu)
}
