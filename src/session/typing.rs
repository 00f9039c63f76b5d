//! Typing that is under way. A program in line mode gets everything at once. Of those that read keys,
//! many take what one `read` returns as one key, and an Enter soon after a text as part of a paste.
//! They get a text, and each key, a while after what was typed before was read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::{SecretText, Task, TypedInput};
use crate::rules::wire::{Explanation, SendRequest};

/// How long a program may leave unread what was typed. Then it gets the rest at once.
const UNREAD_FOR: Duration = Duration::from_millis(400);

/// The pause until the next examination whether everything was read.
const CHECK: Duration = Duration::from_millis(20);

/// The time between a read and the next key. Codex takes an Enter within 120 ms as pasted.
const APART: Duration = Duration::from_millis(150);

/// What is left to type into a task.
#[derive(Debug, Clone)]
pub(crate) struct Typing {
    pub(crate) task: Arc<Task>,
    /// What was judged of its screen, if the request depends on that.
    pub(crate) explanation: Option<Box<Explanation>>,
    pub(crate) request: SendRequest,
    pub(crate) progress: Progress,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Progress {
    /// Whether a part of the request has been typed.
    pub(crate) has_begun: bool,
    /// Whether what was typed answers what the task asks.
    pub(crate) has_answered: bool,
    /// When it goes on; `None` if it may now, or is done.
    pub(crate) due: Option<Instant>,
    /// Since when it waits for the program to read.
    waits_since: Option<Instant>,
    /// Since when everything is read.
    read_since: Option<Instant>,
}

impl Progress {
    /// Whether a program that reads keys must not get the next one yet. `typed_ago` is how many
    /// milliseconds ago something was typed, by whatever request.
    pub(crate) fn must_wait(
        &mut self,
        is_unread: bool,
        typed_ago: Option<u64>,
        now: Instant,
    ) -> bool {
        let is_recent = typed_ago.is_some_and(|ago| Duration::from_millis(ago) < UNREAD_FOR);
        if self.waits_since.is_none() && !is_unread && !is_recent {
            return false;
        }
        let until = *self.waits_since.get_or_insert(now) + UNREAD_FOR;
        self.due = if is_unread {
            self.read_since = None;
            (now < until).then_some(now + CHECK)
        } else {
            let at = *self.read_since.get_or_insert(now) + APART;
            (now < at).then_some(at)
        };
        self.due.is_some()
    }
}

impl Typing {
    /// Returns what to type now, all of it or as much as may be read at once, and the keys after it.
    pub(crate) fn next_part(&self, is_all: bool) -> (SendRequest, Vec<String>) {
        let mut part = self.request.clone();
        let rest = match &mut part.input {
            _ if is_all => Vec::new(),
            TypedInput::Keys(keys) => keys.split_off(1.min(keys.len())),
            TypedInput::Text(text) | TypedInput::Secret(SecretText(text))
                if part.enter && !text.is_empty() =>
            {
                part.enter = false;
                vec!["Enter".to_owned()]
            }
            TypedInput::Text(_) | TypedInput::Secret(_) => Vec::new(),
        };
        (part, rest)
    }

    /// Notes that a part was typed, which may be an answer, and these keys are left.
    pub(crate) fn typed(&mut self, rest: Vec<String>, has_answered: bool, now: Instant) {
        self.progress = Progress {
            has_begun: true,
            has_answered: has_answered || self.progress.has_answered,
            due: (!rest.is_empty()).then_some(now + CHECK),
            waits_since: Some(now),
            read_since: None,
        };
        self.request.input = TypedInput::Keys(rest);
        self.request.if_prompt = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_key_waits_until_the_last_one_was_read_and_then_a_while() {
        // After how many milliseconds, whether something is unread, and the pause that follows.
        let check =
            |has_begun: bool, typed_ago: Option<u64>, steps: &[(u64, bool, Option<u64>)]| {
                let began = Instant::now();
                let mut progress = Progress {
                    waits_since: has_begun.then_some(began),
                    ..Progress::default()
                };
                for (after, is_unread, pause) in steps {
                    let now = began + Duration::from_millis(*after);
                    let must_wait = progress.must_wait(*is_unread, typed_ago, now);
                    assert_eq!(must_wait, pause.is_some(), "after {after} ms");
                    let due = pause.map(|pause| now + Duration::from_millis(pause));
                    assert_eq!(progress.due, due, "after {after} ms");
                }
            };
        // The first part, when nothing was typed just now.
        check(false, None, &[(0, false, None)]);
        check(false, Some(400), &[(0, false, None)]);
        // By another request, or by hand.
        check(
            false,
            Some(10),
            &[(0, false, Some(150)), (150, false, None)],
        );
        let unread = [
            (0, true, Some(20)),
            (20, false, Some(150)),
            (170, false, None),
        ];
        check(false, None, &unread);
        check(true, Some(0), &unread);
        // A part of it was read, and the program reads no more.
        let steps = [
            (20, false, Some(150)),
            (100, true, Some(20)),
            (399, true, Some(20)),
            (400, true, None),
        ];
        check(true, Some(0), &steps);
    }
}
