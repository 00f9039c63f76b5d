//! Our clients of a session, and what they are told.

use std::collections::VecDeque;

use super::ears::Ears;
use crate::model::{PaneId, SessionId};
use crate::place::Place;
use crate::protocol::{Command, Notice};
use crate::tmux::{
    self, Callers, Client, Connection, History, PaneOutput, Server, TmuxError, Told, Untold, Waiter,
};

/// The control clients of a session, each for what would stand in the way of the others.
#[derive(Debug)]
pub(super) struct Clients {
    /// Asks, and is told of windows and sessions. tmux sends answers in line with output, and output
    /// slower than busy panes print it: this one is told of no output.
    pub(super) asker: Client,
    /// Is told what panes print.
    listener: Client,
    /// Is woken by hooks.
    waiter: Waiter,
    pub(super) ears: Ears,
    /// What was taken in and is still to be taken account of, in order.
    heard: VecDeque<Change>,
}

/// What makes a look worth taking.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Change {
    /// A run ended, a bell rang, a window came or went: look now.
    Task,
    /// The same of windows that are known: there is no need to look at others.
    Windows,
    /// A pane printed something: look soon.
    Output,
    /// A pane that somebody follows printed this.
    Printed {
        pane: PaneId,
        bytes: Vec<u8>,
        /// Whether it is also the first output since the last look.
        is_first: bool,
    },
    /// Output of a pane was not read in time: what it prints from there on is not told.
    Paused(PaneId),
    /// Windows have other sizes than before.
    Layout,
}

/// A pane's output at one instant.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) output: PaneOutput,
    /// What was told until then; where not all of the pane's output was, it is paused in it.
    pub(super) before: Vec<Change>,
    /// What was told since.
    pub(super) after: Vec<Change>,
}

impl Clients {
    /// Attaches to the session and listens: from here on nothing is missed.
    pub(super) async fn attach(
        server: &Server,
        place: &Place,
        session: SessionId,
    ) -> Result<Self, TmuxError> {
        // tmux can crash when a session comes or goes while a control client connects.
        let lock = place.lock_server().await;
        let (waiter, asker, listener) = tokio::try_join!(
            server.wait_on(session),
            server.attach(session),
            server.attach(session),
        )?;
        drop(lock);
        let mut clients = Self {
            asker,
            listener,
            waiter,
            ears: Ears::default(),
            heard: VecDeque::new(),
        };
        let pids = [
            clients.asker.pid(),
            clients.listener.pid(),
            clients.waiter.pid(),
        ];
        let pids: Vec<u32> = pids.into_iter().flatten().collect();
        tmux::own_clients(
            &mut Connection::Attached(&mut clients.asker),
            session,
            &pids,
        )
        .await?;
        clients.listener.listen().await?;
        Ok(clients)
    }

    /// Resolves when a hook calls or tmux tells something that is worth a look.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped: what was not returned is returned next.
    pub(super) async fn told(&mut self) -> Result<Change, TmuxError> {
        if let Some(change) = self.heard.pop_front() {
            return Ok(change);
        }
        let Self {
            asker,
            listener,
            waiter,
            ears,
            ..
        } = self;
        loop {
            let change = tokio::select! {
                woken = waiter.woken() => woken.map(|callers| Some(of_call(callers, ears))),
                notice = asker.next_notice() => notice.map(|notice| of_windows(&notice, ears)),
                notice = listener.next_notice() => notice.map(|notice| of_output(notice, ears)),
            };
            if let Some(change) = change? {
                return Ok(change);
            }
        }
    }

    /// Takes in what has been told by now, so that a look asks for the windows it speaks of.
    /// Returns what of it a look answers, the most urgent.
    pub(super) async fn catch_up(&mut self) -> Option<Change> {
        self.asker.catch_up().await;
        self.listener.catch_up().await;
        let ears = &mut self.ears;
        let mut told = Vec::new();
        while let Some(callers) = self.waiter.called().await {
            told.push(of_call(callers, ears));
        }
        told.extend(notices(self.asker.take_told()).filter_map(|notice| of_windows(&notice, ears)));
        told.extend(notices(self.listener.take_told()).filter_map(|told| of_output(told, ears)));
        let mut answered = None;
        for change in told {
            match change {
                Change::Task => answered = Some(Change::Task),
                Change::Windows => {
                    if answered != Some(Change::Task) {
                        answered = Some(Change::Windows);
                    }
                }
                Change::Output => answered = answered.or(Some(Change::Output)),
                Change::Printed { .. } | Change::Paused(_) | Change::Layout => {
                    self.heard.push_back(change);
                }
            }
        }
        answered
    }

    /// Returns what has been told by now, without waiting.
    pub(super) async fn take_changes(&mut self) -> Vec<Change> {
        let answered = self.catch_up().await;
        self.heard.drain(..).chain(answered).collect()
    }

    /// Lets panes that print on and on do so without telling, until a look finds them quiet.
    pub(super) async fn hush(&mut self) -> Result<(), TmuxError> {
        let noisy = self.ears.take_noisy();
        self.listener.hush(noisy).await
    }

    /// Lets those tell again that the last look found quiet.
    pub(super) async fn resume(&mut self) -> Result<(), TmuxError> {
        let quiet: Vec<PaneId> = self.ears.to_resume().collect();
        self.listener.resume(quiet).await
    }

    /// Reads a pane's output in line with what is told of it: all that it prints after the reading
    /// will be told.
    pub(super) async fn hear_output(
        &mut self,
        pane: PaneId,
        history: History,
    ) -> Result<Heard, TmuxError> {
        let Self {
            listener,
            ears,
            heard,
            ..
        } = self;
        let is_followed = ears.follows(pane);
        // What nobody follows nobody misses. What is told too late, and will be ever later, would
        // hold up everybody else until it is told.
        let untold = if is_followed && !ears.is_behind(pane) {
            Untold::Kept
        } else {
            Untold::Dropped
        };
        // Before the reading: what is told right behind its answer is part of what follows.
        ears.follow_also(pane);
        let output = tmux::hear_output(listener, pane, history, untold).await?;
        let mut told: Vec<Told> = listener.take_told().into();
        if untold == Untold::Dropped {
            // That the reading itself pauses the pane and resumes it is no news. (tmux 3.8 tells it,
            // earlier ones say it inside the answer.)
            let own = Told::Notice(Notice::Pause(pane));
            told.retain(|told| *told != own);
        }
        // The last answer is that of the reading.
        let at = told
            .iter()
            .rposition(|told| *told == Told::Answer)
            .unwrap_or(0);
        let after = told.split_off(at);
        let mut before: Vec<Change> = heard.drain(..).collect();
        before.extend(notices(told).filter_map(|notice| of_output(notice, ears)));
        if is_followed && untold == Untold::Dropped {
            before.push(Change::Paused(pane));
        }
        ears.resumed(pane);
        let after = notices(after).filter_map(|notice| of_output(notice, ears));
        Ok(Heard {
            output,
            before,
            after: after.collect(),
        })
    }

    /// Stops hearing a pane.
    pub(super) async fn pause(&mut self, pane: PaneId) -> Result<(), TmuxError> {
        self.listener.pause(pane).await?;
        let own = Notice::Pause(pane);
        let ears = &mut self.ears;
        let told = notices(self.listener.take_told()).filter(|notice| *notice != own);
        self.heard
            .extend(told.filter_map(|notice| of_output(notice, ears)));
        self.heard.extend(of_output(own.clone(), &mut self.ears));
        Ok(())
    }

    /// Takes in all that has been told of panes by now, unless that is told too late.
    pub(super) async fn hear_out(&mut self) -> Result<(), TmuxError> {
        if self.ears.is_any_behind() {
            return Ok(());
        }
        let mark = Command::new("display-message").args(["-p", ""]);
        self.listener.call(&[mark]).await.map(drop)
    }

    /// Detaches.
    pub(super) async fn close(self) {
        tokio::join!(
            self.asker.close(),
            self.listener.close(),
            self.waiter.close()
        );
    }
}

fn notices(told: impl IntoIterator<Item = Told>) -> impl Iterator<Item = Notice> {
    told.into_iter().filter_map(|told| match told {
        Told::Notice(notice) => Some(notice),
        Told::Answer => None,
    })
}

/// Returns what a hook's call calls for.
fn of_call(callers: Callers, ears: &mut Ears) -> Change {
    match callers {
        Callers::Windows(windows) => {
            windows.into_iter().for_each(|window| ears.moved(window));
            Change::Windows
        }
        Callers::Unknown => {
            ears.anywhere();
            Change::Task
        }
    }
}

/// Returns what a notification of windows and sessions calls for.
fn of_windows(notice: &Notice, ears: &mut Ears) -> Option<Change> {
    match notice {
        Notice::WindowAdd(window) | Notice::WindowRenamed(window) => {
            ears.moved(*window);
            Some(Change::Task)
        }
        Notice::LayoutChange(window) => {
            ears.moved(*window);
            Some(Change::Layout)
        }
        Notice::WindowClose(_) => {
            // What went with it is not told.
            ears.anywhere();
            Some(Change::Task)
        }
        Notice::SessionRenamed | Notice::SessionChanged(_) | Notice::Exit(_) => {
            ears.anywhere();
            Some(Change::Task)
        }
        Notice::Output { .. }
        | Notice::ExtendedOutput { .. }
        | Notice::Pause(_)
        | Notice::UnlinkedWindowAdd(_)
        | Notice::SessionsChanged
        | Notice::Continue(_)
        | Notice::Message(_)
        | Notice::Other(_) => None,
    }
}

/// Returns what a notification of output calls for. The listener is told of windows as well, but
/// behind the output.
fn of_output(notice: Notice, ears: &mut Ears) -> Option<Change> {
    let (pane, bytes, age_ms) = match notice {
        Notice::Output { pane, bytes } => (pane, bytes, 0),
        Notice::ExtendedOutput {
            pane,
            bytes,
            age_ms,
        } => (pane, bytes, age_ms),
        Notice::Pause(pane) => {
            ears.paused(pane);
            return Some(Change::Paused(pane));
        }
        Notice::WindowAdd(_)
        | Notice::WindowClose(_)
        | Notice::UnlinkedWindowAdd(_)
        | Notice::WindowRenamed(_)
        | Notice::LayoutChange(_)
        | Notice::SessionChanged(_)
        | Notice::SessionRenamed
        | Notice::SessionsChanged
        | Notice::Continue(_)
        | Notice::Exit(_)
        | Notice::Message(_)
        | Notice::Other(_) => return None,
    };
    let is_first = ears.heard(pane, age_ms);
    if ears.follows(pane) {
        return Some(Change::Printed {
            pane,
            bytes,
            is_first,
        });
    }
    is_first.then_some(Change::Output)
}
