//! All of a pane's output that tmux has, at one instant.

use super::banner::{drop_banner, drop_joined_banner, expand_tabs};
use super::client::{Client, Connection, all_ok, continue_command, pause_command};
use super::error::TmuxError;
use super::history_slices::{Capture, Slice, read_older, read_state, shape_command, unreadable};
use crate::model::PaneId;
use crate::protocol::{Command, Frame};
use crate::terminal::{PaneLog, PaneOutput, columns_of};

/// How many rows of history one line captures where more can be read in slices: at 300 windows tmux
/// is busy with it for 1.5 ms, of which 0.6 are for any line. Escape sequences take three times as
/// long.
const SLICE: usize = 700;
const RAW_SLICE: usize = 200;

/// What to read of a pane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    /// How much of the history.
    pub history: History,
    /// How many of the last lines besides; 0 for none.
    pub lines: usize,
}

impl Extent {
    /// How many rows of the history are read for each line, and how many besides: see
    /// [`PaneOutput::lines`].
    const ROWS_PER_LINE: usize = 32;
    const MORE_ROWS: usize = 200;

    fn of(history: History) -> Self {
        Self { history, lines: 0 }
    }

    /// Whether it can be read in slices.
    pub(crate) fn is_sliced(self) -> bool {
        self.history == History::Whole && self.lines == 0
    }
}

/// How much of the history to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    /// All of it.
    Whole,
    /// This many of its last rows.
    LastRows(usize),
}

impl History {
    /// Returns the row that a capture begins with, as tmux counts.
    fn first_row(self) -> String {
        match self {
            Self::Whole => "-".to_owned(),
            Self::LastRows(rows) => format!("-{rows}"),
        }
    }

    /// Whether it can be more than so many rows.
    fn can_exceed(self, slice: usize) -> bool {
        match self {
            Self::Whole => true,
            Self::LastRows(rows) => rows > slice,
        }
    }

    /// Returns the first row that belongs to it, counted from the oldest one of this many.
    fn first_of(self, history: usize) -> usize {
        match self {
            Self::Whole => 0,
            Self::LastRows(rows) => history.saturating_sub(rows),
        }
    }
}

/// The end of a pane's output, and when it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PaneEnd {
    /// The screen, and as much of the history as was read.
    pub output: PaneOutput,
    /// By the server's clock, in seconds since 1970.
    pub read_at: i64,
}

impl PaneEnd {
    /// How many rows of the history it has where the others can be read with [`complete`].
    pub(crate) const HISTORY: History = History::LastRows(SLICE);
}

/// How often a history is read in slices, if the pane changes too much meanwhile, before it is read
/// by one line. The end of the run is such a change, and the last one.
pub(crate) const MAX_SLICED_READINGS: usize = 2;

/// Adds the missing rows of this much history to an end that was read with [`PaneEnd::HISTORY`];
/// `None` when the pane has changed too much since then.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn complete(
    connection: &mut Connection<'_>,
    pane: PaneId,
    end: PaneEnd,
    history: History,
) -> Result<Option<PaneOutput>, TmuxError> {
    let capture = Capture {
        flags: &[],
        is_joined: false,
        slice: SLICE,
    };
    let PaneEnd {
        mut output,
        read_at,
    } = end;
    let from = history.first_of(output.history);
    let older = read_older(connection, pane, &output, read_at, from, capture).await?;
    let Some(older) = older else {
        return Ok(None);
    };
    let older = older.iter().flat_map(|slice| &slice.rows);
    let mut rows: Vec<String> = older.map(|row| expand_tabs(row, output.width)).collect();
    rows.append(&mut output.rows);
    Ok(Some(PaneOutput { rows, ..output }))
}

/// Reads the screen and this much of the history of the pane: in slices if it is long, unless the
/// pane changes too much meanwhile.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_output(
    connection: &mut Connection<'_>,
    pane: PaneId,
    history: History,
) -> Result<PaneOutput, TmuxError> {
    // Without an attached client each line costs a process.
    if history.can_exceed(SLICE) && matches!(connection, Connection::Attached(_)) {
        for _ in 0..MAX_SLICED_READINGS {
            let extent = Extent::of(PaneEnd::HISTORY);
            let frames = connection.run(&reading(pane, extent)).await?;
            let end = read_frames(&frames, extent)?;
            if let Some(output) = complete(connection, pane, end, history).await? {
                return Ok(output);
            }
        }
    }
    let extent = Extent::of(history);
    let frames = connection.run(&reading(pane, extent)).await?;
    Ok(read_frames(&frames, extent)?.output)
}

/// The same as [`read_output`] for a pane of which another client receives all output from that instant
/// on: it is told that the pane was continued, and what it receives before that is older. Output that
/// tmux has not sent to it yet is discarded, so that neither the answer nor that report is late. A pane
/// whose run has ended becomes safe to respawn (tmux up to 3.7c).
///
/// # Errors
///
/// When the pane or the client is missing or tmux fails.
pub(crate) async fn follow_output(
    connection: &mut Connection<'_>,
    client: &str,
    pane: PaneId,
    extent: Extent,
) -> Result<PaneEnd, TmuxError> {
    // A line runs without interruption: the pane prints nothing between these.
    let mut commands = vec![pause_command(pane).args(["-t", client])];
    commands.extend(reading(pane, extent));
    commands.push(continue_command(pane).args(["-t", client]));
    let frames = connection.run(&commands).await?;
    read_frames(&frames[1..frames.len() - 1], extent)
}

/// Asks the client that receives all output of a pane for its present contents: the answer, for
/// [`read_asked`], comes behind all output before it.
///
/// # Errors
///
/// When tmux is gone.
pub(crate) async fn ask_output(
    client: &mut Client,
    pane: PaneId,
    extent: Extent,
) -> Result<(), TmuxError> {
    client.ask(&reading(pane, extent)).await
}

/// Reads the answer to [`ask_output`].
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) fn read_asked(frames: Vec<Frame>, extent: Extent) -> Result<PaneOutput, TmuxError> {
    let capture = Command::new("capture-pane");
    Ok(read_frames(&all_ok(&[capture], frames)?, extent)?.output)
}

fn reading(pane: PaneId, extent: Extent) -> Vec<Command> {
    let id = pane.to_string();
    let capture = |history: History| {
        let start = history.first_row();
        Command::new("capture-pane").args(["-p", "-t", &id, "-S", &start, "-E", "-"])
    };
    let mut commands = vec![capture(extent.history), shape_command(pane)];
    if extent.lines > 0 {
        let rows = extent.lines.checked_mul(Extent::ROWS_PER_LINE);
        let history = rows.map_or(History::Whole, |rows| {
            History::LastRows(rows.saturating_add(Extent::MORE_ROWS))
        });
        commands.push(capture(history).arg("-J"));
    }
    commands
}

fn read_frames(frames: &[Frame], extent: Extent) -> Result<PaneEnd, TmuxError> {
    let [rows, shape, lines @ ..] = frames else {
        return Err(unreadable());
    };
    let (mut output, banner) = read_shape(rows, shape)?;
    if let [lines] = lines {
        let joined = JoinedRows {
            lines: lines.body.clone(),
            end: PaneEnd {
                output: output.clone(),
                read_at: lines.time,
            },
            banner,
        };
        output.lines = joined.into_log(Style::Plain).lines;
        let n_older = output.lines.len().saturating_sub(extent.lines);
        output.lines.drain(..n_older);
    }
    Ok(PaneEnd {
        output,
        read_at: rows.time,
    })
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
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_first_lines(
    connection: &mut Connection<'_>,
    pane: PaneId,
    known: &mut FirstLines,
) -> Result<(), TmuxError> {
    let shape = connection.run(&[shape_command(pane)]).await?;
    let (begin, _) = read_state(shape.first().ok_or_else(unreadable)?)?;
    if known.pid != begin.pid {
        *known = FirstLines {
            pid: begin.pid,
            ..FirstLines::default()
        };
    }
    let most = FIRST_ROWS.min(begin.limit / 10);
    let n_rows = begin.history.min(most);
    known.is_final = !begin.has_first_row() || known.n_rows >= most;
    if known.is_final || n_rows == 0 || n_rows < most.min(known.n_rows * 2) {
        return Ok(());
    }
    // The history may grow meanwhile: its first rows stay the first ones.
    let last = format!("-{}", begin.history - n_rows + 1);
    let capture = Command::new("capture-pane").args(["-p", "-J", "-t", &pane.to_string()]);
    let commands = [capture.args(["-S", "-", "-E", &last]), shape_command(pane)];
    let frames = connection.run(&commands).await?;
    let [rows, shape] = frames.as_slice() else {
        return Err(unreadable());
    };
    let (end, _) = read_state(shape)?;
    if end.has_first_row() && end.pid == begin.pid && end.history >= begin.history {
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

/// Whether a log includes escape sequences for colours and attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Sanitised text only.
    Plain,
    /// With escape sequences.
    Raw,
}

/// Reads a pane's output for reading: the screen, and this much of the history.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_log(
    connection: &mut Connection<'_>,
    pane: PaneId,
    style: Style,
    history: History,
) -> Result<PaneLog, TmuxError> {
    let slice = match style {
        Style::Plain => SLICE,
        Style::Raw => RAW_SLICE,
    };
    // Without an attached client each line costs a process.
    if history.can_exceed(slice) && matches!(connection, Connection::Attached(_)) {
        for _ in 0..MAX_SLICED_READINGS {
            let joined = capture_joined_in_slices(connection, pane, style, history, slice).await?;
            if let Some(joined) = joined {
                return Ok(joined.into_log(style));
            }
        }
    }
    let joined = capture_joined(connection, pane, style, history).await?;
    Ok(joined.into_log(style))
}

/// Reads the screen and as many of the last rows of the history as contain enough whole lines: so many at
/// first, and more if that is not enough.
///
/// # Errors
///
/// When the pane is missing or tmux fails.
pub(crate) async fn read_log_end(
    connection: &mut Connection<'_>,
    pane: PaneId,
    style: Style,
    mut rows: usize,
    are_enough: impl Fn(&[String]) -> bool,
) -> Result<PaneLog, TmuxError> {
    loop {
        let log = read_log(connection, pane, style, History::LastRows(rows)).await?;
        // The first line may lack its beginning.
        if log.end.history <= rows || are_enough(log.lines.get(1..).unwrap_or_default()) {
            return Ok(log);
        }
        rows = rows.saturating_mul(8);
    }
}

/// A pane's output with wrapped rows joined, as captured.
#[derive(Debug)]
pub(super) struct JoinedRows {
    lines: Vec<Vec<u8>>,
    pub(super) end: PaneEnd,
    banner: String,
}

impl Style {
    /// Returns the options of `capture-pane` for joined rows.
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Plain => &["-J"],
            Self::Raw => &["-J", "-e"],
        }
    }
}

pub(super) async fn capture_joined(
    connection: &mut Connection<'_>,
    pane: PaneId,
    style: Style,
    history: History,
) -> Result<JoinedRows, TmuxError> {
    let id = pane.to_string();
    let start = history.first_row();
    let capture = Command::new("capture-pane").args(style.flags().iter().copied());
    let commands = [
        capture.args(["-p", "-t", &id, "-S", &start, "-E", "-"]),
        Command::new("capture-pane").args(["-p", "-t", &id, "-S", "-1", "-E", "-"]),
        shape_command(pane),
    ];
    let frames = connection.run(&commands).await?;
    let [joined, rows, shape] = frames.as_slice() else {
        return Err(unreadable());
    };
    let (output, banner) = read_shape(rows, shape)?;
    Ok(JoinedRows {
        lines: joined.body.clone(),
        end: PaneEnd {
            output,
            read_at: joined.time,
        },
        banner,
    })
}

/// The same in lines of so many rows each; `None` when the pane changes too much meanwhile.
pub(super) async fn capture_joined_in_slices(
    connection: &mut Connection<'_>,
    pane: PaneId,
    style: Style,
    history: History,
    slice: usize,
) -> Result<Option<JoinedRows>, TmuxError> {
    let mut joined = capture_joined(connection, pane, style, History::LastRows(slice)).await?;
    let capture = Capture {
        flags: style.flags(),
        is_joined: true,
        slice,
    };
    let end = &joined.end;
    let from = history.first_of(end.output.history);
    let older = read_older(connection, pane, &end.output, end.read_at, from, capture).await?;
    let Some(older) = older else {
        return Ok(None);
    };
    let mut lines: Vec<Vec<u8>> = Vec::new();
    let mut is_continued = false;
    let mut add = |rows: Vec<Vec<u8>>, is_next_continued| {
        let mut rows = rows.into_iter();
        if is_continued && let (Some(line), Some(rest)) = (lines.last_mut(), rows.next()) {
            line.extend(rest);
        }
        lines.extend(rows);
        is_continued = is_next_continued;
    };
    for slice in older {
        let Slice {
            mut rows,
            is_continued,
        } = slice;
        if style == Style::Raw {
            // The next slice is captured as if the terminal had been reset before it.
            reset_slice(&mut rows, is_continued);
        }
        add(rows, is_continued);
    }
    add(std::mem::take(&mut joined.lines), false);
    joined.lines = lines;
    Ok(Some(joined))
}

impl JoinedRows {
    pub(super) fn into_log(self, style: Style) -> PaneLog {
        let Self {
            lines,
            end: PaneEnd { output: end, .. },
            banner,
        } = self;
        let mut lines: Vec<String> = lines
            .iter()
            .map(|line| match style {
                Style::Plain => expand_tabs(line, end.width),
                Style::Raw => String::from_utf8_lossy(line).trim_end().to_owned(),
            })
            .collect();
        if end.is_dead {
            drop_joined_banner(&mut lines, &banner);
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        if style == Style::Raw {
            reset_at_end(&mut lines);
        }
        PaneLog { lines, end }
    }
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

fn read_shape(rows: &Frame, shape: &Frame) -> Result<(PaneOutput, String), TmuxError> {
    let (mut output, banner) = read_state(shape)?;
    output.rows = rows
        .body
        .iter()
        .map(|row| expand_tabs(row, output.width))
        .collect();
    if output.is_dead {
        drop_banner(&mut output.rows, &banner);
    }
    Ok((output, banner))
}
