//! A conversation in a storm. Its client is killed and started again, often after a message that it has
//! not confirmed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use crate::support::{Dice, World, pid};

pub(super) struct Conversation<'a> {
    world: &'a World,
    pub(super) id: &'static str,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    /// The ends of tasks that were told, in order.
    ends: Vec<End>,
    /// The messages, by their ids.
    known: BTreeMap<String, Value>,
    /// How many messages came again as they were.
    again: usize,
    /// How often the client was killed before it has confirmed a message.
    unconfirmed: usize,
    /// How many events of other types were told.
    others: BTreeMap<String, usize>,
    /// Messages that came again as new ones, or with another content.
    doubled: Vec<Value>,
    adapter: Option<i64>,
    is_over: bool,
}

/// The end of a task, as a message tells it.
struct End {
    name: String,
    host: Option<String>,
    message: String,
}

/// What was wrong, over all conversations.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    lost: Vec<String>,
    doubled: Vec<String>,
    /// Told to another conversation than the one whose task it was.
    strange: Vec<String>,
}

impl<'a> Conversation<'a> {
    pub(super) fn new(world: &'a World, id: &'static str) -> Self {
        Self {
            world,
            id,
            heard: Mutex::default(),
        }
    }

    fn heard(&self) -> MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs its clients, one after the other, until [`Self::end`].
    pub(super) fn serve(&self, mut dice: Dice) {
        while !self.heard().is_over {
            let mut command = self.world.command(World::program());
            command.args(["agent", "opencode", "--id", self.id]);
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut adapter = command.stderr(Stdio::null()).spawn().unwrap();
            {
                let mut heard = self.heard();
                heard.adapter = Some(adapter.id().into());
                if heard.is_over {
                    drop(adapter.kill());
                }
            }
            let mut stdin = adapter.stdin.take().unwrap();
            for line in BufReader::new(adapter.stdout.take().unwrap()).lines() {
                let Ok(line) = line else { break };
                let Ok(message) = serde_json::from_str::<Value>(&line) else {
                    break;
                };
                if message["kind"] == "message" {
                    self.hear(&message);
                    if dice.below(8) == 0 {
                        self.heard().unconfirmed += 1;
                        break;
                    }
                    let receipt = json!({"received": {"to": message["to"], "id": message["id"]}});
                    if writeln!(stdin, "{receipt}").is_err() {
                        break;
                    }
                }
            }
            self.heard().adapter = None;
            drop(adapter.kill());
            drop(adapter.wait());
        }
    }

    fn hear(&self, message: &Value) {
        let mut heard = self.heard();
        let id = message["id"].to_string();
        let content = message["message"].clone();
        if let Some(before) = heard.known.insert(id.clone(), content.clone()) {
            heard.again += 1;
            if message["isNew"] == true || before != content {
                heard.doubled.push(message.clone());
            }
            return;
        }
        let details = &message["message"]["details"];
        for event in details["events"].as_array().into_iter().flatten() {
            let what = event["type"].as_str().unwrap_or_default();
            if what != "exited" {
                *heard.others.entry(what.to_owned()).or_default() += 1;
                continue;
            }
            let end = End {
                name: event["task"]["windowName"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
                host: details["host"].as_str().map(str::to_owned),
                message: id.clone(),
            };
            heard.ends.push(end);
        }
    }

    /// Kills its client.
    pub(super) fn kill(&self) {
        if let Some(adapter) = self.heard().adapter {
            // It may have ended.
            kill_process(pid(adapter), Signal::KILL).ok();
        }
    }

    /// Ends its client.
    pub(super) fn end(&self) {
        self.heard().is_over = true;
        self.kill();
    }

    /// Returns the tasks whose ends were told.
    pub(super) fn told(&self) -> BTreeSet<String> {
        self.heard()
            .ends
            .iter()
            .map(|end| end.name.clone())
            .collect()
    }

    /// Returns the tasks of the host with these names in the order in which their ends were told first.
    pub(super) fn order(&self, names: &[&str]) -> Vec<String> {
        let heard = self.heard();
        let mut known = BTreeSet::new();
        let of_host = heard.ends.iter().filter(|end| {
            end.host
                .as_deref()
                .is_some_and(|host| names.contains(&host))
        });
        let names = of_host.map(|end| &end.name);
        names.filter(|name| known.insert(*name)).cloned().collect()
    }

    /// Compares what was told with the tasks that have ended. `is_own` says of a task whether it was one of
    /// this conversation.
    pub(super) fn judge(
        &self,
        ended: &BTreeSet<String>,
        is_own: impl Fn(&str) -> bool,
        verdict: &mut Verdict,
    ) {
        let told = self.told();
        verdict.lost.extend(ended.difference(&told).cloned());
        verdict
            .strange
            .extend(told.into_iter().filter(|name| !is_own(name)));
        let heard = self.heard();
        let mut messages: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for end in &heard.ends {
            messages.entry(&end.name).or_default().insert(&end.message);
        }
        let twice = messages.iter().filter(|(_, ids)| ids.len() > 1);
        verdict
            .doubled
            .extend(twice.map(|(name, ids)| format!("{name} {ids:?}")));
        verdict
            .doubled
            .extend(heard.doubled.iter().map(ToString::to_string));
        super::say(&format!(
            "told {} besides ends: {:?}; killed before a receipt: {}; messages that came again as they \
             were: {}",
            self.id, heard.others, heard.unconfirmed, heard.again
        ));
    }
}

impl Verdict {
    /// Fails if anything was wrong.
    #[track_caller]
    pub(super) fn check(self) {
        super::say(&format!("{self:?}"));
        let faults = (self.lost, self.doubled, self.strange);
        assert_eq!(faults, Default::default(), "lost, doubled, to another");
    }
}
