//! An execution of our program on another machine, by ssh or by whatever else reaches it.

use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::time::{Instant, timeout};

use super::host::{Host, lost, not_started, start_way};
use super::ssh::{MISSING, far_line, ssh};
use crate::client::{LONGEST_LINE, LineProcess};
use crate::model::{Error, ErrorKind, FAR_CALL, FarAnswer, FarCall, OURS, text};

/// How long it may take until the program there has begun.
const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// The exit code of ssh's own failures, and of a shell that finds no program.
pub(super) const SSH_FAILED: i32 = 255;
const NOT_FOUND: i32 = 127;

const SAME_VERSION: &str = "install the same version on both machines";

/// How many lines start files may print.
pub(super) const MOST_NOISE: usize = 1000;

/// How long a text of the other side may be, in characters.
pub(super) const ANSWER_CHARS: usize = 400;

/// An execution on another machine. Dropping it leaves it, which interrupts it there.
#[derive(Debug)]
pub(crate) struct FarProcess {
    host: String,
    /// What it is reached by. Without its standard input, the execution is left.
    pub(crate) way: LineProcess,
    /// The beginning of the next line of the command there.
    printed: Vec<u8>,
}

/// Tries something that needs ssh. If it does not reach the machine and may ask, it runs once at the
/// terminal, so that it asks what it needs, and leaves its connection to a second try.
pub(super) async fn try_reaching<T>(
    host: &Host,
    may_ask: bool,
    mut attempt: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    let begun = Instant::now();
    let tried = attempt().await;
    let is_unreachable = |error: &Error| error.kind == ErrorKind::Unreachable;
    let is_asked =
        may_ask && tried.as_ref().is_err_and(is_unreachable) && begun.elapsed() < ANSWERS_WITHIN;
    let Some(destination) = host.ssh_to().filter(|_| is_asked) else {
        return tried;
    };
    let command = ssh(&host.links, destination, &["-n", "-T"], "exit 0");
    let status = Command::from(command).stdout(Stdio::null()).status().await;
    let status = status.map_err(|error| not_started("ssh".as_ref(), &error))?;
    match status.code() {
        Some(SSH_FAILED) => Err(host.unreachable(destination, "")),
        _ => attempt().await,
    }
}

impl FarProcess {
    /// Executes a call there. Returns when it has begun. ssh may ask questions first, at the terminal only.
    pub(crate) async fn start(host: &Host, may_ask: bool, call: &FarCall) -> Result<Self, Error> {
        let begin = async || {
            let way = start_way(host.command(false, FAR_CALL), Stdio::piped())?;
            let mut this = Self {
                host: host.name.clone(),
                way,
                printed: Vec::new(),
            };
            let begun = async {
                this.way.send(&call.line()).await;
                this.greeting(host).await
            };
            let silent = |_| {
                let seconds = ANSWERS_WITHIN.as_secs();
                let why = format!("{} did not answer within {seconds} s", host.name);
                let hint = "the start files of the login shell there may wait for something";
                host.not_reached(why).with_hint(hint)
            };
            timeout(ANSWERS_WITHIN, begun).await.map_err(silent)??;
            Ok(this)
        };
        try_reaching(host, may_ask, begin).await
    }

    /// Executes a call on a machine of the fleet, which the fleet's program reaches; `None` if the host is none.
    pub(crate) async fn start_in_fleet(host: &Host, call: &FarCall) -> Result<Option<Self>, Error> {
        let Some(of_fleet) = host.of_fleet() else {
            return Ok(None);
        };
        match Self::start(&of_fleet, false, call).await {
            Err(error) if error.kind == ErrorKind::NoHost => Ok(None),
            started => started.map(Some),
        }
    }

    /// Reads until the far side says that it has begun, past what start files of the login shell print.
    async fn greeting(&mut self, host: &Host) -> Result<(), Error> {
        let name = &host.name;
        for _ in 0..MOST_NOISE {
            let Some(line) = self.way.line().await else {
                let code = self.way.end().await;
                if let (Some(to), Some(SSH_FAILED)) = (host.ssh_to(), code) {
                    return Err(host.unreachable(to, &self.way.said.words()));
                }
                let end = self.way.said.end(code);
                let why = format!("tmux-task on {name} did not start{end}");
                return Err(Error::failed(why).with_hint(SAME_VERSION));
            };
            match serde_json::from_slice(&line) {
                Ok(FarAnswer::TmuxTask(version)) if version == OURS => return Ok(()),
                Ok(FarAnswer::TmuxTask(version)) => {
                    let version = text::one_line(version.as_bytes(), ANSWER_CHARS);
                    let why = format!("{name} has tmux-task {version}, this is {OURS}");
                    return Err(Error::failed(why).with_hint(SAME_VERSION));
                }
                Ok(FarAnswer::Failed(error)) => return Err(error),
                Ok(FarAnswer::Stdout(_) | FarAnswer::Stderr(_) | FarAnswer::Exit(_)) | Err(_) => {}
            }
            if let Some(system) = line.strip_prefix(MISSING.as_bytes()) {
                return Err(host.missing(&text::one_line(system, ANSWER_CHARS)));
            }
            self.way.said.add(&line);
        }
        let words = self.way.said.words();
        let why = format!("{name} prints something else than tmux-task: {words}");
        let start_files = "the start files of the login shell there print it";
        let hint = match host.ssh_to() {
            Some(to) => format!("{start_files}: `ssh {to} true`"),
            None => format!("`hosts.{name}.command` in the configuration"),
        };
        Err(Error::failed(why).with_hint(hint))
    }

    /// Returns what the command prints next, or its exit code; fails if the connection is lost. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<FarAnswer, Error> {
        let line = self.way.line().await.unwrap_or_default();
        serde_json::from_slice(&line).map_err(|_| lost(&self.host))
    }

    /// Returns the next line of the command on standard output, without its end, or its exit code. Cancel safe.
    pub(crate) async fn line(&mut self) -> Result<Result<Vec<u8>, u8>, Error> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.printed) {
                let mut line: Vec<u8> = self.printed.drain(..=end).collect();
                line.pop();
                return Ok(Ok(line));
            }
            match self.next().await? {
                FarAnswer::Stdout(_) if self.printed.len() >= LONGEST_LINE => {
                    return Err(lost(&self.host));
                }
                FarAnswer::Stdout(piece) => self.printed.extend(piece.into_bytes()),
                FarAnswer::Exit(code) => return Ok(Err(code)),
                FarAnswer::TmuxTask(_) | FarAnswer::Stderr(_) | FarAnswer::Failed(_) => {}
            }
        }
    }
}

impl Host {
    /// Returns what executes our program there with these words. With a terminal here, ssh has one there, too.
    fn command(&self, has_terminal: bool, words: &str) -> std::process::Command {
        if let Some(prefix) = &self.config.command {
            let mut command = std::process::Command::new(&prefix[0]);
            command.args(&prefix[1..]).args(words.split(' '));
            return command;
        }
        let options: &[&str] = match has_terminal {
            true => &["-t"],
            false => &["-oBatchMode=yes", "-T"],
        };
        let line = far_line(self.config.program.as_deref(), words);
        let to = self.ssh_to().unwrap_or_default();
        ssh(&self.links, to, options, &line)
    }

    /// Executes a call in this terminal. Returns its exit code.
    pub(crate) async fn in_terminal(&self, call: &FarCall) -> Result<u8, Error> {
        let words = format!("{FAR_CALL} {}", call.to_word());
        let command = self.command(true, &words);
        let program = command.get_program().to_owned();
        let begun = Instant::now();
        let status = Command::from(command).status().await;
        let status = status.map_err(|error| not_started(&program, &error))?;
        match (status.code(), self.ssh_to()) {
            // ssh has said why.
            (Some(SSH_FAILED), Some(to)) if begun.elapsed() < ANSWERS_WITHIN => {
                Err(self.unreachable(to, ""))
            }
            (Some(SSH_FAILED), Some(_)) => Err(lost(&self.name)),
            (Some(NOT_FOUND), Some(_)) => Err(self.missing("")),
            (code, _) => Ok(code.and_then(|code| code.try_into().ok()).unwrap_or(1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all_of(script: &str) -> Result<(Vec<u8>, Vec<u8>, u8), Error> {
        let words = ["sh", "-c", script].map(str::to_owned);
        let host = Host {
            name: "gpu1".to_owned(),
            config: crate::config::HostConfig {
                command: Some(words.to_vec()),
                ..Default::default()
            },
            may_be_of_fleet: false,
            links: Default::default(),
        };
        let call = FarCall::default();
        let mut process = FarProcess::start(&host, false, &call).await?;
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match process.next().await? {
                FarAnswer::Stdout(piece) => out.extend(piece.into_bytes()),
                FarAnswer::Stderr(piece) => err.extend(piece.into_bytes()),
                FarAnswer::Exit(code) => return Ok((out, err, code)),
                other @ (FarAnswer::TmuxTask(_) | FarAnswer::Failed(_)) => panic!("{other:?}"),
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
    async fn what_does_not_speak_or_ends_without_a_code_is_an_error() {
        // Another version is named.
        let script = r#"printf '%s\n' '{"tmuxTask":"9\n9"}'"#;
        let error = all_of(script).await.unwrap_err();
        let expected = format!("gpu1 has tmux-task 9 9, this is {OURS}");
        assert_eq!(error.message, expected);
        let script = format!("echo '{}'; exit 0", greeting());
        let error = all_of(&script).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Lost);
        let error = all_of("echo no >&2; exit 5").await.unwrap_err();
        let expected = "tmux-task on gpu1 did not start (code 5): no";
        assert_eq!(error.message, expected);
    }
}
