//! Notes which messages the adapter of a conversation has given up, so that `ls`, the panel and
//! `consumer ls` show them as not deliverable.
//!
//! There is one file for each consumer, beside the feed. Only the process that delivers the consumer's
//! messages writes it.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::clock;
use crate::files::{self, OPEN_TO_OTHERS};
use crate::model::{Error, Seq};
use crate::paths::Paths;
use crate::store::feed::{FeedLine, WholeLines};
use crate::wire::{GivenUp, check_consumer_name};

/// Notes that these messages will not reach the conversation of this consumer. They should be
/// acknowledged as well, so that they do not come again. Numbers that are no follow-ups, or are
/// noted already, change nothing.
pub(crate) fn give_up_messages(paths: &Paths, consumer: &str, seqs: &[Seq]) -> Result<(), Error> {
    let mut given_up = load_given_up(paths, consumer);
    let before = given_up.clone();
    let now = clock::now().wall;
    for seq in seqs {
        let mut lines = WholeLines::after(&paths.feed(), seq.saturating_sub(1))?;
        while let Some(line) = lines.next_line()? {
            match line {
                FeedLine::Record(record) if record.seq == *seq => {
                    given_up.add(&record, now);
                    break;
                }
                FeedLine::Record(record) if record.seq > *seq => break,
                FeedLine::Record(_) | FeedLine::Unknown(_) | FeedLine::Damaged => {}
            }
        }
    }
    if given_up == before {
        return Ok(());
    }
    store(paths, consumer, &given_up)
}

/// Notes that the conversation of this consumer has got these messages after all.
pub(crate) fn withdraw_given_up(paths: &Paths, consumer: &str, seqs: &[Seq]) -> Result<(), Error> {
    let mut given_up = load_given_up(paths, consumer);
    let before = given_up.messages.len();
    given_up.remove(seqs);
    if given_up.messages.len() == before {
        return Ok(());
    }
    store(paths, consumer, &given_up)
}

/// Returns what adapters have given up, by consumer.
pub(super) fn load_all_given_up(paths: &Paths) -> BTreeMap<String, GivenUp> {
    let folder = paths.given_up();
    if files::check_owner_of_folder(&folder).is_err() {
        return BTreeMap::new();
    }
    let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| check_consumer_name(name).is_ok())
        .map(|name| {
            let given_up = load_given_up(paths, &name);
            (name, given_up)
        })
        .collect()
}

/// Forgets what was given up for a consumer that is removed.
pub(super) fn forget_given_up(paths: &Paths, consumer: &str) {
    // What stays shows for a day at most.
    std::fs::remove_file(file(paths, consumer)).unwrap_or_default();
}

/// Returns what the adapter of this consumer has given up. A file that cannot be parsed counts as
/// empty.
fn load_given_up(paths: &Paths, consumer: &str) -> GivenUp {
    let bytes = files::read(&file(paths, consumer));
    bytes
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn store(paths: &Paths, consumer: &str, given_up: &GivenUp) -> Result<(), Error> {
    let path = file(paths, consumer);
    let folder = paths.given_up();
    let replace = || -> io::Result<()> {
        files::make_folder(&folder, OPEN_TO_OTHERS)?;
        let mut bytes = serde_json::to_vec(given_up).map_err(io::Error::from)?;
        bytes.push(b'\n');
        files::replace_synced(&path, &hidden(&folder, consumer), &bytes)?;
        files::sync_folder(&folder)
    };
    replace().map_err(|source| Error::folder(&folder, &source))
}

fn file(paths: &Paths, consumer: &str) -> PathBuf {
    paths.given_up().join(consumer)
}

/// Returns the name of a file that is being written: no consumer has one that begins with a dot.
fn hidden(folder: &Path, consumer: &str) -> PathBuf {
    folder.join(format!(".{consumer}.new"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::{GivenUpMessage, TaskFields};

    fn follow_up(seq: Seq, window: &str) -> String {
        let task = TaskFields {
            window_id: window.to_owned(),
            ..TaskFields::default()
        };
        json!({
            "v": 1, "seq": seq, "epoch": "e", "time": "1970-01-01T00:00:01.000Z",
            "sessionName": "s", "kind": "followUp", "level": "info", "events": [seq],
            "owner": "claude:1",
            "message": {
                "customType": "tmux-task-event", "content": "", "display": true,
                "details": {
                    "source": "extension", "notUserInput": true, "sessionId": "s",
                    "sessionName": "s", "level": "info",
                    "events": [{"type": "exited", "level": "info", "task": task}],
                },
            },
            "options": {"triggerTurn": true, "deliverAs": "followUp"},
        })
        .to_string()
    }

    #[test]
    fn what_was_given_up_is_kept_until_it_is_withdrawn() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::below(dir.path());
        std::fs::create_dir_all(&paths.state).unwrap();
        let lines: Vec<_> = [(1, "@1"), (2, "@2"), (3, "@1")]
            .map(|(seq, window)| follow_up(seq, window) + "\n")
            .into();
        std::fs::write(paths.feed(), lines.concat()).unwrap();
        let seqs = || -> Vec<Seq> {
            let given_up = load_given_up(&paths, "claude:1");
            given_up.messages.iter().map(|one| one.seq).collect()
        };
        // 9 is none of the feed.
        give_up_messages(&paths, "claude:1", &[3, 9]).unwrap();
        give_up_messages(&paths, "claude:1", &[2, 3]).unwrap();
        assert_eq!(seqs(), [2, 3]);
        withdraw_given_up(&paths, "claude:1", &[3, 9]).unwrap();
        let given_up = load_given_up(&paths, "claude:1");
        assert_eq!(given_up.epoch, "e");
        let [
            GivenUpMessage {
                seq: 2,
                since: 1000,
                windows,
                ..
            },
        ] = given_up.messages.as_slice()
        else {
            panic!("{given_up:?}");
        };
        assert_eq!(windows, &["@2"]);
        assert_eq!(load_given_up(&paths, "claude:2"), GivenUp::default());
    }
}
