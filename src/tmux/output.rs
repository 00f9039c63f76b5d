//! A pane's output that tmux has, as rows or as lines. A long history is read in slices: a line of commands
//! each, between which tmux serves other clients.
//!
//! tmux counts rows from the top of the screen, so their numbers change while a pane prints. A pane that
//! changes meanwhile is read by one line.

use std::collections::VecDeque;

use super::banner::{BANNER, drop_banner, drop_joined_banner, expand_tabs};
use super::client::{Client, Connection, all_ok, continue_command, pause_command};
use super::error::TmuxError;
use crate::model::PaneId;
use crate::rules::protocol::{Command, Frame};
use crate::rules::terminal::{Extent, History, PaneOutput, columns_of};

/// How many rows of history one line captures where more can be read in slices: at 300 windows tmux
/// is busy with it for 1.5 ms, of which 0.6 are for any line. Escape sequences take three times as
/// long.
const SLICE: usize = 700;
const RAW_SLICE: usize = 200;

impl History {
    /// Returns the command that captures it, with these options.
    fn command(self, pane: PaneId, flags: &[&'static str]) -> Command {
        let start = match self {
            Self::Whole => "-".to_owned(),
            Self::LastRows(rows) => format!("-{rows}"),
        };
        let capture = Command::new("capture-pane").args(flags.iter().copied());
        capture.args(["-p", "-t", &pane.to_string(), "-S", &start, "-E", "-"])
    }

    /// Returns the first row that belongs to it, counted from the oldest one of this many.
    fn first_of(self, history: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::LastRows(rows) => history.saturating_sub(rows),
        }
    }
}

impl Extent {
    /// Returns the options of `capture-pane` for lines.
    fn flags(self) -> &'static [&'static str] {
        match self.is_raw {
            true => &["-J", "-e"],
            false => &["-J"],
        }
    }

    /// Returns the history that is read of it.
    fn history(self) -> History {
        self.lines.unwrap_or(self.rows)
    }

    /// Returns the end of it, with so much history, if the rest can be read in slices behind that: it is
    /// either rows or lines.
    fn end(self, slice: usize) -> Option<Self> {
        let end = History::LastRows(slice);
        match self.lines {
            None => Some(Self { rows: end, ..self }),
            Some(_) if self.rows > end => None,
            Some(_) => Some(Self {
                lines: Some(end),
                ..self
            }),
        }
    }
}

/// Reads a pane's output: in slices if it is long, unless the pane changes too much meanwhile.
pub(crate) async fn read_output(
    connection: &mut Connection<'_>,
    pane: PaneId,
    extent: Extent,
) -> Result<PaneOutput, TmuxError> {
    Ok(read(connection, pane, extent, None).await?.0)
}

/// The same as [`read_output`] for a pane of which another client receives all output from that instant
/// on: it is told that the pane was continued, as often as is returned, and what it receives before that is
/// older. Output that tmux has not sent to it yet is discarded, so that neither the answer nor that report
/// is late. A pane whose run has ended becomes safe to respawn (tmux up to 3.7c).
pub(crate) async fn follow_output(
    connection: &mut Connection<'_>,
    client: &str,
    pane: PaneId,
    extent: Extent,
) -> Result<(PaneOutput, usize), TmuxError> {
    read(connection, pane, extent, Some(client)).await
}

async fn read(
    connection: &mut Connection<'_>,
    pane: PaneId,
    extent: Extent,
    client: Option<&str>,
) -> Result<(PaneOutput, usize), TmuxError> {
    let slice = if extent.is_raw { RAW_SLICE } else { SLICE };
    let mut n_captured = 1;
    // Without an attached client each line costs a process.
    if extent.history() > History::LastRows(slice)
        && let (Some(end), Connection::Attached(_)) = (extent.end(slice), &connection)
    {
        let mut captured = Captured::read(connection, pane, end, client).await?;
        if captured.add_older(connection, pane, extent, slice).await? {
            return Ok((captured.into_output(extent), n_captured));
        }
        n_captured += 1;
    }
    let captured = Captured::read(connection, pane, extent, client).await?;
    Ok((captured.into_output(extent), n_captured))
}

/// Asks the client that receives all output of a pane for its present contents: the answer, for
/// [`read_asked`], comes behind all output before it.
pub(crate) fn ask_output(client: &mut Client, pane: PaneId, extent: Extent) {
    client.ask(&reading(pane, extent));
}

/// Reads the answer to [`ask_output`].
pub(crate) fn read_asked(frames: Vec<Frame>, extent: Extent) -> Result<PaneOutput, TmuxError> {
    let capture = Command::new("capture-pane");
    let captured = Captured::of(&all_ok(&[capture], frames)?)?;
    Ok(captured.into_output(extent))
}

fn reading(pane: PaneId, extent: Extent) -> Vec<Command> {
    let rows = extent.rows.command(pane, &[]);
    let lines = extent.lines.iter();
    let lines = lines.map(|history| history.command(pane, extent.flags()));
    [rows, shape_command(pane)]
        .into_iter()
        .chain(lines)
        .collect()
}

/// A pane, as captured.
#[derive(Debug, Clone)]
pub(super) struct Captured {
    /// Everything but its rows and lines.
    pub(super) state: PaneOutput,
    banner: String,
    pub(super) rows: VecDeque<Vec<u8>>,
    pub(super) lines: VecDeque<Vec<u8>>,
}

impl Captured {
    /// Captures this much at one instant, at which the client, if one is named, begins to receive the output.
    pub(super) async fn read(
        connection: &mut Connection<'_>,
        pane: PaneId,
        extent: Extent,
        client: Option<&str>,
    ) -> Result<Self, TmuxError> {
        // A line runs without interruption: the pane prints nothing between these.
        let pause = client.map(|client| pause_command(pane).args(["-t", client]));
        let go_on = client.map(|client| continue_command(pane).args(["-t", client]));
        let commands = pause.into_iter().chain(reading(pane, extent)).chain(go_on);
        let commands: Vec<Command> = commands.collect();
        let frames = connection.run(&commands).await?;
        let n_around = usize::from(client.is_some());
        Self::of(&frames[n_around..frames.len() - n_around])
    }

    fn of(frames: &[Frame]) -> Result<Self, TmuxError> {
        let [rows, shape, lines @ ..] = frames else {
            return Err(unreadable());
        };
        let (state, banner) = read_state(shape)?;
        let lines = lines.first().map(|lines| lines.body.clone());
        Ok(Self {
            state,
            banner,
            rows: rows.body.clone().into(),
            lines: lines.unwrap_or_default().into(),
        })
    }

    /// Adds the rows or lines that are missing of this, if they end with one slice of the history; returns
    /// `false` when the pane has changed since they were read.
    pub(super) async fn add_older(
        &mut self,
        connection: &mut Connection<'_>,
        pane: PaneId,
        extent: Extent,
        slice: usize,
    ) -> Result<bool, TmuxError> {
        let (known, flags) = match extent.lines {
            Some(_) => (&mut self.lines, extent.flags()),
            None => (&mut self.rows, &[][..]),
        };
        let (id, history) = (pane.to_string(), self.state.history);
        // tmux counts these numbers up from the top of the screen.
        let capture = |first: usize, end: usize| {
            let (first, last) = (history - first, history - (end - 1));
            let capture = Command::new("capture-pane").args(flags.iter().copied());
            let (first, last) = (format!("-{first}"), format!("-{last}"));
            capture.args(["-p", "-t", &id, "-S", &first, "-E", &last])
        };
        let from = extent.history().first_of(history);
        let mut missing = history.saturating_sub(slice);
        while missing > from {
            let oldest = missing.saturating_sub(slice).max(from);
            // One line if the first of these two rows is continued by the second.
            let border = capture(missing - 1, missing + 1);
            let commands = [capture(oldest, missing), border, shape_command(pane)];
            let [rows, border, shape] = connection.each(&commands).await?;
            if read_state(&shape)?.0 != self.state {
                return Ok(false);
            }
            let mut rows = rows.body;
            let is_continued = border.body.len() == 1;
            if extent.is_raw {
                // The next slice was captured as if the terminal had been reset before it.
                reset_slice(&mut rows, is_continued);
            }
            if is_continued && let Some(last) = rows.last_mut() {
                last.extend(known.pop_front().unwrap_or_default());
            }
            rows.into_iter().rev().for_each(|row| known.push_front(row));
            missing = oldest;
        }
        Ok(true)
    }

    pub(super) fn into_output(self, extent: Extent) -> PaneOutput {
        let (banner, state) = (&self.banner, self.state);
        let text = |line: &Vec<u8>| expand_tabs(line, state.width);
        let mut rows: Vec<String> = self.rows.iter().map(text).collect();
        let lines = self.lines.iter();
        let mut lines: Vec<String> = match extent.is_raw {
            true => lines
                .map(|line| String::from_utf8_lossy(line).trim_end().to_owned())
                .collect(),
            false => lines.map(text).collect(),
        };
        if state.is_dead {
            drop_banner(&mut rows, banner);
            drop_joined_banner(&mut lines, banner);
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        if extent.is_raw {
            reset_at_end(&mut lines);
        }
        PaneOutput {
            rows,
            lines,
            ..state
        }
    }
}

/// Prints a pane's dimensions and state, and the banner of a dead pane.
fn shape_command(pane: PaneId) -> Command {
    let format = format!(
        "#{{history_size}} #{{history_limit}} #{{pane_width}} #{{pane_height}} #{{cursor_x}} \
         #{{cursor_y}} #{{alternate_on}} #{{pane_dead}} p#{{pane_pid}} {BANNER}"
    );
    Command::new("display-message").args(["-p", "-t", &pane.to_string(), &format])
}

/// Reads what [`shape_command`] has printed: everything but the rows, and the banner of a dead pane.
fn read_state(shape: &Frame) -> Result<(PaneOutput, String), TmuxError> {
    let shape = shape.text();
    let mut fields = shape.splitn(10, ' ');
    let numbers: Vec<usize> = fields
        .by_ref()
        .take(8)
        .map_while(|number| number.parse().ok())
        .collect();
    let pid = fields.next().and_then(|pid| pid.strip_prefix('p'));
    let pid = pid.and_then(|pid| pid.parse().ok());
    let banner = fields.next().unwrap_or_default();
    let [history, limit, width, height, x, y, alternate, dead] = numbers[..] else {
        return Err(unreadable());
    };
    let output = PaneOutput {
        history,
        limit,
        width,
        height,
        cursor: (x, y),
        is_alternate: alternate != 0,
        is_dead: dead != 0,
        pid,
        ..PaneOutput::default()
    };
    Ok((output, banner.to_owned()))
}

fn unreadable() -> TmuxError {
    TmuxError::confused("a pane's shape cannot be read")
}

/// Reads the screen and as many of the last rows of the history as contain enough whole lines: so many at
/// first, and more if that is not enough.
pub(crate) async fn read_end(
    connection: &mut Connection<'_>,
    pane: PaneId,
    is_raw: bool,
    mut rows: usize,
    are_enough: impl Fn(&[String]) -> bool,
) -> Result<PaneOutput, TmuxError> {
    loop {
        let extent = Extent::of_lines(History::LastRows(rows), is_raw);
        let output = read_output(connection, pane, extent).await?;
        // The first line may lack its beginning.
        if output.history <= rows || are_enough(output.lines.get(1..).unwrap_or_default()) {
            return Ok(output);
        }
        rows = rows.saturating_mul(8);
    }
}

/// How many rows of the beginning of a run's output are read before tmux drops them.
const FIRST_ROWS: usize = 2000;

/// With how many rows of history they are first read: a tenth of tmux's usual limit.
const FEW_ROWS: usize = 200;

/// The first lines of a run's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FirstLines {
    /// The process of the run.
    pub pid: Option<u32>,
    pub lines: Vec<String>,
    n_rows: usize,
    /// Whether no more of them are read: these are all that are wanted, or further ones are dropped.
    is_final: bool,
}

impl FirstLines {
    /// Whether a pane with this process and so many rows of history has considerably more than those `known`.
    pub(crate) fn are_wanted(known: Option<&Self>, pid: Option<u32>, history: usize) -> bool {
        let known = known.filter(|known| known.pid == pid);
        let n_known = known.map_or(0, |known| known.n_rows);
        let is_final = known.is_some_and(|known| known.is_final);
        !is_final && history >= FIRST_ROWS.min(n_known * 2).max(FEW_ROWS)
    }
}

/// Reads the first lines of a pane's output, if there are considerably more than those `known`. tmux
/// drops a tenth of the rows at once, and no more than that are read.
pub(crate) async fn read_first_lines(
    connection: &mut Connection<'_>,
    pane: PaneId,
    known: &mut FirstLines,
) -> Result<(), TmuxError> {
    let [shape] = connection.each(&[shape_command(pane)]).await?;
    let (begin, _) = read_state(&shape)?;
    if known.pid != begin.pid {
        *known = FirstLines {
            pid: begin.pid,
            ..FirstLines::default()
        };
    }
    let most = FIRST_ROWS.min(begin.limit / 10);
    let n_rows = begin.history.min(most);
    known.is_final = begin.may_lack_rows() || known.n_rows >= most;
    if known.is_final || n_rows == 0 || n_rows < most.min(known.n_rows * 2) {
        return Ok(());
    }
    // The history may grow meanwhile: its first rows stay the first ones.
    let last = format!("-{}", begin.history - n_rows + 1);
    let capture = Command::new("capture-pane").args(["-p", "-J", "-t", &pane.to_string()]);
    let commands = [capture.args(["-S", "-", "-E", &last]), shape_command(pane)];
    let [rows, shape] = connection.each(&commands).await?;
    let (end, _) = read_state(&shape)?;
    if !end.may_lack_rows() && end.pid == begin.pid && end.history >= begin.history {
        let lines = rows.body.iter().map(|line| expand_tabs(line, end.width));
        // What the pane has printed meanwhile is not wanted.
        let mut n_left = n_rows;
        let fits = |line: &String| {
            let n_rows = columns_of(line).div_ceil(end.width).max(1);
            let fits = n_rows <= n_left;
            n_left = n_left.saturating_sub(n_rows);
            fits
        };
        known.lines = lines.take_while(fits).collect();
        // It may continue in the next row.
        known.lines.pop();
        known.n_rows = n_rows;
    }
    Ok(())
}

const RESET: &str = "\u{1b}[m";
const SHIFT_OUT: u8 = 0xe;
const SHIFT_IN: u8 = 0xf;

/// tmux writes attributes and the character set only where they change, and no end for the last ones:
/// without a reset the reader's terminal would continue in that colour, or draw lines.
fn reset_at_end(lines: &mut [String]) {
    let reset = reset_after(lines.iter().map(String::as_bytes));
    if let Some(last) = lines.last_mut()
        && !(reset == RESET && last.ends_with(RESET))
    {
        last.push_str(&reset);
    }
}

/// The same for a captured slice. Blanks at the end of a line are dropped, as they are from lines
/// without a reset, unless the line continues.
fn reset_slice(rows: &mut [Vec<u8>], is_continued: bool) {
    let reset = reset_after(rows.iter().map(Vec::as_slice));
    if let Some(last) = rows.last_mut() {
        if !is_continued {
            last.truncate(last.trim_ascii_end().len());
        }
        last.extend_from_slice(reset.as_bytes());
    }
}

/// Returns what resets a terminal that has printed these lines.
fn reset_after<'a>(lines: impl DoubleEndedIterator<Item = &'a [u8]> + Clone) -> String {
    let has_escapes = lines.clone().any(|line| line.contains(&0x1b));
    let is_shift = |byte: &u8| [SHIFT_OUT, SHIFT_IN].contains(byte);
    let last_shift = lines
        .rev()
        .find_map(|line| line.iter().copied().rfind(is_shift));
    let mut reset = String::new();
    if last_shift == Some(SHIFT_OUT) {
        reset.push(char::from(SHIFT_IN));
    }
    if has_escapes {
        reset.push_str(RESET);
    }
    reset
}
