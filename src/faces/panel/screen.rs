//! The user's terminal: what is changed for the panel is restored on every exit.

use std::io::{self, Stdout};
use std::sync::Once;

use crossterm::cursor::Show;
use crossterm::event::{
    DisableBracketedPaste, DisableMouseCapture, EnableBracketedPaste, EnableMouseCapture,
};
use crossterm::execute;
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;

use super::draw::draw;
use super::state::PanelState;

/// The terminal while the panel has it. Dropping it restores the terminal.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal.
    pub(super) fn take() -> io::Result<Self> {
        restore_on_panic();
        let terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        let mut screen = Self { terminal };
        screen.enter()?;
        Ok(screen)
    }

    /// Gives the terminal to another program for a while.
    pub(super) fn leave(&mut self) {
        restore();
    }

    /// Takes the terminal again, whatever it shows now.
    pub(super) fn enter(&mut self) -> io::Result<()> {
        enable_raw_mode()?;
        execute!(
            io::stdout(),
            EnterAlternateScreen,
            Clear(ClearType::All),
            EnableMouseCapture,
            EnableBracketedPaste
        )?;
        // Without a memory of what was drawn before. To clear the old one would ask the terminal
        // where its cursor is.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Draws what has changed since the last frame.
    pub(super) fn draw(&mut self, state: &PanelState) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, state))?;
        Ok(())
    }

    /// Returns the terminal's width and height.
    pub(super) fn size(&self) -> io::Result<(u16, u16)> {
        let size = self.terminal.size()?;
        Ok((size.width, size.height))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
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
