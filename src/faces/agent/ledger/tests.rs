use serde_json::json;

use super::*;
use crate::faces::agent::AgentClient;
use crate::faces::agent::outbox::tests::follow_up;

fn batch(epoch: &str, host: Option<&str>, seq: Seq) -> Batch {
    Batch {
        epoch: epoch.to_owned(),
        host: host.map(str::to_owned),
        ..follow_up(seq, 3, "text")
    }
}

fn ids(sent: &[SentMessage]) -> Vec<String> {
    sent.iter().map(|one| one.batch.id()).collect()
}

fn settle(ledger: &mut Ledger, id: &str) -> bool {
    ledger.settle(&[id.to_owned()])
}

struct Folder {
    dir: tempfile::TempDir,
    paths: Paths,
    conversation: Conversation,
}

impl Folder {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::below(dir.path());
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

    /// Appends records to a transcript, and reads it.
    fn read(&self, ledger: &mut Ledger, name: &str, records: &[(&str, Seq)]) -> PathBuf {
        let path = self.dir.path().join(name);
        let mut text = fs::read_to_string(&path).unwrap_or_default();
        for (kind, seq) in records {
            let content = format!("x\n(tmux-task e:{seq})");
            let entry = match *kind {
                "enqueue" => {
                    json!({"type": "queue-operation", "operation": kind, "content": content})
                }
                kind => json!({"type": kind, "message": {"content": content}}),
            };
            text.push_str(&format!("{entry}\n"));
        }
        fs::write(&path, text).unwrap();
        ledger.read(&path).unwrap();
        path
    }
}

/// Hands over what is due and this one, and returns the ids.
fn hand_over(ledger: &mut Ledger, new: Option<Seq>) -> Vec<String> {
    hand_over_batch(ledger, new.map(|seq| batch("e", None, seq)))
}

fn hand_over_batch(ledger: &mut Ledger, new: Option<Batch>) -> Vec<String> {
    let is_due = |one: &SentMessage| one.place == Place::Unanswered;
    let all = ledger.hand_over(is_due, new, (Some((5, 6)), 7), Budget::default());
    assert!(ledger.save_if_held().unwrap());
    ids(&all)
}

#[test]
fn a_ledger_outlives_its_process_and_has_one_at_a_time() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    assert!(folder.open().is_none());
    for seq in [7, 9] {
        assert_eq!(hand_over(&mut ledger, Some(seq)), [format!("e:{seq}")]);
    }
    drop(ledger);
    let mut ledger = folder.open().unwrap();
    let all = |ledger: &Ledger| -> Vec<Seq> {
        let seqs = [7, 9, 10, 11].into_iter();
        seqs.filter(|seq| ledger.has("e", *seq)).collect()
    };
    assert_eq!(all(&ledger), [7, 9]);
    assert!(!ledger.has("f", 7));
    assert_eq!(ids(ledger.handed_over()), ["e:7", "e:9"]);
    let records = [("user", 7), ("assistant", 0), ("user", 9)];
    folder.read(&mut ledger, "t", &records);
    let places: Vec<_> = ledger.handed_over().iter().map(|one| one.place).collect();
    assert_eq!(places, [Place::Answered, Place::Unanswered]);
    assert!(settle(&mut ledger, "e:7"));
    assert!(ledger.save_if_held().unwrap());
    drop(ledger);
    // What is settled is not forgotten before the feed knows of it.
    let mut ledger = folder.open().unwrap();
    assert_eq!(ids(ledger.handed_over()), ["e:9"]);
    assert_eq!(all(&ledger), [7, 9]);
    ledger.forget_acknowledged(None, "e", 6, 12);
    assert!(ledger.has("e", 7));
    ledger.forget_acknowledged(None, "e", 9, 12);
    // It is where it was before, and is handed over with a new one.
    assert_eq!(hand_over(&mut ledger, Some(11)), ["e:9", "e:11"]);
    let counts = ledger
        .handed_over()
        .iter()
        .map(|one| (one.attempts, one.at, one.client));
    let client = Some((5, 6));
    assert_eq!(counts.collect::<Vec<_>>(), [(2, 7, client), (1, 7, client)]);
    drop(ledger);
    let mut ledger = folder.open().unwrap();
    assert_eq!(all(&ledger)[..2], [7, 9]);
    assert!(settle(&mut ledger, "e:9") && !settle(&mut ledger, "e:9"));
    assert!(ledger.has("e", 9) && ledger.has("e", 11));
    // A feed that has lost its end uses the numbers again.
    ledger.forget_acknowledged(None, "e", 7, 10);
    assert!(ledger.has("e", 10) && !ledger.has("e", 11));
    hand_over(&mut ledger, Some(11));
    // Another feed.
    ledger.forget_acknowledged(None, "f", 0, 0);
    assert_eq!(ledger.handed_over(), []);
    drop(ledger);
    // A damaged file loses no message.
    fs::write(folder.paths.state.join("agents/claude:c1.json"), "{").unwrap();
    assert_eq!(folder.open().unwrap().handed_over(), []);
}

#[test]
fn what_comes_from_another_machine_is_forgotten_when_its_feed_knows_of_it() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    hand_over(&mut ledger, Some(7));
    for (epoch, host) in [("f", "gpu1"), ("g", "gpu2")] {
        hand_over_batch(&mut ledger, Some(batch(epoch, Some(host), 7)));
        assert!(settle(&mut ledger, &format!("{epoch}:7")));
    }
    let has = |ledger: &Ledger| ["f", "g"].map(|epoch| ledger.has(epoch, 7));
    // A feed of this machine, or another one of that machine, says nothing of them.
    ledger.forget_acknowledged(None, "e", 9, 9);
    ledger.forget_acknowledged(Some("gpu1"), "x", 9, 9);
    // It is known by then that the feed has more records.
    ledger.forget_acknowledged(Some("gpu1"), "f", 6, 6);
    assert_eq!(has(&ledger), [true; 2]);
    ledger.forget_acknowledged(Some("gpu1"), "f", 7, 9);
    assert_eq!(has(&ledger), [false, true]);
    assert_eq!(ids(ledger.handed_over()), ["e:7"]);
}

#[tokio::test]
async fn a_ledger_that_is_taken_over_is_not_written_any_more() {
    let folder = Folder::new();
    let take_over = async || {
        let taken = Ledger::take_over(&folder.paths, &folder.conversation).await;
        taken.unwrap()
    };
    let first = take_over().await;
    assert!(first.save_if_held().unwrap());
    drop(first);
    // This one does not leave.
    let mut second = take_over().await;
    hand_over(&mut second, Some(7));
    tokio::time::pause();
    let third = take_over().await;
    let new = Some(batch("e", None, 9));
    second.hand_over(|_| false, new, (None, 8), Budget::default());
    assert!(!second.save_if_held().unwrap());
    assert!(third.save_if_held().unwrap());
    drop((second, third));
    assert_eq!(ids(take_over().await.handed_over()), ["e:7"]);
}

#[test]
fn a_transcript_is_read_on_and_another_one_from_its_beginning() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    // What the transcript had before the hand-over is no receipt.
    folder.read(&mut ledger, "t", &[("user", 7), ("assistant", 0)]);
    hand_over(&mut ledger, Some(7));
    for (name, records, expected) in [
        ("t", &[][..], Place::Nowhere),
        ("t", &[("enqueue", 7)], Place::Queued),
        // The conversation goes on in another file, that begins with a copy.
        ("u", &[("user", 7)], Place::Unanswered),
    ] {
        folder.read(&mut ledger, name, records);
        assert_eq!(ledger.handed_over()[0].place, expected, "{records:?}");
    }
    // A shorter file is another one.
    let second = folder.dir.path().join("u");
    fs::write(&second, "").unwrap();
    ledger.read(&second).unwrap();
    folder.read(&mut ledger, "u", &[("assistant", 0)]);
    assert_eq!(ledger.handed_over()[0].place, Place::Answered);
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
