use serde_json::json;

use super::Standing::{HandedOver, New, Settled};
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
    let standing = |ledger: &Ledger, seq| ledger.standing("e", seq);
    assert_eq!([7, 9].map(|seq| standing(&ledger, seq)), [HandedOver; 2]);
    assert_eq!([10, 11].map(|seq| standing(&ledger, seq)), [New; 2]);
    assert_eq!(ledger.standing("f", 7), New);
    let transcript = folder.write("t", &[("user", 7), ("assistant", 0), ("user", 9)]);
    ledger.read(&transcript).unwrap();
    assert_eq!(ledger.settle_answered().unwrap(), (settled(&[7]), vec![]));
    drop(ledger);
    // What is settled is not forgotten before the feed knows of it.
    let mut ledger = folder.open().unwrap();
    assert_eq!(ledger.handed_over().len(), 1);
    assert_eq!(
        [7, 9].map(|seq| standing(&ledger, seq)),
        [Settled, HandedOver]
    );
    ledger.forget_acknowledged(None, "e", 6, 12);
    assert_eq!(standing(&ledger, 7), Settled);
    ledger.forget_acknowledged(None, "e", 9, 12);
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
    assert_eq!(
        [7, 9].map(|seq| standing(&ledger, seq)),
        [Settled, HandedOver]
    );
    assert_eq!(ledger.settle("(tmux-task e:9)"), settled(&[9]).pop());
    assert_eq!(ledger.settle("(tmux-task e:9)"), None);
    assert_eq!(
        [9, 11].map(|seq| standing(&ledger, seq)),
        [Settled, HandedOver]
    );
    // A feed that has lost its end uses the numbers again.
    ledger.forget_acknowledged(None, "e", 7, 10);
    assert_eq!([10, 11].map(|seq| standing(&ledger, seq)), [Settled, New]);
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
fn what_comes_from_another_machine_is_forgotten_with_that() {
    let folder = Folder::new();
    let mut ledger = folder.open().unwrap();
    hand_over(&mut ledger, Some(7));
    for (epoch, host) in [("f", "gpu1"), ("g", "gpu2")] {
        let message = SentMessage {
            epoch: epoch.to_owned(),
            host: Some(host.to_owned()),
            mark: format!("(tmux-task {epoch}:7)"),
            ..sent(7)
        };
        ledger.add(message, Budget::default());
        ledger.settle(&format!("(tmux-task {epoch}:7)")).unwrap();
    }
    let standing = |ledger: &Ledger| ["f", "g"].map(|epoch| ledger.standing(epoch, 7));
    // A feed of this machine, or another one of that machine, says nothing of them.
    ledger.forget_acknowledged(None, "e", 9, 9);
    ledger.forget_acknowledged(Some("gpu1"), "x", 9, 9);
    // It is known by then that the feed has more records.
    ledger.forget_acknowledged(Some("gpu1"), "f", 6, 6);
    assert_eq!(standing(&ledger), [Settled; 2]);
    ledger.forget_acknowledged(Some("gpu1"), "f", 7, 9);
    assert_eq!(standing(&ledger), [New, Settled]);
    ledger.forget_host("gpu2");
    assert_eq!(standing(&ledger), [New; 2]);
    assert_eq!(ledger.handed_over().len(), 1);
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
    second.add(sent(7), Budget::default());
    assert!(second.save_if_held().unwrap());
    tokio::time::pause();
    let third = take_over().await;
    second.add(sent(9), Budget::default());
    assert!(!second.save_if_held().unwrap());
    assert!(third.save_if_held().unwrap());
    drop((second, third));
    assert_eq!(take_over().await.handed_over(), [sent(7)]);
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
    let standing = [7, 9].map(|seq| ledger.standing("e", seq));
    assert_eq!(standing, [Settled, HandedOver]);
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
