use serde_json::json;

use super::*;

/// A follow-up of the feed `e`; every second one is a warning.
pub(in crate::faces::agent) fn follow_up(seq: Seq, time: Millis, text: &str) -> Batch {
    let batch = json!({
        "epoch": "e", "seqs": [seq], "time": time, "isNew": true, "host": null,
        "message": {
            "customType": "tmux-task-event", "content": format!("{HEADER}\n{text}"), "display": true,
            "details": {"source": "extension", "notUserInput": true, "sessionId": "s",
                "sessionName": "s", "level": if seq.is_multiple_of(2) { "warning" } else { "info" },
                "events": [{"type": "exited", "level": "info",
                    "task": {"windowId": "@1", "windowName": "a"}}]},
        },
        "options": {"triggerTurn": true, "deliverAs": "followUp"},
    });
    serde_json::from_value(batch).unwrap()
}

/// A time far from 0, at which no budget was used.
const DAY: Millis = 86_400_000;

fn outbox(max: u32) -> PendingFollowUps {
    PendingFollowUps::new("work", max, Budget::default())
}

/// The text of a message that stands for so many more.
fn summary(n: u32, options: &str, after: &str) -> String {
    format!(
        "{HEADER}\n{n} more events within a minute, see `tmux-task {options} feed --kind followUp \
         --format text --after {after}`"
    )
}

#[track_caller]
fn hand(outbox: &mut PendingFollowUps, now: Millis) -> Batch {
    assert_eq!(outbox.ready_at(now), Some(now));
    outbox.next(now).unwrap()
}

#[test]
fn what_waits_is_one_message() {
    let mut outbox = outbox(30);
    assert_eq!((outbox.ready_at(0), outbox.next(0)), (None, None));
    for (seq, text) in [(3, "a"), (6, "b"), (7, "c")] {
        outbox.push(follow_up(seq, 0, text));
    }
    let batch = hand(&mut outbox, 0);
    assert_eq!(batch.message.content, format!("{HEADER}\na\nb\nc"));
    assert_eq!((batch.id().as_str(), &*batch.seqs), ("e:7", &[3, 6, 7][..]));
    assert_eq!(batch.message.details.events.len(), 3);
    assert_eq!(batch.message.details.level, Level::Warning);
    assert_eq!((outbox.ready_at(0), outbox.next(0)), (None, None));
}

#[test]
fn a_message_is_bounded_and_the_rest_comes_next() {
    let mut outbox = outbox(30);
    for seq in 1..=4 {
        outbox.push(follow_up(seq, 0, &"x".repeat(MAX_BYTES / 2 - 100)));
    }
    assert_eq!(hand(&mut outbox, 0).seqs, [1, 2]);
    assert_eq!(hand(&mut outbox, 0).seqs, [3, 4]);
    // A single one is never cut.
    outbox.push(follow_up(5, 0, &"x".repeat(2 * MAX_BYTES)));
    assert!(hand(&mut outbox, 0).message.content.len() > 2 * MAX_BYTES);
}

#[test]
fn a_message_is_of_one_feed_and_each_feed_keeps_its_order() {
    let mut outbox = outbox(3);
    let of_host = |seq, text| Batch {
        epoch: "f".to_owned(),
        host: Some("gpu 1".to_owned()),
        ..follow_up(seq, DAY, text)
    };
    outbox.push(of_host(7, "c"));
    outbox.push(follow_up(3, DAY, "a"));
    outbox.push(of_host(8, "d"));
    outbox.push(follow_up(4, DAY, "b"));
    let batch = hand(&mut outbox, DAY);
    assert_eq!((batch.id().as_str(), &*batch.seqs), ("f:8", &[7, 8][..]));
    assert_eq!(batch.message.content, format!("{HEADER}\nc\nd"));
    assert_eq!(hand(&mut outbox, DAY).id(), "e:4");
    outbox.push(follow_up(5, DAY, "e"));
    hand(&mut outbox, DAY);
    for seq in 9..=10 {
        outbox.push(of_host(seq, "g"));
    }
    let batch = hand(&mut outbox, DAY + 60_000);
    let expected = summary(2, "--host 'gpu 1' -s s", "f:8");
    assert_eq!(batch.message.content, expected);
    assert!(outbox.pending.is_empty());
}

#[test]
fn a_crash_loop_costs_a_bounded_number_of_turns() {
    let mut outbox = outbox(3);
    for seq in 1..=3 {
        let now = DAY + 1000 * Millis::try_from(seq).unwrap();
        outbox.push(follow_up(seq, now, "loop"));
        hand(&mut outbox, now);
    }
    for seq in 4..=20 {
        outbox.push(follow_up(seq, DAY + 5000, "loop"));
        assert_eq!(outbox.ready_at(DAY + 5000), Some(DAY + 61_000));
        assert_eq!(outbox.next(DAY + 5000), None);
    }
    let batch = hand(&mut outbox, DAY + 61_000);
    assert_eq!(batch.message.content, summary(17, "-s work", "e:3"));
    assert_eq!(batch.id(), "e:20");
    // The next minute has begun with the summary.
    for seq in 21..=22 {
        outbox.push(follow_up(seq, DAY + 62_000, "again"));
        assert_eq!(hand(&mut outbox, DAY + 62_000).seqs, [seq]);
    }
    outbox.push(follow_up(23, DAY + 62_000, "again"));
    assert_eq!(outbox.ready_at(DAY + 62_000), Some(DAY + 121_000));
    // One alone is not worth a summary.
    let batch = hand(&mut outbox, DAY + 121_000);
    assert!(batch.message.content.ends_with("again"));
}

#[test]
fn events_after_a_full_minute_are_reported_in_full() {
    let mut outbox = outbox(1);
    outbox.push(follow_up(1, 1000, "a"));
    hand(&mut outbox, 1000);
    for seq in 2..=3 {
        outbox.push(follow_up(seq, 500_000, "b"));
    }
    assert!(hand(&mut outbox, 500_000).message.content.ends_with("b\nb"));
    // A clock that was set back holds nothing up.
    outbox.push(follow_up(4, 10, "c"));
    assert_eq!(hand(&mut outbox, 10).seqs, [4]);
}
