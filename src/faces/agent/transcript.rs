//! Reads from a transcript of Claude Code what became of messages that were handed over.
//!
//! A transcript is a file of JSON lines that the client appends to: what was put into its queue and
//! taken out, what it added to the conversation, and what the model answered. That the model has acted
//! on a message is certain only when an answer of the model follows it. A message that was taken out of
//! the queue may be gone, and one in the conversation may have been added without a turn, or its turn
//! was interrupted.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::files::if_there;

/// How many bytes of the end are read to find out whether a turn runs, while no message is looked for.
const TAIL: u64 = 1 << 20;

/// How the client begins the text with which it records that the user has interrupted a turn.
const INTERRUPTED: &str = "[Request interrupted by user";

/// How the client begins the texts with which it records commands of the user that need no turn.
const NO_PROMPT: [&str; 3] = ["<command-name>", "<local-command-", "<bash-"];

/// The kinds of the records with which the client says that a turn has ended.
const ENDS: [&str; 2] = ["stop_hook_summary", "turn_duration"];

/// Where a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Place {
    /// The transcript does not have it.
    #[default]
    Nowhere,
    Queued,
    /// It was taken out of the queue, and is not in the conversation.
    Removed,
    /// In the conversation, and no answer of the model follows.
    Unanswered,
    /// An answer of the model follows.
    Answered,
}

/// The transcript of a conversation: how far it was read, and what holds there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Transcript {
    path: PathBuf,
    /// Where the first line begins that was not read, in bytes.
    offset: u64,
    /// Whether the model is answering, or a tool runs for it.
    pub(super) is_turn_running: bool,
    /// How many messages the client's queue has, of those that were put into it meanwhile.
    n_queued: u32,
}

/// A message: the line that marks it, and where it is.
type Message<'a> = (String, &'a mut Place);

/// Returns the line that marks the message with this id.
pub(super) fn mark_of(id: &str) -> String {
    format!("(tmux-task {id})")
}

/// Reads the complete lines of a transcript from `offset` on, which is then behind the last one. One that is no
/// JSON is passed over.
pub(super) fn read_lines(
    mut from: impl BufRead,
    offset: &mut u64,
    mut each: impl FnMut(&Value),
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let n = from.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            // The client may be in the middle of the line.
            return Ok(());
        }
        *offset += n as u64;
        if let Ok(entry) = serde_json::from_slice(&line) {
            each(&entry);
        }
    }
}

impl Transcript {
    /// Reads what the file at this path has since the last time. Of another file than before,
    /// everything is read: it may begin with a copy. What was read until an error counts.
    pub(super) fn read(&mut self, path: &Path, messages: &mut [Message<'_>]) -> io::Result<()> {
        if self.path != path {
            if !messages.is_empty() {
                self.read_file(messages)?;
            }
            *self = Self::of(path.to_owned());
        }
        self.read_file(messages)
    }

    fn of(path: PathBuf) -> Self {
        Self {
            path,
            ..Self::default()
        }
    }

    /// A missing file is empty, and one that was replaced by a shorter one is read from its beginning.
    fn read_file(&mut self, messages: &mut [Message<'_>]) -> io::Result<()> {
        let Some(mut file) = if_there(File::open(&self.path))? else {
            return Ok(());
        };
        let length = file.metadata()?.len();
        if length < self.offset {
            *self = Self::of(std::mem::take(&mut self.path));
        }
        let skips = messages.is_empty() && length - self.offset > TAIL;
        if skips {
            self.offset = length - TAIL;
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut file = BufReader::new(file);
        if skips {
            // The first line is cut.
            self.offset += file.skip_until(b'\n')? as u64;
        }
        self.read_from(file, messages)
    }

    fn read_from(&mut self, from: impl BufRead, messages: &mut [Message<'_>]) -> io::Result<()> {
        let mut offset = self.offset;
        let read = read_lines(from, &mut offset, |entry| self.apply(entry, messages));
        self.offset = offset;
        read
    }

    fn apply(&mut self, entry: &Value, messages: &mut [Message<'_>]) {
        // Of a subagent.
        if entry["isSidechain"] == true {
            return;
        }
        let message = &entry["message"];
        let attached = &entry["attachment"];
        match entry["type"].as_str().unwrap_or_default() {
            "queue-operation" => self.apply_queue(entry, messages),
            "user" => {
                let texts = texts(&message["content"]);
                place(messages, Place::Unanswered, &texts);
                let begins = |with: &str| texts.iter().any(|text| text.starts_with(with));
                if begins(INTERRUPTED) {
                    self.is_turn_running = false;
                } else if entry["isCompactSummary"] != true
                    && !NO_PROMPT.iter().any(|with| begins(with))
                {
                    self.is_turn_running = true;
                }
            }
            // A message that was queued, and given to the model between two of its steps.
            "attachment"
                if attached["type"] == "queued_command" && !attached["prompt"].is_null() =>
            {
                place(messages, Place::Unanswered, &texts(&attached["prompt"]));
                self.is_turn_running = true;
            }
            // The client's own words, such as the error of a request.
            "assistant"
                if entry["isApiErrorMessage"] == true || message["model"] == "<synthetic>" =>
            {
                self.is_turn_running = false;
            }
            "assistant" => {
                self.is_turn_running = message["stop_reason"] != "end_turn";
                for (_, place) in messages {
                    if **place == Place::Unanswered {
                        **place = Place::Answered;
                    }
                }
            }
            "system" if ENDS.contains(&entry["subtype"].as_str().unwrap_or_default()) => {
                self.is_turn_running = false
            }
            _ => {}
        }
    }

    fn apply_queue(&mut self, entry: &Value, messages: &mut [Message<'_>]) {
        let texts = texts(&entry["content"]);
        if entry["operation"] == "enqueue" {
            self.n_queued = self.n_queued.saturating_add(1);
            place(messages, Place::Queued, &texts);
            return;
        }
        self.n_queued = self.n_queued.saturating_sub(1);
        for (mark, place) in messages.iter_mut() {
            // Not every operation says which message it took out.
            let is_out = self.n_queued == 0 || texts.iter().any(|text| has_line(text, mark));
            if **place == Place::Queued && is_out {
                **place = Place::Removed;
            }
        }
    }
}

/// Notes that the messages that are marked in these texts are there now. Once answered, a message
/// stays so: the client may write its records again.
fn place(messages: &mut [Message<'_>], to: Place, texts: &[&str]) {
    for (mark, place) in messages {
        if **place != Place::Answered && texts.iter().any(|text| has_line(text, mark)) {
            **place = to;
        }
    }
}

/// Whether the text has the mark as a line of its own. What tasks print is indented.
fn has_line(text: &str, mark: &str) -> bool {
    text.contains(mark) && text.lines().any(|line| line == mark)
}

/// Returns the texts of a content: it is a text, or a list of blocks, some of which have one.
fn texts(content: &Value) -> Vec<&str> {
    let blocks = content.as_array().into_iter().flatten();
    let of_blocks = blocks.filter_map(|block| block["text"].as_str());
    content.as_str().into_iter().chain(of_blocks).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::test_notation::rows;

    const MARK: &str = "(tmux-task e:7)";

    fn message(mark: &str) -> String {
        format!(
            "<task-notification>\n</task-notification>\n<system-reminder>\nNews: [tmux-task \
             notification]\ntmux task @1 (a) exited with code 3\n{mark}\n\n</system-reminder>"
        )
    }

    fn user(content: impl Into<Value>) -> Value {
        json!({"type": "user", "isSidechain": false,
            "message": {"role": "user", "content": content.into()}})
    }

    /// Returns where the message is, and whether a turn runs.
    fn read(entries: &[Value]) -> (Place, bool) {
        let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        // Read at once, and line by line.
        let pieces = |pieces: &[&str]| {
            let (mut reading, mut at) = (Transcript::default(), Place::default());
            for piece in pieces {
                let wanted = &mut [(MARK.to_owned(), &mut at)];
                reading.read_from(piece.as_bytes(), wanted).unwrap();
            }
            (reading, at)
        };
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (reading, at) = pieces(&[&text]);
        assert_eq!(pieces(&lines), (reading.clone(), at));
        assert_eq!(reading.offset, text.len() as u64);
        (at, reading.is_turn_running)
    }

    /// What the transcript can have: a word, and the entry or its content if it is the user's. `TOLD` is
    /// our message, `OTHER` another one.
    const ENTRIES: &str = r#"
        enqueue | raw | {"type": "queue-operation", "operation": "enqueue", "content": "TOLD"}
        enqueue-other | raw | {"type": "queue-operation", "operation": "enqueue", "content": "by hand"}
        dequeue | raw | {"type": "queue-operation", "operation": "dequeue"}
        remove | raw
          | {"type": "queue-operation", "operation": "remove", "content": "TOLD", "reason": "cleared_on_cancel"}
        pop-other | raw | {"type": "queue-operation", "operation": "popAll", "content": "by hand"}
        absorbed | raw | {"type": "attachment", "attachment": {"type": "queued_command", "prompt": "TOLD"}}
        told | user | "TOLD"
        told-text | user | [{"type": "text", "text": "TOLD"}]
        told-result | user | [{"type": "tool_result", "tool_use_id": "t", "content": "TOLD"}]
        told-other | user | "OTHER"
        quoted | user | "recent output:\n  (tmux-task e:7)\n(tmux-task e:8)"
        interrupted | user | [{"type": "text", "text": "[Request interrupted by user for tool use]"}]
        result | user | [{"type": "tool_result", "tool_use_id": "t", "content": "ok"}]
        go | user | "go"
        clear | user | "<command-name>/clear</command-name>"
        caveat | user | "<local-command-caveat>below</local-command-caveat>"
        shell | user | "<bash-input>ls</bash-input>"
        summary | raw | {"type": "user", "message": {"content": "so far"}, "isCompactSummary": true}
        answers | raw | {"type": "assistant", "message": {"model": "claude", "stop_reason": "end_turn", "content": [{"type": "text", "text": "noted"}]}}
        uses-tool | raw | {"type": "assistant", "message": {"model": "claude", "stop_reason": "tool_use", "content": []}}
        subagent | raw
          | {"type": "assistant", "isSidechain": true, "message": {"model": "claude", "stop_reason": "tool_use", "content": []}}
        fails | raw
          | {"type": "assistant", "isApiErrorMessage": true, "message": {"model": "claude", "stop_reason": "stop_sequence", "content": []}}
        synthetic | raw | {"type": "assistant", "message": {"model": "<synthetic>", "content": [{"type": "text", "text": "No response requested."}]}}
        informs | raw | {"type": "system", "subtype": "informational", "content": "TOLD"}
        blob | raw | {"type": "api-request-blob", "message": {"content": "TOLD"}}
        ends | raw | {"type": "system", "subtype": "stop_hook_summary", "hookCount": 1}
        duration | raw | {"type": "system", "subtype": "turn_duration"}"#;

    fn entry(word: &str) -> Value {
        let mut all = rows(ENTRIES).into_iter();
        let found = all.find(|[name, _, _]| name == word);
        let [_, kind, json] = found.unwrap_or_else(|| panic!("no entry `{word}`"));
        let told = |mark| message(mark).replace('\n', r"\n");
        let json = json.replace("TOLD", &told(MARK));
        let json = json.replace("OTHER", &told("(tmux-task e:77)"));
        let value: Value = serde_json::from_str(&json).unwrap();
        if kind == "user" { user(value) } else { value }
    }

    /// Checks where the message is after these entries, and whether a turn `runs`.
    #[track_caller]
    fn check(table: &str) {
        for [words, expected] in rows(table) {
            let entries: Vec<Value> = words.split_whitespace().map(entry).collect();
            let (place, is_turn_running) = read(&entries);
            let runs = if is_turn_running { ", runs" } else { "" };
            assert_eq!(format!("{place:?}{runs}"), expected, "{words}");
        }
    }

    #[test]
    fn only_an_answer_is_a_receipt() {
        assert_eq!(read(&[]), (Place::Nowhere, false));
        // Given between two steps of a turn; and a copy in the transcript of a resumed conversation.
        check(
            "enqueue | Queued
             enqueue dequeue | Removed
             enqueue dequeue told | Unanswered, runs
             enqueue dequeue told answers | Answered
             told-text uses-tool | Answered, runs
             go uses-tool enqueue | Queued, runs
             go uses-tool enqueue remove result | Removed, runs
             go uses-tool enqueue remove result absorbed | Unanswered, runs
             go uses-tool enqueue remove result absorbed answers ends | Answered
             go uses-tool enqueue remove result absorbed answers ends told | Answered, runs",
        );
    }

    #[test]
    fn what_is_no_answer_is_none() {
        // Before the message, for another message, or of a subagent.
        check(
            "answers told | Unanswered, runs
             told-other answers | Nowhere
             told subagent | Unanswered, runs",
        );
        // Interrupted, until the model answers something later; the client's own words.
        check(
            "told interrupted | Unanswered
             told interrupted go answers | Answered
             told fails | Unanswered
             told synthetic | Unanswered",
        );
        // Records that are not of the conversation, or have no line of the client's message.
        check(
            "informs answers | Nowhere
             blob answers | Nowhere
             quoted answers | Nowhere
             told-result answers | Nowhere",
        );
    }

    #[test]
    fn what_was_taken_out_of_the_queue_is_gone_until_the_conversation_has_it() {
        // While others are queued, an operation that names none took out one of them, maybe.
        check(
            "enqueue remove | Removed
             enqueue remove enqueue | Queued
             enqueue-other enqueue dequeue | Queued
             enqueue-other enqueue dequeue dequeue | Removed
             enqueue enqueue-other pop-other | Queued",
        );
    }

    #[test]
    fn commands_and_summaries_begin_no_turn() {
        check(
            "clear | Nowhere
             caveat | Nowhere
             shell | Nowhere
             summary | Nowhere
             go summary | Nowhere, runs
             go duration | Nowhere",
        );
    }

    #[test]
    fn a_line_is_read_when_it_is_complete() {
        let line = format!("{}\n", user(message(MARK)));
        let (mut reading, mut at) = (Transcript::default(), Place::default());
        let mut read = |text: &str, at: &mut Place| {
            reading
                .read_from(text.as_bytes(), &mut [(MARK.to_owned(), at)])
                .unwrap();
            reading.offset
        };
        assert_eq!(read(&line[..line.len() - 1], &mut at), 0);
        assert_eq!(at, Place::Nowhere);
        let text = format!("no JSON\n{{\"type\":1}}\n{line}");
        assert_eq!(read(&text, &mut at), text.len() as u64);
        assert_eq!(at, Place::Unanswered);
    }

    #[test]
    fn of_a_long_transcript_only_the_end_is_read_while_nothing_is_looked_for() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t");
        let line = format!("{}\n", user("x".repeat(1000)));
        std::fs::write(&path, line.repeat(5000)).unwrap();
        let mut transcript = Transcript::default();
        transcript.read(&path, &mut []).unwrap();
        assert!(transcript.is_turn_running);
        assert_eq!(transcript.offset, 5000 * line.len() as u64);
    }
}
