//! Waits and followers of output: they share the daemon's clients, and cost nothing while nothing
//! happens.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::output_queue::{OutputReceiver, OutputSender, output_queue};
use crate::engine::{Sighted, Sighting};
use crate::model::{Exit, Now, PaneId, Prompt, Snapshot, Task, WindowId, text};
use crate::terminal::{Line, Pattern, Stamp, Terminal, Utf8Splitter, columns_of, split_at_column};
use crate::tmux::PaneOutput;
use crate::wait::{Anchor, Condition, Cursor, Located, Outcome, Spec, Verdict, Wait, locate};
use crate::wire::{
    ConditionFields, OutcomeName, Refusal, RefusalKind, Response, WaitRequest, WaitResult,
};

/// The longest line that is told, in characters.
const LINE_CHARS: usize = 2000;

/// How long tmux waits for the end of a string before it takes output for text again.
const STRING_LASTS: Duration = Duration::from_secs(5);

/// How many texts one wait may look for. Each is compiled, takes up to 100 KB once it is used, and is
/// tried on every line that is written.
const MOST_PATTERNS: usize = 64;

/// How long such a text may be, in bytes: longer than any line that is told.
const LONGEST_PATTERN: usize = 8192;

/// How many texts all waits of the session may look for together.
const MOST_PATTERNS_IN_ALL: usize = 2048;

/// How many of the last lines a result shows, unless it was asked for more or fewer.
const TAIL: usize = 10;

/// The most of them that it shows.
const MOST_TAIL: usize = 1000;

/// Waits under way, and the panes whose output they hear.
#[derive(Debug, Default)]
pub(super) struct Waits {
    waits: Vec<Active>,
    followers: Vec<Follower>,
    /// The terminals of the panes that somebody hears; a pane leaves with its last hearer.
    streams: BTreeMap<PaneId, Stream>,
}

/// A wait and who asked for it.
#[derive(Debug)]
pub(super) struct Active {
    wait: Wait,
    /// The pane whose output it hears, if it needs to.
    pane: Option<PaneId>,
    reply: oneshot::Sender<Response>,
    began: Instant,
    matched_at_entry: bool,
    /// How many of the last lines the result shows.
    tail: usize,
    /// Whose command it is; `None` for a person at a terminal.
    owner: Option<String>,
}

/// Somebody who reads a task's output as it comes.
#[derive(Debug)]
struct Follower {
    pane: PaneId,
    window: WindowId,
    run: Option<u32>,
    /// For one who wants bytes: keeps characters whole.
    raw: Option<Utf8Splitter>,
    output: OutputSender,
}

impl Follower {
    /// Whether it could take this piece. One that is too far behind is let go: it sees that its
    /// task goes on without it, rather than output with holes.
    fn take(&self, piece: String) -> bool {
        self.output.send(piece)
    }

    /// The same for output and the lines that it completes.
    fn take_output(&mut self, bytes: &[u8], lines: &[String]) -> bool {
        let Some(splitter) = &mut self.raw else {
            return lines.is_empty() || self.take(lines.join("\n"));
        };
        let mut piece = String::new();
        splitter.pass(bytes, |whole| {
            piece.push_str(&String::from_utf8_lossy(whole))
        });
        piece.is_empty() || self.take(piece)
    }
}

/// One pane's output.
#[derive(Debug)]
struct Stream {
    terminal: Terminal,
    /// Of the last chunk of output.
    stamp: Stamp,
    /// How many rows of history there were when nothing had scrolled off this terminal.
    scrolled_before: i64,
    /// Since when a string (a title, an image) has been waiting for its end.
    in_string_since: Option<Instant>,
    /// The line that was written last and is not ended, where somebody reads.
    unfinished: Option<String>,
    hearing: Hearing,
}

/// Whether all of a pane's output is told.
#[derive(Debug)]
enum Hearing {
    /// All of it, up to now.
    Whole,
    /// The pane was paused when its terminal's cursor stood here, if that can be said: what is told
    /// after that has something missing before it, and waits for a reading of the whole.
    BrokenOff(Option<Anchor>),
}

impl Stream {
    /// Whether more stands in the pane than was heard.
    fn is_short_of(&self, output: &PaneOutput) -> bool {
        let rows = self.rows();
        let (known, shown) = (without_blanks(&rows), without_blanks(&output.rows));
        !shown.ends_with(known) || known.is_empty() != shown.is_empty()
    }

    /// Returns the terminal's rows as a capture has them.
    fn rows(&self) -> Vec<String> {
        let rows = self.terminal.rows();
        rows.iter().map(|row| text::row(row.as_bytes())).collect()
    }

    /// Shows what stands in the pane now.
    fn show(&mut self, output: &PaneOutput) {
        self.terminal
            .resize(output.width, output.height, output.screen(), output.cursor);
        let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        self.scrolled_before = signed(output.history as u64) - signed(self.terminal.scrolled());
    }

    /// Returns up to where the pane's history was heard; `None` where rows do not scroll.
    fn anchor(&self) -> Option<Anchor> {
        if let Hearing::BrokenOff(anchor) = &self.hearing {
            return anchor.clone();
        }
        if self.terminal.is_alternate() || self.terminal.is_guess() {
            return None;
        }
        let scrolled = i64::try_from(self.terminal.scrolled()).ok()?;
        let top = usize::try_from(self.scrolled_before + scrolled).ok()?;
        let (column, row) = self.terminal.cursor();
        Some(Anchor::at(&self.rows(), top, top + row, column))
    }

    /// Takes output.
    fn write(&mut self, bytes: &[u8], now: Now, line: &mut dyn FnMut(&Line<'_>)) {
        let given_up = |since: Instant| now.mono.saturating_duration_since(since) >= STRING_LASTS;
        if self.in_string_since.is_some_and(given_up) {
            self.terminal.abandon_string();
        }
        self.stamp += 1;
        self.terminal.write(bytes, self.stamp, line);
        self.in_string_since = self
            .terminal
            .is_in_string()
            .then(|| self.in_string_since.unwrap_or(now.mono));
    }
}

/// A wait that has ended: what there is to say of it, and to whom.
#[derive(Debug)]
pub(super) struct Done {
    pub(super) result: WaitResult,
    pub(super) window: WindowId,
    pub(super) run: Option<u32>,
    pub(super) reply: oneshot::Sender<Response>,
    /// How many of the last lines to show.
    pub(super) tail: usize,
    owner: Option<String>,
}

impl Waits {
    /// Returns the panes that somebody hears.
    pub(super) fn panes(&self) -> Vec<PaneId> {
        self.streams.keys().copied().collect()
    }

    /// Returns how many waits somebody still waits for.
    pub(super) fn under_way(&self) -> usize {
        let waits = self.waits.iter();
        waits.filter(|active| !active.reply.is_closed()).count()
    }

    /// Begins to hear a pane whose screen stands so now, and returns the stamp of what is old.
    pub(super) fn hear(&mut self, pane: PaneId, output: &PaneOutput) -> Stamp {
        let stream = self.streams.entry(pane).or_insert_with(|| Stream {
            terminal: Terminal::seeded(
                output.width,
                output.height,
                output.screen(),
                output.cursor,
                output.is_alternate,
            ),
            stamp: 0,
            scrolled_before: i64::try_from(output.history).unwrap_or(i64::MAX),
            in_string_since: None,
            unfinished: None,
            hearing: Hearing::Whole,
        });
        stream.stamp
    }

    /// Takes account of a pane whose size has changed: what stands there now is old.
    pub(super) fn resized(&mut self, pane: PaneId, output: &PaneOutput) {
        if let Some(stream) = self.streams.get_mut(&pane) {
            stream.show(output);
        }
    }

    /// Whether what a pane's terminal shows is not known: a full-screen program has left that had the
    /// screen when it was first read.
    pub(super) fn is_guess(&self, pane: PaneId) -> bool {
        let stream = self.streams.get(&pane);
        stream.is_some_and(|stream| stream.terminal.is_guess())
    }

    /// Adds a wait.
    pub(super) fn add(&mut self, active: Active) {
        self.waits.push(active);
    }

    /// Adds a reader of a pane's output.
    pub(super) fn follow(&mut self, pane: PaneId, task: &Task, raw: bool) -> OutputReceiver {
        let (output, receiver) = output_queue();
        self.followers.push(Follower {
            pane,
            window: task.window,
            run: task.run,
            raw: raw.then(Utf8Splitter::default),
            output,
        });
        receiver
    }

    /// Takes output of a pane.
    pub(super) fn printed(&mut self, pane: PaneId, bytes: &[u8], now: Now) -> Vec<Done> {
        let Some(stream) = self.streams.get_mut(&pane) else {
            return Vec::new();
        };
        match stream.hearing {
            Hearing::Whole => {}
            Hearing::BrokenOff(_) => return Vec::new(),
        }
        let waits = &mut self.waits;
        let mut lines = Vec::new();
        let is_read = self
            .followers
            .iter()
            .any(|follower| follower.pane == pane && follower.raw.is_none());
        let mut unfinished = stream.unfinished.take();
        stream.write(bytes, now, &mut |line| {
            for active in waits.iter_mut().filter(|active| active.pane == Some(pane)) {
                active.wait.line(line);
            }
            if is_read {
                let text = text::row(line.text().as_bytes());
                if line.is_complete() {
                    lines.push(text);
                    unfinished = None;
                } else {
                    unfinished = Some(text);
                }
            }
        });
        stream.unfinished = unfinished;
        self.followers
            .retain_mut(|follower| follower.pane != pane || follower.take_output(bytes, &lines));
        let done = self.take_done(|active| {
            if active.pane == Some(pane) {
                active.wait.heard(now)
            } else {
                None
            }
        });
        self.forget_idle_streams();
        done
    }

    /// Takes what a pane shows whose run has ended. tmux throws away what it has not told yet when
    /// a pane's process ends: it stands there all the same, or nobody knows what it was.
    pub(super) fn ended(
        &mut self,
        pane: PaneId,
        run: Option<u32>,
        output: &PaneOutput,
        now: Now,
    ) -> Vec<Done> {
        let stream = self.streams.get_mut(&pane);
        let Some(stream) = stream.filter(|stream| stream.is_short_of(output)) else {
            return Vec::new();
        };
        let anchor = stream.anchor();
        let located = anchor.as_ref().map(|anchor| {
            let row = locate(anchor, &output.rows, output.history, output.limit);
            (row, anchor.column)
        });
        let rest = match located {
            Some((Located::At(row), column)) => {
                Some((output.lines_from(row, 0), output.lines_from(row, column)))
            }
            Some((Located::Lost, _)) | None => None,
        };
        stream.unfinished = None;
        self.followers.retain_mut(|follower| {
            if follower.pane != pane || follower.run != run {
                return true;
            }
            match &rest {
                Some((_, rest)) if follower.raw.is_some() => {
                    follower.take_output(rest.join("\r\n").as_bytes(), &[])
                }
                Some((lines, _)) => follower.take_output(&[], lines),
                None => false,
            }
        });
        self.take_done(|active| {
            let is_of_it = active.pane == Some(pane) && active.wait.entry().run == run;
            if !is_of_it || !active.wait.spec().needs_text() {
                return None;
            }
            let given = anchor
                .as_ref()
                .and_then(|anchor| give_since(&mut active.wait, anchor, output));
            match given {
                None => Some(Verdict::anchor_lost()),
                Some(true) => active.wait.heard(now),
                Some(false) => None,
            }
        })
    }

    /// Whether a run that somebody hears is over, in a way that leaves no pane to read.
    pub(super) fn is_over(&self, look: &Snapshot) -> bool {
        let heard = self.waits.iter().filter(|active| active.pane.is_some());
        let heard = heard.map(|active| (active.wait.window(), active.wait.entry().run));
        let read = self.followers.iter();
        heard
            .chain(read.map(|follower| (follower.window, follower.run)))
            .any(|(window, run)| look.tasks.get(&window).is_none_or(|task| task.run != run))
    }

    /// Takes a look; all output that came before it has been given.
    pub(super) fn looked<'a>(
        &mut self,
        look: &Snapshot,
        prompt_of: impl Fn(WindowId) -> Option<&'a Prompt>,
    ) -> Vec<Done> {
        let done = self.take_done(|active| {
            let prompt = prompt_of(active.wait.window());
            active.wait.look(look, prompt)
        });
        // A reader of output sees the end of its run.
        self.followers.retain(|follower| {
            let task = look.tasks.get(&follower.window);
            let goes_on = task.is_some_and(|task| task.is_alive() && task.run == follower.run);
            if goes_on {
                return !follower.output.is_closed();
            }
            let stream = self.streams.get(&follower.pane);
            let unfinished = stream.and_then(|stream| stream.unfinished.clone());
            let is_all = match (&follower.raw, unfinished) {
                (None, Some(line)) => follower.take(line),
                (None, None) | (Some(_), _) => true,
            };
            if is_all {
                follower.output.end();
            }
            false
        });
        self.forget_idle_streams();
        done
    }

    /// Takes account of the time.
    pub(super) fn tick(&mut self, now: Now) -> Vec<Done> {
        let done = self.take_done(|active| active.wait.tick(now));
        self.forget_idle_streams();
        done
    }

    /// Takes note that what this pane prints from here on is not told; returns whether somebody
    /// hears it and [`Waits::resumed`] has to be called.
    pub(super) fn broke_off(&mut self, pane: PaneId) -> bool {
        let Some(stream) = self.streams.get_mut(&pane) else {
            return false;
        };
        stream.hearing = Hearing::BrokenOff(stream.anchor());
        true
    }

    /// Takes up a pane of which output was not told, from where its terminal stands to where the
    /// pane's history ends now. Where the terminal's place is not found again, output is missing.
    pub(super) fn resumed(&mut self, pane: PaneId, output: &PaneOutput, now: Now) -> Vec<Done> {
        // Readers cannot be given what they would have read: they see that they fell behind.
        self.followers.retain(|follower| follower.pane != pane);
        let anchor = self.streams.get(&pane).and_then(Stream::anchor);
        let done = self.take_done(|active| {
            if active.pane != Some(pane) {
                return None;
            }
            let given = anchor
                .as_ref()
                .and_then(|anchor| give_since(&mut active.wait, anchor, output));
            match given {
                None => Some(Verdict::anchor_lost()),
                Some(true) => active.wait.heard(now),
                Some(false) => None,
            }
        });
        if let Some(stream) = self.streams.get_mut(&pane) {
            stream.stamp += 1;
            stream.show(output);
            stream.hearing = Hearing::Whole;
        }
        self.forget_idle_streams();
        done
    }

    /// The connection that output came by has gone, and some of the output with it.
    pub(super) fn lost(&mut self) -> Vec<Done> {
        self.streams.clear();
        self.followers.clear();
        self.take_done(|active| active.pane.map(|_| Verdict::anchor_lost()))
    }

    /// The pane could not be read, so some of its output is missing.
    pub(super) fn lost_pane(&mut self, pane: PaneId) -> Vec<Done> {
        self.streams.remove(&pane);
        self.followers.retain(|follower| follower.pane != pane);
        self.take_done(|active| (active.pane == Some(pane)).then(Verdict::anchor_lost))
    }

    /// Returns when [`Waits::tick`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.waits
            .iter()
            .filter_map(|active| active.wait.next_deadline())
            .min()
    }

    /// Takes out the waits that have a verdict, and those whose askers have left.
    fn take_done(&mut self, mut verdict: impl FnMut(&mut Active) -> Option<Verdict>) -> Vec<Done> {
        let mut done = Vec::new();
        let mut going_on = Vec::with_capacity(self.waits.len());
        for mut active in self.waits.drain(..) {
            if active.reply.is_closed() {
                continue;
            }
            match verdict(&mut active) {
                Some(verdict) => done.push(active.done(verdict)),
                None => going_on.push(active),
            }
        }
        self.waits = going_on;
        done
    }

    /// Returns how many texts are looked for.
    pub(super) fn n_patterns(&self) -> usize {
        let is_text = |condition: &&Condition| matches!(condition, Condition::Text(_));
        let of = |spec: &Spec| spec.conditions.iter().filter(is_text).count() + spec.stops.len();
        self.waits.iter().map(|active| of(active.wait.spec())).sum()
    }

    fn forget_idle_streams(&mut self) {
        let (waits, followers) = (&self.waits, &self.followers);
        self.streams.retain(|pane, _| {
            waits.iter().any(|active| active.pane == Some(*pane))
                || followers.iter().any(|follower| follower.pane == *pane)
        });
    }
}

impl Active {
    /// Returns a wait that has just begun.
    pub(super) fn begin(
        wait: Wait,
        pane: Option<PaneId>,
        matched_at_entry: bool,
        asked: &WaitRequest,
        reply: oneshot::Sender<Response>,
        now: Now,
    ) -> Self {
        Self {
            tail: asked.tail.unwrap_or(TAIL).min(MOST_TAIL),
            owner: asked.owner.clone(),
            wait,
            pane,
            reply,
            began: now.mono,
            matched_at_entry,
        }
    }

    /// Returns what there is to say of the wait that ended so.
    pub(super) fn done(self, verdict: Verdict) -> Done {
        let mut result = WaitResult::new(name(&verdict.outcome));
        match &verdict.outcome {
            Outcome::Exited(exit) | Outcome::Died(exit) => tell_exit(&mut result, exit),
            Outcome::Respawned { old_pid, new_pid } => {
                result.old_pid = *old_pid;
                result.new_pid = *new_pid;
            }
            Outcome::Matched
            | Outcome::Changed
            | Outcome::Bell
            | Outcome::Input
            | Outcome::Idle
            | Outcome::Timeout
            | Outcome::Disappeared
            | Outcome::Stopped
            | Outcome::AnchorLost => {}
        }
        result.condition = verdict.condition.map(str::to_owned);
        result.line = verdict
            .line
            .as_deref()
            .map(|line| text::one_line(line.as_bytes(), LINE_CHARS));
        result.matched_index = verdict.index;
        if let Some(prompt) = verdict.prompt {
            result.prompt_kind = Some(prompt.kind.into());
            result.secret = Some(prompt.secret);
        }
        result.matched_at_entry = self.matched_at_entry;
        result.saw_new_output = self.wait.saw_output();
        let elapsed = Instant::now().saturating_duration_since(self.began);
        result.elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        Done {
            result,
            window: self.wait.window(),
            run: self.wait.entry().run,
            reply: self.reply,
            tail: self.tail,
            owner: self.owner,
        }
    }
}

impl Done {
    /// Returns what whoever waited is told of the run by the answer; `None` when that is no event.
    pub(super) fn sighting(&self) -> Option<Sighting> {
        let what = match self.result.outcome {
            OutcomeName::Exited | OutcomeName::Died => Sighted::End,
            OutcomeName::Input => Sighted::Input,
            OutcomeName::Bell => Sighted::Bell,
            OutcomeName::Disappeared => Sighted::Disappearance,
            OutcomeName::Matched
            | OutcomeName::Changed
            | OutcomeName::Idle
            | OutcomeName::Signalled
            | OutcomeName::Timeout
            | OutcomeName::Respawned
            | OutcomeName::Stopped
            | OutcomeName::AnchorLost => return None,
        };
        Some(Sighting {
            owner: self.owner.clone(),
            window: self.window,
            run: self.run,
            what,
        })
    }

    /// Adds where the task's output ends now, if it is still there, and answers; returns whether
    /// the asker was still there.
    pub(super) fn answer(mut self, end: Option<(Cursor, PaneOutput)>) -> bool {
        if let Some((cursor, output)) = end {
            self.result.tail = last_lines(&output, self.tail);
            self.result.alternate_on = Some(output.is_alternate);
            self.result.cursor = Some(cursor.to_string());
        }
        self.reply.send(Response::Waited(self.result)).is_ok()
    }
}

/// Returns the last lines with text. What tmux writes into a pane whose process has ended may have
/// moved some of them into the history.
fn last_lines(output: &PaneOutput, most: usize) -> Vec<String> {
    let mut lines = if output.is_alternate {
        output.screen().to_vec()
    } else {
        output.lines_from(0, 0)
    };
    lines.retain(|line| !line.trim().is_empty());
    lines.drain(..lines.len().saturating_sub(most));
    lines
}

fn name(outcome: &Outcome) -> OutcomeName {
    match outcome {
        Outcome::Matched => OutcomeName::Matched,
        Outcome::Exited(_) => OutcomeName::Exited,
        Outcome::Changed => OutcomeName::Changed,
        Outcome::Bell => OutcomeName::Bell,
        Outcome::Input => OutcomeName::Input,
        Outcome::Idle => OutcomeName::Idle,
        Outcome::Timeout => OutcomeName::Timeout,
        Outcome::Died(_) => OutcomeName::Died,
        Outcome::Respawned { .. } => OutcomeName::Respawned,
        Outcome::Disappeared => OutcomeName::Disappeared,
        Outcome::Stopped => OutcomeName::Stopped,
        Outcome::AnchorLost => OutcomeName::AnchorLost,
    }
}

fn tell_exit(result: &mut WaitResult, exit: &Exit) {
    result.exit_code = exit.code;
    result.exit_signal = exit.signal.as_ref().map(ToString::to_string);
}

/// Returns how many texts a wait looks for.
fn n_patterns(request: &WaitRequest) -> usize {
    let is_text = |condition: &&ConditionFields| matches!(condition, ConditionFields::Text(_));
    request.conditions.iter().filter(is_text).count() + request.stops.len()
}

/// Reads what is waited for; refuses what makes no sense or is too much, beside the texts that other
/// waits look for.
pub(super) fn spec(request: &WaitRequest, n_under_way: usize) -> Result<Spec, Refusal> {
    let n_patterns = n_patterns(request);
    if n_patterns > MOST_PATTERNS {
        return Err(usage(format!(
            "a wait takes at most {MOST_PATTERNS} texts, found {n_patterns}; one regular expression \
             can hold several: --regex 'a|b'"
        )));
    }
    if n_patterns > 0 && n_under_way + n_patterns > MOST_PATTERNS_IN_ALL {
        return Err(Refusal::new(
            RefusalKind::Failed,
            format!(
                "the waits under way look for {n_under_way} texts, and {MOST_PATTERNS_IN_ALL} are \
                 the most"
            ),
        ));
    }
    let pattern = |text: &String| {
        if text.len() > LONGEST_PATTERN {
            return Err(usage(format!(
                "a text to wait for has at most {LONGEST_PATTERN} bytes, found {}",
                text.len()
            )));
        }
        if text.is_empty() {
            return Err(usage("an empty text matches everything".to_owned()));
        }
        Pattern::parse(text, request.regex, request.ignore_case)
            .map_err(|error| usage(error.to_string()))
    };
    let condition = |fields: &ConditionFields| {
        Ok(match fields {
            ConditionFields::Exit => Condition::Exit,
            ConditionFields::Text(text) => Condition::Text(pattern(text)?),
            ConditionFields::Change => Condition::Change,
            ConditionFields::Bell => Condition::Bell,
            ConditionFields::Input => Condition::Input,
            ConditionFields::Idle { ms } => Condition::Idle(Duration::from_millis(*ms)),
        })
    };
    let mut conditions = request
        .conditions
        .iter()
        .map(condition)
        .collect::<Result<Vec<_>, Refusal>>()?;
    if conditions.is_empty() {
        conditions.push(Condition::Exit);
    }
    Ok(Spec {
        conditions,
        stops: request
            .stops
            .iter()
            .map(pattern)
            .collect::<Result<_, _>>()?,
        timeout: request.timeout_ms.map(Duration::from_millis),
        through_prompts: request.through_prompts,
    })
}

/// Whether one of the texts stands in these rows.
pub(super) fn stands_there(spec: &Spec, output: &PaneOutput) -> bool {
    let rows = unwrapped(&output.rows, output.width, 0);
    let stands = |text: &Pattern| rows.iter().any(|row| text.find(&row.line(), 0).is_some());
    spec.texts().any(stands)
}

/// Gives a wait what was written behind the anchor; returns whether there was anything, or `None`
/// when the anchor is lost.
pub(super) fn give_since(wait: &mut Wait, anchor: &Anchor, output: &PaneOutput) -> Option<bool> {
    match locate(anchor, &output.rows, output.history, output.limit) {
        Located::Lost => None,
        Located::At(row) => {
            let mut given = false;
            let rows = output.rows.get(row..).unwrap_or_default();
            for row in unwrapped(rows, output.width, anchor.column) {
                given |= row.is_fresh();
                wait.line_since(&row.line());
            }
            Some(given)
        }
    }
}

/// Returns the rows without the blank ones at the end.
fn without_blanks(rows: &[String]) -> &[String] {
    let n = rows.iter().rposition(|row| !row.is_empty());
    &rows[..n.map_or(0, |last| last + 1)]
}

/// A line of a capture.
#[derive(Default)]
struct Row {
    text: String,
    /// Where old and new parts end, in bytes, and their stamps.
    runs: Vec<(usize, Stamp)>,
}

impl Row {
    fn line(&self) -> Line<'_> {
        Line::new(&self.text, &self.runs, true)
    }

    fn is_fresh(&self) -> bool {
        self.line().is_fresh(0..self.text.len(), 0)
    }

    fn push(&mut self, text: &str, stamp: Stamp) {
        self.text.push_str(text);
        self.runs.push((self.text.len(), stamp));
    }
}

/// Joins rows that were wrapped: a row that fills its width goes on in the next. The first `old`
/// columns of the first row are old, everything else is new.
fn unwrapped(rows: &[String], width: usize, old: usize) -> Vec<Row> {
    let mut lines: Vec<Row> = Vec::new();
    let mut goes_on = false;
    let mut old = old;
    for row in rows {
        if !goes_on {
            lines.push(Row::default());
        }
        let line = lines.last_mut().expect("one was pushed");
        let (before, behind) = split_at_column(row, old);
        line.push(before, 0);
        line.push(behind, 1);
        goes_on = columns_of(row) >= width;
        old = 0;
    }
    lines
}

pub(super) fn usage(message: String) -> Refusal {
    Refusal::new(RefusalKind::Usage, message)
}
