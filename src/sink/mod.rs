//! Sinks: programs and addresses that get the records of the feed. Each is a consumer of it, on a thread
//! that they share. `fleet.rs` is one more: the program that publishes on the fleet's broker.
//!
//! A delivery that fails is tried again after a pause that doubles; meanwhile the records wait in the
//! feed, and neither the daemon nor another sink waits for them.

mod delivery;
mod fleet;
mod state;
#[cfg(feature = "webhook")]
mod webhook;

use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use std::{env, io};

use futures_util::future::join_all;
use tokio::io::{AsyncBufReadExt, BufReader, duplex};
use tokio::process::Command;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::clock;
use crate::config::{Config, SinkConfig, SinkFilter, SinkTarget};
use crate::model::environment::reaches_tmux_server;
use crate::model::{Backoff, Error, Level, Millis, Record, Seq, with_causes};
use crate::paths::Paths;
use crate::process::{ProgramEnd, run_program};
use crate::store::{self, Lease, Live, ReaderThread, Subscription, run_on};
use crate::wire::{ConsumeRequest, ConsumerStatus, Filter, SINK_PREFIX, SinkStatus, StreamRecord};
use delivery::Delivery;
use fleet::Publisher;
use state::{LeaseResult, SinkState, farewell};

/// How long creating the consumers, all of them, may delay the start.
const CREATED_WITHIN: Duration = Duration::from_millis(500);

/// The sinks of a daemon.
#[derive(Debug)]
pub(crate) struct Sinks {
    states: Vec<Arc<SinkState>>,
    stopping: watch::Sender<bool>,
    /// Dropping it ends them.
    _thread: ReaderThread,
}

impl Sinks {
    /// Starts the sinks of the session that has these files; `None` when there are none. A sink that is
    /// new gets what is recorded after `last_seq`.
    ///
    /// # Errors
    ///
    /// When their thread cannot be created.
    pub(crate) async fn start(
        config: &Config,
        paths: &Paths,
        live: &Arc<Live>,
        last_seq: Seq,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Option<Self>> {
        let configs = &config.sinks;
        forget_others(config, live).await;
        if configs.is_empty() && !config.has_fleet {
            return Ok(None);
        }
        let thread = ReaderThread::start("sinks")?;
        let stopping = watch::Sender::new(false);
        let mut states = Vec::new();
        let mut all = Vec::new();
        for config in configs {
            let owners = &config.filter.owners;
            let state = SinkState::new(&config.name, config.target.kind(), owners);
            states.push(Arc::clone(&state));
            all.push(RunningSink {
                config: config.clone(),
                state,
                live: Arc::clone(live),
                last_seq,
                stopping: stopping.subscribe(),
            });
        }
        // What happens from here on is for them, so they exist before anything can happen.
        let leases = all.iter().map(|sink| timeout(CREATED_WITHIN, sink.lease()));
        let leases = join_all(leases).await;
        for (running, first) in all.into_iter().zip(leases) {
            let first = first.ok();
            let handle = thread.handle();
            tasks.spawn(
                async move { run_on(&handle, async move { running.run(first).await }).await },
            );
        }
        if config.has_fleet {
            let stopping = stopping.subscribe();
            let mut publisher = Publisher::new(paths, Arc::clone(live), last_seq, stopping);
            states.push(publisher.state());
            let first = timeout(CREATED_WITHIN, publisher.lease()).await.ok();
            let handle = thread.handle();
            tasks.spawn(
                async move { run_on(&handle, async move { publisher.run(first).await }).await },
            );
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

/// Delivers a record to a sink. `now` is the present time.
///
/// # Cancel safety
///
/// When the future is dropped, a program is ended, and a request may go on until it has ended.
///
/// # Errors
///
/// When it is not certain that the sink has it.
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

/// Runs a program with its arguments, for this time at most. No shell reads them. It has taken the record
/// if it ends with 0.
async fn execute(words: &[String], limit: Duration, delivery: &Delivery) -> Result<(), Error> {
    let Some((program, args)) = words.split_first() else {
        return Ok(());
    };
    // What whoever started the daemon had in their environment is none of the program's business.
    let login = env::vars_os().filter(|(name, _)| name.to_str().is_some_and(reaches_tmux_server));
    let own = delivery.variables.iter();
    let own = own.map(|(name, value)| (OsString::from(format!("TMUX_TASK_{name}")), value.into()));
    let variables: Vec<(OsString, OsString)> = login.chain(own).collect();
    let home = env::home_dir().filter(|home| home.is_dir());
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(variables)
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

/// Returns which records a sink gets.
fn filter_of(config: &SinkFilter) -> Filter {
    let (kinds, types) = (config.kinds.clone(), config.types.clone());
    let mut filter = Filter::new(kinds, types, config.tasks.clone());
    filter.owners.clone_from(&config.owners);
    filter.only_warnings = config.level == Some(Level::Warning);
    filter
}

// A sink that runs: it delivers each record until the sink has it.

/// How long to wait before trying again.
const RETRY: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));

/// How much of the feed is read ahead for a sink, in bytes.
const READ_AHEAD: usize = 64 << 10;

/// A sink that runs.
struct RunningSink {
    config: SinkConfig,
    state: Arc<SinkState>,
    live: Arc<Live>,
    /// Where a new consumer starts.
    last_seq: Seq,
    stopping: watch::Receiver<bool>,
}

impl RunningSink {
    /// Becomes the reader of the sink's consumer.
    async fn lease(&self) -> LeaseResult {
        let request = ConsumeRequest {
            name: self.state.consumer(),
            from_now: true,
            take_over: false,
            filter: filter_of(&self.config.filter),
        };
        let pid = Some(std::process::id());
        self.live.consume(request, pid, self.last_seq).await
    }

    /// Runs until the daemon stops. A delivery that is under way then has a moment to end.
    async fn run(&self, first: Option<LeaseResult>) {
        let mut stopping = self.stopping.clone();
        tokio::select! {
            () = self.keep_delivering(first) => {}
            () = farewell(&mut stopping) => {}
        }
    }

    async fn keep_delivering(&self, mut first: Option<LeaseResult>) {
        let mut stopping = self.stopping.clone();
        let mut retry = RETRY;
        loop {
            let leased = match first.take() {
                Some(leased) => leased,
                None => self.lease().await,
            };
            let why = match leased {
                Ok((subscription, lease)) => {
                    retry = RETRY;
                    self.serve(subscription, &lease).await;
                    "another process reads as its consumer".to_owned()
                }
                Err(refusal) => refusal.message,
            };
            if *stopping.borrow() {
                return;
            }
            self.state.fail(why);
            tokio::select! {
                () = sleep(retry.next_pause()) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => return,
            }
        }
    }

    /// Delivers what the stream has, until it ends.
    async fn serve(&self, subscription: Subscription, lease: &Lease) {
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
                self.deliver(&record, &line).await;
                if let Err(refusal) = self.live.acknowledge(lease, record.seq) {
                    let why = refusal.message;
                    tracing::warn!(why, "a sink's record was not acknowledged");
                }
            }
        };
        tokio::join!(writing, delivering);
    }

    /// Delivers a record, however often it takes.
    async fn deliver(&self, record: &Record, line: &str) {
        let delivery = Delivery::new(&self.state.name, record, line);
        let mut retry = RETRY;
        while let Err(error) = deliver(&self.config, &delivery, clock::now().wall).await {
            self.state.fail(with_causes(&error));
            sleep(retry.next_pause()).await;
        }
        self.state.succeed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::with_causes;

    async fn run(line: &str, timeout: Duration) -> Result<(), Error> {
        let words = ["sh", "-c", line].map(str::to_owned);
        let delivery = Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![("KIND", "event".to_owned())],
        };
        execute(&words, timeout, &delivery).await
    }

    #[track_caller]
    fn check(said: Result<(), Error>, expected: &str) {
        assert_eq!(said.unwrap_err().to_string(), expected);
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
        check(
            run("echo a >&2; echo b >&2; exit 3", minute).await,
            "exit status: 3: b",
        );
        check(run("kill -9 $$", minute).await, "signal: 9 (SIGKILL)");
        check(
            run("sleep 60", Duration::from_millis(50)).await,
            "no end within 0.05s",
        );
        let delivery = Delivery {
            id: String::new(),
            line: String::new(),
            variables: Vec::new(),
        };
        let words = ["/no/such".to_owned()];
        let error = with_causes(&execute(&words, minute, &delivery).await.unwrap_err());
        assert!(
            error.starts_with("could not start `/no/such`: No such file"),
            "{error}"
        );
    }

    #[test]
    fn a_sink_gets_its_owners_and_everybodys_records() {
        let warning = Some(Level::Warning);
        for (owners, level, of, at, is_wanted) in [
            (&[][..], None, Some("pi:1"), "info", true),
            (&["pi:1"], None, Some("pi:1"), "info", true),
            (&["pi:1"], None, Some("pi:12"), "info", false),
            (&["x", "pi:*"], None, Some("pi:12"), "info", true),
            (&["pi:1"], None, None, "info", true),
            (&[], warning, None, "info", false),
            (&[], warning, None, "warning", true),
            (&[], Some(Level::Info), None, "info", true),
        ] {
            let mut filter = filter_of(&SinkFilter {
                owners: owners.iter().map(ToString::to_string).collect(),
                level,
                ..SinkFilter::default()
            });
            let notice = serde_json::json!({"kind": "notice", "level": at, "text": "", "events": [], "owner": of});
            let body = serde_json::from_value(notice).unwrap();
            assert_eq!(filter.wants(1, &body), is_wanted, "{owners:?} {of:?} {at}");
        }
    }
}
