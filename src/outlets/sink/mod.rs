//! Sinks: programs and addresses that get the records of the feed. Each is a consumer of it, on a thread
//! that they share. One more is the program that publishes on the fleet's broker.
//!
//! A delivery that fails is tried again after a pause that doubles; meanwhile the records wait in the
//! feed, and neither the daemon nor another sink waits for them.

mod delivery;
#[cfg(feature = "webhook")]
mod webhook;

use std::convert::Infallible;
use std::path::Path;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{env, io};

use futures_util::future::join_all;
use rustix::rand::{GetRandomFlags, getrandom};
use serde::Deserialize;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, duplex};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::client::FleetProcess;
use crate::clock;
use crate::config::paths::Paths;
use crate::config::{Config, SinkConfig, SinkTarget};
use crate::model::environment::reaches_tmux_server;
use crate::model::{Backoff, Error, Millis, Record, Seq, with_causes};
use crate::process::{ProgramEnd, run_program};
use crate::rules::wire::{
    ConsumeRequest, ConsumerStatus, Filter, SINK_PREFIX, SinkStatus, StreamRecord,
};
use crate::store::{self, Lease, Live, ReaderThread, Subscription, run_on};
use delivery::Delivery;

/// How long creating the consumers, all of them, may delay the start.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// How long deliveries may take when the daemon stops.
const FINAL_DELIVERY_LIMIT: Duration = Duration::from_millis(300);

/// How long to wait before a record is delivered again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// How long to wait before reading again, [`jittered`]: not all machines of a fleet return at once.
const READ_AGAIN: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));

/// After which time of reading the pauses begin with the shortest one again.
const GOOD_AFTER: Duration = Duration::from_secs(60);

/// How much of the feed is read ahead for a sink, in bytes.
const READ_AHEAD: usize = 64 << 10;

#[derive(Debug)]
pub(crate) struct Sinks {
    states: Vec<Arc<SinkState>>,
    stopping: watch::Sender<bool>,
    _thread: ReaderThread,
}

impl Sinks {
    /// Starts the sinks of a session, if it has some. A new one gets what is recorded after `last_seq`.
    pub(crate) async fn start(
        config: &Config,
        paths: &Paths,
        live: &Arc<Live>,
        last_seq: Seq,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Option<Self>> {
        forget_others(config, live).await;
        if config.sinks.is_empty() && !config.has_fleet {
            return Ok(None);
        }
        let thread = ReaderThread::start("sinks")?;
        let stopping = watch::Sender::new(false);
        let configured = config.sinks.iter().cloned().map(Box::new);
        let fleet = config.has_fleet.then(|| Outlet::Fleet(paths.clone()));
        let all = configured.map(Outlet::Configured).chain(fleet);
        let all = all.map(|outlet| RunningSink {
            state: SinkState::new(&outlet),
            outlet,
            live: Arc::clone(live),
            last_seq,
            stopping: stopping.subscribe(),
        });
        let all: Vec<RunningSink> = all.collect();
        let states = all.iter().map(|sink| Arc::clone(&sink.state)).collect();
        // What happens from here on is for them, so they exist before anything can happen.
        let leases = all.iter().map(|sink| timeout(CREATED_WITHIN, sink.lease()));
        let leases = join_all(leases).await;
        for (running, first) in all.into_iter().zip(leases) {
            let handle = thread.handle.clone();
            let run = async move { running.run(first.ok()).await };
            tasks.spawn(async move { run_on(&handle, run).await });
        }
        Ok(Some(Self {
            states,
            stopping,
            _thread: thread,
        }))
    }

    /// Ends the sinks soon: what is recorded is delivered if that succeeds at once.
    pub(crate) fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns what is known of each; `consumers` are those of the feed.
    pub(crate) fn status(&self, consumers: &[ConsumerStatus]) -> Vec<SinkStatus> {
        let states = self.states.iter();
        states.map(|state| state.status(consumers)).collect()
    }
}

/// Forgets the consumers of sinks that the configuration does not have any more: nobody reads as them,
/// and what they have not got would count as undelivered. No sink's name has the broker's `:`.
async fn forget_others(config: &Config, live: &Live) {
    let is_known = |sink: &str| {
        config.sinks.iter().any(|one| one.name == sink) || config.has_fleet && sink.contains(':')
    };
    for consumer in live.consumer_list().consumers {
        let sink = consumer.name.strip_prefix(SINK_PREFIX);
        if sink.is_some_and(|sink| !is_known(sink)) {
            drop(timeout(CREATED_WITHIN, live.consumers.remove(&consumer.name)).await);
        }
    }
}

#[derive(Debug)]
struct SinkState {
    name: String,
    status: Mutex<SinkStatus>,
}

impl SinkState {
    fn new(outlet: &Outlet) -> Arc<Self> {
        let mut status = SinkStatus::default();
        match outlet {
            Outlet::Configured(config) => {
                status.name.clone_from(&config.name);
                status.kind = config.target.kind().to_owned();
                status.owners.clone_from(&config.filter.owners);
            }
            Outlet::Fleet(_) => {
                status.name = FLEET.to_owned();
                status.kind = "broker".to_owned();
                status.reached = Some(false);
            }
        }
        Arc::new(Self {
            name: status.name.clone(),
            status: Mutex::new(status),
        })
    }

    fn consumer(&self) -> String {
        format!("{SINK_PREFIX}{}", self.name)
    }

    /// Returns what is known of it; its consumer is one of these.
    fn status(&self, consumers: &[ConsumerStatus]) -> SinkStatus {
        let name = self.consumer();
        let mut status = self.locked().clone();
        if let Some(consumer) = consumers.iter().find(|one| one.name == name) {
            (status.cursor, status.lag) = (consumer.cursor, consumer.lag);
        }
        status
    }

    fn succeed(&self) {
        let mut status = self.locked();
        status.delivered += 1;
        (status.error, status.error_at) = (None, None);
    }

    /// Notes whether others reach this machine by the sink; then nothing is wrong with it.
    fn reaches(&self, is_reached: bool) {
        let mut status = self.locked();
        status.reached = Some(is_reached);
        if is_reached {
            (status.error, status.error_at) = (None, None);
        }
    }

    fn fail(&self, why: String) {
        let mut status = self.locked();
        status.failed += 1;
        if status.error.as_ref() != Some(&why) {
            tracing::warn!(sink = self.name, why, "a record was not delivered");
        }
        (status.error, status.error_at) = (Some(why), Some(clock::now().wall));
    }

    fn locked(&self) -> MutexGuard<'_, SinkStatus> {
        // Nothing is left half done while it is held.
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Outlet {
    Configured(Box<SinkConfig>),
    /// The fleet's broker, by the program that publishes the session with these files.
    Fleet(Paths),
}

struct RunningSink {
    outlet: Outlet,
    state: Arc<SinkState>,
    live: Arc<Live>,
    /// Where a new consumer starts.
    last_seq: Seq,
    stopping: watch::Receiver<bool>,
}

type LeaseResult = Result<(Subscription, Arc<Lease>), Error>;

impl RunningSink {
    async fn lease(&self) -> LeaseResult {
        let (filter, take_over) = match &self.outlet {
            Outlet::Configured(config) => (config.filter.clone(), false),
            Outlet::Fleet(_) => (Filter::default(), true),
        };
        let request = ConsumeRequest {
            name: self.state.consumer(),
            from_now: true,
            take_over,
            filter,
        };
        let pid = Some(std::process::id());
        self.live.consume(request, pid, self.last_seq).await
    }

    /// Runs until the daemon stops. A delivery that is under way then has a moment to end.
    async fn run(&self, first: Option<LeaseResult>) {
        let farewell = async {
            self.is_stopping().await;
            sleep(FINAL_DELIVERY_LIMIT).await;
        };
        tokio::select! {
            () = self.keep_serving(first) => {}
            () = farewell => {}
        }
    }

    async fn is_stopping(&self) {
        // Without a sender the daemon has gone.
        let mut stopping = self.stopping.clone();
        drop(stopping.wait_for(|is_stopping| *is_stopping).await);
    }

    async fn keep_serving(&self, mut first: Option<LeaseResult>) {
        let mut retry = READ_AGAIN;
        loop {
            let leased = match first.take() {
                Some(leased) => leased,
                None => self.lease().await,
            };
            let began = Instant::now();
            let why = match (leased, &self.outlet) {
                (Ok((subscription, lease)), Outlet::Configured(config)) => {
                    self.serve(config, subscription, &lease).await;
                    "another process reads as its consumer".to_owned()
                }
                (Ok((_, lease)), Outlet::Fleet(paths)) => self.publish(paths, &lease).await,
                (Err(refusal), _) => refusal.message,
            };
            if *self.stopping.borrow() {
                return;
            }
            self.state.fail(why);
            if began.elapsed() >= GOOD_AFTER {
                retry = READ_AGAIN;
            }
            tokio::select! {
                () = sleep(jittered(retry.next_pause())) => {}
                () = self.is_stopping() => return,
            }
        }
    }

    /// Delivers what the stream has, until it ends.
    async fn serve(&self, config: &SinkConfig, subscription: Subscription, lease: &Lease) {
        let (reader, mut writer) = duplex(READ_AHEAD);
        let writing = async move {
            if let Err(error) = store::serve(subscription, &mut writer).await {
                tracing::debug!(%error, "the stream of a sink has ended");
            }
        };
        let delivering = async {
            let mut lines = BufReader::new(reader).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(StreamRecord::Durable(record)) = serde_json::from_str(&line) else {
                    continue;
                };
                self.deliver(config, &record, &line).await;
                self.acknowledge(lease, record.seq);
            }
        };
        tokio::join!(writing, delivering);
    }

    /// Delivers a record, however often it takes.
    async fn deliver(&self, config: &SinkConfig, record: &Record, line: &str) {
        let delivery = Delivery::new(&self.state.name, record, line);
        let mut retry = RETRY;
        while let Err(error) = deliver(config, &delivery, clock::now().wall).await {
            self.state.fail(with_causes(&error));
            sleep(retry.next_pause()).await;
        }
        self.state.succeed();
    }

    /// Notes that the sink has this record and all before it. Returns whether the feed has it.
    fn acknowledge(&self, lease: &Lease, seq: Seq) -> bool {
        let acknowledged = self.live.acknowledge(lease, seq).inspect_err(|refusal| {
            let why = &refusal.message;
            tracing::warn!(why, "a sink's record was not acknowledged");
        });
        acknowledged.is_ok()
    }
}

// The fleet: `tmux-task-fleet publish` is a process of a daemon that publishes its records and tasks on the
// broker, and executes what others may do here. One process is one connection; when it has ended, with why as
// its last line on standard error, another one is started after a pause.
//
// It gets a line that describes the session, says behind which record it begins, gets the feed from there, and
// confirms each record that the broker has.

/// The name of the sink, which none of the configuration can have.
const FLEET: &str = "fleet:feed";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Said {
    /// It begins behind this record.
    after: Option<Seq>,
    /// The broker has this record and all before it.
    ack: Option<Seq>,
    /// Others reach this machine.
    ready: bool,
}

impl RunningSink {
    /// Has a process publish the session. Returns why it has ended. The position is what it has confirmed.
    async fn publish(&self, paths: &Paths, lease: &Lease) -> String {
        let Err(ended) = self.serve_process(paths, lease).await;
        self.state.reaches(false);
        let of_user = ended.message.strip_prefix("tmux-task: fleet publish: ");
        of_user.unwrap_or(&ended.message).to_owned()
    }

    /// Gives a process what it asks for, until it has ended.
    async fn serve_process(&self, paths: &Paths, lease: &Lease) -> Result<Infallible, Error> {
        let (mut stdin, mut process) = FleetProcess::start(["publish"])?;
        let session = json!({
            "key": paths.key,
            "sessionName": self.live.session_name(),
            "epoch": self.live.epoch,
            "lastSeq": self.live.last_seq(),
            "cursor": lease.cursor,
            "state": paths.state,
            "runtime": paths.runtime,
        });
        // One that has ended says why.
        drop(stdin.write_all(format!("{session}\n").as_bytes()).await);
        let mut next = async || {
            let said: Said = serde_json::from_slice(&process.line().await?).unwrap_or_default();
            if said.ready {
                self.state.reaches(true);
            }
            Ok::<_, Error>(said)
        };
        let after = loop {
            if let Some(after) = next().await?.after {
                break after;
            }
        };
        let subscription = self.live.subscribe_to_pass_on(after)?;
        let writing = async {
            drop(store::serve(subscription, &mut stdin).await);
            // The daemon is leaving. The process ends when it has published all of it.
            drop(stdin);
            std::future::pending().await
        };
        let reading = async {
            loop {
                if let Some(ack) = next().await?.ack
                    && self.acknowledge(lease, ack)
                {
                    self.state.succeed();
                }
            }
        };
        tokio::select! {
            ended = reading => ended,
            never = writing => never,
        }
    }
}

/// Returns a random part of a pause, at least half of it.
fn jittered(pause: Duration) -> Duration {
    let mut byte = [0_u8; 1];
    // Without randomness it is the shortest pause.
    let share = getrandom(&mut byte, GetRandomFlags::empty()).map_or(0, |_| byte[0]);
    pause / 2 + pause * u32::from(share) / 512
}

/// Delivers a record to a sink. `now` is the present time. When the future is dropped, a program is ended,
/// and a request may go on until it has ended. An error means that it is not certain that the sink has it.
#[cfg_attr(
    not(feature = "webhook"),
    allow(unused_variables, reason = "only a webhook's signature has the time")
)]
async fn deliver(sink: &SinkConfig, delivery: &Delivery, now: Millis) -> Result<(), Error> {
    match &sink.target {
        SinkTarget::Exec(words) => execute(words, sink.timeout, delivery).await,
        #[cfg(feature = "webhook")]
        SinkTarget::Webhook(webhook) => webhook::post(webhook, sink.timeout, delivery, now).await,
    }
}

/// Runs a program, without a shell, for this time at most. It has taken the record if it ends with 0.
async fn execute(words: &[String], limit: Duration, delivery: &Delivery) -> Result<(), Error> {
    let Some((program, args)) = words.split_first() else {
        return Ok(());
    };
    // What whoever started the daemon had in their environment is none of the program's business.
    let login = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(reaches_tmux_server));
    let own = delivery.variables.iter();
    let own = own.map(|(name, value)| (format!("TMUX_TASK_{name}"), value));
    let home = env::home_dir().filter(|home| home.is_dir());
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(login)
        .envs(own)
        .current_dir(home.as_deref().unwrap_or(Path::new("/")))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    // A program need not read the record.
    let record = format!("{}\n", delivery.line);
    let ended = run_program(&mut command, record.as_bytes(), limit).await;
    ended.map_err(|end| match end {
        ProgramEnd::NotStarted(error) => {
            Error::io(format_args!("could not start `{program}`"), &error)
        }
        ProgramEnd::TimedOut => Error::failed(format!("no end within {}s", limit.as_secs_f32())),
        ProgramEnd::Failed(status, Some(last)) => Error::failed(format!("{status}: {last}")),
        ProgramEnd::Failed(status, None) => Error::failed(status.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn run(line: &str, timeout: Duration) -> Result<(), Error> {
        let words = ["sh", "-c", line].map(str::to_owned);
        execute(&words, timeout, &delivery()).await
    }

    fn delivery() -> Delivery {
        Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![("KIND", "event".to_owned())],
        }
    }

    #[tokio::test]
    async fn a_program_has_the_record_if_it_ends_with_0() {
        let minute = Duration::from_secs(60);
        let line = "read -r r && test \"$r\" = '{\"seq\":1}' && test \"$TMUX_TASK_KIND\" = event";
        run(line, minute).await.unwrap();
        // It need not read, and what it leaves behind is not waited for.
        let dir = tempfile::tempdir().unwrap();
        let left = format!(
            "while test -e '{}'; do sleep 0.1; done & true",
            dir.path().display()
        );
        run(&left, minute).await.unwrap();
        drop(dir);
        for (line, timeout, expected) in [
            (
                "echo a >&2; echo b >&2; exit 3",
                minute,
                "exit status: 3: b",
            ),
            ("kill -9 $$", minute, "signal: 9 (SIGKILL)"),
            ("sleep 60", minute / 1000, "no end within 0.06s"),
        ] {
            let error = run(line, timeout).await.unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
        let words = ["/no/such".to_owned()];
        let error = with_causes(&execute(&words, minute, &delivery()).await.unwrap_err());
        assert!(
            error.starts_with("could not start `/no/such`: No such file"),
            "{error}"
        );
    }
}
