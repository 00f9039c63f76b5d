//! What was handed to a conversation and is not acknowledged yet, kept between processes.
//!
//! Claude Code runs a process for each hook, so none of them sees a message from its hand-over to its
//! receipt, and a process may end before its acknowledgement has reached the feed. The ledger is a
//! file beside the feed, written before a message is printed.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::conversation::Conversation;
use super::outbox::Budget;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Millis, Seq};
use crate::paths::Paths;

/// A message that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SentMessage {
    pub(super) epoch: String,
    pub(super) seqs: Vec<Seq>,
    /// A text of the message that no other message has.
    pub(super) mark: String,
    /// The client's process, and when it started: while it lives, the message may be on its way.
    pub(super) client: Option<(u32, Millis)>,
    /// When it was handed over, in milliseconds since 1970.
    pub(super) at: Millis,
    /// The transcript, and its length at that time: the receipt is behind it.
    pub(super) transcript: PathBuf,
    pub(super) offset: u64,
}

/// Records that the conversation has received. They stay here until the feed's consumer has passed
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeliveryReceipts {
    epoch: String,
    seqs: Vec<Seq>,
}

/// The delivery state of a message that was sent to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may be on its way.
    Open,
    /// The conversation has it.
    Received,
    /// It will not arrive.
    Lost,
}

/// The file's contents.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Contents {
    handed_over: Vec<SentMessage>,
    received: Vec<DeliveryReceipts>,
    budget: Budget,
}

/// The ledger of a conversation. One process at a time has it.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    contents: Contents,
    /// Held until this is dropped or the process ends.
    lock: File,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A child that another thread is starting may have the file open for a moment longer.
        self.lock.unlock().unwrap_or_default();
    }
}

impl Ledger {
    /// Opens the ledger; `None` when another process has it. A file that cannot be parsed counts as
    /// empty: then a message may be delivered twice, but none is lost.
    pub(super) fn open(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let folder = paths.state.join("agents");
        files::make_folder(&folder, OPEN_TO_OTHERS)?;
        let name = conversation.consumer();
        let lock = files::open_to_write(&folder.join(format!("{name}.lock")))?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        let path = folder.join(format!("{name}.json"));
        let contents = match files::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(error),
        };
        Ok(Some(Self {
            path,
            contents,
            lock,
        }))
    }

    /// Returns how much of its budget the conversation has used.
    pub(super) fn budget(&self) -> Budget {
        self.contents.budget
    }

    /// Returns what was handed over and not confirmed.
    pub(super) fn handed_over(&self) -> &[SentMessage] {
        &self.contents.handed_over
    }

    /// Whether this record was handed over and not confirmed.
    pub(super) fn has(&self, epoch: &str, seq: Seq) -> bool {
        let is_in = |one: &SentMessage| one.epoch == epoch && one.seqs.contains(&seq);
        self.contents.handed_over.iter().any(is_in)
    }

    /// Whether the conversation has received this record.
    pub(super) fn is_received(&self, epoch: &str, seq: Seq) -> bool {
        let is_in = |one: &DeliveryReceipts| one.epoch == epoch && one.seqs.contains(&seq);
        self.contents.received.iter().any(is_in)
    }

    /// Decides the delivery state of each message. Returns the records of those that were received.
    pub(super) fn close(&mut self, fate: impl Fn(&SentMessage) -> Fate) -> io::Result<Vec<Seq>> {
        let before = self.contents.handed_over.len();
        let mut seqs = Vec::new();
        for one in std::mem::take(&mut self.contents.handed_over) {
            match fate(&one) {
                Fate::Open => self.contents.handed_over.push(one),
                Fate::Received => {
                    seqs.extend(&one.seqs);
                    let SentMessage { epoch, seqs, .. } = one;
                    self.contents
                        .received
                        .push(DeliveryReceipts { epoch, seqs });
                }
                Fate::Lost => {}
            }
        }
        if self.contents.handed_over.len() < before {
            self.save()?;
        }
        Ok(seqs)
    }

    /// Forgets the received records that the feed of this epoch will not send again: those up to the
    /// consumer's cursor, and those of other feeds.
    pub(super) fn forget_acknowledged(&mut self, epoch: &str, cursor: Seq) -> io::Result<()> {
        let before = self.contents.received.len();
        let is_pending =
            |one: &DeliveryReceipts| one.epoch == epoch && one.seqs.iter().any(|seq| *seq > cursor);
        self.contents.received.retain(is_pending);
        if self.contents.received.len() < before {
            self.save()?;
        }
        Ok(())
    }

    /// Notes a message that is about to be handed over.
    pub(super) fn note(&mut self, handed_over: SentMessage, budget: Budget) -> io::Result<()> {
        self.contents.handed_over.push(handed_over);
        self.contents.budget = budget;
        self.save()
    }

    /// Takes back the last note: the message was not read.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.contents.handed_over.pop();
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&self.contents).map_err(io::Error::from)?;
        bytes.push(b'\n');
        let fresh = self.path.with_extension("new");
        files::replace(&self.path, &fresh, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::*;
    use crate::agent::AgentClient;

    fn handed_over(seq: Seq) -> SentMessage {
        SentMessage {
            epoch: "e".to_owned(),
            seqs: vec![seq],
            mark: format!("(tmux-task e:{seq})"),
            client: Some((1, 2)),
            at: 3,
            transcript: "/t".into(),
            offset: 4,
        }
    }

    #[test]
    fn a_ledger_outlives_its_process_and_has_one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = OsString::from(dir.path());
        let env = |name: &str| {
            ["TMUX_TASK_STATE_DIR", "TMUX_TASK_RUNTIME_DIR"]
                .contains(&name)
                .then(|| root.clone())
        };
        let paths = Paths::locate(Path::new("/s"), "work", &env).unwrap();
        let conversation = Conversation::new(AgentClient::Claude, "c1").unwrap();
        let open = || Ledger::open(&paths, &conversation).unwrap();
        let mut ledger = open().unwrap();
        assert!(open().is_none());
        ledger.note(handed_over(7), Budget::default()).unwrap();
        ledger.note(handed_over(9), Budget::default()).unwrap();
        ledger.note(handed_over(10), Budget::default()).unwrap();
        ledger.take_back().unwrap();
        drop(ledger);
        let mut ledger = open().unwrap();
        assert!(ledger.has("e", 7) && ledger.has("e", 9));
        assert!(!ledger.has("e", 10) && !ledger.has("f", 7));
        let fate = |one: &SentMessage| match one.seqs[0] {
            7 => Fate::Received,
            _ => Fate::Open,
        };
        assert_eq!(ledger.close(fate).unwrap(), [7]);
        drop(ledger);
        // What was received is not forgotten before the feed knows of it.
        let mut ledger = open().unwrap();
        assert_eq!(ledger.handed_over(), [handed_over(9)]);
        assert!(ledger.is_received("e", 7) && !ledger.is_received("e", 9));
        ledger.forget_acknowledged("e", 6).unwrap();
        assert!(ledger.is_received("e", 7));
        ledger.forget_acknowledged("e", 7).unwrap();
        assert!(ledger.close(|_| Fate::Lost).unwrap().is_empty());
        drop(ledger);
        let ledger = open().unwrap();
        assert!(!ledger.is_received("e", 7) && !ledger.has("e", 9));
        drop(ledger);
        // A damaged file loses no message.
        std::fs::write(paths.state.join("agents/claude:c1.json"), "{").unwrap();
        assert_eq!(open().unwrap().handed_over(), []);
    }
}
