//! Waits in progress, output streams, runs that are searched, and the panes that they follow.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::output_watches::{OutputWatches, PaneStream};
use super::promise::Resolver;
use crate::model::{Error, Now, PaneId, Prompt, Snapshot, Task, WaitResult, WindowId, text};
use crate::rules::terminal::{Extent, History, PaneOutput, Stamp, Utf8Splitter};
use crate::rules::wait::{Spec, Wait};

/// Identifies a request until it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RequestId(pub u64);

#[derive(Debug, Default)]
pub(super) struct Listeners {
    pub(super) waits: Vec<ActiveWait>,
    output_streams: Vec<OutputStream>,
    /// The runs whose output is searched for patterns of their launches.
    pub(super) watches: OutputWatches,
    /// The output of the followed panes. A pane is dropped with its last listener.
    pub(super) pane_streams: BTreeMap<PaneId, PaneStream>,
    pub(super) pieces: Vec<(RequestId, String)>,
}

#[derive(Debug)]
pub(super) struct ActiveWait {
    pub(super) request_id: RequestId,
    pub(super) wait: Wait,
    /// The pane whose output it follows, if it needs output.
    pub(super) pane: Option<PaneId>,
    /// Gets its end, or why it cannot go on.
    pub(super) done: Resolver<Result<EndedWait, Error>>,
}

/// A wait that has ended, and how. What the session knows besides is added to the answer.
pub(super) type EndedWait = (Wait, WaitResult);

#[derive(Debug)]
pub(super) struct OutputStream {
    pub(super) request_id: RequestId,
    pub(super) pane: PaneId,
    /// The task, with the run whose output it is.
    pub(super) task: Arc<Task>,
    /// For raw output: keeps characters whole.
    pub(super) raw: Option<Utf8Splitter>,
    pub(super) lines: usize,
    /// Gets its end, or why it does not begin: whether the run has ended and all output was sent.
    pub(super) done: Resolver<Result<bool, Error>>,
}

impl OutputStream {
    /// Returns what to send for output and the lines that it completes.
    fn piece(&mut self, bytes: &[u8], lines: &[String]) -> Option<(RequestId, String)> {
        let text = match &mut self.raw {
            None if lines.is_empty() => return None,
            None => lines.join("\n"),
            Some(splitter) => {
                let mut text = String::new();
                splitter.pass(bytes, |whole| text += &String::from_utf8_lossy(whole));
                text
            }
        };
        let is_wanted = self.raw.is_none() || !text.is_empty();
        is_wanted.then_some((self.request_id, text))
    }
}

impl Listeners {
    /// Returns the listeners of a daemon whose predecessor has searched runs' output up to these cursors.
    pub(super) fn new(searched: BTreeMap<WindowId, String>) -> Self {
        Self {
            watches: OutputWatches::restored(searched),
            ..Self::default()
        }
    }

    /// Returns the panes that are followed, or were with this input.
    pub(super) fn panes(&self) -> BTreeSet<PaneId> {
        self.pane_streams.keys().copied().collect()
    }

    pub(super) fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.waits.iter().map(|active| &active.wait.spec)
    }

    /// Returns the waits for ports, each with one of the ports.
    pub(super) fn waits_for_ports(&self) -> impl Iterator<Item = (&Wait, Option<u16>)> {
        self.waits.iter().flat_map(|active| {
            let ports = active.wait.spec.ports();
            ports.map(|port| (&active.wait, port))
        })
    }

    /// Begins to follow a pane, and returns the stamp of old output: all of it, if the pane was resized.
    pub(super) fn follow(&mut self, pane: PaneId, output: &PaneOutput, is_resized: bool) -> Stamp {
        let stream = self.pane_streams.entry(pane);
        let stream = stream.or_insert_with(|| PaneStream::new(output));
        if is_resized {
            stream.show(output);
        }
        stream.stamp()
    }

    pub(super) fn stream(&self, pane: PaneId) -> Option<&PaneStream> {
        self.pane_streams.get(&pane)
    }

    /// Adds a stream of a task's output. The last of these lines are sent first.
    pub(super) fn add_output_stream(&mut self, stream: OutputStream, lines: &[String]) {
        let n_older = lines.len().saturating_sub(stream.lines);
        let lines = &lines[n_older..];
        if !lines.is_empty() {
            self.pieces.push((stream.request_id, lines.join("\n")));
        }
        self.output_streams.push(stream);
    }

    pub(super) fn leave(&mut self, request_id: RequestId) {
        self.waits.retain(|active| active.request_id != request_id);
        let streams = &mut self.output_streams;
        streams.retain(|stream| stream.request_id != request_id);
    }

    pub(super) fn print(&mut self, pane: PaneId, bytes: &[u8], now: Now) {
        let Some(stream) = self.pane_streams.get_mut(&pane) else {
            return;
        };
        if stream.is_paused() {
            return;
        }
        let waits = &mut self.waits;
        let mut watch = self.watches.in_pane(pane);
        let mut lines = Vec::new();
        let mut streams = self.output_streams.iter();
        let is_read = streams.any(|stream| stream.pane == pane && stream.raw.is_none());
        let mut unfinished = stream.unfinished.take();
        stream.write(bytes, now, &mut |line| {
            for active in waits.iter_mut().filter(|active| active.pane == Some(pane)) {
                active.wait.line(line);
            }
            if let Some(watch) = &mut watch {
                watch.line(line);
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
        if let Some(watch) = watch {
            watch.count_from(stream.stamp());
            watch.on_output(now.mono);
        }
        let output_streams = self.output_streams.iter_mut();
        let pieces = output_streams
            .filter(|stream| stream.pane == pane)
            .filter_map(|stream| stream.piece(bytes, &lines));
        self.pieces.extend(pieces);
        self.end_waits_on(pane, |wait| wait.on_output(now));
    }

    /// Processes the contents of a pane whose run has ended. tmux discards output that it has not
    /// sent when the process ends: it is still in the pane, or lost.
    pub(super) fn end(&mut self, pane: PaneId, run: Option<u32>, output: &PaneOutput, now: Now) {
        let stream = self.pane_streams.get_mut(&pane);
        let Some(stream) = stream.filter(|stream| stream.is_short_of(output)) else {
            return;
        };
        let anchor = stream.anchor();
        let place = anchor.as_ref();
        let place = place.and_then(|anchor| Some((anchor.locate(output)?, anchor.column)));
        stream.unfinished = None;
        if let Some(watch) = self.watches.in_pane(pane) {
            watch.read_since(anchor.as_ref(), output, true, now.mono);
        }
        let pieces = &mut self.pieces;
        self.output_streams.retain_mut(|stream| {
            if stream.pane != pane || stream.task.run != run {
                return true;
            }
            let Some((row, column)) = place else {
                stream.done.resolve(Ok(false));
                return false;
            };
            pieces.extend(match stream.raw {
                Some(_) => {
                    let rest = output.lines_from(row, column).join("\r\n");
                    stream.piece(rest.as_bytes(), &[])
                }
                None => stream.piece(&[], &output.lines_from(row, 0)),
            });
            true
        });
        self.end_waits_on(pane, |wait| {
            match wait.entry.run == run && wait.spec.needs_text() {
                true => wait.read_since(anchor.as_ref(), output, now),
                false => None,
            }
        });
    }

    /// Whether a listener's run is over without a pane to read.
    pub(super) fn is_over(&self, look: &Snapshot) -> bool {
        let waits = self.waits.iter().filter(|active| active.pane.is_some());
        let waits = waits.map(|active| (active.wait.window(), active.wait.entry.run));
        let output_streams = self.output_streams.iter();
        waits
            .chain(output_streams.map(|stream| (stream.task.window, stream.task.run)))
            .any(|(window, run)| look.tasks.get(&window).is_none_or(|task| task.run != run))
    }

    /// Processes a look. All output before it has been processed.
    pub(super) fn look<'a>(
        &mut self,
        look: &Snapshot,
        prompt_of: impl Fn(WindowId) -> Option<&'a Prompt>,
        restarts_in: impl Fn(WindowId) -> Option<Duration>,
    ) {
        self.end_waits(|active| {
            let (window, wait) = (active.wait.window(), &mut active.wait);
            wait.look(look, prompt_of(window), restarts_in(window))
        });
        // An output stream gets the end of its run.
        let (pane_streams, pieces) = (&self.pane_streams, &mut self.pieces);
        self.output_streams.retain(|stream| {
            let task = look.tasks.get(&stream.task.window);
            if task.is_some_and(|task| task.is_alive() && task.run == stream.task.run) {
                return true;
            }
            let pane_stream = pane_streams.get(&stream.pane);
            let unfinished = pane_stream.and_then(|stream| stream.unfinished.clone());
            if let (None, Some(line)) = (&stream.raw, unfinished) {
                pieces.push((stream.request_id, line));
            }
            stream.done.resolve(Ok(true));
            false
        });
    }

    /// Notes that this pane's further output does not arrive until [`Listeners::resume`]. Returns whether that is new.
    pub(super) fn pause(&mut self, pane: PaneId) -> bool {
        let stream = self.pane_streams.get_mut(&pane);
        let stream = stream.filter(|stream| !stream.is_paused());
        stream.map(PaneStream::pause).is_some()
    }

    /// Continues a pane of which output did not arrive, from its terminal model's position to the
    /// end of the pane's history. If that position is not found in the history, output is missing.
    pub(super) fn resume(&mut self, pane: PaneId, output: &PaneOutput, now: Now) {
        // The output in between is missing: output streams end.
        self.cut_output_streams(|stream| stream.pane == pane);
        let stream = self.pane_streams.get_mut(&pane);
        let anchor = stream.as_ref().and_then(|stream| stream.anchor());
        let since = stream.map(|stream| stream.resume(output));
        self.end_waits_on(pane, |wait| wait.read_since(anchor.as_ref(), output, now));
        if let (Some(watch), Some(since)) = (self.watches.in_pane(pane), since) {
            watch.read_since(anchor.as_ref(), output, false, now.mono);
            watch.count_from(since);
        }
    }

    /// Handles the loss of some of the output of these panes: of its connection, or by a failed read.
    pub(super) fn lose(&mut self, is_lost: impl Fn(PaneId) -> bool) {
        self.watches.lose(&self.pane_streams, &is_lost);
        self.pane_streams.retain(|pane, _| !is_lost(*pane));
        self.cut_output_streams(|stream| is_lost(stream.pane));
        self.end_waits(|active| {
            let pane = active.pane.filter(|pane| is_lost(*pane));
            pane.map(|_| active.wait.on_loss())
        });
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let waits = self.waits.iter();
        let of_waits = waits.filter_map(|active| active.wait.next_deadline());
        of_waits.chain(self.watches.next_deadline()).min()
    }

    pub(super) fn end_waits(
        &mut self,
        mut verdict: impl FnMut(&mut ActiveWait) -> Option<WaitResult>,
    ) {
        let waits = std::mem::take(&mut self.waits);
        self.waits.reserve(waits.len());
        for mut active in waits {
            match verdict(&mut active) {
                Some(verdict) => active.done.resolve(Ok((active.wait, verdict))),
                None => self.waits.push(active),
            }
        }
    }

    /// Ends the waits on a pane's output that have a verdict.
    fn end_waits_on(
        &mut self,
        pane: PaneId,
        mut verdict: impl FnMut(&mut Wait) -> Option<WaitResult>,
    ) {
        self.end_waits(|active| {
            active.pane.filter(|followed| *followed == pane)?;
            verdict(&mut active.wait)
        });
    }

    fn cut_output_streams(&mut self, is_cut: impl Fn(&OutputStream) -> bool) {
        for stream in self.output_streams.extract_if(.., |stream| is_cut(stream)) {
            stream.done.resolve(Ok(false));
        }
    }

    pub(super) fn forget_idle_streams(&mut self) {
        let (waits, output_streams) = (&self.waits, &self.output_streams);
        let watches = &self.watches;
        self.pane_streams.retain(|pane, _| {
            waits.iter().any(|active| active.pane == Some(*pane))
                || output_streams.iter().any(|stream| stream.pane == *pane)
                || watches.follow(*pane)
        });
    }
}

#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) waits: Vec<ActiveWait>,
    /// Runs that are searched from then on.
    pub(super) watches: Vec<Arc<Task>>,
    pub(super) output_streams: Vec<OutputStream>,
    /// Whether the pane's size may have changed, so that its present contents are old.
    pub(super) is_resized: bool,
}

impl Beginning {
    /// Returns what is needed of the pane: all rows for what is searched in them, and lines for streams.
    pub(super) fn extent(&self) -> Extent {
        let needs_rows = |active: &ActiveWait| {
            active.wait.anchor.is_some() || active.wait.spec.texts().next().is_some()
        };
        let is_whole = !self.watches.is_empty() || self.waits.iter().any(needs_rows);
        let extent = match is_whole {
            true => Extent::ALL,
            false => Extent::SCREEN,
        };
        let streams = self.output_streams.iter();
        let lines = streams.filter_map(|stream| History::of_lines(stream.lines));
        Extent {
            lines: lines.max(),
            ..extent
        }
    }

    pub(super) fn refuse(&self, refusal: &Error) {
        for active in &self.waits {
            active.done.resolve(Err(refusal.clone()));
        }
        for stream in &self.output_streams {
            stream.done.resolve(Err(refusal.clone()));
        }
    }
}
