//! The process here that executes a call on another machine: ssh, or whatever reaches the program there.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::time::{Instant, sleep, timeout};

use super::host::{Host, lost, not_started};
use super::ssh::{MISSING, Questions, far_line, ssh};
use crate::model::{Error, ErrorKind, FAR_CALL, FarAnswer, FarCall, OURS, text};
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

/// The longest line that is put together, in bytes.
const MAX_LINE: usize = 16 << 20;

/// How many lines start files may print.
pub(super) const MOST_NOISE: usize = 1000;

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
    stdout: BufReader<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The beginning of its next line, and of the next line of the command there.
    line: Vec<u8>,
    printed: Vec<u8>,
    /// What it says that is no answer.
    pub(super) said: Said,
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

    /// Returns its lines.
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.split(|byte| *byte == b'\n');
        let lines = lines.map(|line| text::one_line(line, SAID_CHARS));
        lines.filter(|line| !line.is_empty()).collect()
    }

    /// Returns the last lines as one.
    fn words(&self) -> String {
        let lines = self.lines();
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
    host: &Host,
    env: Env<'_>,
    questions: Questions,
    mut attempt: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let tried = attempt().await;
    let is_unreachable = |error: &Error| error.kind == ErrorKind::Unreachable;
    let Some(destination) = host.ssh_to() else {
        return tried;
    };
    if questions == Questions::Never
        || !tried.as_ref().is_err_and(is_unreachable)
        || begun.elapsed() >= ANSWERS_WITHIN
    {
        return tried;
    }
    let command = ssh(env, destination, questions, &["-n", "-T"], "exit 0")?;
    let status = Command::from(command).stdout(Stdio::null()).status().await;
    let status = status.map_err(|error| not_started("ssh", &error))?;
    match status.code() {
        Some(SSH_FAILED) => Err(Said::default().unreachable(&host.name, destination)),
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
        let begin = async || {
            let command = host.command(env, Questions::Never, FAR_CALL)?;
            Self::begin(host, command, &line).await
        };
        let begun = try_reaching(host, env, questions, begin).await;
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
            stdout: BufReader::new(child.stdout.take().expect("stdout is piped")),
            stderr: child.stderr.take(),
            child,
            line: Vec::new(),
            printed: Vec::new(),
            said: Said::default(),
        })
    }

    async fn begin(host: &Host, command: std::process::Command, line: &str) -> Result<Self, Error> {
        let mut this = Self::spawn(&host.name, command, Stdio::piped())?;
        let mut stdin = this.stdin.take().expect("stdin is piped");
        let ask = async {
            // What does not read it says so itself.
            let written = stdin.write_all(line.as_bytes()).await;
            written.and(stdin.flush().await).ok();
        };
        let begun = async { tokio::join!(this.greeting(host), ask).0 };
        let silent = |_| {
            let why = format!(
                "{} did not answer within {} s",
                host.name,
                ANSWERS_WITHIN.as_secs()
            );
            let hint = "the start files of the login shell there may wait for something";
            Error::new(ErrorKind::Unreachable, why).with_hint(hint)
        };
        timeout(ANSWERS_WITHIN, begun).await.map_err(silent)??;
        this.stdin = Some(stdin);
        Ok(this)
    }

    /// Takes what sends to the execution. Dropping it leaves the execution.
    pub(crate) fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Reads until the far side says that it has begun, past what start files of the login shell print.
    async fn greeting(&mut self, host: &Host) -> Result<(), Error> {
        let name = &host.name;
        for _ in 0..MOST_NOISE {
            let Some(line) = self.line_of_way().await else {
                return Err(self.not_begun(host).await);
            };
            match serde_json::from_slice(&line) {
                Ok(FarAnswer::TmuxTask(version)) => return check(name, &version),
                Ok(FarAnswer::Failed {
                    why,
                    hint,
                    is_unknown,
                }) => {
                    let kind = match is_unknown {
                        true => ErrorKind::NoHost,
                        false => ErrorKind::Failed,
                    };
                    let error = Error::new(kind, why);
                    return Err(Error { hint, ..error });
                }
                Ok(FarAnswer::Stdout(_) | FarAnswer::Stderr(_) | FarAnswer::Exit(_)) | Err(_) => {}
            }
            if let Some(system) = line.strip_prefix(MISSING.as_bytes()) {
                return Err(missing(host, &text::one_line(system, SAID_CHARS)));
            }
            self.said.add(&line);
        }
        let words = self.said.words();
        let why = format!("{name} prints something else than tmux-task: {words}");
        let hint = match host.ssh_to() {
            Some(to) => {
                format!("the start files of the login shell there print it: `ssh {to} true`")
            }
            None => format!("`hosts.{name}.command` in the configuration"),
        };
        Err(Error::failed(why).with_hint(hint))
    }

    /// Returns why the program there has ended before it began.
    async fn not_begun(&mut self, host: &Host) -> Error {
        let code = self.end().await;
        match (host.ssh_to(), code) {
            (Some(to), Some(SSH_FAILED)) => self.said.unreachable(&host.name, to),
            _ => {
                let end = self.said.end(code);
                let why = format!("tmux-task on {} did not start{end}", host.name);
                Error::failed(why).with_hint(SAME_VERSION)
            }
        }
    }

    /// Returns the next line that ssh, or another way in, prints, with its end; `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub(super) async fn line_of_way(&mut self) -> Option<Vec<u8>> {
        loop {
            let mut stdout = (&mut self.stdout).take(MAX_LINE as u64);
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

    /// Waits for the end of ssh, or of another way in, and for what it says until then. Returns its exit code;
    /// `None` for a signal.
    pub(super) async fn end(&mut self) -> Option<i32> {
        let said = async {
            while self.stderr.is_some() {
                self.said.hear(&mut self.stderr).await;
            }
        };
        let ended = async {
            drop(self.child.wait().await);
            sleep(SAID_WITHIN).await;
        };
        tokio::select! {
            () = said => {}
            () = ended => {}
        }
        self.child.wait().await.ok()?.code()
    }

    /// Returns what comes next: what the command prints, or its exit code.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    ///
    /// # Errors
    ///
    /// When the connection was lost.
    pub(crate) async fn next(&mut self) -> Result<FarAnswer, Error> {
        let line = self.line_of_way().await.unwrap_or_default();
        serde_json::from_slice(&line).map_err(|_| lost(&self.host))
    }

    /// Returns the next whole line of the command's output, without its end, or the code with which it has
    /// ended. What it says on standard error is left out.
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
            if let Some(end) = memchr::memchr(b'\n', &self.printed) {
                let rest = self.printed.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.printed, rest);
                line.pop();
                return Ok(Ok(line));
            }
            match self.next().await? {
                FarAnswer::Stdout(_) if self.printed.len() >= MAX_LINE => {
                    return Err(lost(&self.host));
                }
                FarAnswer::Stdout(piece) => self.printed.extend(piece.into_bytes()),
                FarAnswer::Exit(code) => return Ok(Err(code)),
                FarAnswer::TmuxTask(_) | FarAnswer::Stderr(_) | FarAnswer::Failed { .. } => {}
            }
        }
    }
}

/// Returns the error that there is no program on a machine of this kind.
fn missing(host: &Host, system: &str) -> Error {
    let name = &host.name;
    let what = host.config.program.as_deref().unwrap_or("tmux-task");
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
    /// Returns what executes our program there with these words. At the terminal, ssh has one there, too.
    fn command(
        &self,
        env: Env<'_>,
        questions: Questions,
        words: &str,
    ) -> Result<std::process::Command, Error> {
        if let Some(prefix) = &self.config.command {
            let mut command = std::process::Command::new(&prefix[0]);
            command.args(&prefix[1..]).args(words.split(' '));
            return Ok(command);
        }
        let terminal = match questions {
            Questions::AtTerminal => "-t",
            Questions::Never => "-T",
        };
        let line = far_line(self.config.program.as_deref(), words);
        let to = self.ssh_to().unwrap_or_default();
        ssh(env, to, questions, &[terminal], &line)
    }

    /// Executes a call in this terminal. Returns its exit code.
    ///
    /// # Errors
    ///
    /// As [`FarProcess::start`], and when the connection was lost.
    pub(crate) async fn in_terminal(&self, env: Env<'_>, call: &FarCall) -> Result<u8, Error> {
        let words = format!("{FAR_CALL} {}", call.to_word());
        let command = self.command(env, Questions::AtTerminal, &words)?;
        let name = command.get_program().to_string_lossy().into_owned();
        let begun = Instant::now();
        let status = Command::from(command).status().await;
        let status = status.map_err(|error| not_started(&name, &error))?;
        match (status.code(), self.ssh_to()) {
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
        let words = ["sh", "-c", script].map(str::to_owned);
        let host = Host {
            name: "gpu1".to_owned(),
            config: crate::config::HostConfig {
                command: Some(words.to_vec()),
                ..Default::default()
            },
            may_be_of_fleet: false,
        };
        let call = FarCall::default();
        let mut process = FarProcess::start(&host, &|_| None, Questions::Never, &call).await?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match process.next().await? {
                FarAnswer::Stdout(piece) => out.extend(piece.into_bytes()),
                FarAnswer::Stderr(piece) => err.extend(piece.into_bytes()),
                FarAnswer::Exit(code) => return Ok((out, err, code)),
                other @ (FarAnswer::TmuxTask(_) | FarAnswer::Failed { .. }) => panic!("{other:?}"),
            }
        }
    }

    fn greeting() -> String {
        serde_json::to_string(&FarAnswer::TmuxTask(OURS.to_owned())).unwrap()
    }

    #[tokio::test]
    async fn only_what_the_command_writes_and_its_code_are_passed_on() {
        let greeting = greeting();
        let script = format!(
            "read -r call; echo noise >&2; echo noise; echo '{greeting}'; echo noise >&2; \
             echo '{{\"stdout\":\"out\"}}'; echo '{{\"stderr\":[101,114,114]}}'; echo '{{\"exit\":255}}'; exit 3"
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
