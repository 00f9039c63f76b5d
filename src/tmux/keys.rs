//! Typing into a pane, also only if it still shows the same prompt.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use unicode_width::UnicodeWidthStr as _;

use super::client::{Connection, all_ok};
use super::error::TmuxError;
use super::server::{Server, nonce};
use crate::model::{PaneId, SecretText, TypedInput, is_same_except_signs, text, without_animation};
use crate::rules::protocol::{Command, control_line};

/// The result of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypingResult {
    /// It was typed.
    Typed,
    /// The pane does not show the expected prompt any more: nothing was typed.
    Changed,
    /// Input to the pane is switched off in tmux: nothing was typed.
    InputOff,
}

/// No option of tmux has this name, so a command that shows it fails, and with it the line.
const INPUT_OFF: &str = "input-off";

/// Types into the pane; with a prompt only while the pane shows that and nothing else was typed. If it
/// `answers` what is asked, that is stored on the pane: digits, letters, dots and dashes. The modes of tmux
/// that take the keys, such as copy mode, are left first. A secret text is on no command line and in none of
/// tmux's logs, and if this fails, it is not left in tmux.
pub(crate) async fn type_into(
    connection: &mut Connection<'_>,
    server: &Server,
    pane: PaneId,
    input: &TypedInput,
    then_enter: bool,
    only_if: Option<&ShownPrompt>,
    answers: Option<&str>,
) -> Result<TypingResult, TmuxError> {
    let buffer = format!("tmux-task-{}", nonce());
    let forget = Command::new("delete-buffer").args(["-b", &buffer]);
    let mut commands = vec![stop_if_off(pane)];
    let (mut typing, mut instead, mut secret) = (Vec::new(), Vec::new(), None);
    match input {
        TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) if text.is_empty() => {}
        TypedInput::Text(text) => typing.push(send(pane).args(["-l", "--"]).arg(text.as_str())),
        TypedInput::Keys(keys) => typing.push(send(pane).arg("--").args(keys.iter().cloned())),
        TypedInput::Secret(SecretText(text)) => {
            commands.push(Command::new("load-buffer").args(["-b", &buffer, "-"]));
            let paste = ["-d", "-b", &buffer, "-t", &pane.to_string()];
            typing.push(Command::new("paste-buffer").args(paste));
            instead.push(forget.clone());
            secret = Some(text.clone());
        }
    }
    if then_enter && !matches!(input, TypedInput::Keys(_)) {
        typing.push(send(pane).arg("Enter"));
    }
    let target = pane.to_string();
    let note = |asked| Command::new("set-option").args(["-pq", "-t", &target, ANSWERED, asked]);
    typing.extend(answers.map(note));
    commands.extend(match only_if {
        Some(shown) => shown.guard(&typing, &instead),
        None => [&[leave_modes(pane)], &typing[..]].concat(),
    });
    let is_secret = secret.is_some();
    let frames = match secret {
        // A control client cannot pass a text outside of its command line.
        Some(text) => server.one_shot_with(&commands, Some(text)).await?,
        None => connection.frames(&commands).await?,
    };
    let stopped = frames.first().filter(|frame| !frame.ok);
    if stopped.is_some_and(|frame| frame.text().contains(INPUT_OFF)) {
        return Ok(TypingResult::InputOff);
    }
    let typed = all_ok(&commands, frames);
    if is_secret && typed.is_err() {
        // Usually the buffer does not exist and there is nothing to delete.
        drop(server.one_shot(&[forget]).await?);
    }
    if typed?.iter().any(|frame| is_changed(&frame.text())) {
        return Ok(TypingResult::Changed);
    }
    Ok(TypingResult::Typed)
}

/// Fails if input to the pane is switched off, and the rest of the line does not run then: tmux
/// itself accepts keys for such a pane, and drops them. Inside `if-shell` the text would stay in
/// tmux's memory.
fn stop_if_off(pane: PaneId) -> Command {
    Command::new("show-options")
        .args(["-gv", "-t", &pane.to_string()])
        .arg(format!("#{{?pane_input_off,{INPUT_OFF},status}}"))
}

fn send(pane: PaneId) -> Command {
    Command::new("send-keys").args(["-t", &pane.to_string()])
}

/// Whether this is a key in tmux's notation: a character or a name, with optional modifiers. tmux
/// itself would type unknown names character by character.
pub(crate) fn is_key(key: &str) -> bool {
    const NAMES: &[&str] = &[
        "enter", "escape", "space", "tab", "btab", "bspace", "up", "down", "left", "right", "home",
        "end", "pageup", "ppage", "pgup", "pagedown", "npage", "pgdn", "dc", "delete", "ic",
        "insert", "kp/", "kp*", "kp-", "kp+", "kp.", "kpenter", "kp0", "kp1", "kp2", "kp3", "kp4",
        "kp5", "kp6", "kp7", "kp8", "kp9", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9",
        "f10", "f11", "f12",
    ];
    let mut rest = key;
    while rest.chars().count() > 1 {
        let bare = ["C-", "c-", "M-", "m-", "S-", "s-", "^"]
            .iter()
            .find_map(|modifier| rest.strip_prefix(modifier));
        match bare {
            Some(bare) if !bare.is_empty() => rest = bare,
            Some(_) | None => break,
        }
    }
    rest.chars().count() == 1 || NAMES.contains(&rest.to_lowercase().as_str())
}

// A prompt on a pane, in a form that tmux can compare in the same line that types.
//
// Between a look at a prompt and an answer the task may ask something else. So the answer is typed
// by one line of commands, which tmux runs without reading from the pane in between, and only if
// the prompt's row, the cursor and the process have not changed, and nothing else was typed.
//
// That line also stores on the pane what was asked, in a form that the caller chooses, so that a
// second answer, by whatever process, can be recognised.

/// The text to search for, stored on the pane while the line runs, because a format in the command
/// would be expanded.
const LOOKED_FOR: &str = "@tmux_task_shown";

/// What was asked when something was typed last, stored on the pane.
const ANSWERED: &str = "@tmux_task_answered";

/// The text printed by a line that has typed nothing.
const CHANGED: &str = "changed";

/// The last word is `a` and the value of [`ANSWERED`].
const SHAPE: &str = "#{pane_pid} #{cursor_x} #{cursor_y} #{history_size} #{alternate_on} \
                     a#{@tmux_task_answered}";

/// A pane at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneView {
    pane: PaneId,
    /// The value of [`SHAPE`].
    shape: String,
    /// The path of its terminal; empty if its program has ended.
    pub tty: String,
    screen: String,
}

/// The prompt as the screen showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShownPrompt {
    pane: PaneId,
    /// The value of [`SHAPE`].
    shape: String,
    /// The prompt's row, without trailing blanks.
    row: String,
    /// Its row on the screen, from 0, and its distance from the cursor's row.
    at: usize,
    below_cursor: i64,
    /// The first row with the same text.
    first: usize,
}

/// The position of a prompt that was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PromptPlace<'a> {
    /// The text of the row that asks, and how many rows it is below the cursor's row, negative above it;
    /// `None` where no row does, and the cursor's row stands for it.
    pub asking: Option<(&'a str, i64)>,
    /// The cursor's column.
    pub cursor_x: u32,
    /// The cursor's row on the screen.
    pub cursor_y: u32,
}

impl PaneView {
    /// Reads a pane.
    pub(crate) async fn read(
        connection: &mut Connection<'_>,
        pane: PaneId,
    ) -> Result<Self, TmuxError> {
        let target = pane.to_string();
        let shape_and_tty = format!("{SHAPE} #{{?pane_dead,,#{{pane_tty}}}}");
        let ask = [
            Command::new("display-message").args(["-p", "-t", &target, &shape_and_tty]),
            Command::new("capture-pane").args(["-p", "-t", &target]),
        ];
        let [shape_and_tty, screen] = connection.each(&ask).await?.map(|frame| frame.text());
        let (shape, tty) = shape_and_tty.rsplit_once(' ').unwrap_or_default();
        Ok(Self {
            pane,
            shape: shape.to_owned(),
            tty: tty.to_owned(),
            screen,
        })
    }

    /// Returns the prompt, if the pane shows it at that position.
    pub(crate) fn find(&self, place: PromptPlace<'_>) -> Option<ShownPrompt> {
        // It becomes a part of a format, and a program can set the option.
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | '-');
        if !self.shape.chars().all(is_plain) {
            return None;
        }
        let cursor_x: u32 = self.word(1)?.parse().ok()?;
        let cursor_y: i64 = self.word(2)?.parse().ok()?;
        let below_cursor = place.asking.map_or(0, |(_, below_cursor)| below_cursor);
        let at = usize::try_from(cursor_y + below_cursor).ok()?;
        let rows: Vec<&str> = self.screen.split('\n').map(str::trim_end).collect();
        let row = *rows.get(at)?;
        // Tabs are blanks in one of the two.
        let words = |row: &str| -> Vec<String> {
            let row = text::row(row.as_bytes());
            row.split_whitespace().map(ToOwned::to_owned).collect()
        };
        // The next frame may be wider, and the cursor behind it.
        let behind = |cursor_x: u32, row: &str| {
            let cursor_x = usize::try_from(cursor_x).unwrap_or(usize::MAX);
            cursor_x.checked_sub(row.trim_end().width())
        };
        let is_shown = match place.asking {
            None => (cursor_x, cursor_y) == (place.cursor_x, i64::from(place.cursor_y)),
            Some((line, _)) => {
                (cursor_x == place.cursor_x && words(row) == words(line))
                    || (is_same_except_signs(row, line)
                        && behind(cursor_x, row) == behind(place.cursor_x, line))
            }
        };
        is_shown.then(|| ShownPrompt {
            pane: self.pane,
            shape: self.shape.clone(),
            row: row.to_owned(),
            at,
            below_cursor,
            first: rows.iter().position(|other| *other == row).unwrap_or(at),
        })
    }

    /// Whether this is the process that tmux started in it.
    pub(crate) fn is_of(&self, pid: Option<u32>) -> bool {
        pid.is_some_and(|pid| self.shape.starts_with(&format!("{pid} ")))
    }

    /// Returns what was stored when something was typed last.
    pub(crate) fn answered(&self) -> &str {
        let last = self.word(5).and_then(|last| last.strip_prefix('a'));
        last.unwrap_or_default()
    }

    /// Returns a word of [`SHAPE`].
    fn word(&self, at: usize) -> Option<&str> {
        self.shape.split(' ').nth(at)
    }

    /// Returns the text in the cursor's row, or the last text above it.
    pub(crate) fn present_line(&self) -> String {
        let cursor_y = self.word(2).and_then(|y| y.parse().ok());
        let rows: Vec<&str> = self.screen.split('\n').collect();
        let up_to_cursor = rows.iter().take(cursor_y.map_or(0, |y: usize| y + 1));
        let line = up_to_cursor.rev().find(|row| !row.trim().is_empty());
        line.map_or_else(String::new, |row| text::row(row.trim().as_bytes()))
    }

    /// Returns a number that is another one if anything but animated parts of the screen changes.
    pub(crate) fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.word(3).hash(&mut hasher);
        for row in self.screen.split('\n') {
            without_animation(row).hash(&mut hasher);
        }
        hasher.finish()
    }
}

impl ShownPrompt {
    /// Returns commands that run `typing` if the pane still shows the prompt, and `instead`
    /// otherwise.
    pub(super) fn guard(&self, typing: &[Command], instead: &[Command]) -> Vec<Command> {
        let target = self.pane.to_string();
        let set =
            |value: &str| Command::new("set-option").args(["-p", "-t", &target, LOOKED_FOR, value]);
        let unset = Command::new("set-option").args(["-puq", "-t", &target, LOOKED_FOR]);
        let leave = leave_modes(self.pane);
        let say = Command::new("display-message").args(["-p", CHANGED]);
        // Otherwise a mode of tmux would get the keys.
        let typing = [&[unset.clone(), leave.clone()], typing].concat();
        let instead = [&[unset], instead, &[say]].concat();
        let either = |condition: &str, instead: &[Command]| {
            Command::new("if-shell")
                .args(["-F", "-t", &target, condition])
                .arg(control_line(&typing))
                .arg(control_line(instead))
        };
        let same_shape = format!("#{{==:{SHAPE},{}}}", self.shape);
        if self.first == self.at {
            let found = format!("#{{==:#{{C/r:#{{{LOOKED_FOR}}}}},{}}}", self.at + 1);
            let condition = format!("#{{&&:{same_shape},{found}}}");
            return vec![set(&pattern(&self.row)), either(&condition, &instead)];
        }
        // The search stops at a row above with the same text. Copy mode reports the cursor's row;
        // it is left before it is drawn.
        let found = format!("#{{==:#{{copy_cursor_line}},#{{{LOOKED_FOR}}}}}");
        let condition = format!("#{{&&:{same_shape},{found}}}");
        let mut commands = vec![
            set(&self.row),
            leave.clone(),
            Command::new("copy-mode").args(["-t", &target]),
        ];
        if self.below_cursor != 0 {
            let direction = ["cursor-up", "cursor-down"][usize::from(self.below_cursor > 0)];
            let n = self.below_cursor.unsigned_abs().to_string();
            let go = Command::new("send-keys").args(["-t", &target, "-N", &n, "-X", direction]);
            commands.push(go);
        }
        let instead = [&instead[..], &[leave]].concat();
        commands.push(either(&condition, &instead));
        commands
    }
}

/// Whether the answer to a guarded line means that nothing was typed.
pub(super) fn is_changed(answer: &str) -> bool {
    answer.lines().any(|line| line == CHANGED)
}

/// Returns an extended regular expression that matches exactly this row.
fn pattern(row: &str) -> String {
    let quoted = row.chars().map(|c| match "\\.[]{}()*+?^$|".contains(c) {
        true => format!("\\{c}"),
        false => c.to_string(),
    });
    format!("^{}$", quoted.collect::<String>())
}

/// Leaves all modes of tmux in which keys do not reach the program: copy mode, the clock, lists of
/// windows. They can be stacked.
fn leave_modes(pane: PaneId) -> Command {
    Command::new("copy-mode").args(["-q", "-t", &pane.to_string()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_known_by_tmuxs_names() {
        for key in [
            "a", "Enter", "C-c", "M-x", "^C", "C-M-a", "PageUp", "F12", "Up", "-", "é",
        ] {
            assert!(is_key(key), "{key}");
        }
        for key in ["", "Entr", "Ctrl-C", "C-", "yes", "F13"] {
            assert!(!is_key(key), "{key}");
        }
    }

    fn view(shape: &str, screen: &str) -> PaneView {
        PaneView {
            pane: PaneId(1),
            shape: shape.to_owned(),
            tty: String::new(),
            screen: screen.to_owned(),
        }
    }

    const SCREEN: &str = "Password:\nSorry, try again.\nPassword: \n  a\n\n";

    /// Where a question is found in a pane of this shape, whose cursor was judged to be at `10 2`.
    fn find(shape: &str, line: &str, below_cursor: i64) -> Option<(usize, usize, String)> {
        let place = PromptPlace {
            asking: Some((line, below_cursor)),
            cursor_x: 10,
            cursor_y: 2,
        };
        let found = view(shape, SCREEN).find(place)?;
        Some((found.at, found.first, found.row))
    }

    #[test]
    fn a_prompt_is_found_where_it_was_judged_to_be() {
        let again = "Sorry, try again.";
        for (shape, line, below_cursor, expected) in [
            ("7 10 2 0 0", "Password:", 0, Some((2, 0))),
            ("7 10 3 0 0", "Password:", -1, Some((2, 0))),
            ("7 10 0 0 0", again, 1, Some((1, 1))),
            // The cursor, the row or the screen has changed.
            ("7 11 2 0 0", "Password:", 0, None),
            ("7 10 1 0 0", "Password:", 0, None),
            ("7 10 0 0 0", "Password:", -1, None),
            ("7 10 9 0 0", "Password:", 0, None),
            ("", "Password:", 0, None),
        ] {
            let found = find(shape, line, below_cursor);
            let expected = expected.map(|(at, first)| (at, first, line.to_owned()));
            assert_eq!(found, expected, "{shape} {line}");
        }
        // Only signs that turn and dots that grow have changed.
        let screen = "Go.. [y/N] /";
        for (line, cursor_x, expected) in [
            ("Go. [y/N] -", 11, Some(screen)),
            ("Go. [y/N] -", 12, None),
            ("Run. [y/N] -", 12, None),
        ] {
            let place = PromptPlace {
                asking: Some((line, 0)),
                cursor_x,
                cursor_y: 0,
            };
            let found = view("7 12 0 0 0", screen).find(place);
            let row = found.map(|found| found.row);
            assert_eq!(row.as_deref(), expected, "{line} {cursor_x}");
        }
    }

    #[test]
    fn where_no_row_asks_the_cursor_is_where_it_was_judged_to_be() {
        let find = |shape: &str| {
            let place = PromptPlace {
                asking: None,
                cursor_x: 0,
                cursor_y: 4,
            };
            let found = view(shape, SCREEN).find(place)?;
            Some((found.at, found.row))
        };
        assert_eq!(find("7 0 4 0 0"), Some((4, String::new())));
        assert_eq!(find("7 2 4 0 0"), None);
        assert_eq!(find("7 0 3 0 0"), None);
    }

    #[test]
    fn a_row_is_only_text_to_the_search() {
        let pattern = pattern("Sure? (y|n) [#{pid}] $5.^");
        assert_eq!(pattern, r"^Sure\? \(y\|n\) \[#\{pid\}\] \$5\.\^$");
    }
}
