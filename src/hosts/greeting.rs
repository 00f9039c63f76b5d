//! What comes first from the far side, and what it means if it does not come.

use std::cell::RefCell;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

use super::frame::{FRAMES, Frame, Hello, LineReader, of_channel};
use super::host::Host;
use super::ssh::MISSING;
use crate::model::{Error, text};

/// How long ssh and the start files of the login shell there may take.
const GREETS_WITHIN: Duration = Duration::from_secs(60);

/// How long what ssh says may take to arrive after its end: its background process may hold the pipe.
pub(super) const SAID_WITHIN: Duration = Duration::from_millis(200);

/// The exit code of ssh's own failures.
pub(super) const SSH_FAILED: i32 = 255;

/// What to do about another program there.
const SAME_VERSION: &str = "install the same version on both machines";

/// How many lines start files may print.
const MOST_NOISE: usize = 1000;

/// How much of what ssh says is kept, in bytes, and reported, in lines and characters.
const MOST_SAID: usize = 4 << 10;
const SAID_LINES: usize = 2;
const SAID_CHARS: usize = 400;

/// What ssh and the start files of the login shell have said, its end.
#[derive(Debug, Default)]
pub(super) struct Said(RefCell<Vec<u8>>);

impl Said {
    /// Collects what is said; does not end before the stream does.
    pub(super) async fn collect(&self, mut from: impl AsyncRead + Unpin) {
        let mut piece = [0; 1024];
        while let Ok(n @ 1..) = from.read(&mut piece).await {
            self.add(&piece[..n]);
        }
    }

    pub(super) fn add(&self, piece: &[u8]) {
        let mut said = self.0.borrow_mut();
        said.extend_from_slice(&piece[piece.len().saturating_sub(MOST_SAID)..]);
        let surplus = said.len().saturating_sub(MOST_SAID);
        said.drain(..surplus);
    }

    /// Returns the last lines as one. A client of a shared connection says nothing when that is lost.
    pub(super) fn words_of_ssh(&self) -> String {
        let words = self.words();
        if words.is_empty() {
            "ssh failed".to_owned()
        } else {
            words
        }
    }

    /// Returns how something has ended, and its last lines: ` (code 1): no such file`.
    pub(super) fn end(&self, code: Option<i32>) -> String {
        let end = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        match self.words() {
            words if words.is_empty() => format!(" ({end})"),
            words => format!(" ({end}): {words}"),
        }
    }

    /// Returns the last lines as one.
    pub(super) fn words(&self) -> String {
        let said = self.0.borrow();
        let lines = said.split(|byte| *byte == b'\n');
        let lines: Vec<String> = lines
            .map(|line| text::one_line(line, SAID_CHARS))
            .filter(|line| !line.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(SAID_LINES)..];
        text::bounded(&last.join("; "), SAID_CHARS)
    }
}

/// Reads until the far side greets, past what start files of the login shell print.
///
/// # Errors
///
/// What is wrong with the way there, or with the program there.
pub(super) async fn greet(
    host: &Host,
    ssh: &mut Child,
    from: &mut LineReader<ChildStdout>,
    said: &Said,
) -> Result<Hello, Error> {
    let name = &host.name;
    let read = async {
        for _ in 0..MOST_NOISE {
            let Ok(line) = from.line().await else { break };
            let Some(line) = line else { return Ok(None) };
            if let Some((0, line)) = of_channel(line)
                && let Ok(Frame::Hello(hello)) = Frame::parse(&line)
            {
                return Ok(Some(check(name, hello)?));
            }
            if let Some(system) = line.strip_prefix(MISSING.as_bytes()) {
                let system = text::one_line(system, SAID_CHARS);
                let what = match &host.program {
                    Some(path) => path.as_str(),
                    None => "tmux-task",
                };
                let why = format!("there is no {what} on {name} ({system})");
                let hint = format!("`tmux-task init host {name}` puts this program there");
                return Err(refused(why, hint));
            }
            said.add(line);
        }
        let why = format!(
            "{name} prints something else than tmux-task: {}",
            said.words()
        );
        let hint = format!(
            "the start files of the login shell there print it: `ssh {} true`",
            host.destination
        );
        Err(refused(why, hint))
    };
    let greeted = timeout(GREETS_WITHIN, read).await.map_err(|_elapsed| {
        let why = format!("{name} did not answer within {} s", GREETS_WITHIN.as_secs());
        refused(
            why,
            "the start files of the login shell there may wait for something".to_owned(),
        )
    });
    if let Some(hello) = greeted?? {
        return Ok(hello);
    }
    let status = timeout(GREETS_WITHIN, ssh.wait()).await;
    tokio::time::sleep(SAID_WITHIN).await;
    let code = status.ok().and_then(|status| status.ok()?.code());
    Err(if code == Some(SSH_FAILED) {
        let words = said.words_of_ssh();
        let hint = format!(
            "`ssh {}` has to work first; in a terminal it asks what it needs",
            host.destination
        );
        refused(format!("could not reach {name}: {words}"), hint)
    } else {
        let why = format!("tmux-task on {name} did not start{}", said.end(code));
        refused(why, SAME_VERSION.to_owned())
    })
}

/// Checks that the program there is of our version.
fn check(host: &str, hello: Hello) -> Result<Hello, Error> {
    let ours = Hello::ours();
    if hello == ours {
        return Ok(hello);
    }
    let shown = |hello: &Hello| {
        let version = text::one_line(hello.version.as_bytes(), 40);
        match hello.frames {
            FRAMES => version,
            frames => format!("{version} (frames {frames})"),
        }
    };
    let why = format!(
        "{host} has tmux-task {}, this is {}",
        shown(&hello),
        ours.version
    );
    Err(refused(why, SAME_VERSION.to_owned()))
}

fn refused(why: String, hint: String) -> Error {
    Error::failed(why).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_last_lines_of_what_is_said_are_reported() {
        let said = Said::default();
        let noise = "@@@@\n".repeat(2000);
        let text =
            format!("{noise}\r\nHost key \u{1b}[31mof x changed.\r\n\nVerification failed.\r\n");
        said.collect(text.as_bytes()).await;
        assert!(said.0.borrow().len() <= MOST_SAID);
        assert_eq!(said.words(), "Host key of x changed.; Verification failed.");
    }

    #[test]
    fn another_version_is_named() {
        let error = |frames: u32, version: &str| {
            let hello = Hello {
                frames,
                version: version.to_owned(),
            };
            check("gpu1", hello).unwrap_err().to_string()
        };
        assert!(check("gpu1", Hello::ours()).is_ok());
        let ours = Hello::ours().version;
        assert_eq!(
            error(FRAMES, "9.9.9"),
            format!("gpu1 has tmux-task 9.9.9, this is {ours}")
        );
        assert_eq!(
            error(7, "9\n9"),
            format!("gpu1 has tmux-task 9 9 (frames 7), this is {ours}")
        );
    }
}
