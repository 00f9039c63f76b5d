use std::fs;

use super::*;
use crate::config::Config;
use crate::model::ErrorKind;
use crate::model::test_notation::saved_consumer;
use crate::rules::wire::Filter;

/// It shows the time since the boot.
const AGES: AgeClock = AgeClock { at_boot: 0 };

fn listed(consumers: &Consumers, last_seq: Seq) -> Vec<ConsumerStatus> {
    let files = FeedFiles::default();
    let kept = Config::default().feed;
    consumers.list(last_seq, &files, &kept).consumers
}

fn request(name: &str) -> ConsumeRequest {
    ConsumeRequest {
        name: name.to_owned(),
        from_now: false,
        take_over: false,
        filter: Filter::default(),
    }
}

fn taking_over(name: &str) -> ConsumeRequest {
    ConsumeRequest {
        take_over: true,
        ..request(name)
    }
}

/// The consumers `a` and `b`, at record 10 of 20. Nothing is saved unless the test does it.
fn without_thread() -> Arc<Consumers> {
    let saved = vec![saved_consumer("a", 10), saved_consumer("b", 10)];
    Arc::new(Consumers::new(Path::new("none"), "e", 20, saved, AGES))
}

/// As for the feed whose consumers have this folder.
fn started(folder: &Path, epoch: &str, last_seq: Seq) -> Arc<Consumers> {
    let feed = folder.with_file_name("feed.jsonl");
    Consumers::start(&feed, epoch, last_seq, AGES).unwrap()
}

/// Saves as the thread does, with this outcome; returns the cursors, by consumer.
fn save(consumers: &Consumers, is_saved: bool) -> Vec<(String, Seq)> {
    let (_, saves) = consumers.state().take_work();
    let saves = saves.into_iter().map(|save| {
        consumers.state().settle(&save, is_saved);
        (save.name, save.cursor)
    });
    saves.collect()
}

#[tokio::test]
async fn acknowledgements_that_come_during_a_sync_are_saved_by_one() {
    let consumers = without_thread();
    let a = consumers.lease(&request("a"), Some(1), 20).await.unwrap();
    let b = consumers.lease(&request("b"), Some(2), 20).await.unwrap();
    save(&consumers, true);
    for seq in 11..=20 {
        a.acknowledge(seq);
        assert!(a.take_replies().0.is_empty(), "nothing is durable yet");
    }
    b.acknowledge(12);
    let expected = [("a".to_owned(), 20), ("b".to_owned(), 12)];
    assert_eq!(save(&consumers, true), expected);
    assert_eq!(a.take_replies().0, (11..=20).collect::<Vec<Seq>>());
    assert_eq!(b.take_replies().0, [12]);
    assert!(!consumers.state().has_work());
}

#[tokio::test]
async fn confirmations_that_are_not_read_take_bounded_memory() {
    let consumers = without_thread();
    let a = consumers.lease(&request("a"), Some(1), 20).await.unwrap();
    let n = 20 + 3 * MOST_UNCONFIRMED as Seq;
    (21..=n).for_each(|seq| a.acknowledge(seq));
    save(&consumers, true);
    let (confirmed, _) = a.take_replies();
    assert_eq!(confirmed.len(), MOST_UNCONFIRMED);
    assert_eq!((confirmed[0], confirmed.last()), (21, Some(&n)));
}

#[tokio::test]
async fn what_the_disk_refused_is_confirmed_when_it_takes_it() {
    let consumers = without_thread();
    let a = consumers.lease(&request("a"), Some(1), 20).await.unwrap();
    a.acknowledge(11);
    consumers.state().problem = Some("full".to_owned());
    save(&consumers, false);
    assert!(a.take_replies().0.is_empty());
    let problem = consumers.problem().unwrap();
    assert_eq!(problem, "could not save consumers: full");
    a.acknowledge(12);
    assert_eq!(save(&consumers, true), [("a".to_owned(), 12)]);
    assert_eq!(a.take_replies().0, [11, 12]);
    assert_eq!(consumers.problem(), None);
}

#[tokio::test(start_paused = true)]
async fn a_consumer_has_one_reader_at_a_time() {
    let consumers = without_thread();
    let first = consumers.lease(&request("a"), Some(11), 20).await.unwrap();
    let refused = consumers.lease(&request("a"), Some(22), 20).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.message, "consumer `a` is being read by process 11");
    assert!(refused.hint.unwrap().contains("--take-over"));
    assert_eq!(listed(&consumers, 20)[0].reader, Some(11));
    // One that leaves in time is waited for: it may have been killed an instant ago.
    let second = request("a");
    let second = consumers.lease(&second, Some(22), 20);
    let leaves = async {
        // The test's clock is paused: no time passes.
        tokio::time::sleep(LEAVES_WITHIN / 2).await;
        drop(first);
    };
    let (second, ()) = tokio::join!(second, leaves);
    assert_eq!(listed(&consumers, 20)[0].reader, Some(22));
    drop(second);
    assert_eq!(listed(&consumers, 20)[0].reader, None);
}

#[tokio::test]
async fn the_reader_that_takes_over_continues_at_the_cursor_and_the_other_is_ignored() {
    let consumers = without_thread();
    let first = consumers.lease(&request("a"), Some(11), 20).await.unwrap();
    first.sent(11, 11);
    first.sent(12, 12);
    first.acknowledge(11);
    let second = consumers.lease(&taking_over("a"), Some(22), 20).await;
    let second = second.unwrap();
    assert_eq!(second.cursor, 11);
    assert_eq!(first.take_replies().1, Some(StreamEnd::Replaced));
    first.acknowledge(15);
    first.left_out(16, false);
    drop(first);
    let listed = &listed(&consumers, 20)[0];
    let state = (listed.cursor, listed.lag, listed.reader);
    assert_eq!(state, (11, 9, Some(22)));
    assert_eq!(save(&consumers, true), [("a".to_owned(), 11)]);
    assert_eq!(second.take_replies(), (Vec::new(), None));
}

#[tokio::test]
async fn a_position_that_moves_by_left_out_records_is_saved_now_and_then() {
    let consumers = without_thread();
    let a = consumers.lease(&request("a"), None, 20).await.unwrap();
    save(&consumers, true);
    for seq in 11..10 + SAVE_EVERY {
        a.left_out(seq, false);
    }
    assert!(!consumers.state().has_work());
    assert_eq!(listed(&consumers, 10_000)[0].cursor, 9 + SAVE_EVERY);
    a.left_out(10 + SAVE_EVERY, false);
    assert_eq!(save(&consumers, true), [("a".to_owned(), 10 + SAVE_EVERY)]);
    a.left_out(11 + SAVE_EVERY, false);
    drop(a);
    assert_eq!(save(&consumers, true), [("a".to_owned(), 11 + SAVE_EVERY)]);
}

#[tokio::test]
async fn a_consumer_is_on_the_disk_when_it_is_created_and_when_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("consumers");
    let start = |epoch, last_seq| started(&folder, epoch, last_seq);
    let consumers = start("e", 20);
    let first = consumers.lease(&request("first"), None, 20).await.unwrap();
    let now = ConsumeRequest {
        from_now: true,
        ..request("now")
    };
    let now = consumers.lease(&now, None, 20).await.unwrap();
    let cursors = |epoch, last_seq| {
        let list = listed(&start(epoch, last_seq), last_seq);
        let cursors = list.into_iter().map(|one| (one.name, one.cursor));
        cursors.collect::<Vec<_>>()
    };
    let expect = |first, now| [("first".to_owned(), first), ("now".to_owned(), now)];
    // As after a kill.
    assert_eq!(cursors("e", 20), expect(0, 20));
    first.acknowledge(5);
    first.changed().await;
    assert_eq!(first.take_replies().0, [5]);
    assert_eq!(cursors("e", 20), expect(5, 20));
    now.left_out(21, false);
    drop((first, now));
    consumers.close().await;
    assert_eq!(cursors("e", 21), expect(5, 21));
    // The feed lost its end, and is another one.
    assert_eq!(cursors("e", 20), expect(5, 20));
    assert_eq!(cursors("f", 20), expect(0, 0));
}

#[tokio::test]
async fn a_consumer_that_cannot_be_created_is_refused_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("consumers");
    fs::write(&file, "").unwrap();
    let consumers = started(&file, "e", 20);
    let refused = consumers.lease(&request("a"), None, 20).await.unwrap_err();
    let message = refused.message;
    assert!(
        message.starts_with("could not create consumer `a`: "),
        "{message}"
    );
    assert_eq!(listed(&consumers, 20), []);
    let refused = consumers.lease(&request("../a"), None, 20).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Usage);
}

#[tokio::test]
async fn a_consumer_is_removed_unless_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("consumers");
    let consumers = started(&folder, "e", 20);
    let lease = consumers.lease(&request("a"), Some(7), 20).await.unwrap();
    lease.acknowledge(3);
    let refused = consumers.remove("a").await.unwrap_err();
    assert_eq!(refused.message, "consumer `a` is being read by process 7");
    drop(lease);
    consumers.remove("a").await.unwrap();
    assert_eq!(listed(&consumers, 20), []);
    assert!(!folder.join("a").exists());
    let missing = consumers.remove("a").await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::Missing);
    // Its name is free for a new one.
    let again = consumers.lease(&request("a"), None, 20).await.unwrap();
    assert_eq!(again.cursor, 0);
    assert!(folder.join("a").exists());
}
