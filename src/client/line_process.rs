//! A process that answers with lines: ssh, another way to a machine, the program of the fleet.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::sleep;

use crate::model::text;

/// The longest line that is put together, in bytes.
pub(crate) const LONGEST_LINE: usize = 16 << 20;

/// How long what is said may take to arrive after the end: ssh's background process may hold the pipe.
const SAID_WITHIN: Duration = Duration::from_millis(200);

/// How much of what is said is kept, in bytes, and reported, in lines and characters.
const MOST_SAID: usize = 4 << 10;
const SAID_LINES: usize = 2;
const SAID_CHARS: usize = 400;

/// A process that answers with lines. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct LineProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The beginning of its next line.
    line: Vec<u8>,
    pub(crate) said: Said,
}

/// What a process says that is no answer, the end of it.
#[derive(Debug, Default)]
pub(crate) struct Said(Vec<u8>);

impl LineProcess {
    /// Starts it without a terminal: the signals of one are not for it.
    pub(crate) fn spawn(command: std::process::Command, stdin: Stdio) -> io::Result<Self> {
        let mut command = Command::from(command);
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn()?;
        Ok(Self {
            stdin: child.stdin.take(),
            stdout: BufReader::new(child.stdout.take().expect("stdout is piped")),
            stderr: child.stderr.take(),
            child,
            line: Vec::new(),
            said: Said::default(),
        })
    }

    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Sends a line. What does not read it says so itself, or has ended.
    pub(crate) async fn send(&mut self, line: &str) {
        if let Some(to) = &mut self.stdin {
            let written = to.write_all(line.as_bytes()).await;
            written.and(to.flush().await).ok();
        }
    }

    /// Returns its next line, with its end; `None` at the end. Nothing is lost when the future is dropped.
    pub(crate) async fn line(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut stdout = (&mut self.stdout).take(LONGEST_LINE as u64);
            tokio::select! {
                // A stream that breaks has ended.
                _ = stdout.read_until(b'\n', &mut self.line) => {
                    let line = std::mem::take(&mut self.line);
                    return (!line.is_empty()).then_some(line);
                }
                () = self.said.hear(&mut self.stderr), if self.stderr.is_some() => {}
            }
        }
    }

    /// Waits for its end, and for what it says until then. Returns its exit code; `None` for a signal.
    pub(crate) async fn end(&mut self) -> Option<i32> {
        let heard = async {
            while self.stderr.is_some() {
                self.said.hear(&mut self.stderr).await;
            }
        };
        let ended = async {
            drop(self.child.wait().await);
            sleep(SAID_WITHIN).await;
        };
        tokio::select! {
            () = heard => {}
            () = ended => {}
        }
        self.child.wait().await.ok()?.code()
    }
}

impl Said {
    pub(crate) fn add(&mut self, piece: &[u8]) {
        self.0.extend_from_slice(piece);
        let surplus = self.0.len().saturating_sub(MOST_SAID);
        self.0.drain(..surplus);
    }

    /// Adds what comes next on standard error, which is gone at its end.
    async fn hear(&mut self, stderr: &mut Option<ChildStderr>) {
        let mut bytes = [0; MOST_SAID];
        if let Some(from) = stderr {
            match from.read(&mut bytes).await {
                Ok(n @ 1..) => self.add(&bytes[..n]),
                Ok(0) | Err(_) => *stderr = None,
            }
        }
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        let lines = self.0.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| text::one_line(line, SAID_CHARS));
        lines.filter(|line| !line.is_empty()).collect()
    }

    pub(crate) fn words(&self) -> String {
        let lines = self.lines();
        let last = &lines[lines.len().saturating_sub(SAID_LINES)..];
        text::bounded(&last.join("; "), SAID_CHARS)
    }

    /// Returns how the process has ended, and these words: ` (code 1): no such file`.
    pub(crate) fn end(&self, code: Option<i32>) -> String {
        let end = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        match self.words() {
            words if words.is_empty() => format!(" ({end})"),
            words => format!(" ({end}): {words}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_what_is_said_are_reported() {
        let mut said = Said::default();
        let noise = "@@@@\n".repeat(2000);
        let text =
            format!("{noise}\r\nHost key \u{1b}[31mof x changed.\r\n\nVerification failed.\r\n");
        for piece in text.as_bytes().chunks(100) {
            said.add(piece);
        }
        assert!(said.0.len() <= MOST_SAID);
        assert_eq!(said.words(), "Host key of x changed.; Verification failed.");
    }
}
