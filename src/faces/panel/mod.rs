//! The full-screen panel: the tasks of a session for the person at a terminal.
//!
//! `state` is pure: keys, tasks and results go in, effects come out. `draw` makes a frame of the
//! state, `work` performs the effects, and the loop here owns the terminal.
//!
//! For all sessions, `all_sessions` finds which there are and follows each.

mod all_sessions;
mod board;
mod colours;
mod draw;
mod fleet_sessions;
mod mode;
mod state;
mod work;

#[cfg(test)]
mod tests;

use std::io::{self, Stdout};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Once;
use std::time::Duration;

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture, Event,
    EventStream,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use futures_util::StreamExt;
use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use tokio::sync::mpsc::unbounded_channel;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::clock;
use crate::model::{Error, text, with_causes};
use crate::ops::{self, Attachment, SessionChoice};
use all_sessions::AllSessions;
use board::Place;
use draw::draw;
use mode::PanelEffect;
use state::{ActionReport, PanelState};
use work::{ANSWERS_WITHIN, begin, follow, perform};

/// The shortest time between two frames, so that a storm of changes does not become one of frames.
const FRAME: Duration = Duration::from_millis(30);

/// The shortest time between two previews of a task that prints all the time.
const PREVIEW: Duration = Duration::from_millis(250);

/// How often ages are shown again.
const SECOND: Duration = Duration::from_secs(1);

/// The maximum length of a message of tmux, in characters.
const MESSAGE_CHARS: usize = 300;

fn unusable(error: io::Error) -> Error {
    Error::io("could not use the terminal", &error)
}

/// Which tasks are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    Session,
    /// Those of all sessions of the user.
    AllSessions,
    /// Those of all hosts of the fleet.
    Fleet,
}

/// Shows the panel until the user quits, or until `stop` resolves; returns what that resolved to.
/// The terminal is restored when this returns.
pub(crate) async fn run<T>(
    choice: &SessionChoice,
    shown: Shown,
    stop: impl Future<Output = T>,
) -> Result<Option<T>, Error> {
    let (to, mut incoming) = unbounded_channel();
    let (session, following): (_, LocalBoxFuture<'_, ()>) = match shown {
        Shown::Session => {
            let first = timeout(ANSWERS_WITHIN, begin(choice)).await;
            let first = first.map_err(|_| {
                Error::failed("the daemon does not answer").with_hint("`tmux-task doctor` says why")
            })??;
            let name = first.0.name.clone();
            (Some(name), Box::pin(follow(choice, first, to)))
        }
        Shown::AllSessions => (None, Box::pin(AllSessions::of(choice, to)?.follow())),
        Shown::Fleet => (None, Box::pin(fleet_sessions::follow(to))),
    };
    let mut panel = Panel::new(session).map_err(unusable)?;
    let mut following = pin!(following);
    let mut stop = pin!(stop);
    let mut seconds = interval(SECOND);
    seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        if panel.draws_at() <= Instant::now() {
            panel.draw().map_err(unusable)?;
        }
        let (draws_at, previews_at) = (panel.draws_at(), panel.previews_at);
        let (is_changed, has_preview) = (panel.is_changed, panel.preview.is_some());
        let message_until = panel.state.message_until();
        let message_at = message_until.map_or_else(Instant::now, Into::into);
        // Nothing is lost when one of these is dropped: all but the timers are kept.
        tokio::select! {
            ended = &mut stop => return Ok(Some(ended)),
            event = async { panel.events.as_mut()?.next().await } => match event {
                Some(event) => panel.on_event(event.map_err(unusable)?),
                // The terminal is gone.
                None => return Ok(None),
            },
            Some(incoming) = incoming.recv() => {
                let effects = panel.state.on_incoming(incoming);
                panel.begin(effects);
            }
            // It never ends.
            () = &mut following => {}
            Some(report) = panel.work.next() => {
                if let ActionReport::Attach(attachment) = report {
                    panel.attach(attachment).await.map_err(unusable)?;
                } else {
                    let effects = panel.state.on_report(report);
                    panel.begin(effects);
                }
            }
            _ = seconds.tick() => panel.on_second(),
            () = sleep_until(draws_at), if is_changed => {}
            () = sleep_until(previews_at), if has_preview => panel.begin_preview(),
            () = sleep_until(message_at), if message_until.is_some() => {
                let effects = panel.state.on_message_over();
                panel.begin(effects);
            }
        }
        if panel.state.has_quit {
            return Ok(None);
        }
    }
}

/// Dropping it restores the terminal.
struct Panel {
    state: PanelState,
    terminal: Terminal<CrosstermBackend<Stdout>>,
    /// What the user does; `None` while another program has the terminal.
    events: Option<EventStream>,
    work: FuturesUnordered<LocalBoxFuture<'static, ActionReport>>,
    /// The preview to read next.
    preview: Option<PanelEffect>,
    /// When the next preview may be read.
    previews_at: Instant,
    /// Whether the state has changed since the last frame.
    is_changed: bool,
    drawn_at: Option<Instant>,
}

impl Panel {
    /// Takes the terminal, to show the session of this name, or all.
    fn new(session: Option<String>) -> io::Result<Self> {
        restore_on_panic();
        let terminal = enter()?;
        let state = PanelState::new(session, terminal.size()?.into(), clock::now().wall);
        Ok(Self {
            state,
            terminal,
            events: Some(EventStream::new()),
            work: FuturesUnordered::new(),
            preview: None,
            previews_at: Instant::now(),
            is_changed: true,
            drawn_at: None,
        })
    }

    /// When the next frame is due, if anything has changed.
    fn draws_at(&self) -> Instant {
        self.drawn_at.map_or_else(Instant::now, |at| at + FRAME)
    }

    fn draw(&mut self) -> io::Result<()> {
        if self.is_changed {
            self.state.now = clock::now().wall;
            self.terminal.draw(|frame| draw(frame, &self.state))?;
            self.is_changed = false;
            let now = Instant::now();
            self.state.on_drawn(now.into_std());
            self.drawn_at = Some(now);
        }
        Ok(())
    }

    fn on_event(&mut self, event: Event) {
        let effects = match event {
            Event::Key(key) => self.state.on_key(key),
            Event::Mouse(mouse) => self.state.on_mouse(mouse),
            Event::Paste(text) => self.state.on_paste(&text),
            Event::Resize(width, height) => self.state.on_size((width, height)),
            Event::FocusGained | Event::FocusLost => return,
        };
        self.begin(effects);
    }

    fn begin(&mut self, effects: Vec<PanelEffect>) {
        self.is_changed = true;
        for effect in effects {
            if matches!(effect, PanelEffect::Preview { .. }) {
                // Only the latest counts.
                self.preview = Some(effect);
            } else {
                self.perform(effect);
            }
        }
    }

    fn perform(&self, effect: PanelEffect) {
        // The session may just have gone, with the task.
        let session = self.state.board.session(effect.session());
        if let Some(place) = session.and_then(|session| session.place.clone()) {
            self.work.push(match place {
                Place::Here(session) => Box::pin(perform(session, effect)),
                Place::Host { host, session } => {
                    Box::pin(async move { fleet_sessions::perform(&host, &session, effect).await })
                }
            });
        }
    }

    fn begin_preview(&mut self) {
        if let Some(effect) = self.preview.take() {
            self.previews_at = Instant::now() + PREVIEW;
            self.perform(effect);
        }
    }

    fn on_second(&mut self) {
        self.is_changed = true;
        self.state.on_second(Instant::now().into_std(), |pids| {
            (ops::tree_usage(pids), ops::ports(pids).unwrap_or_default())
        });
    }

    /// Shows a task's window to the user.
    async fn attach(&mut self, attachment: Attachment) -> io::Result<()> {
        self.is_changed = true;
        let mut command = tokio::process::Command::from(attachment.command);
        if !attachment.takes_terminal {
            let why = match command.stdin(Stdio::null()).output().await {
                Ok(output) if output.status.success() => {
                    // The popup goes, so that the user sees the window.
                    self.state.has_quit = attachment.is_covered;
                    return Ok(());
                }
                Ok(output) => text::one_line(&output.stderr, MESSAGE_CHARS),
                Err(error) => not_started(&error),
            };
            self.state.say(Err(why));
            return Ok(());
        }
        // The keys are tmux's until the user detaches.
        // A second stream would wait until the thread of the first one has read a key.
        self.events = None;
        restore();
        let status = command.status().await;
        // Without a memory of what was drawn before. To clear the old one would ask the terminal where its
        // cursor is.
        self.terminal = enter()?;
        self.events = Some(EventStream::new());
        let effects = self.state.on_size(self.terminal.size()?.into());
        self.begin(effects);
        if let Err(error) = status {
            self.state.say(Err(not_started(&error)));
        }
        Ok(())
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        restore();
    }
}

fn not_started(error: &io::Error) -> String {
    format!("could not start tmux: {}", with_causes(error))
}

/// Takes the terminal, whatever it shows now.
fn enter() -> io::Result<Terminal<CrosstermBackend<Stdout>>> {
    let modes = || {
        enable_raw_mode()?;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            Clear(ClearType::All),
            EnableMouseCapture,
            EnableBracketedPaste
        )
    };
    modes().inspect_err(|_| restore())?;
    Terminal::new(CrosstermBackend::new(io::stdout()))
}

/// Restores the terminal. Where it is gone, there is nothing to restore.
fn restore() {
    drop(execute!(
        io::stdout(),
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen,
        Show
    ));
    drop(disable_raw_mode());
}

/// A panic's message must be readable, so it comes after the terminal is restored.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            print(panic);
        }));
    });
}
