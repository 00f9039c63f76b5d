//! Who listens to tasks: waits under way and readers of output, and the panes that they follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use super::input::AskId;
use super::pane_stream::PaneStream;
use super::wait_entry::{Since, give_since};
use crate::model::{Now, PaneId, Prompt, Snapshot, Task, WindowId, text};
use crate::terminal::{PaneOutput, Stamp, Utf8Splitter};
use crate::wait::{Condition, Located, Spec, Verdict, Wait, locate};

/// Waits under way, readers of output, and the panes that they follow.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    waits: Vec<ActiveWait>,
    readers: Vec<Reader>,
    /// The output of the panes that are followed; a pane leaves with the last who follows it.
    streams: BTreeMap<PaneId, PaneStream>,
    /// What readers are to be sent, in order.
    pieces: Vec<Piece>,
}

/// A wait and who asked for it.
#[derive(Debug)]
pub(super) struct ActiveWait {
    pub(super) ask: AskId,
    pub(super) wait: Wait,
    /// The pane whose output it follows, if it needs to.
    pub(super) pane: Option<PaneId>,
    pub(super) began: Instant,
    /// Whether one of the texts was there when it began.
    pub(super) matched_at_entry: bool,
    /// How many of the last lines the result shows.
    pub(super) tail: usize,
    /// Whose command it is; `None` for a person at a terminal.
    pub(super) owner: Option<String>,
}

/// A wait that has ended.
#[derive(Debug)]
pub(super) struct EndedWait {
    pub(super) active: ActiveWait,
    pub(super) verdict: Verdict,
}

/// Somebody who reads a task's output as it comes.
#[derive(Debug)]
struct Reader {
    ask: AskId,
    pane: PaneId,
    window: WindowId,
    run: Option<u32>,
    /// For one who wants bytes: keeps characters whole.
    raw: Option<Utf8Splitter>,
}

/// What a reader of output is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// This.
    Text(AskId, String),
    /// That the run has ended, and that this was all of it.
    End(AskId),
    /// Nothing more, for some of it is missing.
    Cut(AskId),
}

impl Reader {
    /// Returns what to send of output and of the lines that it completes.
    fn piece(&mut self, bytes: &[u8], lines: &[String]) -> Option<Piece> {
        let text = match &mut self.raw {
            None if lines.is_empty() => return None,
            None => lines.join("\n"),
            Some(splitter) => {
                let mut text = String::new();
                splitter.pass(bytes, |whole| {
                    text.push_str(&String::from_utf8_lossy(whole));
                });
                text
            }
        };
        let is_wanted = self.raw.is_none() || !text.is_empty();
        is_wanted.then_some(Piece::Text(self.ask, text))
    }
}

impl Listeners {
    /// Returns the panes that are followed.
    pub(super) fn panes(&self) -> BTreeSet<PaneId> {
        self.streams.keys().copied().collect()
    }

    /// Whether this pane is followed.
    pub(super) fn follows(&self, pane: PaneId) -> bool {
        self.streams.contains_key(&pane)
    }

    /// Returns how many waits are under way.
    pub(super) fn n_waits(&self) -> usize {
        self.waits.len()
    }

    /// Returns how many texts are looked for.
    pub(super) fn n_patterns(&self) -> usize {
        self.waits
            .iter()
            .map(|active| n_patterns(active.wait.spec()))
            .sum()
    }

    /// Takes what readers are to be sent.
    pub(super) fn take_pieces(&mut self) -> Vec<Piece> {
        std::mem::take(&mut self.pieces)
    }

    /// Begins to follow a pane whose screen stands so, and returns the stamp of what is old.
    pub(super) fn follow(&mut self, pane: PaneId, output: &PaneOutput) -> Stamp {
        let stream = self.streams.entry(pane);
        stream.or_insert_with(|| PaneStream::new(output)).stamp()
    }

    /// Takes account of a pane whose size has changed: what stands there now is old.
    pub(super) fn resize(&mut self, pane: PaneId, output: &PaneOutput) {
        if let Some(stream) = self.streams.get_mut(&pane) {
            stream.show(output);
        }
    }

    /// Whether what a pane's terminal shows is not known, so that it has to be read again.
    pub(super) fn is_guess(&self, pane: PaneId) -> bool {
        self.streams.get(&pane).is_some_and(PaneStream::is_guess)
    }

    /// Adds a wait.
    pub(super) fn add_wait(&mut self, active: ActiveWait) {
        self.waits.push(active);
    }

    /// Adds a reader of a task's output.
    pub(super) fn add_reader(&mut self, ask: AskId, pane: PaneId, task: &Task, raw: bool) {
        self.readers.push(Reader {
            ask,
            pane,
            window: task.window,
            run: task.run,
            raw: raw.then(Utf8Splitter::default),
        });
    }

    /// Forgets whoever has asked this.
    pub(super) fn leave(&mut self, ask: AskId) {
        self.waits.retain(|active| active.ask != ask);
        self.readers.retain(|reader| reader.ask != ask);
        self.forget_idle_streams();
    }

    /// Takes output of a pane.
    pub(super) fn print(&mut self, pane: PaneId, bytes: &[u8], now: Now) -> Vec<EndedWait> {
        let Some(stream) = self.streams.get_mut(&pane) else {
            return Vec::new();
        };
        if stream.is_paused() {
            return Vec::new();
        }
        let waits = &mut self.waits;
        let mut lines = Vec::new();
        let is_read = self
            .readers
            .iter()
            .any(|reader| reader.pane == pane && reader.raw.is_none());
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
        let readers = self.readers.iter_mut();
        let pieces = readers
            .filter(|reader| reader.pane == pane)
            .filter_map(|reader| reader.piece(bytes, &lines));
        self.pieces.extend(pieces);
        let ended = self.take_ended(|active| {
            if active.pane == Some(pane) {
                active.wait.heard(now)
            } else {
                None
            }
        });
        self.forget_idle_streams();
        ended
    }

    /// Whether more stands in a pane than has arrived, as its end shows.
    pub(super) fn is_short_of(&self, pane: PaneId, output: &PaneOutput) -> bool {
        let stream = self.streams.get(&pane);
        stream.is_some_and(|stream| stream.is_short_of(output))
    }

    /// Takes what a pane shows whose run has ended. tmux throws away what it has not reported yet
    /// when a pane's process ends: it stands there all the same, or nobody knows what it was.
    pub(super) fn end(
        &mut self,
        pane: PaneId,
        run: Option<u32>,
        output: &PaneOutput,
        now: Now,
    ) -> Vec<EndedWait> {
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
        let pieces = &mut self.pieces;
        self.readers.retain_mut(|reader| {
            if reader.pane != pane || reader.run != run {
                return true;
            }
            let Some((lines, rest)) = &rest else {
                pieces.push(Piece::Cut(reader.ask));
                return false;
            };
            let piece = match reader.raw {
                Some(_) => reader.piece(rest.join("\r\n").as_bytes(), &[]),
                None => reader.piece(&[], lines),
            };
            pieces.extend(piece);
            true
        });
        self.take_ended(|active| {
            let is_of_it = active.pane == Some(pane) && active.wait.entry().run == run;
            if !is_of_it || !active.wait.spec().needs_text() {
                return None;
            }
            let since = anchor.as_ref().map_or(Since::Lost, |anchor| {
                give_since(&mut active.wait, anchor, output)
            });
            verdict_since(&mut active.wait, since, now)
        })
    }

    /// Whether a run that somebody listens to is over, in a way that leaves no pane to read.
    pub(super) fn is_over(&self, look: &Snapshot) -> bool {
        let waits = self.waits.iter().filter(|active| active.pane.is_some());
        let waits = waits.map(|active| (active.wait.window(), active.wait.entry().run));
        let readers = self.readers.iter();
        waits
            .chain(readers.map(|reader| (reader.window, reader.run)))
            .any(|(window, run)| look.tasks.get(&window).is_none_or(|task| task.run != run))
    }

    /// Takes a look; all output that came before it has been taken.
    pub(super) fn look<'a>(
        &mut self,
        look: &Snapshot,
        prompt_of: impl Fn(WindowId) -> Option<&'a Prompt>,
    ) -> Vec<EndedWait> {
        let ended = self.take_ended(|active| {
            let prompt = prompt_of(active.wait.window());
            active.wait.look(look, prompt)
        });
        // A reader of output sees the end of its run.
        let (streams, pieces) = (&self.streams, &mut self.pieces);
        self.readers.retain(|reader| {
            let task = look.tasks.get(&reader.window);
            if task.is_some_and(|task| task.is_alive() && task.run == reader.run) {
                return true;
            }
            let stream = streams.get(&reader.pane);
            let unfinished = stream.and_then(|stream| stream.unfinished.clone());
            if let (None, Some(line)) = (&reader.raw, unfinished) {
                pieces.push(Piece::Text(reader.ask, line));
            }
            pieces.push(Piece::End(reader.ask));
            false
        });
        self.forget_idle_streams();
        ended
    }

    /// Takes account of the time.
    pub(super) fn tick(&mut self, now: Now) -> Vec<EndedWait> {
        let ended = self.take_ended(|active| active.wait.tick(now));
        self.forget_idle_streams();
        ended
    }

    /// Takes note that what this pane prints from here on does not arrive; returns whether that is
    /// new, and [`Listeners::resume`] has to be called.
    pub(super) fn pause(&mut self, pane: PaneId) -> bool {
        let stream = self.streams.get_mut(&pane);
        let stream = stream.filter(|stream| !stream.is_paused());
        stream.map(PaneStream::pause).is_some()
    }

    /// Takes up a pane of which output did not arrive, from where its terminal stands to where the
    /// pane's history ends now. Where the terminal's place is not found again, output is missing.
    pub(super) fn resume(&mut self, pane: PaneId, output: &PaneOutput, now: Now) -> Vec<EndedWait> {
        // Readers cannot be given what they would have read: they see that they fell behind.
        self.cut_readers(|reader| reader.pane == pane);
        let anchor = self.streams.get(&pane).and_then(PaneStream::anchor);
        let ended = self.take_ended(|active| {
            if active.pane != Some(pane) {
                return None;
            }
            let since = anchor.as_ref().map_or(Since::Lost, |anchor| {
                give_since(&mut active.wait, anchor, output)
            });
            verdict_since(&mut active.wait, since, now)
        });
        if let Some(stream) = self.streams.get_mut(&pane) {
            stream.resume(output);
        }
        self.forget_idle_streams();
        ended
    }

    /// The connection that output came by has gone, and some of the output with it.
    pub(super) fn lose_all(&mut self) -> Vec<EndedWait> {
        self.streams.clear();
        self.cut_readers(|_| true);
        self.take_ended(|active| active.pane.map(|_| Verdict::anchor_lost()))
    }

    /// The pane could not be read, so some of its output is missing.
    pub(super) fn lose(&mut self, pane: PaneId) -> Vec<EndedWait> {
        self.streams.remove(&pane);
        self.cut_readers(|reader| reader.pane == pane);
        self.take_ended(|active| (active.pane == Some(pane)).then(Verdict::anchor_lost))
    }

    /// Returns when [`Listeners::tick`] has something to do.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waits = self.waits.iter();
        waits.filter_map(|active| active.wait.next_deadline()).min()
    }

    /// Takes out the waits that have a verdict.
    fn take_ended(
        &mut self,
        mut verdict: impl FnMut(&mut ActiveWait) -> Option<Verdict>,
    ) -> Vec<EndedWait> {
        let mut ended = Vec::new();
        let mut going_on = Vec::with_capacity(self.waits.len());
        for mut active in self.waits.drain(..) {
            match verdict(&mut active) {
                Some(verdict) => ended.push(EndedWait { active, verdict }),
                None => going_on.push(active),
            }
        }
        self.waits = going_on;
        ended
    }

    fn cut_readers(&mut self, is_cut: impl Fn(&Reader) -> bool) {
        let pieces = &mut self.pieces;
        self.readers.retain(|reader| {
            let is_cut = is_cut(reader);
            if is_cut {
                pieces.push(Piece::Cut(reader.ask));
            }
            !is_cut
        });
    }

    /// Forgets the output of panes that nobody listens to any more.
    pub(super) fn forget_idle_streams(&mut self) {
        let (waits, readers) = (&self.waits, &self.readers);
        self.streams.retain(|pane, _| {
            waits.iter().any(|active| active.pane == Some(*pane))
                || readers.iter().any(|reader| reader.pane == *pane)
        });
    }
}

/// Returns how many texts a wait looks for.
pub(super) fn n_patterns(spec: &Spec) -> usize {
    let is_text = |condition: &&Condition| matches!(condition, Condition::Text(_));
    spec.conditions.iter().filter(is_text).count() + spec.stops.len()
}

/// Returns the verdict on a wait that was given what a pane has behind an anchor.
pub(super) fn verdict_since(wait: &mut Wait, since: Since, now: Now) -> Option<Verdict> {
    match since {
        Since::Lost => Some(Verdict::anchor_lost()),
        Since::Output => wait.heard(now),
        Since::Nothing => None,
    }
}
