//! stdout contains only results; when it is closed the command ends quietly. Errors get their final form here.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot;

use crate::model::{Error, ErrorKind, FarCaller, text};

// `--json` on its own. No doc comment: clap would take it for the text of the command.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Json {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// The maximum length of a part of an error: a path and a few sentences.
const MAX_CHARS: usize = 8192;

/// Who sees the results, on this machine or another one.
static VIEWER: OnceLock<FarCaller> = OnceLock::new();

/// From here on, results are for the terminal of this caller, to whom the streams are passed on.
pub(super) fn for_caller(caller: FarCaller) {
    // Called once, before anything is printed.
    drop(VIEWER.set(caller));
}

/// Returns who sees the results, and on what. They have colours on a terminal, unless `NO_COLOR` is set
/// (<https://no-color.org>).
pub(crate) fn viewer() -> &'static FarCaller {
    VIEWER.get_or_init(|| {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let is_stdout_terminal = io::stdout().is_terminal();
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok();
        let columns = size.map(|size| usize::from(size.ws_col));
        FarCaller {
            stdout_columns: columns.filter(|columns| *columns > 0),
            is_stdout_terminal,
            is_coloured: is_stdout_terminal && !is_dumb && !is_set("NO_COLOR"),
            ..FarCaller::default()
        }
    })
}

pub(crate) fn line(text: &str) -> Result<(), Error> {
    lines(std::iter::once(text))
}

pub(crate) fn lines(texts: impl IntoIterator<Item = impl AsRef<str>>) -> Result<(), Error> {
    let mut results = Results::new();
    for text in texts {
        results.line(text.as_ref())?;
    }
    results.end()
}

/// Prints many lines of results as they come, in batches.
pub(crate) struct Results {
    stdout: io::BufWriter<io::StdoutLock<'static>>,
}

impl Results {
    pub(crate) fn new() -> Self {
        let stdout = io::BufWriter::new(io::stdout().lock());
        Self { stdout }
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        writeln!(self.stdout, "{text}").or_else(|error| closed_is_fine(&error))
    }

    pub(crate) fn end(mut self) -> Result<(), Error> {
        self.stdout.flush().or_else(|error| closed_is_fine(&error))
    }
}

pub(crate) fn text(text: &str) -> Result<(), Error> {
    let mut results = Results::new();
    let printed = write!(results.stdout, "{text}");
    printed.or_else(|error| closed_is_fine(&error))?;
    results.end()
}

pub(crate) fn json(value: &impl serde::Serialize) -> Result<(), Error> {
    let text = serde_json::to_string(value).map_err(|error| Error::of(error).about("output"))?;
    line(&text)
}

/// When our stdout is closed, the command ends without a failure.
pub(crate) fn closed_is_fine(error: &io::Error) -> Result<(), Error> {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Err(Error::silent(ErrorKind::OutputClosed));
    }
    Err(Error::of(error).about("output"))
}

/// Prints why the command `what` failed. `options` say which session and server are meant.
pub(super) fn complain(error: &Error, what: &str, options: &str) {
    if !error.message.is_empty() {
        note(&framed(error, what, options));
    }
}

/// Names, paths, and messages of tmux or files are untrusted.
fn framed(error: &Error, what: &str, options: &str) -> String {
    let one_line = |text: &str| text::one_line(text.as_bytes(), MAX_CHARS);
    let what = one_line(error.what.as_deref().unwrap_or(what));
    let line = format!("tmux-task: {what}: {}", one_line(&error.message));
    match &error.hint {
        Some(hint) => format!("{line}\nhint: {}", one_line(&with_options(hint, options))),
        None => line,
    }
}

/// Adds these options to the commands of a text: without them, they are about another session.
pub(super) fn with_options(text: &str, options: &str) -> String {
    if options.is_empty() {
        return text.to_owned();
    }
    text.replace("tmux-task ", &format!("tmux-task {options} "))
}

/// Prints a message on stderr. It may contain names, paths and other untrusted text.
pub(crate) fn note(text: &str) {
    let lines = text.lines().map(|line| text::row(line.as_bytes()));
    let clean = lines.collect::<Vec<_>>().join("\n");
    // In one piece: whoever reads it together with stdout does not get that into the middle of a line.
    drop(io::stderr().write_all(format!("{clean}\n").as_bytes()));
}

/// Prints the last lines of a failed run on stderr, because stdout is for results; behind the task's
/// name where it may be one of several.
pub(crate) fn tail(lines: &[String], name: Option<&str>) {
    let shown = lines.iter().map(|line| match name {
        Some(name) => format!("{name} | {line}"),
        None => line.clone(),
    });
    let shown: Vec<String> = shown.collect();
    if !shown.is_empty() {
        note(&shown.join("\n"));
    }
}

pub(crate) fn help(text: &str) -> u8 {
    match lines(std::iter::once(text.trim_end())) {
        Ok(()) => 0,
        Err(failure) => {
            complain(&failure, "help", "");
            failure.kind.exit_code()
        }
    }
}

/// Resolves when nobody reads stdout any more; never when it is a file.
pub(crate) async fn stdout_closed() {
    closed(std::io::stdout().as_fd()).await;
}

/// Resolves when nobody reads stderr any more; never when it is a file.
pub(crate) async fn stderr_closed() {
    closed(std::io::stderr().as_fd()).await;
}

/// The other end may be that of a pipe, or of a socket, as Node gives to its children: only the end of that counts,
/// and not what comes from there. So this is a thread that polls for nothing else. It ends when the future is
/// dropped: its copy of the stream would keep the reader from the stream's end.
async fn closed(stream: BorrowedFd<'_>) {
    let (sender, closed) = oneshot::channel();
    let watch = || {
        let watched = stream.try_clone_to_owned()?;
        let (stopped, stop) = pipe_with(PipeFlags::CLOEXEC)?;
        let watch = move || {
            let ends = |file| PollFd::from_borrowed_fd(file, PollFlags::empty());
            let mut polled = [ends(watched.as_fd()), ends(stopped.as_fd())];
            while poll(&mut polled, None) == Err(Errno::INTR) {}
            sender.send(()).ok();
        };
        let thread = std::thread::Builder::new().name("reader-watch".to_owned());
        thread.spawn(watch)?;
        Ok::<_, io::Error>(stop)
    };
    let stop = watch();
    if stop.is_err() || closed.await.is_err() {
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use clap::Parser;
    use tokio::time::timeout;

    use super::*;
    use crate::faces::cli::args::Cli;

    #[test]
    fn the_commands_of_a_hint_are_for_the_session_and_server_that_were_given() {
        let hint = |args: &str| {
            let args = std::iter::once("tmux-task").chain(args.split(' '));
            let options = Cli::try_parse_from(args).unwrap().global.words();
            let error = Error::missing("no session").with_hint(
                "`tmux-task ls` or `env -u TMUX tmux-task run NAME`; see tmux-task.toml",
            );
            let framed = framed(&error, "ls", &options);
            let (line, hint) = framed.split_once("\nhint: ").unwrap();
            assert_eq!(line, "tmux-task: ls: no session");
            hint.to_owned()
        };
        assert_eq!(
            hint("ls"),
            "`tmux-task ls` or `env -u TMUX tmux-task run NAME`; see tmux-task.toml"
        );
        assert_eq!(
            hint("ls --session it's -L other"),
            "`tmux-task -L other -s 'it'\\''s' ls` or `env -u TMUX tmux-task -L other \
             -s 'it'\\''s' run NAME`; see tmux-task.toml"
        );
    }

    #[tokio::test]
    async fn a_stream_is_closed_when_its_reader_is_gone() {
        let (pipe, reader) = rustix::pipe::pipe()
            .map(|(reader, pipe)| (pipe, reader))
            .unwrap();
        drop(reader);
        closed(pipe.as_fd()).await;
        let (socket, mut peer) = UnixStream::pair().unwrap();
        // What comes from the other side is not its end.
        peer.write_all(b"hello").unwrap();
        let short = Duration::from_millis(20);
        assert!(timeout(short, closed(socket.as_fd())).await.is_err());
        drop(peer);
        closed(socket.as_fd()).await;
        let file = File::open("/dev/null").unwrap();
        assert!(timeout(short, closed(file.as_fd())).await.is_err());
    }
}
