//! The driver of waits: for conditions of a task, until a task is ready for those that start after it, and
//! on tmux's channels.
//!
//! A wait for conditions is one request. What is waited for by others needs several of them: questions are
//! reported meanwhile, a restart and a run that replaces the present one are waited for, and the daemon may
//! end.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::{Instant, sleep, timeout};

use super::caller::Caller;
use super::list::find_listed;
use super::logs::present_log;
use super::run::StartedRun;
use super::session::{LostDaemons, TaskSession};
use crate::config::{HttpUrl, Ready};
use crate::model::*;
use crate::process;
use crate::rules::restarts::{AfterEnd, after_end, gave_up};
use crate::rules::wire::{LaunchedRun, LogRequest, Request, WaitRequest};

/// How long a restart that is due may take until its run is there. Asked again, it says so.
const RESTARTING: Duration = Duration::from_millis(50);

/// The pause after the first request over HTTP that has failed, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

/// Returns the request to wait for a launched run, from its start on: for its end without conditions.
pub(crate) fn wait_of_launch(
    run: &LaunchedRun,
    conditions: Vec<Condition>,
    owner: Option<String>,
) -> WaitRequest {
    WaitRequest {
        task: run.window_id.clone(),
        run: Some(run.run),
        since: (conditions.iter().any(Condition::needs_output)).then(|| run.cursor.clone()),
        conditions,
        owner,
        ..WaitRequest::default()
    }
}

/// Waits for the task that the request names, on behalf of its owner. Dropping the future ends the wait.
pub(crate) async fn wait_for_task(
    session: &mut TaskSession,
    request: WaitRequest,
) -> Result<WaitResult, Error> {
    // One that has not begun can be repeated.
    let named = Request::Wait(WaitRequest {
        says_when_it_begins: true,
        ..request.clone()
    });
    match session.ask(named).await {
        Ok(result) => Ok(with_holders(result, &request)),
        Err(error) if error.kind == ErrorKind::DaemonEndedInWait => {
            let name = request.task;
            let hint =
                format!("the task goes on; `tmux-task wait {name}` waits with another daemon");
            Err(error.with_hint(hint))
        }
        Err(error) => Err(error),
    }
}

/// Waits until the daemon has the outcome. Dropping the future ends the wait.
pub(crate) async fn wait(
    session: &TaskSession,
    request: &WaitRequest,
) -> Result<WaitResult, Error> {
    let mut daemon = session.daemon_or_start().await?;
    let result = daemon.ask(&Request::Wait(request.clone())).await?;
    Ok(with_holders(result, request))
}

/// Waits also while another daemon takes over, if nothing can be missed by that.
pub(crate) async fn wait_across_daemons(
    session: &TaskSession,
    request: &WaitRequest,
) -> Result<WaitResult, Error> {
    let mut lost = LostDaemons::default();
    loop {
        match wait(session, request).await {
            Err(error) if misses_nothing(request) && lost.goes_on_after(&error) => {}
            result => return result,
        }
    }
}

/// Whether a wait that begins again misses nothing that happened meanwhile.
pub(crate) fn misses_nothing(request: &WaitRequest) -> bool {
    let is_passing = |one: &Condition| one.needs_output() || *one == Condition::Bell;
    let can_miss = !request.stops.is_empty() || request.conditions.iter().any(is_passing);
    request.since.is_some() || !can_miss
}

/// Adds who has the ports that were waited for and that the task does not listen on.
fn with_holders(mut result: WaitResult, request: &WaitRequest) -> WaitResult {
    if result.outcome != WaitOutcome::Listening {
        result.port_holders = holders(&request.conditions, result.pane_pid);
    }
    result
}

/// Returns who has the ports that are waited for, besides the run with this first process.
pub(crate) fn holders(conditions: &[Condition], leader: Option<u32>) -> Vec<PortHolder> {
    let ports = conditions.iter().filter_map(Condition::port);
    let holders = ports.map(|port| process::port_holders(port, leader));
    holders.flatten().collect()
}

/// A task that others wait for before they start.
pub(crate) struct Awaited<'a> {
    pub(crate) name: &'a str,
    /// What says that it is ready; if absent, the end of its run with code 0.
    pub(crate) ready: Option<&'a Ready>,
    /// The number of a run that was not started for this: the beginning of its output may be gone.
    pub(crate) earlier_run: Option<u32>,
    pub(crate) deadline: Option<Instant>,
    /// The time limit, and what is said of the task when it is over: `has not ended`.
    pub(crate) limit: Duration,
    pub(crate) late: &'static str,
    /// How many of the last lines of a failed run are wanted.
    pub(crate) tail: usize,
    /// Is called for what happens meanwhile.
    pub(crate) report: &'a dyn Fn(WaitNews<'_>),
}

/// What is reported while a task is waited for.
#[derive(Debug)]
pub(crate) enum WaitNews<'a> {
    /// It asks for input. Each question is reported once.
    Asks(&'a WaitResult),
    /// The daemon has ended. The wait goes on with the next one.
    DaemonEnded,
}

/// How it is known that a task is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has printed the text, listens on its port or answers.
    Ready,
    /// Its run has ended with code 0.
    Succeeded,
    /// It ran before, and what it printed first is no longer in its history.
    OutOfSight,
}

/// Why a task is not ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct NotReady {
    pub(crate) why: String,
    /// The last lines of its output, where it has ended.
    pub(crate) tail: Vec<String>,
    pub(crate) hint: Option<String>,
    /// Whether the time was over.
    pub(crate) has_timed_out: bool,
    /// What it asked for then.
    pub(crate) asks: Option<String>,
}

impl NotReady {
    pub(super) fn because(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            ..Self::default()
        }
    }

    fn with_trouble(mut self, trouble: Option<String>) -> Self {
        if let Some(trouble) = trouble {
            self.why = format!("{}; {trouble}", self.why);
        }
        self
    }
}

/// What is known from the waits for a task so far.
#[derive(Default)]
struct Course {
    /// The last question that was reported.
    reported: Option<String>,
    /// The question that the task waits at.
    asks: Option<String>,
    /// What is in the way of its port or its answer.
    trouble: Option<String>,
    lost: LostDaemons,
}

impl Awaited<'_> {
    /// Waits until the task is ready, or has failed and no restart follows. A run that replaces the
    /// present one is waited for instead. Of a run that was `launched` for this, all output counts, and
    /// its command waits until that is followed. Of an earlier run, what is left of its output counts.
    pub(crate) async fn wait(
        &self,
        session: &mut TaskSession,
        launched: Option<StartedRun>,
    ) -> Result<Result<Readiness, NotReady>, Error> {
        let launched = launched.filter(|_| matches!(self.ready, Some(Ready::Text(_))));
        let mut launched = launched.map(|one| (one.session, one.run));
        let mut course = Course::default();
        // The run that a wait was refused for.
        let mut refused = None;
        let mut pause = FIRST_PAUSE;
        loop {
            let (run, leader, result) = if let Some((session, run)) = launched.take() {
                let owner = Caller::of_environment().owner;
                let request = wait_of_launch(&run, self.conditions(), owner);
                let result = self.ask(&session, request, &mut course).await;
                (Some(run.run), None, Some(result))
            } else {
                let listed = find_listed(session, self.name).await?;
                if let Some(restart) = listed.next_restart {
                    let pause = Duration::from_millis(restart.in_ms).max(RESTARTING);
                    let left = self.left().unwrap_or(pause);
                    if left.is_zero() {
                        return Ok(Err(self.timed_out(None, course.trouble)));
                    }
                    sleep(pause.min(left)).await;
                    continue;
                }
                let task = listed.task;
                let mut request = WaitRequest {
                    task: task.window.to_string(),
                    run: task.run,
                    conditions: self.conditions(),
                    ..WaitRequest::default()
                };
                if let (Some(Ready::Text(text)), false) = (self.ready, !task.is_alive()) {
                    // What was printed before the wait begins, and from there on what is printed.
                    let log = LogRequest {
                        task: task.window.to_string(),
                        ..LogRequest::default()
                    };
                    let log = present_log(session, log).await?;
                    if log.lines.iter().any(|line| line.contains(text)) {
                        return Ok(Ok(Readiness::Ready));
                    }
                    if log.may_lack_beginning && log.run.is_some() && log.run == self.earlier_run {
                        return Ok(Ok(Readiness::OutOfSight));
                    }
                    request.run = log.run;
                    request.since = log.cursor;
                }
                let run = request.run;
                // What another machine answers is not asked of this one's kernel.
                let is_here = self.url().is_none_or(HttpUrl::is_of_this_machine);
                let result = if is_here || !task.is_alive() {
                    Some(self.ask(session, request, &mut course).await)
                } else {
                    None
                };
                (run, task.pid, result)
            };
            let result = match result.transpose() {
                Ok(result) => result,
                Err(error) if course.lost.goes_on_after(&error) => {
                    course.asks = None;
                    (self.report)(WaitNews::DaemonEnded);
                    continue;
                }
                // A restart may have begun another run since this one was looked at.
                Err(_) if refused != Some(run) => {
                    refused = Some(run);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let outcome = result.as_ref().map(|result| result.outcome);
            match outcome.unwrap_or(WaitOutcome::Listening) {
                WaitOutcome::Matched => return Ok(Ok(Readiness::Ready)),
                WaitOutcome::Listening => {
                    let Some(url) = self.url() else {
                        return Ok(Ok(Readiness::Ready));
                    };
                    let left = self.left().unwrap_or(ANSWERS_WITHIN);
                    if left.is_zero() {
                        return Ok(Err(self.timed_out(None, course.trouble)));
                    }
                    match get_http(url, leader, left.min(ANSWERS_WITHIN)).await {
                        Ok(()) => return Ok(Ok(Readiness::Ready)),
                        Err(why) => course.trouble = Some(format!("{}: {why}", url.text)),
                    }
                    sleep(pause.min(left)).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                WaitOutcome::Timeout => {
                    return Ok(Err(self.timed_out(course.asks, course.trouble)));
                }
                WaitOutcome::Exited | WaitOutcome::Died => {
                    let result = result.unwrap_or_else(|| WaitResult::new(WaitOutcome::Died));
                    if self.ready.is_none() && result.exit_code == Some(0) {
                        return Ok(Ok(Readiness::Succeeded));
                    }
                    let listed = find_listed(session, self.name).await?;
                    // Else a restart follows, or another run has begun meanwhile.
                    if listed.next_restart.is_none() && !listed.task.is_alive() {
                        let failed = NotReady {
                            tail: result.tail,
                            ..NotReady::because(self.ended(&listed.task))
                        };
                        return Ok(Err(failed.with_trouble(course.trouble)));
                    }
                }
                WaitOutcome::Disappeared => return Ok(Err(NotReady::because("has disappeared"))),
                // The cursor or the run is not the present one, or the task asks for input or was
                // answered.
                WaitOutcome::Respawned
                | WaitOutcome::AnchorLost
                | WaitOutcome::Input
                | WaitOutcome::Changed => {}
                WaitOutcome::Bell
                | WaitOutcome::Idle
                | WaitOutcome::Signalled
                | WaitOutcome::Stopped => {
                    return Ok(Err(NotReady::because("could not be waited for")));
                }
            }
        }
    }

    /// Asks for the end of the run or for these conditions, and for what is to be reported: a question, or
    /// anything that is written behind one, which may be the answer to it.
    async fn ask(
        &self,
        session: &TaskSession,
        mut request: WaitRequest,
        course: &mut Course,
    ) -> Result<WaitResult, Error> {
        request.conditions.push(match course.asks {
            Some(_) => Condition::Change,
            None => Condition::Input,
        });
        let request = WaitRequest {
            timeout_ms: self.left().map(whole_millis),
            through_prompts: true,
            tail: Some(self.tail),
            ..request
        };
        let mut result = wait(session, &request).await?;
        if matches!(result.outcome, WaitOutcome::Exited | WaitOutcome::Died) {
            // What is left of the run is none of its processes.
            result.port_holders = holders(&request.conditions, None);
        }
        course.trouble = result.holder_words().or(course.trouble.take());
        if result.outcome == WaitOutcome::Input {
            if course.reported != result.line {
                (self.report)(WaitNews::Asks(&result));
            }
            course.reported.clone_from(&result.line);
            course.asks = Some(result.line.clone().unwrap_or_default());
        } else if result.outcome != WaitOutcome::Timeout {
            course.asks = None;
        }
        Ok(result)
    }

    fn conditions(&self) -> Vec<Condition> {
        let port = |port| Condition::Listen { port: Some(port) };
        vec![match self.ready {
            None => Condition::Exit,
            Some(Ready::Text(text)) => Condition::Text(text.clone()),
            Some(Ready::Port(number)) => port(*number),
            Some(Ready::Http(url)) => port(url.port),
        }]
    }

    fn url(&self) -> Option<&HttpUrl> {
        match self.ready {
            Some(Ready::Http(url)) => Some(url),
            Some(Ready::Text(_) | Ready::Port(_)) | None => None,
        }
    }

    fn left(&self) -> Option<Duration> {
        let deadline = self.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    }

    fn timed_out(&self, asks: Option<String>, trouble: Option<String>) -> NotReady {
        let mut why = format!("{} after {}", self.late, limit_words(self.limit));
        if let Some(question) = &asks {
            why = format!("{why}: it asks for input: {question}");
        }
        let late = NotReady {
            has_timed_out: true,
            asks,
            ..NotReady::because(why)
        };
        late.with_trouble(trouble)
    }

    /// Returns how a run ended that has not made the task ready, in words that follow its name.
    fn ended(&self, task: &Task) -> String {
        let how = ended_as(task);
        match (self.ready, task.exit_code()) {
            // Reads like a success otherwise.
            (Some(Ready::Text(text)), Some(0)) => format!("{how} without printing `{text}`"),
            (Some(_) | None, _) => how,
        }
    }
}

/// Returns how a task's run ended, in words that follow its name.
fn ended_as(task: &Task) -> String {
    let how = task.end_words();
    match after_end(task) {
        Some(AfterEnd::GaveUp(used)) => format!("{how}; {}", gave_up(used)),
        // One that is prevented is not announced.
        Some(AfterEnd::Restart(_)) | None => how,
    }
}

/// Runs tmux's own `wait-for` with a time limit: one process waits. Dropping the future ends it.
pub(crate) async fn wait_for_channel(
    session: &TaskSession,
    channel: &str,
    timeout: Option<Duration>,
) -> Result<WaitResult, Error> {
    let began = Instant::now();
    let limit = timeout.unwrap_or(Duration::MAX);
    let outcome = tokio::select! {
        waited = session.server.wait_for(channel) => match waited? {
            true => WaitOutcome::Signalled,
            false => WaitOutcome::Disappeared,
        },
        // The time limit that the user has set.
        () = sleep(limit) => WaitOutcome::Timeout,
    };
    let mut result = WaitResult::new(outcome);
    // Also when the server has ended.
    result.condition = (outcome != WaitOutcome::Timeout).then(|| WaitResult::CHANNEL.to_owned());
    result.elapsed_ms = whole_millis(began.elapsed());
    Ok(result)
}

/// How much of an answer is read for its status, in bytes.
const MAX_HEAD: u64 = 64 << 10;

async fn addresses_of(url: &HttpUrl) -> Result<Vec<SocketAddr>, String> {
    if url.host == "localhost" {
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return Ok(both.map(|ip: IpAddr| SocketAddr::new(ip, url.port)).into());
    }
    let found = lookup_host((url.host.as_str(), url.port)).await;
    let found = found.map(Iterator::collect);
    found.map_err(|error| error.to_string())
}

/// Asks once, within this time. On this machine, the run with this first process has to answer itself.
async fn get_http(url: &HttpUrl, leader: Option<u32>, limit: Duration) -> Result<(), String> {
    let asked = async {
        let mut why = None;
        for address in addresses_of(url).await? {
            let found = match get_at(url, address).await {
                Ok(200..=399) => {
                    let is_own = |leader| process::answers_at(leader, address);
                    if !address.ip().is_loopback() || leader.is_some_and(is_own) {
                        return Ok(());
                    }
                    let others = process::port_holders(address.port(), leader);
                    let words = others.first().map(PortHolder::words);
                    words.unwrap_or_else(|| "another process answers".to_owned())
                }
                Ok(status) => format!("answered {status}"),
                // What another of its addresses does says more.
                Err(error) if why.is_some() && error.kind() == io::ErrorKind::ConnectionRefused => {
                    continue;
                }
                Err(error) => error.to_string(),
            };
            why = Some(found);
        }
        Err(why.unwrap_or_else(|| "has no address".to_owned()))
    };
    let late = |_| Err("no answer in time".to_owned());
    timeout(limit, asked).await.unwrap_or_else(late)
}

async fn get_at(url: &HttpUrl, address: SocketAddr) -> std::io::Result<u16> {
    let mut stream = TcpStream::connect(address).await?;
    let HttpUrl {
        host, port, path, ..
    } = url;
    let host = match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    };
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: tmux-task\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    final_status(BufReader::new(stream.take(MAX_HEAD))).await
}

/// Returns the status of an answer. Interim ones, such as 103, come before it.
async fn final_status(answer: impl AsyncBufRead + Unpin) -> std::io::Result<u16> {
    let mut lines = answer.split(b'\n');
    loop {
        let line = lines.next_segment().await?.unwrap_or_default();
        let status = parse_status(&line)
            .ok_or_else(|| std::io::Error::other("answered something else than HTTP"))?;
        // Another protocol (101) has no answer behind it, and was not asked for.
        if status == 101 || !(100..200).contains(&status) {
            return Ok(status);
        }
        let is_of_head = |line: Vec<u8>| !line.trim_ascii().is_empty();
        while lines.next_segment().await?.is_some_and(is_of_head) {}
    }
}

/// Returns the status in the first line of an answer.
fn parse_status(line: &[u8]) -> Option<u16> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let digits = rest.get(2..5).filter(|_| rest.get(1) == Some(&b' '))?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{rows, task};

    #[test]
    fn an_end_is_described_with_the_restarts_before_it() {
        for [end, expected] in rows(
            "0 restarts=2,1,2 | exited with code 0
             3 restarts=2,1,1 | exited with code 3
             127 restarts=2,1,2 | exited with code 127; gave up after 2 restarts
             SIGKILL ours restarts=2,1,2 | was killed by SIGKILL; gave up after 2 restarts
             ? restarts=2,1,2 | exited with unknown code",
        ) {
            assert_eq!(ended_as(&task(&format!("@1 a dead {end}"))), expected);
        }
    }

    #[test]
    fn a_wait_without_a_cursor_begins_again_only_if_it_needs_no_output() {
        use Condition::{Bell, Change, Exit, Idle, Input, Listen, Text};
        let limit = Duration::from_millis(1);
        for (conditions, stop, expected) in [
            (vec![], None, true),
            (vec![Exit, Input], None, true),
            (vec![Listen { port: None }], None, true),
            (vec![Exit], Some("error"), false),
            (vec![Exit, Bell], None, false),
            (vec![Text("ready".to_owned())], None, false),
            (vec![Change], None, false),
            (vec![Idle { limit }], None, false),
        ] {
            let request = WaitRequest {
                conditions,
                stops: stop.map(str::to_owned).into_iter().collect(),
                ..WaitRequest::default()
            };
            assert_eq!(misses_nothing(&request), expected, "{request:?}");
            let from_there = WaitRequest {
                since: Some("cursor".to_owned()),
                ..request
            };
            assert!(misses_nothing(&from_there), "{from_there:?}");
        }
    }

    #[test]
    fn the_status_is_in_the_first_line() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.0 503 \n", Some(503)),
            ("HTTP/1.1 404", Some(404)),
            ("HTTP/1.1 20", None),
            ("HTTP/2 200\r\n", None),
            ("SSH-2.0-OpenSSH\r\n", None),
            ("", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), expected, "{line}");
        }
    }

    #[tokio::test]
    async fn interim_answers_come_before_the_answer() {
        let several = "HTTP/1.1 102 X\r\nA: b\r\n\r\nHTTP/1.1 103 X\nA: b\n\nHTTP/1.1 204 X\r\n";
        for (answer, expected) in [
            ("HTTP/1.1 200 OK\r\n", Some(200)),
            ("HTTP/1.1 100 X\r\n\r\nHTTP/1.1 404 X\r\n", Some(404)),
            (several, Some(204)),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\n", Some(101)),
            ("HTTP/1.1 103 X\r\nA: b\r\n", None),
            ("HTTP/1.1 103 X\r\n\r\nmore\r\n", None),
        ] {
            let status = final_status(answer.as_bytes()).await;
            assert_eq!(status.ok(), expected, "{answer}");
        }
    }
}
