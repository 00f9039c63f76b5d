//! What was handed to a conversation and is not acknowledged yet, kept between processes.
//!
//! Claude Code runs a process for each hook, so none of them sees a message from its hand-over to its
//! receipt, and a process may end before its acknowledgement has reached the feed. The ledger is a
//! file beside the feed, written before a message is printed.
//!
//! One process at a time has the ledger, and one more may be the next in line: so there is a process
//! that sees whether a message is answered also when the client runs no hook after it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::conversation::Conversation;
use super::outbox::Budget;
use super::transcript::{Message, Place, Reading};
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Millis, Seq};
use crate::paths::Paths;

/// How much of a transcript's end is read to find out whether a turn runs, in bytes, while no message
/// is looked for.
const TAIL: u64 = 1 << 20;

/// How many messages that were given up are remembered.
const MAX_GIVEN_UP: usize = 20;

/// A message that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SentMessage {
    pub(super) epoch: String,
    pub(super) seqs: Vec<Seq>,
    /// The machine that it comes from; `None` for this one.
    #[serde(default)]
    pub(super) host: Option<String>,
    /// The line of the message that no other message has.
    pub(super) mark: String,
    /// What is printed to hand it over again, the mark included.
    pub(super) text: String,
    /// The client's process, and when it started: while it lives, the message may be on its way.
    pub(super) client: Option<(u32, Millis)>,
    /// When it was handed over last, in milliseconds since 1970.
    pub(super) at: Millis,
    /// How often it was handed over.
    pub(super) attempts: u32,
    /// Where the transcript has it.
    pub(super) place: Place,
}

/// Records that need not be handed over any more. They stay here until the feed's consumer has passed
/// them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SettledRecords {
    pub(super) epoch: String,
    pub(super) seqs: Vec<Seq>,
    /// The machine that they come from; `None` for this one.
    #[serde(default)]
    pub(super) host: Option<String>,
}

/// The file's contents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Contents {
    handed_over: Vec<SentMessage>,
    /// Messages that are not handed over again. The conversation may get them after all.
    given_up: Vec<SentMessage>,
    settled: Vec<SettledRecords>,
    budget: Budget,
    transcript: PathBuf,
    reading: Reading,
}

/// The ledger of a conversation. One process at a time has it.
#[derive(Debug)]
pub(super) struct Ledger {
    path: PathBuf,
    contents: Contents,
    /// The contents before the last hand-over.
    before: Contents,
    /// Held until this is dropped or the process ends.
    lock: File,
}

impl Drop for Ledger {
    fn drop(&mut self) {
        // A child that another thread is starting may have the file open for a moment longer.
        self.lock.unlock().unwrap_or_default();
    }
}

/// The place of the process that gets the ledger next.
#[derive(Debug)]
pub(super) struct NextInLine {
    lock: File,
}

impl Drop for NextInLine {
    fn drop(&mut self) {
        self.lock.unlock().unwrap_or_default();
    }
}

impl NextInLine {
    /// Takes the place; `None` when another process has it.
    pub(super) fn take(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let lock = files::open_to_write(&file(paths, conversation, "next")?)?;
        Ok(lock.try_lock().is_ok().then_some(Self { lock }))
    }

    /// Tells the process that has the place to leave it. The place is free at once.
    pub(super) fn dismiss(paths: &Paths, conversation: &Conversation) -> io::Result<()> {
        match fs::remove_file(file(paths, conversation, "next")?) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the ledger; `None` when this process was dismissed meanwhile.
    ///
    /// # Cancel safety
    ///
    /// A thread goes on waiting. It ends with the process.
    pub(super) async fn wait(
        self,
        paths: &Paths,
        conversation: &Conversation,
    ) -> io::Result<Option<Ledger>> {
        let lock = files::open_to_write(&file(paths, conversation, "lock")?)?;
        let (sender, locked) = oneshot::channel();
        thread::Builder::new()
            .name("next-in-line".to_owned())
            .spawn(move || drop(sender.send(lock.lock().map(|()| lock))))?;
        let lock = locked.await.map_err(io::Error::other)??;
        if self.lock.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        Ledger::load(paths, conversation, lock).map(Some)
    }
}

fn file(paths: &Paths, conversation: &Conversation, extension: &str) -> io::Result<PathBuf> {
    let folder = paths.state.join("agents");
    files::make_folder(&folder, OPEN_TO_OTHERS)?;
    Ok(folder.join(format!("{}.{extension}", conversation.consumer())))
}

impl Ledger {
    /// Opens the ledger; `None` when another process has it.
    pub(super) fn open(paths: &Paths, conversation: &Conversation) -> io::Result<Option<Self>> {
        let lock = files::open_to_write(&file(paths, conversation, "lock")?)?;
        if lock.try_lock().is_err() {
            return Ok(None);
        }
        Self::load(paths, conversation, lock).map(Some)
    }

    /// A file that cannot be parsed counts as empty: then a message may be delivered twice, but none is
    /// lost.
    fn load(paths: &Paths, conversation: &Conversation, lock: File) -> io::Result<Self> {
        let path = file(paths, conversation, "json")?;
        let contents = match files::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Contents::default(),
            Err(error) => return Err(error),
        };
        Ok(Self {
            path,
            contents,
            before: Contents::default(),
            lock,
        })
    }

    /// Returns how much of its budget the conversation has used.
    pub(super) fn budget(&self) -> Budget {
        self.contents.budget
    }

    /// Returns what was handed over and not confirmed.
    pub(super) fn handed_over(&self) -> &[SentMessage] {
        &self.contents.handed_over
    }

    /// Whether the client's model is answering, or a tool runs for it, as far as the transcript was
    /// read.
    pub(super) fn is_turn_running(&self) -> bool {
        self.contents.reading.is_turn_running
    }

    /// Whether this record was handed over and not confirmed.
    pub(super) fn has(&self, epoch: &str, seq: Seq) -> bool {
        let is_in = |one: &SentMessage| one.epoch == epoch && one.seqs.contains(&seq);
        self.contents.handed_over.iter().any(is_in)
    }

    /// Whether this record need not be handed over any more.
    pub(super) fn is_settled(&self, epoch: &str, seq: Seq) -> bool {
        let is_in = |one: &SettledRecords| one.epoch == epoch && one.seqs.contains(&seq);
        self.contents.settled.iter().any(is_in)
    }

    /// Reads what the conversation's transcript has since the last time. Of another transcript than
    /// before, everything is read: it may begin with a copy.
    pub(super) fn read(&mut self, transcript: &Path) -> io::Result<()> {
        let contents = &mut self.contents;
        let all = contents.handed_over.iter_mut();
        let mut messages: Vec<Message<'_>> = all
            .chain(&mut contents.given_up)
            .map(|one| (one.mark.as_str(), &mut one.place))
            .collect();
        if contents.transcript != transcript {
            if !messages.is_empty() {
                read_file(&contents.transcript, &mut contents.reading, &mut messages)?;
            }
            transcript.clone_into(&mut contents.transcript);
            contents.reading = Reading::default();
        }
        read_file(transcript, &mut contents.reading, &mut messages)
    }

    /// Moves what the model has answered to the settled records. Returns these, and those of them that
    /// had been given up.
    pub(super) fn settle_answered(
        &mut self,
    ) -> io::Result<(Vec<SettledRecords>, Vec<SettledRecords>)> {
        let is_answered = |one: &mut SentMessage| one.place == Place::Answered;
        let settled = |list: &mut Vec<SentMessage>| -> Vec<_> {
            let answered = list.extract_if(.., is_answered);
            answered.map(SettledRecords::of).collect()
        };
        let late = settled(&mut self.contents.given_up);
        let answered = settled(&mut self.contents.handed_over);
        if !answered.is_empty() || !late.is_empty() {
            self.contents.settled.extend(answered.iter().cloned());
            self.save()?;
        }
        Ok((answered, late))
    }

    /// Gives up these messages, which count as settled from now on.
    pub(super) fn give_up(&mut self, messages: &[SettledRecords]) -> io::Result<()> {
        let is_in = |one: &mut SentMessage| {
            let is_it = |other: &SettledRecords| one.epoch == other.epoch && one.seqs == other.seqs;
            messages.iter().any(is_it)
        };
        let hopeless = self.contents.handed_over.extract_if(.., is_in);
        for mut one in hopeless {
            self.contents.settled.push(SettledRecords::of(one.clone()));
            one.text.clear();
            self.contents.given_up.push(one);
        }
        let n = self.contents.given_up.len();
        self.contents
            .given_up
            .drain(..n.saturating_sub(MAX_GIVEN_UP));
        self.save()
    }

    /// Forgets settled records of which the feed knows that they were acknowledged, and what belongs
    /// to another feed of this machine, if it is this machine's.
    pub(super) fn forget_acknowledged(
        &mut self,
        host: Option<&str>,
        epoch: &str,
        cursor: Seq,
    ) -> io::Result<()> {
        let is_stale =
            |of: &Option<String>, other: &str| host.is_none() && of.is_none() && other != epoch;
        let is_acknowledged =
            |one: &SettledRecords| one.epoch == epoch && one.seqs.iter().all(|seq| *seq <= cursor);
        self.forget(
            |one| is_stale(&one.host, &one.epoch),
            |one| is_stale(&one.host, &one.epoch) || is_acknowledged(one),
        )
    }

    /// Forgets what was settled of another machine, which has forgotten the conversation.
    pub(super) fn forget_host(&mut self, host: &str) -> io::Result<()> {
        let is_of_host = |of: &Option<String>| of.as_deref() == Some(host);
        self.forget(|_| false, |one| is_of_host(&one.host))
    }

    fn forget(
        &mut self,
        is_old: impl Fn(&SentMessage) -> bool,
        is_done: impl Fn(&SettledRecords) -> bool,
    ) -> io::Result<()> {
        let Contents {
            handed_over,
            given_up,
            settled,
            ..
        } = &mut self.contents;
        let before = (handed_over.len(), given_up.len(), settled.len());
        handed_over.retain(|one| !is_old(one));
        given_up.retain(|one| !is_old(one));
        settled.retain(|one| !is_done(one));
        if (handed_over.len(), given_up.len(), settled.len()) != before {
            self.save()?;
        }
        Ok(())
    }

    /// Notes that the messages for which `is_due` holds are about to be handed over again, and then a
    /// new one. Returns what is to be printed.
    pub(super) fn hand_over(
        &mut self,
        is_due: impl Fn(&SentMessage) -> bool,
        new: Option<SentMessage>,
        (client, at): (Option<(u32, Millis)>, Millis),
        budget: Budget,
    ) -> io::Result<String> {
        self.before = self.contents.clone();
        let mut text = String::new();
        for one in &mut self.contents.handed_over {
            if is_due(one) {
                (one.client, one.at) = (client, at);
                one.attempts += 1;
                text.push_str(&one.text);
            }
        }
        if let Some(new) = new {
            text.push_str(&new.text);
            self.contents.handed_over.push(new);
        }
        self.contents.budget = budget;
        self.save()?;
        Ok(text)
    }

    /// Takes back the last hand-over: the messages were not read.
    pub(super) fn take_back(&mut self) -> io::Result<()> {
        self.contents = std::mem::take(&mut self.before);
        self.save()
    }

    fn save(&self) -> io::Result<()> {
        let mut bytes = serde_json::to_vec(&self.contents).map_err(io::Error::from)?;
        bytes.push(b'\n');
        let fresh = self.path.with_extension("new");
        files::replace(&self.path, &fresh, &bytes)
    }
}

impl SettledRecords {
    pub(super) fn of(message: SentMessage) -> Self {
        let SentMessage {
            epoch, seqs, host, ..
        } = message;
        Self { epoch, seqs, host }
    }
}

/// Reads on in a transcript. A missing one is empty, and one that was replaced by a shorter one is read
/// from its beginning.
fn read_file(path: &Path, reading: &mut Reading, messages: &mut [Message<'_>]) -> io::Result<()> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    let length = file.metadata()?.len();
    if length < reading.offset {
        *reading = Reading::default();
    }
    let skips = messages.is_empty() && length - reading.offset > TAIL;
    if skips {
        reading.offset = length - TAIL;
    }
    file.seek(SeekFrom::Start(reading.offset))?;
    let mut file = BufReader::new(file);
    if skips {
        // The first line is cut.
        reading.offset += file.skip_until(b'\n')? as u64;
    }
    reading.read(file, messages)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use serde_json::json;

    use super::*;
    use crate::faces::agent::AgentClient;

    fn sent(seq: Seq) -> SentMessage {
        SentMessage {
            epoch: "e".to_owned(),
            seqs: vec![seq],
            host: None,
            mark: format!("(tmux-task e:{seq})"),
            text: format!("{seq}\n"),
            client: Some((1, 2)),
            at: 3,
            attempts: 1,
            place: Place::Nowhere,
        }
    }

    fn settled(seqs: &[Seq]) -> Vec<SettledRecords> {
        let of = |seq: &Seq| SettledRecords::of(sent(*seq));
        seqs.iter().map(of).collect()
    }

    struct Folder {
        dir: tempfile::TempDir,
        paths: Paths,
        conversation: Conversation,
    }

    impl Folder {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let root = OsString::from(dir.path());
            let env = |name: &str| {
                ["TMUX_TASK_STATE_DIR", "TMUX_TASK_RUNTIME_DIR"]
                    .contains(&name)
                    .then(|| root.clone())
            };
            let paths = Paths::locate(Path::new("/s"), "work", &env).unwrap();
            let conversation = Conversation::new(AgentClient::Claude, "c1").unwrap();
            Self {
                dir,
                paths,
                conversation,
            }
        }

        fn open(&self) -> Option<Ledger> {
            Ledger::open(&self.paths, &self.conversation).unwrap()
        }

        fn next(&self) -> Option<NextInLine> {
            NextInLine::take(&self.paths, &self.conversation).unwrap()
        }

        /// Appends records to a transcript.
        fn write(&self, name: &str, records: &[(&str, Seq)]) -> PathBuf {
            let path = self.dir.path().join(name);
            let mut text = fs::read_to_string(&path).unwrap_or_default();
            for (kind, seq) in records {
                let content = format!("x\n(tmux-task e:{seq})");
                text.push_str(&match *kind {
                    "enqueue" => format!(
                        "{}\n",
                        json!({"type": "queue-operation", "operation": kind, "content": content})
                    ),
                    kind => format!(
                        "{}\n",
                        json!({"type": kind, "message": {"content": content}})
                    ),
                });
            }
            fs::write(&path, text).unwrap();
            path
        }
    }

    fn hand_over(ledger: &mut Ledger, new: Option<Seq>) -> String {
        let budget = Budget::default();
        let is_due = |one: &SentMessage| one.place == Place::Unanswered;
        ledger
            .hand_over(is_due, new.map(sent), (Some((5, 6)), 7), budget)
            .unwrap()
    }

    #[test]
    fn a_ledger_outlives_its_process_and_has_one_at_a_time() {
        let folder = Folder::new();
        let mut ledger = folder.open().unwrap();
        assert!(folder.open().is_none());
        for seq in [7, 9, 10] {
            assert_eq!(hand_over(&mut ledger, Some(seq)), format!("{seq}\n"));
        }
        ledger.take_back().unwrap();
        drop(ledger);
        let mut ledger = folder.open().unwrap();
        assert!(ledger.has("e", 7) && ledger.has("e", 9));
        assert!(!ledger.has("e", 10) && !ledger.has("f", 7));
        let transcript = folder.write("t", &[("user", 7), ("assistant", 0), ("user", 9)]);
        ledger.read(&transcript).unwrap();
        assert_eq!(ledger.settle_answered().unwrap(), (settled(&[7]), vec![]));
        drop(ledger);
        // What is settled is not forgotten before the feed knows of it.
        let mut ledger = folder.open().unwrap();
        assert_eq!(ledger.handed_over().len(), 1);
        assert!(ledger.is_settled("e", 7) && !ledger.is_settled("e", 9));
        ledger.forget_acknowledged(None, "e", 6).unwrap();
        assert!(ledger.is_settled("e", 7));
        ledger.forget_acknowledged(None, "e", 7).unwrap();
        // It is where it was before, and is handed over with a new one.
        assert_eq!(hand_over(&mut ledger, Some(11)), "9\n11\n");
        let [again, new] = ledger.handed_over() else {
            panic!("{ledger:?}");
        };
        assert_eq!(
            (again.attempts, again.at, again.client),
            (2, 7, Some((5, 6)))
        );
        assert_eq!(new, &sent(11));
        drop(ledger);
        let mut ledger = folder.open().unwrap();
        assert!(!ledger.is_settled("e", 7) && ledger.has("e", 9));
        // Another feed.
        ledger.forget_acknowledged(None, "f", 0).unwrap();
        assert_eq!(ledger.handed_over(), []);
        drop(ledger);
        // A damaged file loses no message.
        fs::write(folder.paths.state.join("agents/claude:c1.json"), "{").unwrap();
        assert_eq!(folder.open().unwrap().handed_over(), []);
    }

    #[test]
    fn what_comes_from_another_machine_is_forgotten_with_that() {
        let folder = Folder::new();
        let mut ledger = folder.open().unwrap();
        hand_over(&mut ledger, Some(7));
        for (epoch, host) in [("f", "gpu1"), ("g", "gpu2")] {
            let message = SentMessage {
                epoch: epoch.to_owned(),
                host: Some(host.to_owned()),
                place: Place::Answered,
                ..sent(7)
            };
            ledger.contents.handed_over.push(message.clone());
            ledger.contents.handed_over.push(SentMessage {
                place: Place::Queued,
                ..message
            });
        }
        ledger.settle_answered().unwrap();
        let is_settled = |ledger: &Ledger| ["f", "g"].map(|epoch| ledger.is_settled(epoch, 7));
        // A feed of this machine, or another one of that machine, says nothing of them.
        ledger.forget_acknowledged(None, "e", 9).unwrap();
        ledger.forget_acknowledged(Some("gpu1"), "x", 9).unwrap();
        ledger.forget_acknowledged(Some("gpu1"), "f", 6).unwrap();
        assert_eq!(is_settled(&ledger), [true, true]);
        ledger.forget_acknowledged(Some("gpu1"), "f", 7).unwrap();
        assert_eq!(is_settled(&ledger), [false, true]);
        ledger.forget_host("gpu2").unwrap();
        assert_eq!(is_settled(&ledger), [false, false]);
        assert_eq!(ledger.handed_over().len(), 3);
        // What was written before other machines were known.
        let old = r#"{"settled":[{"epoch":"e","seqs":[7]}]}"#;
        drop(ledger);
        fs::write(folder.paths.state.join("agents/claude:c1.json"), old).unwrap();
        assert!(folder.open().unwrap().is_settled("e", 7));
    }

    #[test]
    fn a_given_up_message_may_be_answered_later() {
        let folder = Folder::new();
        let mut ledger = folder.open().unwrap();
        hand_over(&mut ledger, Some(7));
        hand_over(&mut ledger, Some(9));
        let transcript = folder.write("t", &[("user", 7)]);
        ledger.read(&transcript).unwrap();
        ledger.give_up(&settled(&[7])).unwrap();
        assert!(ledger.is_settled("e", 7) && !ledger.has("e", 7) && ledger.has("e", 9));
        assert_eq!(ledger.settle_answered().unwrap(), (vec![], vec![]));
        drop(ledger);
        let mut ledger = folder.open().unwrap();
        folder.write("t", &[("assistant", 0)]);
        ledger.read(&transcript).unwrap();
        assert_eq!(ledger.settle_answered().unwrap(), (vec![], settled(&[7])));
        assert_eq!(ledger.settle_answered().unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_transcript_is_read_on_and_another_one_from_its_beginning() {
        let folder = Folder::new();
        let mut ledger = folder.open().unwrap();
        let place = |ledger: &Ledger| ledger.handed_over()[0].place;
        let first = folder.write("t", &[("user", 7), ("assistant", 0)]);
        ledger.read(&first).unwrap();
        // What the transcript had before the hand-over is no receipt.
        hand_over(&mut ledger, Some(7));
        ledger.read(&first).unwrap();
        assert_eq!(place(&ledger), Place::Nowhere);
        folder.write("t", &[("enqueue", 7)]);
        ledger.read(&first).unwrap();
        assert_eq!(place(&ledger), Place::Queued);
        // The conversation goes on in another file, that begins with a copy.
        folder.write("t", &[("user", 7)]);
        let second = folder.write("u", &[("user", 7)]);
        ledger.read(&second).unwrap();
        assert_eq!(place(&ledger), Place::Unanswered);
        // A shorter file is another one.
        fs::write(&second, "").unwrap();
        ledger.read(&second).unwrap();
        folder.write("u", &[("assistant", 0)]);
        ledger.read(&second).unwrap();
        assert_eq!(place(&ledger), Place::Answered);
    }

    #[test]
    fn of_a_long_transcript_only_the_end_is_read_while_nothing_is_looked_for() {
        let folder = Folder::new();
        let mut ledger = folder.open().unwrap();
        let path = folder.dir.path().join("t");
        let line = format!(
            "{}\n",
            json!({"type": "user", "message": {"content": "x".repeat(1000)}})
        );
        fs::write(&path, line.repeat(5000)).unwrap();
        ledger.read(&path).unwrap();
        assert!(ledger.is_turn_running());
        assert_eq!(ledger.contents.reading.offset, 5000 * line.len() as u64);
    }

    #[tokio::test]
    async fn the_next_in_line_gets_the_ledger_unless_it_was_dismissed() {
        let folder = Folder::new();
        let wait = async |next: NextInLine| {
            let waited = next.wait(&folder.paths, &folder.conversation);
            waited.await.unwrap()
        };
        let first = folder.open().unwrap();
        let next = folder.next().unwrap();
        assert!(folder.next().is_none());
        drop(first);
        let second = wait(next).await.unwrap();
        // The place is free again.
        let dismissed = folder.next().unwrap();
        NextInLine::dismiss(&folder.paths, &folder.conversation).unwrap();
        NextInLine::dismiss(&folder.paths, &folder.conversation).unwrap();
        let next = folder.next().unwrap();
        drop(second);
        assert!(wait(dismissed).await.is_none());
        assert!(wait(next).await.is_some());
    }
}
