//! The look: everything of a session in one line of commands, so of one instant.

use std::collections::{BTreeMap, BTreeSet};

use super::banner::BANNER;
use super::capture::{Captures, Shape, capture_command};
use super::client::{Connection, continue_command};
use super::error::TmuxError;
use super::nonce::nonce;
use crate::model::{Exit, Millis, PaneId, Screen, SessionId, SessionLife, Signal, WindowId, text};
use crate::protocol::rows::{DeadPane, Death, Look, PaneRow, SessionRow, WindowRow};
use crate::protocol::{Command, Frame};

/// Which session to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// This life of it, through every rename.
    Id(SessionId),
    /// Whichever has exactly this name.
    Name(String),
}

impl Target {
    /// As commands take it that want a session.
    pub(super) fn session(&self) -> String {
        match self {
            Self::Id(id) => id.to_string(),
            Self::Name(name) => format!("={name}"),
        }
    }

    /// As commands take it that want a pane or a window.
    pub(super) fn pane(&self) -> String {
        format!("{}:", self.session())
    }
}

/// Looks at everything of the session at one instant; `None` when there is no such session, or
/// no server. The panes of `resume` tell of their output again from that very instant on: it is
/// for attached clients, and for panes that [`super::Client::hush`] has made silent.
///
/// # Errors
///
/// [`TmuxError::Confused`] when the answer does not fit the question: the caller connects anew.
/// Whatever else keeps an answer from coming.
pub async fn look(
    connection: &mut Connection<'_>,
    target: &Target,
    captures: &mut Captures,
    resume: &BTreeSet<PaneId>,
) -> Result<Option<Look>, TmuxError> {
    let mut wanted = captures.likely();
    // The first line captures what has probably moved, the second what its rows show to have
    // moved as well; the third is for panes that came or moved in between.
    for _ in 0..3 {
        let answer = match ask(connection, target, &wanted, resume).await {
            Err(error) if error.is_missing() => return Ok(None),
            // A pane that was to be captured has gone.
            Err(TmuxError::Rejected { command, .. }) if command == "capture-pane" => {
                wanted.clear();
                ask(connection, target, &wanted, resume).await
            }
            answer => answer,
        };
        let answer = match answer {
            Err(error) if error.is_missing() => return Ok(None),
            answer => answer?,
        };
        let missing: Vec<(PaneId, Shape)> = answer
            .panes
            .values()
            .filter(|found| captures.is_stale(found.row.pane, &found.shape))
            .filter(|found| !answer.captured.contains_key(&found.row.pane))
            .map(|found| (found.row.pane, found.shape))
            .collect();
        if missing.is_empty() {
            return Ok(Some(answer.settle(captures)));
        }
        let present: BTreeSet<PaneId> = answer.panes.values().map(|found| found.row.pane).collect();
        wanted.retain(|pane, _| present.contains(pane));
        wanted.extend(missing);
        captures.last_resort = Some(answer);
    }
    let answer = captures.last_resort.take();
    answer.map_or_else(
        || Err(confused("no look was whole")),
        |answer| Ok(Some(answer.settle(captures))),
    )
}

/// One answer, with the captures that were in it.
#[derive(Debug)]
pub(super) struct Answer {
    /// The server's clock at the end of the line, in seconds.
    time: i64,
    session: SessionRow,
    windows: BTreeMap<WindowId, WindowRow>,
    panes: BTreeMap<WindowId, FoundPane>,
    captured: BTreeMap<PaneId, (Shape, Vec<Vec<u8>>)>,
    record: String,
}

#[derive(Debug)]
struct FoundPane {
    row: PaneRow,
    shape: Shape,
    /// What tmux wrote into it when it died.
    banner: String,
}

impl Answer {
    /// Joins windows, panes and screens, and remembers the captures.
    fn settle(mut self, captures: &mut Captures) -> Look {
        captures.last_resort = None;
        let present: BTreeSet<PaneId> = self.panes.values().map(|found| found.row.pane).collect();
        for (window, mut found) in self.panes {
            let pane = found.row.pane;
            if let Some((asked, lines)) = self.captured.remove(&pane) {
                captures.remember(pane, self.time, found.shape, &asked, &lines, &found.banner);
            }
            found.row.screen = captures.screen(pane);
            if let Some(row) = self.windows.get_mut(&window) {
                row.pane = Some(found.row);
            }
        }
        captures.keep_only(&present, self.time);
        Look {
            time: self.time,
            session: self.session,
            windows: self.windows.into_values().collect(),
            deaths: Death::parse_record(&self.record),
            death_record: self.record,
        }
    }
}

fn confused(detail: impl Into<String>) -> TmuxError {
    TmuxError::Confused {
        detail: detail.into(),
    }
}

async fn ask(
    connection: &mut Connection<'_>,
    target: &Target,
    wanted: &BTreeMap<PaneId, Shape>,
    resume: &BTreeSet<PaneId>,
) -> Result<Answer, TmuxError> {
    // `list-windows` is first because `display-message` takes another session when the target
    // is missing.
    let mut commands = vec![
        Command::new("list-windows")
            .args(["-t", &target.session(), "-F"])
            .arg(window_format()),
        Command::new("display-message")
            .args(["-p", "-t", &target.pane()])
            .arg(session_format()),
        Command::new("list-panes")
            .args(["-s", "-t", &target.pane(), "-F"])
            .arg(pane_format()),
    ];
    commands.extend(
        wanted
            .iter()
            .map(|(pane, shape)| capture_command(*pane, shape)),
    );
    commands.extend(resume.iter().copied().map(continue_command));
    commands.push(Command::new("display-message").args(["-p", nonce()]));
    let frames = connection.run(&commands).await?;
    if frames.len() != commands.len() {
        return Err(confused(format!(
            "{} frames for {} commands",
            frames.len(),
            commands.len()
        )));
    }
    let last = frames.last().map(Frame::text);
    if last.as_deref() != Some(nonce()) {
        return Err(confused("the end mark is missing"));
    }
    read(frames, wanted).ok_or_else(|| confused("a row cannot be read"))
}

fn read(frames: Vec<Frame>, wanted: &BTreeMap<PaneId, Shape>) -> Option<Answer> {
    let time = frames.last()?.time;
    let mut frames = frames.into_iter();
    let windows = read_rows(&frames.next()?.text(), read_window)?;
    let (session, record) = read_rows(&frames.next()?.text(), read_session)?.pop()?;
    let mut panes: BTreeMap<WindowId, FoundPane> = BTreeMap::new();
    for (window, found) in read_rows(&frames.next()?.text(), read_pane)? {
        let first = panes.get(&window);
        if first.is_none_or(|first| found.row.pane < first.row.pane) {
            panes.insert(window, found);
        }
    }
    let captured = wanted
        .iter()
        .zip(frames)
        .map(|((pane, shape), frame)| (*pane, (*shape, frame.body)))
        .collect();
    Some(Answer {
        time,
        session,
        windows: windows.into_iter().map(|row| (row.window, row)).collect(),
        panes,
        captured,
        record,
    })
}

/// A row is `NONCE! field NONCE| field NONCE.`, without the blanks.
pub(super) fn row_format(fields: &[&str]) -> String {
    let nonce = nonce();
    let fields = fields.join(&format!("{nonce}|"));
    format!("{nonce}!{fields}{nonce}.")
}

pub(super) fn read_rows<T>(
    text: &str,
    read: impl Fn(&mut Fields<'_>) -> Option<T>,
) -> Option<Vec<T>> {
    let nonce = nonce();
    let (start, end, separator) = (
        format!("{nonce}!"),
        format!("{nonce}."),
        format!("{nonce}|"),
    );
    text.split(&start)
        .skip(1)
        .map(|row| {
            let (row, _) = row.split_once(&end)?;
            read(&mut Fields(
                row.split(separator.as_str())
                    .collect::<Vec<_>>()
                    .into_iter(),
            ))
        })
        .collect()
}

pub(super) struct Fields<'a>(std::vec::IntoIter<&'a str>);

impl Fields<'_> {
    fn text(&mut self) -> Option<String> {
        self.0
            .next()
            .map(|field| text::one_line(field.as_bytes(), 4096))
    }

    /// A text as it is.
    pub(super) fn raw(&mut self) -> Option<String> {
        self.0.next().map(str::to_owned)
    }

    /// A text that may be empty, which says nothing.
    fn some_text(&mut self) -> Option<Option<String>> {
        self.text().map(|text| (!text.is_empty()).then_some(text))
    }

    pub(super) fn parse<T: std::str::FromStr>(&mut self) -> Option<T> {
        self.0.next()?.parse().ok()
    }

    /// A number that may be missing; what is no number is missing.
    pub(super) fn maybe<T: std::str::FromStr>(&mut self) -> Option<Option<T>> {
        self.0.next().map(|field| field.trim().parse().ok())
    }

    fn flag(&mut self) -> Option<bool> {
        self.0.next().map(|field| field == "1")
    }
}

/// An option's text. `=` bounds it but changes runs of `#` and drops newlines, so it is used
/// only where the bound is passed.
fn bounded(option: &str) -> String {
    format!("#{{?#{{e|>:#{{n:{option}}},4096}},#{{=4096:{option}}},#{{{option}}}}}")
}

fn first_of(ours: &str, other: &str) -> String {
    format!("#{{?{ours},{},{}}}", bounded(ours), bounded(other))
}

fn window_format() -> String {
    row_format(&[
        "#{window_id}",
        "#{window_bell_flag}",
        "#{window_activity}",
        "#{=20:@tmux_task_bell_count}",
        "#{=20:@pi_tmux_task_bell_count}",
        "#{=20:@tmux_task_run}",
        "#{=20:@tmux_task_started}",
        "#{=20:@tmux_task_replaced}",
        "#{window_name}",
        &first_of("@tmux_task_command", "@pi_task_command"),
        &first_of("@tmux_task_cwd", "@pi_task_cwd"),
    ])
}

fn read_window(fields: &mut Fields<'_>) -> Option<WindowRow> {
    let window = fields.parse()?;
    let bell = fields.flag()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let counts: [Option<u64>; 2] = [fields.maybe()?, fields.maybe()?];
    Some(WindowRow {
        window,
        bell,
        activity,
        bell_count: counts.into_iter().flatten().reduce(u64::saturating_add),
        run: fields.maybe()?,
        started: fields.maybe::<Millis>()?,
        replaced: fields.maybe()?,
        name: fields.text()?,
        command: fields.some_text()?,
        cwd: fields.some_text()?,
        pane: None,
    })
}

fn session_format() -> String {
    row_format(&[
        "#{pid}",
        "#{start_time}",
        "#{session_id}",
        "#{session_created}",
        "#{session_name}",
        &bounded("@tmux_task_root"),
        &bounded("@tmux_task_title"),
        "#{@tmux_task_deaths}",
    ])
}

fn read_session(fields: &mut Fields<'_>) -> Option<(SessionRow, String)> {
    let session = SessionRow {
        life: SessionLife {
            server_pid: fields.parse()?,
            server_started: fields.parse()?,
            id: fields.parse()?,
            created: fields.parse()?,
        },
        name: fields.text()?,
        root: fields.some_text()?,
        title: fields.some_text()?,
    };
    Some((session, fields.0.next()?.to_owned()))
}

fn pane_format() -> String {
    row_format(&[
        "#{window_id}",
        "#{pane_id}",
        "#{window_activity}",
        "#{pane_pid}",
        "#{pane_dead}",
        "#{pane_dead_status}",
        "#{pane_dead_signal}",
        "#{pane_dead_time}",
        "#{pane_width}",
        "#{pane_height}",
        "#{history_size}",
        "#{cursor_x}",
        "#{cursor_y}",
        "#{alternate_on}",
        "#{pane_in_mode}",
        "#{pane_tty}",
        "#{pane_title}",
        // Asked only where nothing is recorded: it makes the server read in /proc.
        "#{?@tmux_task_command,,#{?@pi_task_command,,#{pane_current_command}}}",
        BANNER,
    ])
}

fn read_pane(fields: &mut Fields<'_>) -> Option<(WindowId, FoundPane)> {
    let window = fields.parse()?;
    let pane = fields.parse()?;
    let activity = fields.maybe()?.unwrap_or_default();
    let pid = fields.maybe()?;
    let is_dead = fields.flag()?;
    let dead = DeadPane {
        exit: Exit {
            code: fields.maybe()?,
            signal: Signal::parse(fields.0.next()?),
        },
        time: fields.maybe()?,
    };
    let shape = Shape {
        activity,
        pid,
        is_dead,
        width: fields.parse()?,
        height: fields.parse()?,
        history: fields.parse()?,
        cursor_x: fields.parse()?,
        cursor_y: fields.parse()?,
        is_alternate: fields.flag()?,
    };
    let row = PaneRow {
        pane,
        pid,
        dead: is_dead.then_some(dead),
        in_mode: fields.flag()?,
        tty: fields.some_text()?,
        title: fields.text()?,
        current_command: fields.some_text()?,
        screen: Screen::default(),
    };
    let banner = fields.raw()?;
    Some((window, FoundPane { row, shape, banner }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_cannot_make_rows_or_fields() {
        let nonce = nonce();
        let row = |id: &str, name: &str| {
            let fields = [id, "0", "5", "2", "x", "3", "", "", name, "", ""];
            format!("{nonce}!{}{nonce}.", fields.join(&format!("{nonce}|")))
        };
        let text = [row("@1", "a\t\n@9|!.b"), row("@2", "web")].join("\n");
        let rows = read_rows(&text, read_window).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[0].name, "a  @9|!.b");
        assert_eq!(rows[0].bell_count, Some(2));
        assert_eq!((rows[1].run, rows[1].started), (Some(3), None));
    }

    #[test]
    fn a_row_that_cannot_be_read_is_told() {
        let nonce = nonce();
        assert!(read_rows(&format!("{nonce}!@1{nonce}."), read_window).is_none());
        assert!(read_rows(&format!("{nonce}!@1"), read_window).is_none());
        assert_eq!(read_rows("", read_window), Some(vec![]));
    }
}
