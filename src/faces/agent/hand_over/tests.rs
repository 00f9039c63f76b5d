use std::collections::BTreeMap;

use proptest::prelude::*;
use tokio::sync::mpsc;

use super::*;
use crate::config::Deliver;
use crate::config::paths::Paths;
use crate::faces::agent::AgentClient;
use crate::faces::agent::follower::{FeedReading, StreamStart};
use crate::faces::agent::outbox::tests::follow_up;
use crate::faces::agent::stdio::{Adapter, Reply};

// --- The adapter of a client.

/// Returns also what it is given, and a sender of its receipts.
fn adapter() -> (
    Adapter,
    mpsc::UnboundedReceiver<String>,
    mpsc::Sender<String>,
) {
    let (shown, show) = mpsc::unbounded_channel();
    let (answer, answers) = mpsc::channel(8);
    let say = move |reply: &Reply<'_>| {
        let Reply::Message { id, message, .. } = reply else {
            panic!("{reply:?}");
        };
        let shown = shown.send(format!("{id} {}", message.content));
        shown.map_err(|_| Error::failed("it has ended"))
    };
    let adapter = Adapter {
        deliver: Deliver::AfterTurn,
        to: "p".to_owned(),
        session_name: "work".to_owned(),
        say: Box::new(say),
        receipts: answers,
        received: Vec::new(),
        given: None,
    };
    (adapter, show, answer)
}

/// A feed of this machine that the test writes.
struct Recorded {
    records: mpsc::UnboundedReceiver<Incoming>,
    reading: FeedReading,
    acknowledged: mpsc::UnboundedSender<Seq>,
}

impl Feeds for Recorded {
    async fn next(&mut self) -> Result<Incoming, Error> {
        let incoming = self.records.recv().await.unwrap_or(Incoming::Replaced);
        if let Incoming::FollowUp(batch) = &incoming {
            self.reading.pass(batch.seqs[0]);
        }
        Ok(incoming)
    }

    async fn acknowledge(&mut self, first_open: impl Fn(&str) -> Option<Seq>) {
        if let Some(seq) = self.reading.acknowledgement(first_open("e")) {
            // Nobody reads it when the test is over.
            self.acknowledged.send(seq).unwrap_or_default();
        }
    }

    fn has_hosts(&self) -> bool {
        false
    }
}

/// Of a process that hands over: what it gets, and what comes of it.
struct Ends {
    records: mpsc::UnboundedSender<Incoming>,
    acknowledged: mpsc::UnboundedReceiver<Seq>,
    shown: mpsc::UnboundedReceiver<String>,
    answers: mpsc::Sender<String>,
}

async fn hand_over(world: &World) -> (HandOver<Adapter, Recorded>, Ends) {
    let (client, shown, answers) = adapter();
    let ((record, records), (acknowledge, acknowledged)) =
        (mpsc::unbounded_channel(), mpsc::unbounded_channel());
    let mut reading = FeedReading::default();
    reading.begin("e", StreamStart::default());
    let ledger = Ledger::take_over(&world.paths, &world.conversation).await;
    let feeds = Recorded {
        records,
        reading,
        acknowledged: acknowledge,
    };
    let messages = Messages::new(ledger.unwrap(), "work", 30);
    let ends = Ends {
        records: record,
        acknowledged,
        shown,
        answers,
    };
    (HandOver::new(client, feeds, messages), ends)
}

#[test]
fn an_adapter_gets_each_follow_up_once() {
    let world = World::new();
    world.runtime.block_on(each_follow_up_once(&world));
}

async fn each_follow_up_once(world: &World) {
    let mut feed = Feed::new("e", None);
    for _ in 0..3 {
        feed.record(1, world.now);
    }
    let [a, b, c] = &feed.follow_ups[..] else {
        panic!("there are three");
    };
    let follow_up = |one: &Batch| Incoming::FollowUp(Box::new(one.clone()));
    let told = |id: &str, texts: &str| Some(format!("{id} [tmux-task notification]\n{texts}"));
    let (process, mut ends) = hand_over(world).await;
    let first = async {
        ends.records.send(follow_up(a)).unwrap();
        ends.records.send(follow_up(b)).unwrap();
        ends.records.send(Incoming::CaughtUp).unwrap();
        // What was there already is one message.
        assert_eq!(ends.shown.recv().await, told("e:4", "e:2.\ne:4."));
        // Until its receipt, what comes waits; the client is killed before it has answered.
        ends.records.send(follow_up(c)).unwrap();
        drop(ends.records);
    };
    let (ended, ()) = tokio::join!(process.run(), first);
    assert_eq!(ended.unwrap(), Ended::Replaced);
    assert_eq!(ends.shown.recv().await, None);
    assert_eq!(ends.acknowledged.recv().await, None);
    let (process, mut ends) = hand_over(world).await;
    let second = async {
        for one in [a, b, c] {
            ends.records.send(follow_up(one)).unwrap();
        }
        ends.records.send(Incoming::CaughtUp).unwrap();
        // It comes again as it was, and what is acknowledged is what was answered.
        assert_eq!(ends.shown.recv().await, told("e:4", "e:2.\ne:4."));
        ends.answers.try_send("e:4".to_owned()).unwrap();
        assert_eq!(ends.shown.recv().await, told("e:6", "e:6."));
        assert_eq!(ends.acknowledged.recv().await, Some(5));
        ends.answers.try_send("e:6".to_owned()).unwrap();
        assert_eq!(ends.acknowledged.recv().await, Some(6));
        drop(ends.answers);
    };
    let (ended, ()) = tokio::join!(process.run(), second);
    assert_eq!(ended.unwrap(), Ended::Left);
}

// --- Whatever is killed, and whenever.

/// What happens to a conversation.
#[derive(Debug, Clone)]
enum Deed {
    /// So many follow-ups are recorded in this feed, with texts of this length.
    Record(usize, u64, usize),
    /// The process does the next step.
    Step,
    /// It is killed when it has recorded a message, before it prints it.
    StepAndDie,
    /// The client confirms the message.
    Confirm,
    /// The feed gets what was to be acknowledged.
    Acknowledge,
    /// The process is killed, and with it what was not acknowledged yet is not known.
    Die,
    /// A minute is over.
    Minute,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        5 => (0_usize..2, 1_u64..4, prop_oneof![Just(1), Just(20_000)])
            .prop_map(|(feed, n, length)| Deed::Record(feed, n, length)),
        5 => Just(Deed::Step),
        1 => Just(Deed::StepAndDie),
        4 => Just(Deed::Confirm),
        2 => Just(Deed::Acknowledge),
        3 => Just(Deed::Die),
        2 => Just(Deed::Minute),
    ]
}

/// A feed and how far its consumer is.
struct Feed {
    epoch: &'static str,
    host: Option<&'static str>,
    follow_ups: Vec<Batch>,
    cursor: Seq,
}

impl Feed {
    fn new(epoch: &'static str, host: Option<&'static str>) -> Self {
        Self {
            epoch,
            host,
            follow_ups: Vec::new(),
            cursor: 0,
        }
    }

    fn last(&self) -> Seq {
        self.follow_ups.last().map_or(0, |one| one.seqs[0])
    }

    fn record(&mut self, length: usize, time: Millis) {
        let seq = self.last() + 2;
        let text = format!("{}:{seq}{}", self.epoch, ".".repeat(length));
        self.follow_ups.push(Batch {
            epoch: self.epoch.to_owned(),
            host: self.host.map(str::to_owned),
            ..follow_up(seq, time, &text)
        });
    }
}

/// A process that delivers.
struct Process {
    client: Adapter,
    messages: Messages,
    readings: BTreeMap<String, FeedReading>,
}

impl Process {
    fn start(world: &World) -> Self {
        let taken = Ledger::take_over(&world.paths, &world.conversation);
        let ledger = world.runtime.block_on(taken).unwrap();
        let mut process = Self {
            client: adapter().0,
            messages: Messages::new(ledger, "work", 2),
            readings: BTreeMap::new(),
        };
        for feed in &world.feeds {
            let ledger = &mut process.messages.ledger;
            ledger.forget_acknowledged(feed.host, feed.epoch, feed.cursor, feed.last());
            let reading = process.readings.entry(feed.epoch.to_owned()).or_default();
            reading.begin(feed.epoch, StreamStart::default());
            for follow_up in &feed.follow_ups {
                process.receive(feed, follow_up.clone(), false);
            }
        }
        process
    }

    fn receive(&mut self, feed: &Feed, follow_up: Batch, is_new: bool) {
        let seq = follow_up.seqs[0];
        if seq > feed.cursor && self.readings.get_mut(feed.epoch).unwrap().pass(seq) {
            self.messages.receive(Batch {
                is_new,
                ..follow_up
            });
        }
    }
}

struct World {
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    paths: Paths,
    conversation: Conversation,
    feeds: [Feed; 2],
    now: Millis,
    /// What the client has heard, each message once.
    heard: Vec<Batch>,
    /// The message that it has heard last and has not confirmed.
    unconfirmed: Option<String>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        Self {
            runtime: runtime.enable_time().build().unwrap(),
            paths: Paths::below(folder.path()),
            conversation: Conversation::new(AgentClient::Pi, "p").unwrap(),
            _folder: folder,
            feeds: [Feed::new("e", None), Feed::new("f", Some("gpu1"))],
            now: 86_400_000,
            heard: Vec::new(),
            unconfirmed: None,
        }
    }

    fn step(&mut self, process: &mut Process) -> Option<SentMessage> {
        let mut all = process.messages.next(&process.client, self.now);
        assert!(all.len() <= 1);
        let message = all.pop()?;
        assert!(process.messages.ledger.save_if_held().unwrap());
        process.client.given = Some(message.batch.id());
        Some(message)
    }

    fn hear(&mut self, batch: &Batch) {
        let id = batch.id();
        let heard = Batch {
            is_new: false,
            ..batch.clone()
        };
        match self.heard.iter().find(|one| one.id() == id) {
            Some(before) => {
                assert_eq!(&heard, before);
                assert!(!batch.is_new);
                // The next one has not come before.
                assert_eq!(self.heard.last(), Some(&heard));
            }
            None => self.heard.push(heard),
        }
        self.unconfirmed = Some(id);
    }

    fn happen(&mut self, mut process: Process, deed: &Deed) -> Process {
        match deed {
            Deed::Record(feed, n, length) => {
                let feed = &mut self.feeds[*feed];
                for _ in 0..*n {
                    feed.record(*length, self.now);
                    let follow_up = feed.follow_ups.last().unwrap().clone();
                    process.receive(feed, follow_up, true);
                }
            }
            Deed::Step => {
                if let Some(message) = self.step(&mut process) {
                    self.hear(&message.batch);
                }
            }
            Deed::Confirm => {
                if let Some(id) = self.unconfirmed.take() {
                    process.messages.settle_ids(&[id]);
                }
            }
            Deed::Acknowledge => {
                for feed in &mut self.feeds {
                    let first_open = process.messages.first_open(feed.epoch);
                    let reading = process.readings.get_mut(feed.epoch).unwrap();
                    feed.cursor = reading.acknowledgement(first_open).unwrap_or(feed.cursor);
                }
            }
            Deed::StepAndDie | Deed::Die => {
                if matches!(deed, Deed::StepAndDie) {
                    self.step(&mut process);
                }
                // The next one takes the ledger over.
                drop(process);
                self.unconfirmed = None;
                return Process::start(self);
            }
            Deed::Minute => self.now += 60_000,
        }
        process
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_follow_up_is_in_one_message_whenever_the_process_is_killed(
        deeds in proptest::collection::vec(deed(), 1..60),
    ) {
        let mut world = World::new();
        let mut process = Process::start(&world);
        for deed in &deeds {
            process = world.happen(process, deed);
        }
        let is_done = |world: &World| world.feeds.iter().all(|feed| feed.cursor >= feed.last());
        let rest = [Deed::Step, Deed::Confirm, Deed::Acknowledge, Deed::Minute];
        for deed in rest.iter().cycle().take(4 * 400) {
            if is_done(&world) {
                break;
            }
            process = world.happen(process, deed);
        }
        for feed in &world.feeds {
            let messages = world.heard.iter().filter(|one| one.epoch == feed.epoch);
            let heard: Vec<_> = messages.flat_map(|one| one.seqs.clone()).collect();
            let recorded: Vec<_> = feed.follow_ups.iter().map(|one| one.seqs[0]).collect();
            prop_assert_eq!(heard, recorded);
        }
    }
}
