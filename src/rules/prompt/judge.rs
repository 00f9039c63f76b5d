//! The judgement: all evidence about a screen in, the prompt that is on it out.

use std::ops::Range;
use std::time::Duration;

use super::cursor_context::{self, CursorContext, DrawnPrompt, LOG_STILL, is_blank, text_above};
use super::line::{self, Ask};
use super::list::{self, is_numbered};
use super::shell_prompts::{self, kind_of_program, may_ask_by_agent};
use super::wrapped::{self, MAX_PROMPT_CHARS};
use super::{UserRules, addressed, form, full_screen};
use crate::model::{Foreground, Prompt, PromptKind, Screen, Stop, Task, TtyEvidence, TtyUse, text};

/// How long a screen must be unchanged while a program is blocked reading keys: between two keys
/// programs draw.
const KEYS_STILL: Duration = Duration::from_secs(1);

/// The same on the alternate screen: system monitors read keys as well and redraw every few
/// seconds.
const DRAWN_KEYS_STILL: Duration = Duration::from_secs(5);

/// A field below its question begins within this many cells.
const FIELD_INDENT: u32 = 8;

/// How many rows below the last text the cursor may be where a program is known to read a line.
const FAR_ABOVE: usize = 6;

/// How many rows above a prompt are searched for the kind of answer it expects.
const CONTEXT: usize = 12;

/// A question on a screen, and its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptMatch {
    /// What is asked.
    pub prompt: Prompt,
    /// The index of its row in [`Screen::rows`]; `usize::MAX` when no row asks.
    pub row: usize,
    /// The rows that ask: the question with its choices and its field, not what is shown beside or
    /// below them. Empty when no row asks.
    pub rows: Range<usize>,
    /// Whether its words ask by themselves, and not only because a program reads.
    pub is_question: bool,
    /// How long the screen must be unchanged at least.
    pub still_for: Duration,
}

/// What was decided about a screen, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// What is asked; `None` when nothing is.
    pub found: Option<PromptMatch>,
    /// The rule that decided.
    pub rule: &'static str,
    /// The row that was examined, where there was one.
    pub row: Option<usize>,
    /// Whether evidence decided, and not the absence of evidence.
    pub is_settled: bool,
}

impl Judgement {
    fn with_match(mut self, change: impl FnOnce(&mut PromptMatch)) -> Self {
        if let Some(found) = &mut self.found {
            change(found);
        }
        self
    }
}

/// Returns whether this screen waits for input, by all the evidence there is.
pub fn judge(screen: &Screen, terminal: Option<&TtyEvidence>, user_rules: &UserRules) -> Judgement {
    let draws = |terminal: &TtyEvidence| terminal.canonical == Some(false);
    // What a program that draws has cleared may be in the history.
    let visible = terminal.filter(|terminal| draws(terminal));
    let visible = visible.map(|_| screen.without_history());
    let screen = visible.as_ref().unwrap_or(screen);
    let judgement = judge_rows(screen, terminal, user_rules);
    // A program that reads nothing may show a sign behind what only looks like a question.
    let takes_input = terminal.is_some_and(|terminal| terminal.reader.takes_input());
    let variants: [fn(&Screen) -> Option<Screen>; 3] = [
        form::with_cursor,
        wrapped::unwrapped,
        wrapped::without_right_prompt,
    ];
    let animated: fn(&Screen) -> Option<Screen> = wrapped::without_sign;
    let variants = variants.into_iter().chain(takes_input.then_some(animated));
    let mut others = variants.filter_map(|variant| {
        let variant = variant(screen)?;
        let judgement = judge_rows(&variant, terminal, user_rules);
        judgement.found.is_some().then(|| {
            // Rows that are joined to the one that asks belong to it.
            let is_joined = |row: &usize| variant.rows[*row] != screen.rows[*row];
            judgement.with_match(|found| {
                let above = (0..found.rows.start).rev();
                let joined = above.take_while(is_joined).last();
                found.rows.start = joined.unwrap_or(found.rows.start);
            })
        })
    });
    others.next().unwrap_or(judgement)
}

/// The same for a task. In a shell, a user has typed the command: a program that copies what is typed,
/// or that has printed nothing since, does not ask the user for anything.
pub fn judge_task(
    task: &Task,
    terminal: Option<&TtyEvidence>,
    user_rules: &UserRules,
) -> Judgement {
    let judgement = judge(&task.screen, terminal, user_rules);
    let is_of_user = |terminal: &TtyEvidence| {
        let has_printed_nothing = |found: &PromptMatch| {
            let line = task.screen.rows.get(found.row);
            !found.is_question
                && line.is_none_or(|line| shell_prompts::is_command_of(line, &terminal.programs))
        };
        terminal.canonical == Some(true)
            && terminal.echo != Some(false)
            && judgement.found.as_ref().is_some_and(|found| {
                shell_prompts::copy_input(&terminal.programs) || has_printed_nothing(found)
            })
    };
    if task.shell && terminal.is_some_and(is_of_user) {
        return Judgement {
            found: None,
            rule: "reads what a user types into a shell",
            row: judgement.row,
            is_settled: true,
        };
    }
    judgement
}

fn judge_rows(
    screen: &Screen,
    terminal: Option<&TtyEvidence>,
    user_rules: &UserRules,
) -> Judgement {
    let evaluation = Evaluation {
        screen,
        context: CursorContext::of(screen),
        user_rules,
    };
    let judgement = match terminal {
        None => evaluation.by_text(None),
        Some(terminal) => evaluation.by_terminal(terminal),
    };
    match &judgement.found {
        Some(found) if user_rules.mutes_line(&found.prompt.text) => {
            evaluation.settled("muted by a pattern")
        }
        Some(_) | None => judgement,
    }
}

/// Returns what the screen asks, by its text alone.
pub fn find(screen: &Screen) -> Option<PromptMatch> {
    judge(screen, None, &UserRules::default()).found
}

/// Returns the rows of a list that asks if a program reads keys, which a screen does not show.
pub(crate) fn rows_if_keys_are_read(screen: &Screen) -> Option<Range<usize>> {
    let list = list::standing(&screen.without_history(), CursorContext::of(screen), false)?;
    Some(list.rows)
}

/// Whether a prompt asks by its words alone or shows choices, also while other rows move. What a program
/// at work shows beside its turning sign may name the key that ends the work.
pub(crate) fn asks_beside(found: &PromptMatch) -> bool {
    let shows_choices = match found.prompt.kind {
        PromptKind::Confirm | PromptKind::Menu | PromptKind::Dialog => found.rows.len() > 2,
        PromptKind::Text
        | PromptKind::Password
        | PromptKind::Key
        | PromptKind::Pager
        | PromptKind::Editor
        | PromptKind::Debugger => false,
    };
    let text = &found.prompt.text;
    let asks = || {
        line::asks(text).is_some_and(|ask| {
            ask.is_plain && (ask.kind != PromptKind::Key || !line::names_end_of_work(text))
        })
    };
    shows_choices || asks()
}

struct Evaluation<'a> {
    screen: &'a Screen,
    context: CursorContext,
    user_rules: &'a UserRules,
}

impl Evaluation<'_> {
    fn by_terminal(&self, terminal: &TtyEvidence) -> Judgement {
        if terminal.foreground == Foreground::Idle {
            return self.settled("idle shell or interpreter");
        }
        match terminal.stopped {
            Some(stop) if stop.is_in_background() => return self.by_stop(stop),
            // What was asked before is asked still.
            Some(_) if !terminal.reader.takes_input() => {
                return self.settled("stopped by a signal");
            }
            Some(_) | None => {}
        }
        match (terminal.canonical, terminal.reader) {
            (Some(true), reader)
                if terminal.echo == Some(false)
                    && (reader != TtyUse::Elsewhere || may_ask_by_agent(terminal)) =>
            {
                let rule = "line input that is not shown";
                self.waits(self.context.row(), PromptKind::Password, true, rule)
            }
            (Some(true) | None, TtyUse::Elsewhere) => self.settled("no program reads the terminal"),
            (Some(true), TtyUse::Reading) if terminal.may_relay => self.by_text(Some(terminal)),
            (Some(true), TtyUse::Reading) => self.by_reading(terminal),
            (Some(_), TtyUse::Polling)
                if shell_prompts::follows_a_file(&terminal.programs)
                    && kind_of_program(&terminal.programs).is_none() =>
            {
                self.settled("follows a file")
            }
            (Some(true), TtyUse::Polling) => {
                let by_text = self.by_text(Some(terminal));
                self.in_timed_read(&by_text, terminal).unwrap_or(by_text)
            }
            (Some(false), TtyUse::Reading | TtyUse::Polling) if self.is_own_name(terminal) => {
                self.settled("an interpreter's prompt for commands")
            }
            (Some(false), TtyUse::Reading) => self.by_keys(terminal),
            (Some(false), TtyUse::Polling) => self.by_name(terminal),
            (Some(false), TtyUse::Elsewhere)
                if terminal.checks_no_keys
                    && !terminal.may_relay
                    && !may_ask_by_agent(terminal) =>
            {
                self.settled("no program reads the terminal or checks for keys")
            }
            (Some(_), TtyUse::Unknown)
            | (Some(false), TtyUse::Elsewhere)
            | (None, TtyUse::Reading | TtyUse::Polling | TtyUse::Unknown) => {
                self.by_text(Some(terminal))
            }
        }
    }

    /// A program is blocked reading a line.
    fn by_reading(&self, terminal: &TtyEvidence) -> Judgement {
        // What ends the input is no hint of a program with one thread, which does nothing else.
        let (still_for, has_hints) = match terminal.reader_has_threads {
            true => (LOG_STILL, shell_prompts::has_hints(self.screen)),
            false => {
                let has_hints = shell_prompts::has_hints_besides_end(self.screen);
                (Duration::ZERO, has_hints)
            }
        };
        let Some(row) = self.context.row().or_else(|| self.text_far_above()) else {
            if has_hints {
                return self.settled("hints of a program at work");
            }
            let judgement = self.waits(None, PromptKind::Text, false, "blocked reading a line");
            return judgement.with_match(|found| found.still_for = still_for);
        };
        let line = self.screen.rows[row].as_str();
        let is_below = matches!(self.context, CursorContext::Below(_));
        if is_below && has_hints {
            return self.settled("hints of a program at work");
        }
        if !is_below
            && self.is_for_commands(row, &terminal.programs)
            && !self.is_of_script(row, terminal)
        {
            return self.settled("an interpreter's prompt for commands");
        }
        // It is echoed, so it is no password whatever it is called.
        let judgement = self.reads_at(row, false, "blocked reading a line");
        judgement.with_match(|found| {
            // A line that has ended may be one of a log.
            if found.row == row && (is_below || line::asks(line).is_none()) {
                found.still_for = still_for;
            }
        })
    }

    /// A program wants the terminal from the background, where it is stopped until it is ended. One
    /// that sets the terminal's modes may have shown nothing yet.
    fn by_stop(&self, stop: Stop) -> Judgement {
        const RULE: &str = "stopped in the background, where it cannot read the terminal";
        let row = match (self.context, stop) {
            (CursorContext::Behind(row), _) => Some(row),
            (_, Stop::BackgroundRead) => self.context.row().or_else(|| self.text_far_above()),
            (_, Stop::BackgroundSetup | Stop::BySignal) => None,
        };
        let Some(row) = row else {
            return self.waits(None, PromptKind::Text, false, RULE);
        };
        // Whoever reads with echo reads no secret.
        self.reads_at(row, stop == Stop::BackgroundSetup, RULE)
    }

    /// A line is read in this row, which asks for it, or the rows above it do.
    fn reads_at(&self, row: usize, may_be_secret: bool, rule: &'static str) -> Judgement {
        let line = self.screen.rows[row].as_str();
        if is_bare_mark(cursor_context::unframed(line))
            && let Some((kind, above)) = self.question_above(row)
        {
            return self.waits(Some(above), kind, false, rule);
        }
        let ask = line::asks(line);
        let kind = self.kind_in_context(row, ask.map_or(PromptKind::Text, |ask| ask.kind));
        let is_secret = may_be_secret && ask.is_some_and(|ask| ask.secret);
        let judgement = self.waits(Some(row), kind, is_secret, rule);
        judgement.with_match(|found| found.is_question = ask.is_some_and(|ask| ask.is_plain))
    }

    /// Returns the text some blank rows above the cursor. It shows what a line is read for only where
    /// a program is known to read one.
    fn text_far_above(&self) -> Option<usize> {
        let cursor_y = usize::try_from(self.screen.cursor?.y).ok()?;
        let above = self.screen.rows.get(..cursor_y)?;
        let row = above.iter().rposition(|row| !is_blank(row))?;
        (row + FAR_ABOVE >= cursor_y).then_some(row)
    }

    /// Whether an interpreter that was given something to run is blocked reading a line behind a
    /// mark that is not its own: then it is the script that asks.
    fn is_of_script(&self, row: usize, terminal: &TtyEvidence) -> bool {
        terminal.foreground == Foreground::Command
            && shell_prompts::are_of_scripts(&terminal.programs)
            && shell_prompts::may_be_of_script(&self.screen.rows[row], &terminal.programs)
    }

    /// Whether the cursor is behind the name of a foreground program, as a prompt for commands.
    fn is_own_name(&self, terminal: &TtyEvidence) -> bool {
        matches!(self.context, CursorContext::Behind(row)
            if shell_prompts::is_own_name(&self.screen.rows[row], &terminal.programs))
    }

    /// Whether the row is what one of these programs shows while it waits for a command.
    fn is_for_commands(&self, row: usize, programs: &[String]) -> bool {
        let line = self.screen.rows[row].as_str();
        line::asks(line).is_none()
            && shell_prompts::is_idle_prompt(line)
            && shell_prompts::is_of_interpreter(line, programs)
            && self.question_above(row).is_none()
            && !self.is_mark_below_frame(row)
    }

    /// Whether the row is a mark that no interpreter shows, right below a frame: it belongs to what
    /// the frame contains. Interpreters show theirs at the start of the row.
    fn is_mark_below_frame(&self, row: usize) -> bool {
        let line = self.screen.rows[row].as_str();
        let above = row.checked_sub(1).map(|above| &self.screen.rows[above]);
        line.starts_with(' ')
            && matches!(line.trim(), ">" | ">>")
            && above.is_some_and(|above| cursor_context::is_lower_edge(above))
    }

    /// A program is blocked reading keys.
    fn by_keys(&self, terminal: &TtyEvidence) -> Judgement {
        let by_text = self.by_text(Some(terminal));
        // One thread that reads prints no log.
        let by_text = if terminal.reader_has_threads || terminal.may_relay {
            by_text
        } else {
            by_text.with_match(|found| found.still_for = Duration::ZERO)
        };
        // What waits on the other side of a network or of another terminal is not visible.
        if by_text.is_settled || terminal.may_relay {
            return by_text;
        }
        // A full-screen program with one thread does nothing else while it reads.
        let does_nothing_else = self.screen.alternate == Some(true) && !terminal.reader_has_threads;
        if shell_prompts::has_hints(self.screen) && !does_nothing_else {
            return self.settled("hints of a program at work");
        }
        let row = self.context.row();
        if row.is_some_and(|row| self.is_for_commands(row, &terminal.programs)) {
            return self.settled("an interpreter's prompt for commands");
        }
        if terminal.reader_has_threads
            && let CursorContext::Below(Some(row)) = self.context
            && addressed::is_log(&wrapped::line_of(self.screen, row))
        {
            return self.settled("a line of a log");
        }
        if let Some(judgement) = self.in_known_program(terminal)
            && shell_prompts::is_browser(&terminal.programs)
        {
            return judgement;
        }
        let ask = row.and_then(|row| line::asks(&self.screen.rows[row]));
        let kind = ask.map(|ask| ask.kind);
        let kind = kind.or_else(|| kind_of_program(&terminal.programs));
        let kind = kind.unwrap_or(PromptKind::Key);
        let judgement = self.waits(row, kind, false, "blocked reading keys");
        judgement.with_match(|found| {
            found.is_question = ask.is_some_and(|ask| ask.is_plain);
            found.still_for = if self.screen.alternate == Some(true)
                && kind_of_program(&terminal.programs).is_none()
            {
                DRAWN_KEYS_STILL
            } else {
                KEYS_STILL
            };
        })
    }

    /// A program polls for keys. Editors, pagers and others that do nothing by themselves are
    /// recognised by name, whatever they show.
    fn by_name(&self, terminal: &TtyEvidence) -> Judgement {
        let by_text = self.by_text(Some(terminal));
        if by_text.is_settled {
            return by_text;
        }
        let others = self.in_line_editor(terminal);
        let others = others.or_else(|| self.in_known_program(terminal));
        others.unwrap_or(by_text)
    }

    /// One of the foreground programs is known to wait whenever it takes keys.
    fn in_known_program(&self, terminal: &TtyEvidence) -> Option<Judgement> {
        let is_picker = shell_prompts::is_picker(&terminal.programs);
        let kind = kind_of_program(&terminal.programs)
            .filter(|_| self.screen.alternate == Some(true) || is_picker)
            // An editor may show a terminal. A file manager has one for its commands.
            .filter(|kind| !terminal.may_relay || *kind != PromptKind::Editor)?;
        let is_menu = kind == PromptKind::Menu;
        let row = if is_picker {
            self.context.row()
        } else if is_menu {
            // Its rows change with each key, and the next page is no new question.
            None
        } else {
            self.screen.rows.iter().rposition(|row| !is_blank(row))
        };
        let judgement = self.waits(row, kind, false, "a program known by its name");
        Some(judgement.with_match(|found| {
            found.is_question = false;
            // A calendar has a clock.
            if !is_menu {
                found.still_for = KEYS_STILL;
            }
        }))
    }

    /// A script of a shell takes keys only in the shell's line editor, as in `read -e -i main`, where
    /// the cursor may be behind an answer.
    fn in_line_editor(&self, terminal: &TtyEvidence) -> Option<Judgement> {
        let CursorContext::Behind(row) = self.context else {
            return None;
        };
        if terminal.may_relay || !shell_prompts::are_shells(&terminal.programs) {
            return None;
        }
        let line = self.screen.rows[row].as_str();
        let (_, ask) = line::asks_before_answer(line)
            .filter(|(_, ask)| !ask.secret && !shell_prompts::is_idle_prompt(line))?;
        let kind = self.kind_in_context(row, ask.kind);
        let judgement = self.waits(Some(row), kind, false, "an answer is being typed");
        Some(judgement.with_match(|found| {
            found.is_question = false;
            found.still_for = KEYS_STILL;
        }))
    }

    /// A script of a shell polls the terminal in line mode only in `read -t`, where the cursor is
    /// behind a mark.
    fn in_timed_read(&self, by_text: &Judgement, terminal: &TtyEvidence) -> Option<Judgement> {
        let CursorContext::Behind(row) = self.context else {
            return None;
        };
        let text = cursor_context::unframed(&self.screen.rows[row]);
        let is_open = !by_text.is_settled && !terminal.may_relay;
        if !is_open || !shell_prompts::are_shells(&terminal.programs) || !line::ends_in_mark(text) {
            return None;
        }
        let kind = self.kind_in_context(row, PromptKind::Text);
        let rule = "a mark before the cursor of `read -t`";
        let judgement = self.waits(Some(row), kind, false, rule);
        // The script may go on printing when the time is over.
        Some(judgement.with_match(|found| {
            found.is_question = false;
            found.still_for = LOG_STILL;
        }))
    }

    /// By the text, where the terminal does not decide.
    fn by_text(&self, terminal: Option<&TtyEvidence>) -> Judgement {
        let canonical = terminal.and_then(|terminal| terminal.canonical);
        let may_relay = terminal.is_some_and(|terminal| terminal.may_relay);
        let takes_input = terminal.is_some_and(|terminal| terminal.reader.takes_input());
        if let Some(row) = self.context.row()
            && self.user_rules.asks(self.screen.rows[row].trim())
        {
            let kind = line::asks(&self.screen.rows[row]).map_or(PromptKind::Text, |ask| ask.kind);
            return self.waits(Some(row), kind, false, "pattern of the user");
        }
        let is_raw = canonical != Some(true);
        if is_raw
            && let Some(drawn) = full_screen::drawn(self.screen, self.context)
            && (drawn.kind != PromptKind::Menu || !self.is_hinted(&drawn))
        {
            return self.waits_drawn(drawn);
        }
        let has_listener =
            || canonical.is_some() && !may_relay && !shell_prompts::has_hints(self.screen);
        let standing = || list::standing(self.screen, self.context, may_relay);
        let standing = (is_raw && takes_input).then(standing).flatten();
        let titled = || list::titled(self.screen, self.context).filter(|_| has_listener());
        if is_raw && let Some(drawn) = standing.or_else(titled) {
            // Programs that only print draw such lists, too.
            let judgement = self.waits_drawn(drawn);
            return judgement.with_match(|found| found.still_for = LOG_STILL);
        }
        match self.context {
            CursorContext::Behind(row) => self.anchored(row, true),
            CursorContext::On(row) => {
                let text = cursor_context::unframed(&self.screen.rows[row]);
                if cursor_context::is_marked(text) {
                    self.anchored(row, false)
                } else {
                    self.none("the cursor is not behind a question")
                }
            }
            CursorContext::Below(Some(row)) => {
                let line = self.screen.rows[row].as_str();
                if canonical == Some(false)
                    && has_listener()
                    && let Some(ask) = addressed::asks(&wrapped::line_of(self.screen, row))
                {
                    let rule = "keys are read below a question";
                    let judgement = self.waits(Some(row), ask.kind, false, rule);
                    // It may be a line of a log.
                    return judgement.with_match(|found| found.still_for = LOG_STILL);
                }
                if line::is_key_line(line) && !shell_prompts::has_hints(self.screen) {
                    return self.waits(Some(row), PromptKind::Key, false, "asks for a key");
                }
                if line::is_request(line) {
                    let kind = PromptKind::Text;
                    return self.waits(Some(row), kind, false, "asks to type below");
                }
                if line::is_order(line) && has_listener() {
                    let kind = PromptKind::Text;
                    let judgement = self.waits(Some(row), kind, false, "asks to type below");
                    return judgement.with_match(|found| found.still_for = LOG_STILL);
                }
                let ask = line::asks(line).filter(|ask| ask.is_plain && self.is_row_begun());
                if let Some(ask) = ask {
                    return self.waits(Some(row), ask.kind, false, "a field below a question");
                }
                self.none("the cursor is on a fresh line")
            }
            CursorContext::Below(None) | CursorContext::Unknown(None) => {
                self.none("no text by the cursor")
            }
            CursorContext::Unknown(Some(row)) => self.anchored(row, false),
        }
    }

    /// Whether the cursor is some cells behind the start of a blank row. A program that only ended
    /// a line leaves it at the start.
    fn is_row_begun(&self) -> bool {
        let cursor = self.screen.cursor;
        cursor.is_some_and(|cursor| (1..=FIELD_INDENT).contains(&cursor.x))
            && !shell_prompts::has_hints(self.screen)
    }

    /// By the text of the row in which the answer would be typed. `behind` is whether the cursor is
    /// behind that text.
    fn anchored(&self, row: usize, behind: bool) -> Judgement {
        let line = self.screen.rows[row].as_str();
        let text = cursor_context::unframed(line);
        let asked = cursor_context::question(line);
        let is_marked = cursor_context::is_marked(text);
        // Masked input is not part of the question, and shows that it is a secret.
        let ask = line::asks(text)
            .filter(|ask| ask.secret)
            .or_else(|| line::asks(asked))
            .or_else(|| line::asks(text))
            .filter(|ask| {
                ask.is_plain || is_marked || (behind && !shell_prompts::is_idle_prompt(text))
            });
        if let Some(Ask {
            kind, secret, rule, ..
        }) = ask
        {
            let kind = self.kind_in_context(row, kind);
            return self.waits(Some(row), kind, secret, rule);
        }
        if is_marked && asked.chars().any(char::is_alphanumeric) {
            return self.waits(Some(row), PromptKind::Text, false, "marked as a question");
        }
        // A bare mark waits for what the rows above it ask.
        if is_bare_mark(text)
            && let Some((kind, above)) = self.question_above(row)
        {
            return self.waits(Some(above), kind, false, "a mark below a question");
        }
        self.none("the line is not a question")
    }

    /// Returns what the rows right above a bare mark ask (a question or a numbered list) and the
    /// row that says so: for a list its heading, or the mark itself where it has none.
    fn question_above(&self, row: usize) -> Option<(PromptKind, usize)> {
        let above = text_above(self.screen, row).filter(|above| above + 2 >= row)?;
        let line = self.screen.rows[above].as_str();
        if is_numbered(line) {
            let rows = &self.screen.rows[..above];
            let heading = rows.iter().rposition(|row| !is_numbered(row));
            let heading = heading.filter(|row| !is_blank(&rows[*row]));
            return Some((PromptKind::Menu, heading.unwrap_or(row)));
        }
        // A label counts too: the mark below it is where to type.
        let asks = |row: usize| {
            line::asks(&self.screen.rows[row])
                .filter(|ask| ask.is_plain || ask.rule == line::LABEL_RULE)
        };
        if let Some(heading) = list::above_counted(&self.screen.rows[..=above]) {
            // Rows of a table begin with numbers, too.
            return asks(heading).map(|_| (PromptKind::Menu, heading));
        }
        asks(above).map(|ask| (ask.kind, above))
    }

    /// A line that asks for any text may ask for a choice from the rows above it.
    fn kind_in_context(&self, row: usize, kind: PromptKind) -> PromptKind {
        if kind != PromptKind::Text {
            return kind;
        }
        let above = &self.screen.rows[row.saturating_sub(CONTEXT)..row];
        let numbered = above.iter().rev().take(4).filter(|row| is_numbered(row));
        if numbered.count() >= 1 && above.iter().filter(|row| is_numbered(row)).count() >= 2 {
            return PromptKind::Menu;
        }
        let yes = above.iter().rev().take(5).any(|row| row.contains("'yes'"));
        if yes { PromptKind::Confirm } else { kind }
    }

    /// Whether a list shows hints instead of choices, or is above those of a program at work.
    fn is_hinted(&self, list: &DrawnPrompt) -> bool {
        self.screen.alternate != Some(true)
            && shell_prompts::has_hints_of_watcher(&self.screen.rows[list.rows.start..])
    }

    fn waits(
        &self,
        row: Option<usize>,
        kind: PromptKind,
        secret: bool,
        rule: &'static str,
    ) -> Judgement {
        let line = row.map_or("", |row| self.screen.rows[row].as_str());
        let asked = cursor_context::question(line);
        let shown = if asked.is_empty() { line } else { asked };
        Judgement {
            found: Some(PromptMatch {
                prompt: Prompt {
                    text: text::one_line(shown.as_bytes(), MAX_PROMPT_CHARS),
                    kind,
                    secret,
                },
                row: row.unwrap_or(usize::MAX),
                rows: row.map_or(0..0, |row| row..self.end_of_field(row)),
                is_question: row.is_some(),
                still_for: Duration::ZERO,
            }),
            rule,
            row,
            is_settled: true,
        }
    }

    fn waits_drawn(&self, drawn: DrawnPrompt) -> Judgement {
        let judgement = self.waits(Some(drawn.row), drawn.kind, drawn.secret, drawn.rule);
        judgement.with_match(|found| {
            found.rows = drawn.rows;
            found.still_for = drawn.still_for;
            if let Some(asked) = drawn.asked {
                found.prompt.text = text::one_line(asked.as_bytes(), MAX_PROMPT_CHARS);
            }
        })
    }

    /// Returns the row below a question and the field in which its answer would be typed.
    fn end_of_field(&self, row: usize) -> usize {
        let cursor = self.screen.cursor;
        let field = cursor.and_then(|cursor| usize::try_from(cursor.y).ok());
        let is_near = |field: &usize| (row..=row + FAR_ABOVE).contains(field);
        field.filter(is_near).unwrap_or(row) + 1
    }

    /// It does not wait, and evidence says so.
    fn settled(&self, rule: &'static str) -> Judgement {
        Judgement {
            is_settled: true,
            ..self.none(rule)
        }
    }

    /// There is no evidence that it waits.
    fn none(&self, rule: &'static str) -> Judgement {
        Judgement {
            found: None,
            rule,
            row: self.context.row(),
            is_settled: false,
        }
    }
}

/// Whether a row is nothing but a mark to type behind.
fn is_bare_mark(text: &str) -> bool {
    matches!(
        text,
        ">" | ">>" | ">>>" | "#?" | "->" | "=>" | "==>" | ":" | "?" | "›" | "❯"
    )
}
