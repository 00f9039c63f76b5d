//! Reads from a transcript of Claude Code what became of messages that were handed over.
//!
//! A transcript is a file of JSON lines that the client appends to: what was put into its queue and
//! taken out, what it added to the conversation, and what the model answered. That the model has acted
//! on a message is certain only when an answer of the model follows it. A message that was taken out of
//! the queue may be gone, and one in the conversation may have been added without a turn, or its turn
//! was interrupted.

use std::io::{self, BufRead};

use serde::{Deserialize, Serialize};

/// The longest line that is examined, in bytes. Longer ones are passed over.
const MAX_LINE: u64 = 16 << 20;

/// How the client begins the text with which it records that the user has interrupted a turn.
const INTERRUPTED: &str = "[Request interrupted by user";

/// How the client begins the texts with which it records commands of the user that need no turn.
const NO_PROMPT: [&str; 3] = ["<command-name>", "<local-command-", "<bash-"];

/// Where a message is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Place {
    /// The transcript does not have it.
    #[default]
    Nowhere,
    /// In the client's queue.
    Queued,
    /// It was taken out of the queue, and is not in the conversation.
    Removed,
    /// In the conversation, and no answer of the model follows.
    Unanswered,
    /// An answer of the model follows.
    Answered,
}

/// How far a transcript was read, and what holds there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Reading {
    /// Where the first line begins that was not read, in bytes.
    pub(super) offset: u64,
    /// Whether the model is answering, or a tool runs for it.
    pub(super) is_turn_running: bool,
    /// How many messages the client's queue has, of those that were put into it meanwhile.
    n_queued: u32,
}

/// A message: the line that marks it, and where it is.
pub(super) type Message<'a> = (&'a str, &'a mut Place);

impl Reading {
    /// Reads the complete lines from `offset` on. Returns whether there were any.
    ///
    /// # Errors
    ///
    /// When `from` cannot be read. What was read until then counts.
    pub(super) fn read(
        &mut self,
        mut from: impl BufRead,
        messages: &mut [Message<'_>],
    ) -> io::Result<bool> {
        let (mut line, mut has_grown, mut is_too_long) = (Vec::new(), false, false);
        let mut unfinished = 0;
        loop {
            line.clear();
            let n = io::Read::take(&mut from, MAX_LINE).read_until(b'\n', &mut line)?;
            unfinished += n as u64;
            if line.last() != Some(&b'\n') {
                if n as u64 == MAX_LINE {
                    is_too_long = true;
                    continue;
                }
                // The client may be in the middle of the line.
                return Ok(has_grown);
            }
            self.offset += std::mem::take(&mut unfinished);
            has_grown = true;
            if !std::mem::take(&mut is_too_long)
                && let Ok(entry) = serde_json::from_slice(&line)
            {
                self.apply(&entry, messages);
            }
        }
    }

    fn apply(&mut self, entry: &TranscriptEntry, messages: &mut [Message<'_>]) {
        if entry.is_sidechain {
            return;
        }
        match entry.kind {
            EntryKind::QueueOperation => self.apply_queue(entry, messages),
            EntryKind::User => {
                let content = entry.message.as_ref().map(|message| &message.content);
                let texts = || content.into_iter().flat_map(Content::texts);
                place(messages, Place::Unanswered, texts);
                let begins = |with: &str| texts().any(|text| text.starts_with(with));
                if begins(INTERRUPTED) {
                    self.is_turn_running = false;
                } else if !entry.is_compact_summary && !NO_PROMPT.iter().any(|with| begins(with)) {
                    self.is_turn_running = true;
                }
            }
            EntryKind::Attachment => {
                // A message that was queued, and given to the model between two of its steps.
                let attachment = entry.attachment.as_ref();
                let queued = attachment.filter(|found| found.kind == "queued_command");
                if let Some(prompt) = queued.and_then(|found| found.prompt.as_ref()) {
                    place(messages, Place::Unanswered, || prompt.texts());
                    self.is_turn_running = true;
                }
            }
            EntryKind::Assistant => self.apply_answer(entry, messages),
            EntryKind::System => {
                let ends = ["stop_hook_summary", "turn_duration"];
                if entry
                    .subtype
                    .as_deref()
                    .is_some_and(|is| ends.contains(&is))
                {
                    self.is_turn_running = false;
                }
            }
            EntryKind::Other => {}
        }
    }

    fn apply_queue(&mut self, entry: &TranscriptEntry, messages: &mut [Message<'_>]) {
        let texts = || entry.content.iter().flat_map(Content::texts);
        if entry.operation.as_deref() == Some("enqueue") {
            self.n_queued = self.n_queued.saturating_add(1);
            place(messages, Place::Queued, texts);
            return;
        }
        self.n_queued = self.n_queued.saturating_sub(1);
        for (mark, place) in messages.iter_mut() {
            // Not every operation says which message it took out.
            let is_out = self.n_queued == 0 || texts().any(|text| has_line(text, mark));
            if **place == Place::Queued && is_out {
                **place = Place::Removed;
            }
        }
    }

    fn apply_answer(&mut self, entry: &TranscriptEntry, messages: &mut [Message<'_>]) {
        let message = entry.message.as_ref();
        let model = message.and_then(|message| message.model.as_deref());
        // The client's own words, such as the error of a request.
        if entry.is_api_error || model == Some("<synthetic>") {
            self.is_turn_running = false;
            return;
        }
        let stop_reason = message.and_then(|message| message.stop_reason.as_deref());
        self.is_turn_running = stop_reason != Some("end_turn");
        for (_, place) in messages {
            if **place == Place::Unanswered {
                **place = Place::Answered;
            }
        }
    }
}

/// Notes that the messages that are marked in these texts are there now. Once answered, a message
/// stays so: the client may write its records again.
fn place<'a, T: Iterator<Item = &'a str>>(
    messages: &mut [Message<'_>],
    to: Place,
    texts: impl Fn() -> T,
) {
    for (mark, place) in messages {
        if **place != Place::Answered && texts().any(|text| has_line(text, mark)) {
            **place = to;
        }
    }
}

/// Whether the text has the mark as a line of its own. What tasks print is indented.
fn has_line(text: &str, mark: &str) -> bool {
    text.contains(mark) && text.lines().any(|line| line == mark)
}

/// A line of a transcript: the fields that matter here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TranscriptEntry {
    #[serde(rename = "type")]
    kind: EntryKind,
    subtype: Option<String>,
    operation: Option<String>,
    content: Option<Content>,
    message: Option<EntryMessage>,
    attachment: Option<Attachment>,
    /// Of a subagent.
    #[serde(default)]
    is_sidechain: bool,
    #[serde(default)]
    is_compact_summary: bool,
    #[serde(default, rename = "isApiErrorMessage")]
    is_api_error: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum EntryKind {
    QueueOperation,
    User,
    Attachment,
    Assistant,
    System,
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
struct EntryMessage {
    model: Option<String>,
    stop_reason: Option<String>,
    #[serde(default)]
    content: Content,
}

#[derive(Debug, Deserialize)]
struct Attachment {
    #[serde(rename = "type")]
    kind: String,
    prompt: Option<Content>,
}

/// A text, or a list of blocks, some of which are texts.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Blocks(Vec<Block>),
    Other(serde::de::IgnoredAny),
}

#[derive(Debug, Deserialize)]
struct Block {
    /// Blocks of other kinds, such as the results of tools, have none.
    text: Option<String>,
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl Content {
    fn texts(&self) -> impl Iterator<Item = &str> {
        let (text, blocks) = match self {
            Self::Text(text) => (Some(text.as_str()), &[][..]),
            Self::Blocks(blocks) => (None, blocks.as_slice()),
            Self::Other(_) => (None, &[][..]),
        };
        text.into_iter()
            .chain(blocks.iter().filter_map(|block| block.text.as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use std::slice;

    use serde_json::{Value, json};

    use super::*;

    const MARK: &str = "(tmux-task e:7)";

    fn message(mark: &str) -> String {
        format!(
            "<task-notification>\n</task-notification>\n<system-reminder>\nNews: [tmux-task \
             notification]\ntmux task @1 (a) exited with code 3\n{mark}\n\n</system-reminder>"
        )
    }

    fn enqueue(text: &str) -> Value {
        json!({"type": "queue-operation", "operation": "enqueue", "content": text})
    }

    fn dequeue() -> Value {
        json!({"type": "queue-operation", "operation": "dequeue"})
    }

    fn remove(text: &str) -> Value {
        json!({"type": "queue-operation", "operation": "remove", "content": text,
            "reason": "cleared_on_cancel"})
    }

    fn user(content: impl Into<Value>) -> Value {
        json!({"type": "user", "isSidechain": false,
            "message": {"role": "user", "content": content.into()}})
    }

    fn text(text: &str) -> Value {
        json!([{"type": "text", "text": text}])
    }

    fn interrupted() -> Value {
        user(text("[Request interrupted by user for tool use]"))
    }

    fn tool_result(content: &str) -> Value {
        user(json!([{"type": "tool_result", "tool_use_id": "t", "content": content}]))
    }

    fn absorbed(text: &str) -> Value {
        json!({"type": "attachment", "attachment": {"type": "queued_command", "prompt": text}})
    }

    fn answer(stop_reason: &str) -> Value {
        json!({"type": "assistant", "message": {"role": "assistant", "model": "claude",
            "stop_reason": stop_reason, "content": [{"type": "text", "text": "noted"}]}})
    }

    fn end_of_turn() -> Value {
        json!({"type": "system", "subtype": "stop_hook_summary", "hookCount": 1})
    }

    fn with(mut entry: Value, more: &Value) -> Value {
        let more = more.as_object().unwrap().clone();
        entry.as_object_mut().unwrap().extend(more);
        entry
    }

    /// Returns where the message is, and whether a turn runs.
    fn read(entries: &[Value]) -> (Place, bool) {
        let text: String = entries.iter().map(|entry| format!("{entry}\n")).collect();
        // Read at once, and line by line.
        let (mut reading, mut at) = (Reading::default(), Place::default());
        reading
            .read(text.as_bytes(), &mut [(MARK, &mut at)])
            .unwrap();
        let (mut again, mut place) = (Reading::default(), Place::default());
        for line in text.split_inclusive('\n') {
            let has_grown = again.read(line.as_bytes(), &mut [(MARK, &mut place)]);
            assert!(has_grown.unwrap());
        }
        assert_eq!((&reading, at), (&again, place));
        assert_eq!(reading.offset, text.len() as u64);
        (at, reading.is_turn_running)
    }

    #[track_caller]
    fn check(entries: &[Value], place: Place, is_turn_running: bool) {
        assert_eq!(read(entries), (place, is_turn_running));
    }

    #[test]
    fn only_an_answer_is_a_receipt() {
        let told = message(MARK);
        check(&[], Place::Nowhere, false);
        check(&[enqueue(&told)], Place::Queued, false);
        let begun = [enqueue(&told), dequeue(), user(told.as_str())];
        check(&begun[..2], Place::Removed, false);
        check(&begun, Place::Unanswered, true);
        let answered = [&begun[..], &[answer("end_turn")]].concat();
        check(&answered, Place::Answered, false);
        check(
            &[user(text(&told)), answer("tool_use")],
            Place::Answered,
            true,
        );
        // Given between two steps of a turn.
        let turn = [
            user("go"),
            answer("tool_use"),
            enqueue(&told),
            remove(&told),
            tool_result("ok"),
        ];
        check(&turn[..3], Place::Queued, true);
        check(&turn, Place::Removed, true);
        let absorbed = [&turn[..], &[absorbed(&told)]].concat();
        check(&absorbed, Place::Unanswered, true);
        let answered = [&absorbed[..], &[answer("end_turn"), end_of_turn()]].concat();
        check(&answered, Place::Answered, false);
        // A copy in the transcript of a resumed conversation changes nothing.
        check(
            &[&answered[..], &[user(told.as_str())]].concat(),
            Place::Answered,
            true,
        );
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let told = message(MARK);
        let (told, other) = (user(told.as_str()), user(message("(tmux-task e:77)")));
        // Before the message, for another message, or of a subagent.
        check(&[answer("end_turn"), told.clone()], Place::Unanswered, true);
        check(&[other, answer("end_turn")], Place::Nowhere, false);
        let of_subagent = with(answer("tool_use"), &json!({"isSidechain": true}));
        check(&[told.clone(), of_subagent], Place::Unanswered, true);
        // Interrupted, until the model answers something later.
        let stopped = [told.clone(), interrupted()];
        check(&stopped, Place::Unanswered, false);
        let later = [&stopped[..], &[user("hello"), answer("end_turn")]].concat();
        check(&later, Place::Answered, false);
        // The client's own words.
        let error = with(answer("stop_sequence"), &json!({"isApiErrorMessage": true}));
        check(&[told.clone(), error], Place::Unanswered, false);
        let words = json!({"type": "assistant", "message": {"model": "<synthetic>",
            "content": [{"type": "text", "text": "No response requested."}]}});
        check(&[told.clone(), words], Place::Unanswered, false);
        // Records that are not of the conversation.
        let informational = json!({"type": "system", "subtype": "informational",
            "content": message(MARK)});
        check(&[informational, answer("end_turn")], Place::Nowhere, false);
        let blob = json!({"type": "api-request-blob", "message": {"content": message(MARK)}});
        check(&[blob, answer("end_turn")], Place::Nowhere, false);
    }

    #[test]
    fn what_was_taken_out_of_the_queue_is_gone_until_the_conversation_has_it() {
        let told = message(MARK);
        check(&[enqueue(&told), remove(&told)], Place::Removed, false);
        let twice = [enqueue(&told), remove(&told), enqueue(&told)];
        check(&twice, Place::Queued, false);
        // While others are queued, an operation that names none took out one of them, maybe.
        let others = [enqueue("by hand"), enqueue(&told), dequeue()];
        check(&others, Place::Queued, false);
        let both = [&others[..], &[dequeue()]].concat();
        check(&both, Place::Removed, false);
        let popped = json!({"type": "queue-operation", "operation": "popAll",
            "content": "by hand"});
        check(
            &[enqueue(&told), enqueue("by hand"), popped],
            Place::Queued,
            false,
        );
    }

    #[test]
    fn a_mark_is_a_line_of_the_clients_message() {
        let quoted = format!("recent output:\n  {MARK}\n(tmux-task e:8)");
        check(&[user(quoted), answer("end_turn")], Place::Nowhere, false);
        let shown = message(MARK);
        check(
            &[tool_result(&shown), answer("end_turn")],
            Place::Nowhere,
            false,
        );
    }

    #[test]
    fn commands_and_summaries_begin_no_turn() {
        for text in [
            "<command-name>/clear</command-name>",
            "<local-command-caveat>below</local-command-caveat>",
            "<bash-input>ls</bash-input>",
        ] {
            check(&[user(text)], Place::Nowhere, false);
        }
        let summary = with(user("so far"), &json!({"isCompactSummary": true}));
        let [go, summary] = &[user("go"), summary];
        check(slice::from_ref(summary), Place::Nowhere, false);
        check(&[go.clone(), summary.clone()], Place::Nowhere, true);
        let ended = json!({"type": "system", "subtype": "turn_duration"});
        check(&[user("go"), ended], Place::Nowhere, false);
    }

    #[test]
    fn a_line_is_read_when_it_is_complete_and_no_longer_than_the_limit() {
        let line = format!("{}\n", user(message(MARK)));
        let (mut reading, mut at) = (Reading::default(), Place::default());
        let cut = &line.as_bytes()[..line.len() - 1];
        assert!(!reading.read(cut, &mut [(MARK, &mut at)]).unwrap());
        assert_eq!((reading.offset, at), (0, Place::Nowhere));
        let long = format!(
            "{}\n",
            user("x".repeat(2 * usize::try_from(MAX_LINE).unwrap()))
        );
        let text = format!("no JSON\n{{\"type\":1}}\n{long}{line}");
        assert!(
            reading
                .read(text.as_bytes(), &mut [(MARK, &mut at)])
                .unwrap()
        );
        assert_eq!((reading.offset, at), (text.len() as u64, Place::Unanswered));
    }
}
