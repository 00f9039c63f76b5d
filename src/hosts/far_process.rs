//! The process here that executes a call on another machine: ssh, or whatever reaches the program there.

use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::far_call::{Beginning, END_MARK, FAR_CALL, FarCall, OURS, greeting};
use super::host::{Host, Way, lost, not_started};
use super::ssh::{
    MISSING, Questions, Ssh, far_script, find_program, of_shell, of_shell_after_noise,
};
use crate::model::{Error, ErrorKind, text};
use crate::paths::Env;

/// How long it may take until the program there has begun.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// How long what ssh says may take to arrive after its end: its background process may hold the pipe.
const SAID_WITHIN: Duration = Duration::from_millis(200);

/// The exit code of ssh's own failures, and of a shell that finds no program.
pub(super) const SSH_FAILED: i32 = 255;
const NOT_FOUND: i32 = 127;

/// What to do about another program there.
const SAME_VERSION: &str = "install the same version on both machines";

/// How much of a stream is read at once, in bytes, and the longest line that is put together.
const CHUNK: usize = 32 << 10;
const MAX_LINE: usize = 16 << 20;

/// How many lines start files may print, and how long they may be, in bytes.
const MOST_NOISE: usize = 1000;
const NOISE_LINE: usize = 64 << 10;

/// How much of what is said before that is kept, in bytes, and reported, in lines and characters.
const MOST_SAID: usize = 4 << 10;
const SAID_LINES: usize = 2;
const SAID_CHARS: usize = 400;

/// An execution on another machine, or another program that is the way to some. Dropping it leaves it, which
/// interrupts it there.
#[derive(Debug)]
pub(crate) struct FarProcess {
    host: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// What was read of standard output and not returned yet: what is behind the greeting, or the beginning
    /// of a line.
    ahead: Vec<u8>,
    /// The same of standard error.
    stderr_ahead: Vec<u8>,
    /// What was said there before the greeting, until that has come, and at the end.
    before: Option<Vec<u8>>,
    end: Option<Vec<u8>>,
}

/// What comes from an execution.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FarOutput {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

/// What ssh and the start files of the login shell have said, its end.
#[derive(Debug, Default)]
pub(super) struct Said(Vec<u8>);

impl Said {
    pub(super) fn add(&mut self, piece: &[u8]) {
        self.0
            .extend_from_slice(&piece[piece.len().saturating_sub(MOST_SAID)..]);
        let surplus = self.0.len().saturating_sub(MOST_SAID);
        self.0.drain(..surplus);
    }

    /// Returns the last lines as one.
    fn words(&self) -> String {
        let lines = self.0.split(|byte| *byte == b'\n');
        let lines: Vec<String> = lines
            .map(|line| text::one_line(line, SAID_CHARS))
            .filter(|line| !line.is_empty())
            .collect();
        let last = &lines[lines.len().saturating_sub(SAID_LINES)..];
        text::bounded(&last.join("; "), SAID_CHARS)
    }

    /// Returns how something has ended, and its last lines: ` (code 1): no such file`.
    pub(super) fn end(&self, code: Option<i32>) -> String {
        let end = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
        match self.words() {
            words if words.is_empty() => format!(" ({end})"),
            words => format!(" ({end}): {words}"),
        }
    }

    /// Returns the error that ssh did not reach this host. A client of a shared connection says nothing when
    /// that is lost.
    pub(super) fn unreachable(&self, host: &str, destination: &str) -> Error {
        let words = match self.words() {
            words if words.is_empty() => "ssh failed".to_owned(),
            words => words,
        };
        let why = format!("could not reach {host}: {words}");
        let hint =
            format!("`ssh {destination}` has to work first; in a terminal it asks what it needs");
        Error::new(ErrorKind::Unreachable, why).with_hint(hint)
    }
}

/// Tries something that needs ssh. If it does not reach the machine and may ask, it runs once at the
/// terminal, so that it asks what it needs, and leaves its connection to a second try.
pub(super) async fn try_reaching<T>(
    host: &str,
    ssh: &Ssh,
    (destination, questions): (&str, Questions),
    mut attempt: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let tried = attempt().await;
    let is_unreachable = |error: &Error| error.kind == ErrorKind::Unreachable;
    if questions == Questions::Never
        || !tried.as_ref().is_err_and(is_unreachable)
        || begun.elapsed() >= ANSWERS_WITHIN
    {
        return tried;
    }
    let command = ssh.command(destination, questions, &["-n", "-T"], "exit 0");
    let status = Command::from(command).stdout(Stdio::null()).status().await;
    let status = status.map_err(|error| not_started("ssh", &error))?;
    match status.code() {
        Some(SSH_FAILED) => Err(Said::default().unreachable(host, destination)),
        _ => attempt().await,
    }
}

impl FarProcess {
    /// Executes a call there. Returns when it has begun. ssh may ask questions first, at the terminal only.
    ///
    /// # Errors
    ///
    /// What is wrong with the way there, or with the program there.
    pub(crate) async fn start(
        host: &Host,
        env: Env<'_>,
        questions: Questions,
        call: &FarCall,
    ) -> Result<Self, Error> {
        let line = call.line();
        let begun = match &host.way {
            Way::Command(words) => Self::begin(host, command_of(words), &line).await,
            Way::Ssh {
                destination,
                program,
            } => {
                let ssh = Ssh::prepare(env)?;
                let script = of_shell_after_noise(&far_script(program.as_deref(), FAR_CALL));
                let command = || ssh.command(destination, Questions::Never, &["-T"], &script);
                let way = (destination.as_str(), questions);
                let begin = async || Self::begin(host, command(), &line).await;
                try_reaching(&host.name, &ssh, way, begin).await
            }
        };
        begun.map_err(|error| host.not_reached(error))
    }

    /// Starts ssh, or another way in, without a terminal: the signals of one are not for it.
    pub(super) fn spawn(
        host: &str,
        command: std::process::Command,
        stdin: Stdio,
    ) -> Result<Self, Error> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut command = Command::from(command);
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command
            .spawn()
            .map_err(|error| not_started(&name, &error))?;
        Ok(Self {
            host: host.to_owned(),
            stdin: child.stdin.take(),
            stdout: child.stdout.take(),
            stderr: child.stderr.take(),
            child,
            ahead: Vec::new(),
            stderr_ahead: Vec::new(),
            before: Some(Vec::new()),
            end: None,
        })
    }

    pub(super) fn kill(&mut self) {
        // It may have ended.
        self.child.start_kill().unwrap_or_default();
    }

    /// Returns the end of what was said on standard error by one that does not greet.
    pub(super) fn said(&self) -> &[u8] {
        self.before.as_deref().unwrap_or_default()
    }

    /// Returns the exit code of ssh, or of another way in; `None` for a signal.
    pub(super) async fn code_of_way(&mut self) -> Option<i32> {
        self.child.wait().await.ok()?.code()
    }

    async fn begin(host: &Host, command: std::process::Command, line: &str) -> Result<Self, Error> {
        let mut this = Self::spawn(&host.name, command, Stdio::piped())?;
        let mut stdin = this.stdin.take().expect("stdin is piped");
        let write = async {
            // What does not read it says so itself.
            let written = stdin.write_all(line.as_bytes()).await;
            written.and(stdin.flush().await).ok();
            std::future::pending().await
        };
        let greeted = async {
            tokio::select! {
                greeted = this.greet(host) => greeted,
                never = write => never,
            }
        };
        let silent = |_| {
            let why = format!(
                "{} did not answer within {} s",
                host.name,
                ANSWERS_WITHIN.as_secs()
            );
            let hint = "the start files of the login shell there may wait for something";
            Error::new(ErrorKind::Unreachable, why).with_hint(hint)
        };
        timeout(ANSWERS_WITHIN, greeted).await.map_err(silent)??;
        this.stdin = Some(stdin);
        Ok(this)
    }

    /// Takes what sends to the execution. Dropping it leaves the execution.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Reads until the far side greets, past what start files of the login shell print.
    async fn greet(&mut self, host: &Host) -> Result<(), Error> {
        let mut said = Said::default();
        let mut n_lines = 0;
        let mut read = Vec::new();
        loop {
            match self.piece().await {
                Some(FarOutput::Stderr(bytes)) => {
                    said.add(&bytes);
                    self.receive_stderr(bytes);
                }
                Some(FarOutput::Stdout(bytes)) => read.extend(bytes),
                None => return Err(self.not_begun(host, &said).await),
            }
            while let Some(line) = take_line(&mut read) {
                match serde_json::from_slice(&line) {
                    Ok(Beginning::Greeting { tmux_task }) => {
                        check(&host.name, &tmux_task)?;
                        self.ahead = read;
                        return Ok(());
                    }
                    Ok(Beginning::Refusal { refused }) => return Err(refused.into()),
                    Err(_) => {}
                }
                if let Some(system) = line.strip_prefix(MISSING.as_bytes()) {
                    return Err(missing(host, &text::one_line(system, SAID_CHARS)));
                }
                said.add(&line);
                n_lines += 1;
            }
            if n_lines >= MOST_NOISE || read.len() > NOISE_LINE {
                let (name, words) = (&host.name, said.words());
                let why = format!("{name} prints something else than tmux-task: {words}");
                let hint = match &host.way {
                    Way::Ssh { destination, .. } => format!(
                        "the start files of the login shell there print it: `ssh {destination} true`"
                    ),
                    Way::Command(_) => format!("`hosts.{name}.command` in the configuration"),
                };
                return Err(Error::failed(why).with_hint(hint));
            }
        }
    }

    /// Returns why the program there has ended before it began.
    async fn not_begun(&mut self, host: &Host, said: &Said) -> Error {
        let code = self.code_of_way().await;
        match (&host.way, code) {
            (Way::Ssh { destination, .. }, Some(SSH_FAILED)) => {
                said.unreachable(&host.name, destination)
            }
            _ => {
                let why = format!("tmux-task on {} did not start{}", host.name, said.end(code));
                Error::failed(why).with_hint(SAME_VERSION)
            }
        }
    }

    /// Takes what comes on standard error, and keeps what the command there has written.
    fn receive_stderr(&mut self, mut bytes: Vec<u8>) {
        if let Some(before) = &mut self.before {
            before.append(&mut bytes);
            let greeting = format!("\n{}\n", greeting());
            let Some(at) = memchr::memmem::find(before, greeting.as_bytes()) else {
                let surplus = before.len().saturating_sub(MOST_SAID);
                before.drain(..surplus);
                return;
            };
            bytes = before.split_off(at + greeting.len());
            self.before = None;
        }
        if let Some(end) = &mut self.end {
            end.append(&mut bytes);
        } else if let Some(at) = memchr::memchr(END_MARK, &bytes) {
            self.end = Some(bytes.split_off(at + 1));
            bytes.pop();
        }
        self.stderr_ahead.append(&mut bytes);
    }

    /// Returns what comes next; at the end, the code with which the execution has ended.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the connection was lost.
    pub(crate) async fn next(&mut self) -> Result<Result<FarOutput, u8>, Error> {
        loop {
            if !self.ahead.is_empty() {
                return Ok(Ok(FarOutput::Stdout(std::mem::take(&mut self.ahead))));
            }
            if !self.stderr_ahead.is_empty() {
                let bytes = std::mem::take(&mut self.stderr_ahead);
                return Ok(Ok(FarOutput::Stderr(bytes)));
            }
            match self.piece().await {
                Some(FarOutput::Stdout(bytes)) => self.ahead = bytes,
                Some(FarOutput::Stderr(bytes)) => self.receive_stderr(bytes),
                None => return self.code().map(Err),
            }
        }
    }

    /// Returns what it prints, and its exit code.
    ///
    /// # Errors
    ///
    /// As [`FarProcess::next`].
    pub(crate) async fn output(mut self) -> Result<(Vec<u8>, u8), Error> {
        let mut printed = Vec::new();
        loop {
            match self.next().await? {
                Ok(FarOutput::Stdout(bytes)) => printed.extend(bytes),
                Ok(FarOutput::Stderr(_)) => {}
                Err(code) => return Ok((printed, code)),
            }
        }
    }

    /// Returns the code with which the execution has ended.
    fn code(&self) -> Result<u8, Error> {
        let code = str::from_utf8(self.end.as_deref().unwrap_or_default());
        let code = code.ok().and_then(|code| code.trim().parse().ok());
        code.ok_or_else(|| lost(&self.host))
    }

    /// Returns the next whole line of standard output, without its end, or the code with which the execution
    /// has ended. What it says on standard error is left out.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// As [`FarProcess::next`].
    pub(crate) async fn line(&mut self) -> Result<Result<Vec<u8>, u8>, Error> {
        loop {
            if let Some(mut line) = take_line(&mut self.ahead) {
                line.pop();
                return Ok(Ok(line));
            }
            match self.piece().await {
                Some(FarOutput::Stdout(_)) if self.ahead.len() >= MAX_LINE => {
                    return Err(lost(&self.host));
                }
                Some(FarOutput::Stdout(bytes)) => self.ahead.extend(bytes),
                Some(FarOutput::Stderr(bytes)) => {
                    self.receive_stderr(bytes);
                    self.stderr_ahead.clear();
                }
                None => return self.code().map(Err),
            }
        }
    }

    /// Returns what was read of either stream, with all noise; `None` at the end of both.
    pub(super) async fn piece(&mut self) -> Option<FarOutput> {
        loop {
            let (has_stdout, has_stderr) = (self.stdout.is_some(), self.stderr.is_some());
            tokio::select! {
                bytes = read(&mut self.stdout), if has_stdout => match bytes {
                    Some(bytes) => return Some(FarOutput::Stdout(bytes)),
                    None => self.stdout = None,
                },
                bytes = read(&mut self.stderr), if has_stderr => match bytes {
                    Some(bytes) => return Some(FarOutput::Stderr(bytes)),
                    None => self.stderr = None,
                },
                () = async {
                    drop(self.child.wait().await);
                    sleep(SAID_WITHIN).await;
                }, if has_stderr && !has_stdout => self.stderr = None,
                else => return None,
            }
        }
    }
}

/// Takes the first whole line of what was read, with its end.
fn take_line(read: &mut Vec<u8>) -> Option<Vec<u8>> {
    let end = memchr::memchr(b'\n', read)?;
    let rest = read.split_off(end + 1);
    Some(std::mem::replace(read, rest))
}

/// Returns how a machine that is reached by these words is asked.
fn command_of(words: &[OsString]) -> std::process::Command {
    let mut command = std::process::Command::new(&words[0]);
    command.args(&words[1..]).arg(FAR_CALL);
    command
}

/// Returns what comes next on a stream; `None` at its end.
async fn read(from: &mut Option<impl AsyncRead + Unpin>) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(CHUNK);
    match from.as_mut()?.read_buf(&mut bytes).await {
        Ok(1..) => Some(bytes),
        Ok(0) | Err(_) => None,
    }
}

/// Returns the error that there is no program on a machine of this kind.
fn missing(host: &Host, system: &str) -> Error {
    let name = &host.name;
    let what = match &host.way {
        Way::Ssh {
            program: Some(path),
            ..
        } => path.as_str(),
        Way::Ssh { .. } | Way::Command(_) => "tmux-task",
    };
    let system = match system {
        "" => String::new(),
        system => format!(" ({system})"),
    };
    Error::failed(format!("there is no {what} on {name}{system}")).with_hint(format!(
        "`tmux-task init host {name}` puts this program there"
    ))
}

/// Checks that the program there is of our version.
fn check(host: &str, version: &str) -> Result<(), Error> {
    if version == OURS {
        return Ok(());
    }
    let version = text::one_line(version.as_bytes(), 40);
    let why = format!("{host} has tmux-task {version}, this is {OURS}");
    Err(Error::failed(why).with_hint(SAME_VERSION))
}

impl Host {
    /// Executes a call in this terminal. Returns its exit code.
    ///
    /// # Errors
    ///
    /// As [`FarProcess::start`], and when the connection was lost.
    pub(crate) async fn in_terminal(&self, env: Env<'_>, call: &FarCall) -> Result<u8, Error> {
        let word = call.to_word();
        let (command, ssh_to) = match &self.way {
            Way::Command(words) => {
                let mut command = command_of(words);
                command.arg(&word);
                (command, None)
            }
            Way::Ssh {
                destination,
                program,
            } => {
                let ssh = Ssh::prepare(env)?;
                let find = find_program(program.as_deref());
                let script = format!(
                    "{find}; test -x \"$p\" || exit {NOT_FOUND}; exec \"$p\" {FAR_CALL} {word}"
                );
                let line = of_shell(&script);
                let command = ssh.command(destination, Questions::AtTerminal, &["-t"], &line);
                (command, Some(destination))
            }
        };
        let name = command.get_program().to_string_lossy().into_owned();
        let begun = Instant::now();
        let status = Command::from(command).status().await;
        let status = status.map_err(|error| not_started(&name, &error))?;
        match (status.code(), ssh_to) {
            // ssh has said why.
            (Some(SSH_FAILED), Some(to)) if begun.elapsed() < ANSWERS_WITHIN => {
                Err(self.not_reached(Said::default().unreachable(&self.name, to)))
            }
            (Some(SSH_FAILED), Some(_)) => Err(lost(&self.name)),
            (Some(NOT_FOUND), Some(_)) => Err(missing(self, "")),
            (code, _) => Ok(code.and_then(|code| code.try_into().ok()).unwrap_or(1)),
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

    #[test]
    fn another_version_is_named() {
        assert!(check("gpu1", OURS).is_ok());
        let error = check("gpu1", "9\n9").unwrap_err().to_string();
        assert_eq!(error, format!("gpu1 has tmux-task 9 9, this is {OURS}"));
    }

    async fn all_of(script: &str) -> Result<(Vec<u8>, Vec<u8>, u8), Error> {
        let words = ["sh", "-c", script].map(std::ffi::OsString::from);
        let host = Host {
            name: "gpu1".to_owned(),
            way: Way::Command(words.to_vec()),
            cwd: None,
            may_be_of_fleet: false,
        };
        let call = FarCall::default();
        let mut process = FarProcess::start(&host, &|_| None, Questions::Never, &call).await?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match process.next().await? {
                Ok(FarOutput::Stdout(bytes)) => out.extend(bytes),
                Ok(FarOutput::Stderr(bytes)) => err.extend(bytes),
                Err(code) => return Ok((out, err, code)),
            }
        }
    }

    #[tokio::test]
    async fn only_what_the_command_writes_and_its_code_are_passed_on() {
        let greeting = greeting();
        let script = format!(
            "read -r call; printf noise >&2; echo noise; printf '\\n%s\\n' '{greeting}' >&2; \
             printf '%s\\nout' '{greeting}'; printf 'err\\0' >&2; printf '255\\n' >&2; exit 3"
        );
        let expected = (b"out".to_vec(), b"err".to_vec(), 255);
        assert_eq!(all_of(&script).await.unwrap(), expected);
    }

    #[tokio::test]
    async fn what_ends_without_a_code_was_lost() {
        let script = format!("echo '{}'; exit 0", greeting());
        let error = all_of(&script).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Lost);
        let error = all_of("echo no >&2; exit 5").await.unwrap_err();
        assert_eq!(
            error.message,
            "tmux-task on gpu1 did not start (code 5): no"
        );
    }
}
