use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::faces::agent::AgentClient;
use crate::faces::agent::conversation::Conversation;
use crate::faces::agent::progress::Progress;
use crate::paths::Paths;

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
    follow_ups: Vec<FollowUp>,
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
        self.follow_ups.last().map_or(0, |one| one.seq)
    }

    fn record(&mut self, length: usize, time: Millis) {
        let seq = self.last() + 2;
        let message = json!({
            "customType": "tmux-task-event", "display": true,
            "content": format!("[tmux-task notification]\n{}:{seq}{}", self.epoch, ".".repeat(length)),
            "details": {"source": "extension", "notUserInput": true, "sessionId": "s",
                "sessionName": "s", "level": "info", "events": []},
        });
        self.follow_ups.push(FollowUp {
            epoch: self.epoch.to_owned(),
            seq,
            time,
            is_new: true,
            host: self.host.map(str::to_owned),
            message: serde_json::from_value(message).unwrap(),
            options: serde_json::from_value(json!({"triggerTurn": true, "deliverAs": "followUp"}))
                .unwrap(),
        });
    }
}

/// A process that delivers.
struct Adapter {
    messages: HandOver,
    progress: BTreeMap<String, Progress>,
    unsent: BTreeMap<String, Seq>,
}

impl Adapter {
    fn start(world: &World) -> Self {
        let taken = Ledger::take_over(&world.paths, &world.conversation);
        let ledger = world.runtime.block_on(taken).unwrap();
        let mut adapter = Self {
            messages: HandOver::new(ledger, "work", 2),
            progress: BTreeMap::new(),
            unsent: BTreeMap::new(),
        };
        for feed in &world.feeds {
            let ledger = &mut adapter.messages.ledger;
            ledger.forget_acknowledged(feed.host, feed.epoch, feed.cursor, feed.last());
            let progress = adapter.progress.entry(feed.epoch.to_owned()).or_default();
            progress.begin(feed.epoch);
            for follow_up in &feed.follow_ups {
                adapter.receive(feed, follow_up.clone(), false);
            }
        }
        adapter
    }

    fn receive(&mut self, feed: &Feed, follow_up: FollowUp, is_new: bool) {
        let seq = follow_up.seq;
        if seq <= feed.cursor || !self.progress.get_mut(feed.epoch).unwrap().receive(seq) {
            return;
        }
        if let Some((epoch, seq)) = self.messages.receive(FollowUp {
            is_new,
            ..follow_up
        }) {
            self.settle(&epoch, &[seq]);
        }
    }

    fn settle(&mut self, epoch: &str, seqs: &[Seq]) {
        let progress = self.progress.get_mut(epoch).unwrap();
        for seq in seqs {
            progress.settle(*seq);
        }
        if let Some(seq) = progress.take_settled() {
            self.unsent.insert(epoch.to_owned(), seq);
        }
    }
}

/// A message as the client has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Heard {
    id: String,
    epoch: String,
    seqs: Vec<Seq>,
    content: String,
}

struct World {
    runtime: tokio::runtime::Runtime,
    _folder: tempfile::TempDir,
    paths: Paths,
    conversation: Conversation,
    feeds: [Feed; 2],
    now: Millis,
    /// What the client has heard, each message once.
    heard: Vec<Heard>,
    /// The message that it has heard last and has not confirmed.
    unconfirmed: Option<String>,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap(),
            paths: Paths::below(folder.path()),
            conversation: Conversation::new(AgentClient::Pi, "p").unwrap(),
            _folder: folder,
            feeds: [Feed::new("e", None), Feed::new("f", Some("gpu1"))],
            now: 86_400_000,
            heard: Vec::new(),
            unconfirmed: None,
        }
    }

    fn step(&mut self, adapter: &mut Adapter) -> Option<String> {
        if !adapter.messages.is_ready() {
            return None;
        }
        let line = |batch: &Batch, is_new: bool| {
            let heard = (&batch.epoch, &batch.seqs, &batch.message.content);
            json!({"id": batch.id(), "isNew": is_new, "heard": heard}).to_string()
        };
        match adapter.messages.next(self.now, line) {
            Step::Print(line) => Some(line),
            Step::Wait(_) => None,
            other @ (Step::Nothing | Step::Replaced) => panic!("{other:?}"),
        }
    }

    fn hear(&mut self, line: &str) {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let id = line["id"].as_str().unwrap().to_owned();
        let (epoch, seqs, content) = serde_json::from_value(line["heard"].take()).unwrap();
        let heard = Heard {
            id: id.clone(),
            epoch,
            seqs,
            content,
        };
        match self.heard.iter().find(|one| one.id == id) {
            Some(before) => {
                assert_eq!(&heard, before);
                assert_eq!(line["isNew"], false);
                assert_eq!(
                    self.heard.last(),
                    Some(&heard),
                    "the next one has come before"
                );
            }
            None => self.heard.push(heard),
        }
        self.unconfirmed = Some(id);
    }

    fn confirm(&mut self, adapter: &mut Adapter) {
        if let Some(id) = self.unconfirmed.take() {
            let settled = adapter.messages.confirm(&id).unwrap();
            adapter.settle(&settled.epoch, &settled.seqs);
        }
    }

    fn acknowledge(&mut self, adapter: &mut Adapter) {
        for (epoch, seq) in std::mem::take(&mut adapter.unsent) {
            let feed = self.feeds.iter_mut().find(|feed| feed.epoch == epoch);
            feed.unwrap().cursor = seq;
        }
    }

    fn restart(&mut self, adapter: Adapter) -> Adapter {
        drop(adapter);
        self.unconfirmed = None;
        Adapter::start(self)
    }

    fn happen(&mut self, mut adapter: Adapter, deed: &Deed) -> Adapter {
        match deed {
            Deed::Record(feed, n, length) => {
                let feed = &mut self.feeds[*feed];
                for _ in 0..*n {
                    feed.record(*length, self.now);
                    let follow_up = feed.follow_ups.last().unwrap().clone();
                    adapter.receive(feed, follow_up, true);
                }
            }
            Deed::Step => {
                if let Some(line) = self.step(&mut adapter) {
                    self.hear(&line);
                }
            }
            Deed::StepAndDie => {
                self.step(&mut adapter);
                return self.restart(adapter);
            }
            Deed::Confirm => self.confirm(&mut adapter),
            Deed::Acknowledge => self.acknowledge(&mut adapter),
            Deed::Die => return self.restart(adapter),
            Deed::Minute => self.now += 60_000,
        }
        adapter
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn each_follow_up_is_in_one_message_whenever_the_process_is_killed(
        deeds in proptest::collection::vec(deed(), 1..60),
    ) {
        let mut world = World::new();
        let mut adapter = Adapter::start(&world);
        for deed in &deeds {
            adapter = world.happen(adapter, deed);
        }
        let is_done = |world: &World| world.feeds.iter().all(|feed| feed.cursor == feed.last());
        let rest = [Deed::Step, Deed::Confirm, Deed::Acknowledge, Deed::Minute];
        for deed in rest.iter().cycle().take(4 * 400) {
            if is_done(&world) {
                break;
            }
            adapter = world.happen(adapter, deed);
        }
        for feed in &world.feeds {
            let messages = world.heard.iter().filter(|one| one.epoch == feed.epoch);
            let heard: Vec<_> = messages.flat_map(|one| one.seqs.clone()).collect();
            let recorded: Vec<_> = feed.follow_ups.iter().map(|one| one.seq).collect();
            prop_assert_eq!(heard, recorded);
        }
    }
}
