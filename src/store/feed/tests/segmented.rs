use std::fs;
use std::path::Path;

use super::super::segments::{closed_firsts, segment_path};
use super::super::{
    FeedEnd, FeedLine, Journal, Reader, Sequence, end_of_files, has_files, remove_before,
};
use super::{
    Feed, append, damage, events, follow_up, progress, read_all, saved_after_each_write, seq_of,
};
use crate::model::test_notation::notice;
use crate::model::{Record, Seq};

/// A feed whose records are in closed segments, and whose journal goes on.
struct Segmented {
    feed: Feed,
    journal: Journal,
}

impl Segmented {
    /// Returns a feed with a segment for each list of writes, the last one not closed. Each write has
    /// this many notices.
    fn new(segments: &[&[u64]]) -> Self {
        let feed = Feed::new();
        let journal = Journal::open(&feed.path, 0, 0).unwrap();
        let mut segmented = Self { feed, journal };
        for (index, writes) in segments.iter().enumerate() {
            if index > 0 {
                segmented.journal.close_segment().unwrap();
            }
            for n_records in *writes {
                segmented.append(*n_records);
            }
        }
        segmented
    }

    fn append(&mut self, n_records: u64) {
        let next = self.last_seq() + 1;
        let records: Vec<Record> = (next..next + n_records)
            .map(|seq| notice(seq, &[]))
            .collect();
        append(&mut self.journal, &records).unwrap();
    }

    fn last_seq(&self) -> Seq {
        self.feed.recover().last_seq
    }

    fn path(&self) -> &Path {
        &self.feed.path
    }
}

/// The files of the feed, in the order of their names.
fn names(feed: &Path) -> Vec<String> {
    let entries = fs::read_dir(feed.parent().unwrap()).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("feed") && name.ends_with(".jsonl"))
        .collect();
    names.sort();
    names
}

/// The numbers of the records behind `after`, missing ones as pairs.
fn read_after(feed: &Path, after: Seq) -> Vec<(Seq, Seq)> {
    let (_, end) = end_of_files(feed).unwrap();
    let mut reader = Reader::before(feed, after, &end).unwrap();
    let mut sequence = Sequence::after(after);
    let mut read = read_on(&mut reader, &mut sequence, &end);
    read.extend(sequence.end_at(end.last_seq));
    read
}

fn note(sequence: &mut Sequence, line: &FeedLine, read: &mut Vec<(Seq, Seq)>) {
    let seq = seq_of(line);
    if !sequence.has(seq) {
        read.extend(sequence.read(seq));
        read.push((seq, seq));
    }
}

fn each(from: Seq, to: Seq) -> Vec<(Seq, Seq)> {
    (from..=to).map(|seq| (seq, seq)).collect()
}

#[test]
fn all_files_in_the_order_of_their_names_are_the_whole_feed() {
    let feed = Segmented::new(&[&[1, 3], &[2], &[1, 1]]);
    assert_eq!(
        names(feed.path()),
        [
            "feed-0000000000000001.jsonl",
            "feed-0000000000000005.jsonl",
            "feed.jsonl"
        ]
    );
    let folder = feed.path().parent().unwrap();
    let files = names(feed.path()).into_iter();
    let text: String = files
        .map(|name| fs::read_to_string(folder.join(name)).unwrap())
        .collect();
    let seqs: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64())
        .map(Option::unwrap)
        .collect();
    assert_eq!(seqs, (1..=8).collect::<Vec<_>>());
    assert_eq!(feed.feed.seqs(0), seqs);
    for after in 0..=9 {
        assert_eq!(read_after(feed.path(), after), each(after + 1, 8));
    }
}

#[test]
fn a_segment_is_for_its_user_alone_and_others_names_are_no_segments() {
    use std::os::unix::fs::PermissionsExt;
    let feed = Segmented::new(&[&[1], &[1]]);
    let segment = fs::metadata(segment_path(feed.path(), 1)).unwrap();
    assert_eq!(segment.permissions().mode() & 0o777, 0o600);
    for name in [
        "feed-1.jsonl",
        "feed-0000000000000009.jsonl.bak",
        "feed-000000000000000x.jsonl",
        "feed-00000000000000001.jsonl",
        "feed-+000000000000001.jsonl",
    ] {
        fs::write(feed.path().with_file_name(name), "x").unwrap();
    }
    assert_eq!(closed_firsts(feed.path()).unwrap(), [1]);
}

#[test]
fn an_empty_file_is_not_closed() {
    let mut feed = Segmented::new(&[&[1], &[]]);
    feed.journal.close_segment().unwrap();
    assert_eq!(names(feed.path()).len(), 2);
    assert_eq!(feed.feed.seqs(0), [1]);
}

#[test]
fn a_crash_while_a_segment_is_closed_loses_nothing() {
    let first_write = || {
        let other = Feed::new();
        other.append(&events(5, "", "@1 a running; @2 b running"));
        fs::read_to_string(&other.path).unwrap()
    };
    let torn = first_write();
    // The file was renamed; there is an empty new one; the first write there was torn.
    for active in [
        None,
        Some(""),
        Some(&torn[..torn.len() - 1]),
        Some(&torn[..40]),
    ] {
        let feed = Segmented::new(&[&[1, 1], &[2]]);
        fs::rename(feed.path(), segment_path(feed.path(), 3)).unwrap();
        if let Some(text) = active {
            fs::write(feed.path(), text).unwrap();
        }
        let recovered = feed.feed.recover();
        assert_eq!((recovered.last_seq, recovered.end), (4, 0), "{active:?}");
        assert_eq!(recovered.epoch.as_deref(), Some("e1"));
        assert_eq!(read_after(feed.path(), 0), each(1, 4));
        assert_eq!(read_after(feed.path(), 3), each(4, 4));
        feed.feed.append(&[notice(5, &[])]);
        assert_eq!(read_after(feed.path(), 0), each(1, 5));
        assert_eq!(feed.feed.end().segment, 5);
        assert_eq!(names(feed.path()).len(), 3);
    }
}

#[test]
fn a_segment_whose_file_was_removed_meanwhile_is_left_to_the_next_write() {
    let mut feed = Segmented::new(&[&[1], &[1]]);
    fs::remove_file(feed.path()).unwrap();
    feed.journal.close_segment().unwrap();
    append(&mut feed.journal, &[notice(3, &[])]).unwrap();
    assert_eq!(read_after(feed.path(), 0), [(1, 1), (2, 2), (3, 3)]);
    let kept = read_all(feed.path());
    assert_eq!(kept.lost, [(2, 2)]);
    assert_eq!(feed.journal.end().changes, 1);
}

#[test]
fn a_crash_while_segments_are_removed_leaves_the_later_ones() {
    let feed = Segmented::new(&[&[2], &[2], &[2], &[2]]);
    fs::remove_file(segment_path(feed.path(), 1)).unwrap();
    let behind_two = [vec![(1, 2)], each(3, 8)].concat();
    assert_eq!(read_after(feed.path(), 0), behind_two);
    assert_eq!(feed.feed.recover().last_seq, 8);
    // The next daemon goes on with it.
    remove_before(feed.path(), 5).unwrap();
    assert_eq!(names(feed.path()).len(), 2);
    let behind_four = [vec![(1, 4)], each(5, 8)].concat();
    assert_eq!(read_after(feed.path(), 0), behind_four);
}

/// Reads everything up to this end; missing records are pairs.
fn read_on(reader: &mut Reader, sequence: &mut Sequence, end: &FeedEnd) -> Vec<(Seq, Seq)> {
    let mut read = Vec::new();
    while let Some(line) = reader.next(end).unwrap() {
        note(sequence, &line, &mut read);
    }
    read
}

#[test]
fn a_reader_follows_through_segments() {
    let mut feed = Segmented::new(&[&[2], &[2], &[2]]);
    let end = feed.journal.end();
    for after in 0..=6 {
        let mut reader = Reader::before(feed.path(), after, &end).unwrap();
        let read = read_on(&mut reader, &mut Sequence::after(after), &end);
        assert_eq!(read, each(after + 1, 6), "{after}");
    }
    let mut sequence = Sequence::after(6);
    let mut reader = Reader::at_end(feed.path(), &end);
    assert_eq!(read_on(&mut reader, &mut sequence, &end), []);
    // Before the close, and in the new file before and behind its first write.
    feed.append(1);
    let before = feed.journal.end();
    feed.journal.close_segment().unwrap();
    let empty = feed.journal.end();
    feed.append(1);
    assert_eq!(read_on(&mut reader, &mut sequence, &before), each(7, 7));
    assert_eq!(read_on(&mut reader, &mut sequence, &empty), []);
    let end = feed.journal.end();
    assert_eq!(read_on(&mut reader, &mut sequence, &end), each(8, 8));
    // What was published earlier is read already.
    assert_eq!(read_on(&mut reader, &mut sequence, &before), []);
    // One that comes when the last file is empty, and one that opens it when it is closed.
    feed.journal.close_segment().unwrap();
    let empty = feed.journal.end();
    let mut late = Reader::before(feed.path(), 7, &empty).unwrap();
    let mut at_end = Reader::at_end(feed.path(), &empty);
    let read = read_on(&mut late, &mut Sequence::after(7), &empty);
    assert_eq!(read, each(8, 8));
    feed.append(2);
    let first = feed.journal.end();
    feed.journal.close_segment().unwrap();
    feed.append(1);
    let last = feed.journal.end();
    let mut sequence = Sequence::after(8);
    assert_eq!(read_on(&mut at_end, &mut sequence, &first), each(9, 10));
    assert_eq!(read_on(&mut at_end, &mut sequence, &last), each(11, 11));
    let mut skipping = Reader::at_end(feed.path(), &empty);
    let read = read_on(&mut skipping, &mut Sequence::after(8), &last);
    assert_eq!(read, each(9, 11));
}

#[test]
fn a_reader_in_the_middle_of_a_segment_that_is_removed_finishes_it() {
    let feed = Segmented::new(&[&[2], &[2], &[2], &[2]]);
    let end = feed.journal.end();
    let mut sequence = Sequence::after(0);
    let mut reader = Reader::before(feed.path(), 0, &end).unwrap();
    let mut read = Vec::new();
    let first = reader.next(&end).unwrap().unwrap();
    note(&mut sequence, &first, &mut read);
    remove_before(feed.path(), 5).unwrap();
    read.extend(read_on(&mut reader, &mut sequence, &end));
    assert_eq!(read, [vec![(1, 1), (2, 2), (3, 4)], each(5, 8)].concat());
    // One that had begun to wait at the end of what is gone now.
    let mut feed = Segmented::new(&[&[2]]);
    let end = feed.journal.end();
    let mut reader = Reader::at_end(feed.path(), &end);
    for _ in 0..3 {
        feed.journal.close_segment().unwrap();
        feed.append(1);
    }
    remove_before(feed.path(), 4).unwrap();
    let mut sequence = Sequence::after(2);
    assert_eq!(read_on(&mut reader, &mut sequence, &end), []);
    let end = feed.journal.end();
    let read = read_on(&mut reader, &mut sequence, &end);
    assert_eq!(read, [(3, 3), (4, 4), (5, 5)]);
}

#[test]
fn damage_in_a_segment_is_missing_and_nothing_else() {
    let feed = Segmented::new(&[&[1, 3], &[2], &[2]]);
    damage(&segment_path(feed.path(), 1), 4);
    damage(&segment_path(feed.path(), 5), 1);
    assert_eq!(read_all(feed.path()).lost, [(4, 5)]);
    // The rest of a write.
    let path = segment_path(feed.path(), 1);
    let text = fs::read_to_string(&path).unwrap();
    let two: String = text.split_inclusive('\n').take(2).collect();
    fs::write(&path, two).unwrap();
    let kept = read_all(feed.path());
    assert_eq!((kept.lost, kept.last_seq), (vec![(3, 5)], 8));
    let recovered = feed.feed.recover();
    let length = fs::metadata(feed.path()).unwrap().len();
    assert_eq!((recovered.last_seq, recovered.end), (8, length));
}

#[test]
fn what_was_saved_in_a_segment_that_is_gone_is_left_for_the_later_ones() {
    let (feed, saved) = saved_after_each_write(true);
    remove_before(&feed.path, 9).unwrap();
    assert_eq!(feed.recover_from(saved.first()).0.last_seq, 9);
}

#[test]
fn the_end_is_that_of_the_segment_before_a_torn_file() {
    let mut feed = Segmented::new(&[&[2, 3]]);
    feed.journal.close_segment().unwrap();
    feed.append(2);
    let text = fs::read_to_string(feed.path()).unwrap();
    let first = text.split_inclusive('\n').next().unwrap();
    for torn in [first, &first[..9], ""] {
        fs::write(feed.path(), torn).unwrap();
        let (epoch, end) = end_of_files(feed.path()).unwrap();
        assert_eq!((end.last_seq, end.segment, end.at), (5, 6, 0));
        assert_eq!(epoch.as_deref(), Some("e1"));
    }
}

#[test]
fn what_a_feed_holds_is_found_in_its_segments() {
    let feed = Feed::new();
    let mut journal = Journal::open(&feed.path, 0, 0).unwrap();
    let ends = events(1, "@1 a running", "@1 a dead 0");
    append(&mut journal, &ends).unwrap();
    append(&mut journal, &[follow_up(2, &ends)]).unwrap();
    for seq in 3..=4 {
        journal.close_segment().unwrap();
        append(&mut journal, &[notice(seq, &[])]).unwrap();
    }
    let held = progress(&feed.path);
    assert_eq!((held.last_follow_up, held.last_run), (Some(2), Some(0)));
    assert!(has_files(&feed.path));
    fs::remove_file(&feed.path).unwrap();
    assert!(has_files(&feed.path));
    let (_, end) = end_of_files(&feed.path).unwrap();
    assert_eq!((end.last_seq, end.segment, end.at), (3, 4, 0));
}
