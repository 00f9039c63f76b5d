//! Typing into tasks.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::session_link::SessionLink;
use crate::clock;
use crate::model::*;
use crate::process;
use crate::rules::wire::{ExplainedState, Explanation, SecretText, SendRequest, TypedInput};
use crate::session::Typing;
use crate::tmux::{self, PaneView, PromptPlace, TypingResult};

/// Types what can be typed now into a task, or fails. If something is left, `typing` says when to go on.
///
/// If the request names the prompt that it answers, the kernel is asked whether the prompt still
/// waits for an answer, and it is typed by the same line that checks that the prompt is still there.
pub(super) async fn type_into_task(
    link: &mut SessionLink,
    typing: &mut Typing,
) -> Result<(), Error> {
    let server = link.server.clone();
    let connection = &mut link.connection();
    typing.progress.due = None;
    let task = Arc::clone(&typing.task);
    let explanation = typing.explanation.as_deref();
    let request = &typing.request;
    let label = format!("{} ({})", task.window, task.name);
    let pane = task.pane.filter(|_| task.is_alive());
    let pane = pane.ok_or_else(|| ended(&label))?;
    if request.is_guarded && !typing.progress.has_begun {
        guard(request, explanation, &task)?;
    }
    if let TypedInput::Keys(keys) = &request.input
        && let Some(unknown) = keys.iter().find(|key| !tmux::is_key(key))
    {
        let message = format!("`{unknown}` is not a key that tmux knows");
        return Err(Error::failed(message));
    }
    let judged = request.if_prompt.as_ref();
    let judged = judged.map(|expected| check_prompt(expected, explanation, &label));
    let judged = judged.transpose()?;
    let mut examinations = Examinations::new(Instant::now());
    loop {
        let view = PaneView::read(connection, pane).await?;
        if view.tty.is_empty() || (typing.progress.has_begun && !view.is_of(task.pid)) {
            // A program that has read the answer and ended has no use for the Enter after it.
            let is_enter = matches!(&request.input, TypedInput::Keys(keys) if *keys == ["Enter"]);
            if typing.progress.has_begun && is_enter {
                return Ok(());
            }
            return Err(ended(&label));
        }
        let tty = Path::new(&view.tty);
        let examined = process::examine(task.pid.unwrap_or_default(), tty);
        let terminal = examined.evidence.as_deref();
        let is_canonical = terminal.and_then(|terminal| terminal.canonical);
        let ttys = [tty, &*examined.tty];
        let is_unread = ttys.map(process::has_unread_input).contains(&Some(true));
        let answered = parse(view.answered());
        let asked = AskedQuestion {
            pid: task.pid.unwrap_or_default(),
            read: terminal.and_then(|terminal| terminal.read),
            screen: view.digest(),
        };
        // The prompt may have changed, or may change before the answer is typed.
        let shown = judged.and_then(|explanation| view.find(place_of(explanation, &task)?));
        if judged.is_some() && shown.is_none() {
            return Err(changed(&label, &view));
        }
        let stopped = terminal.and_then(|terminal| terminal.stopped);
        // A key may end it.
        let needs_reader = judged.is_some() || has_text(&request.input);
        if needs_reader && stopped.is_some_and(Stop::is_in_background) {
            let error = refused(&label, "is stopped in the background");
            return Err(error.with_hint(Stop::ADVICE));
        }
        if judged.is_some() && stopped == Some(Stop::BySignal) {
            let why = "is stopped by a signal and does not read what is typed";
            return Err(refused(&label, why).with_hint(
                "`kill -CONT` with the pid of its program continues it; without --if-prompt it is \
                 typed all the same",
            ));
        }
        check_text(request, terminal, &task)?;
        let takes_keys = is_canonical == Some(false);
        let now = clock::now();
        let typed_ago = answered.map(|answered| now.wall.abs_diff(answered.at));
        if takes_keys && typing.progress.must_wait(is_unread, typed_ago, now.mono) {
            return Ok(());
        }
        if let Some(explanation) = judged {
            let moment = Moment {
                asked,
                terminal,
                has_unread_input: is_unread,
                answered,
            };
            match examinations.judge(explanation, &moment, Instant::now()) {
                Readiness::Ready => {}
                Readiness::Doubtful => {
                    // The kernel reports neither a new read call nor that input was read.
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                Readiness::AsksNothing => return Err(asks_nothing(&label)),
                Readiness::Answered => {
                    let why = "was answered already and has not asked again";
                    return Err(refused(&label, why).with_hint(
                        "`tmux-task wait NAME --input` waits for its next question; without \
                         --if-prompt it is typed all the same",
                    ));
                }
            }
        }
        let (part, rest) = typing.next_part(!takes_keys || is_unread);
        let ends_question = text_of(&part.input).is_none_or(|text| {
            // In line mode, a text without a line end is only the beginning of an answer.
            part.enter || is_canonical != Some(true) || text.contains(['\n', '\r'])
        });
        let at = clock::now().wall;
        let answers = ends_question.then(|| AnsweredQuestion { asked, at }.to_string());
        let (input, then_enter) = (&part.input, part.enter);
        let (only_if, answers) = (shown.as_ref(), answers.as_deref());
        let typed = tmux::type_into(
            connection, &server, pane, input, then_enter, only_if, answers,
        );
        match typed.await? {
            TypingResult::Typed => {
                let has_answered = answers.is_some();
                typing.typed(rest, has_answered, Instant::now());
                return Ok(());
            }
            TypingResult::Changed if examinations.are_over(Instant::now()) => {
                return Err(changed(&label, &view));
            }
            // The next view shows what is there instead. The pause is for a screen that changes all the time.
            TypingResult::Changed => tokio::time::sleep(PAUSE).await,
            TypingResult::InputOff => {
                let what = format!("input to the pane of task {label} is switched off in tmux");
                let error = Error::failed(format!("{what}; nothing was typed"));
                let hint = format!("`tmux select-pane -e -t {pane}` switches it on again");
                return Err(error.with_hint(hint));
            }
        }
    }
}

fn ended(label: &str) -> Error {
    Error::failed(format!("task {label} has ended"))
}

fn asks_nothing(label: &str) -> Error {
    Error::failed(format!("task {label} is not asking for input"))
}

/// Returns the error that the prompt disappeared before the answer was typed.
fn changed(label: &str, view: &PaneView) -> Error {
    let now = match &*view.present_line() {
        "" => String::new(),
        line => format!(", its line is now: {line}"),
    };
    refused(label, &format!("no longer asks that{now}"))
}

fn refused(label: &str, why: &str) -> Error {
    Error::failed(format!("task {label} {why}; nothing was typed"))
}

/// Refuses a secret that would be visible, a guarded text that would not be, and a line that is too long.
fn check_text(
    request: &SendRequest,
    terminal: Option<&TtyEvidence>,
    task: &Task,
) -> Result<(), Error> {
    let echo = terminal.and_then(|terminal| terminal.echo);
    let is_line = terminal.and_then(|terminal| terminal.canonical) == Some(true);
    if request.is_guarded && has_text(&request.input) && echo == Some(false) && is_line {
        return Err(secret(task, ""));
    }
    let is_secret = matches!(request.input, TypedInput::Secret(_));
    if request.if_prompt.is_some() && is_secret && echo == Some(true) {
        let label = format!("{} ({})", task.window, task.name);
        return Err(refused(&label, "shows what is typed")
            .with_hint("without --secret it is typed all the same"));
    }
    if let Some(text) = text_of(&request.input).filter(|_| is_line) {
        let longest = text.split(['\n', '\r']).map(str::len).max().unwrap_or(0);
        if longest > process::MAX_LINE {
            let (name, most) = (&task.name, process::MAX_LINE);
            return Err(Error::failed(format!(
                "the terminal of task {name} takes lines of at most {most} bytes, not {longest}; \
                 nothing was typed"
            )));
        }
    }
    Ok(())
}

fn text_of(input: &TypedInput) -> Option<&str> {
    match input {
        TypedInput::Text(text) | TypedInput::Secret(SecretText(text)) => Some(text),
        TypedInput::Keys(_) => None,
    }
}

/// Returns what was judged of the prompt that is to be answered, if the task shows that prompt.
fn check_prompt<'a>(
    expected: &str,
    explanation: Option<&'a Explanation>,
    label: &str,
) -> Result<&'a Explanation, Error> {
    let prompt = explanation.and_then(|explanation| Some((explanation, prompt_of(explanation)?)));
    let (explanation, prompt) = prompt.ok_or_else(|| asks_nothing(label))?;
    if prompt.trim() == expected.trim() || is_same_except_signs(prompt, expected) {
        return Ok(explanation);
    }
    let message = format!("task {label} asks something else{}", colon(prompt));
    Err(Error::failed(message))
}

/// Refuses a text that the prompt shows to be a secret, and an answer that does not name its prompt.
fn guard(
    request: &SendRequest,
    explanation: Option<&Explanation>,
    task: &Task,
) -> Result<(), Error> {
    let Some(explanation) = explanation else {
        return Ok(());
    };
    let prompt = prompt_of(explanation);
    let kind = explanation.prompt_kind;
    let is_secret = AnswerBy::of(kind, explanation.secret == Some(true)) == AnswerBy::Secret;
    let terminal = explanation.terminal.as_ref();
    let is_hidden = terminal
        .is_some_and(|terminal| terminal.echo == Some(false) && terminal.canonical == Some(true));
    if has_text(&request.input) && (prompt.is_some() && is_secret || is_hidden) {
        return Err(secret(task, prompt.unwrap_or_default()));
    }
    let (message, hint) = match (prompt, &request.if_prompt) {
        (Some(""), None) => (
            format!("{} asks for input and shows no question", task.name),
            "give the empty text as the prompt",
        ),
        (Some(prompt), None) => (
            format!("{} asks: {prompt}", task.name),
            "name this as the prompt",
        ),
        (Some(_) | None, _) => return Ok(()),
    };
    let hint = format!("nothing was typed; to answer, {hint}");
    Err(Error::failed(message).with_hint(hint))
}

/// Returns the error that the text would be a secret. The prompt is empty if the task shows none.
fn secret(task: &Task, prompt: &str) -> Error {
    let (task, prompt) = (&task.name, colon(prompt));
    let error = Error::failed(format!(
        "{task} asks for a secret{prompt}; nothing was typed"
    ));
    let hint = format!("ask the user to type it: `tmux-task send {task} --secret`, or in tmux");
    error.with_hint(hint)
}

fn colon(prompt: &str) -> String {
    match prompt {
        "" => String::new(),
        prompt => format!(": {prompt}"),
    }
}

/// Whether it has characters that a secret could consist of: a key such as C-c or Escape has none.
fn has_text(input: &TypedInput) -> bool {
    match input {
        TypedInput::Text(_) | TypedInput::Secret(_) => true,
        TypedInput::Keys(keys) => keys.iter().any(|key| key.chars().count() == 1),
    }
}

fn prompt_of(explanation: &Explanation) -> Option<&str> {
    explanation.prompt.as_deref().filter(|_| explanation.asks)
}

/// Returns where the prompt was when it was judged.
fn place_of<'a>(explanation: &'a Explanation, task: &Task) -> Option<PromptPlace<'a>> {
    let cursor = task.screen.cursor?;
    let asking = explanation.line.as_deref().zip(explanation.line_y);
    Some(PromptPlace {
        asking: asking.map(|(line, line_y)| (line, i64::from(line_y) - i64::from(cursor.y))),
        cursor_x: cursor.x,
        cursor_y: cursor.y.saturating_sub(task.screen.top.unwrap_or(0)),
    })
}

// Whether a question may be answered: each takes one answer.
//
// What was asked when something was typed is stored on the pane, by the line that types it: so every process knows it,
// also of two answers that are on their way at the same time. A program asks again only after its `read` has returned,
// so the call tells two questions apart where the screen shows the same. Where no call is known, because the program
// polls, only the screen does. What a new call asks may still be on its way to the screen, so a question that was not
// reported must have been there for a while.

/// How long a question must have been there that was not reported yet.
const SETTLED: Duration = Duration::from_millis(250);

const PAUSE: Duration = Duration::from_millis(50);

/// How long a program may seem to do something else, in line mode: it may handle a signal.
const AWAY: Duration = Duration::from_millis(100);

/// When a question that is in doubt is given up.
const GIVEN_UP: Duration = Duration::from_secs(1);

/// What identifies a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AskedQuestion {
    /// The process that tmux started in the pane.
    pid: u32,
    /// The call in which a program reads the answer, where it is known.
    read: Option<ReadCall>,
    screen: u64,
}

/// What was asked when something was typed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AnsweredQuestion {
    asked: AskedQuestion,
    at: Millis,
}

impl AskedQuestion {
    /// Whether it may be the same as one that was answered.
    fn may_be(&self, answered: &Self) -> bool {
        let is_same_screen = self.screen == answered.screen;
        self.pid == answered.pid
            && match (answered.read, self.read) {
                (Some(before), Some(now)) if before.thread != now.thread => false,
                (Some(before), Some(now)) if now.goes_on_from(&before) => true,
                // Without a count of bytes, a signal may have interrupted the call.
                (Some(before), Some(now)) if before.bytes.is_some() && now.bytes.is_some() => {
                    !now.has_read_since(&before)
                }
                _ => is_same_screen,
            }
    }
}

impl fmt::Display for AnsweredQuestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, at } = self;
        let AskedQuestion { pid, read, screen } = asked;
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        let thread = number(read.map(|read| u64::from(read.thread)));
        let switches = number(read.map(|read| read.switches));
        let bytes = number(read.and_then(|read| read.bytes));
        write!(f, "{pid}.{thread}.{switches}.{bytes}.{screen}.{at}")
    }
}

/// Returns the question that a pane's note is about; `None` where it has none.
fn parse(note: &str) -> Option<AnsweredQuestion> {
    let words: Vec<&str> = note.split('.').collect();
    let [pid, thread, switches, bytes, screen, at] = words[..] else {
        return None;
    };
    let read = thread.parse().ok().zip(switches.parse().ok());
    Some(AnsweredQuestion {
        asked: AskedQuestion {
            pid: pid.parse().ok()?,
            read: read.map(|(thread, switches)| ReadCall {
                thread,
                switches,
                bytes: bytes.parse().ok(),
            }),
            screen: screen.parse().ok()?,
        },
        at: at.parse().ok()?,
    })
}

/// What is known of a question at the moment of typing.
#[derive(Debug, Clone, Copy)]
struct Moment<'a> {
    asked: AskedQuestion,
    terminal: Option<&'a TtyEvidence>,
    /// Whether the terminal has input that no program has read.
    has_unread_input: bool,
    answered: Option<AnsweredQuestion>,
}

/// Whether a question may be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// Another examination, after [`PAUSE`], shows more.
    Doubtful,
    AsksNothing,
    Answered,
}

/// The examinations of one question until it may be answered.
#[derive(Debug)]
struct Examinations {
    began: Instant,
    /// The call of the last one, and since when it has been the same.
    same: Option<(Option<ReadCall>, Instant)>,
}

impl Examinations {
    fn new(now: Instant) -> Self {
        Self {
            began: now,
            same: None,
        }
    }

    fn are_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began) >= GIVEN_UP
    }

    /// Judges whether the question that was judged to be `explanation`, and is on the screen, may be answered.
    fn judge(&mut self, explanation: &Explanation, moment: &Moment<'_>, now: Instant) -> Readiness {
        let waited = now.saturating_duration_since(self.began);
        if !takes_input(moment.terminal, explanation) {
            self.same = None;
            let is_line = moment.terminal.and_then(|terminal| terminal.canonical) == Some(true);
            let limit = if is_line { AWAY } else { GIVEN_UP };
            return match waited >= limit {
                true => Readiness::AsksNothing,
                false => Readiness::Doubtful,
            };
        }
        let AskedQuestion { pid, read, .. } = moment.asked;
        let answered = moment.answered.filter(|answered| answered.asked.pid == pid);
        if answered.is_some_and(|answered| moment.asked.may_be(&answered.asked)) {
            return Readiness::Answered;
        }
        let same = self.same.filter(|(same, _)| *same == read);
        let (_, since) = *self.same.insert(same.unwrap_or((read, now)));
        let is_settled = now.saturating_duration_since(since) >= SETTLED;
        let is_later = |reported: Millis| answered.is_none_or(|answered| reported > answered.at);
        let is_reported = || {
            explanation.state == ExplainedState::Waiting
                && explanation.read == read
                && explanation.waiting_since.is_some_and(is_later)
        };
        if !moment.has_unread_input && (is_settled || is_reported()) {
            Readiness::Ready
        } else if self.are_over(now) {
            Readiness::Answered
        } else {
            Readiness::Doubtful
        }
    }
}

/// Whether a program takes input now, unless all seemed to do something else also when the question was judged.
fn takes_input(terminal: Option<&TtyEvidence>, explanation: &Explanation) -> bool {
    let Some(terminal) = terminal else {
        return true;
    };
    match terminal.reader {
        TtyUse::Reading | TtyUse::Polling | TtyUse::Unknown => true,
        TtyUse::Elsewhere => match &explanation.terminal {
            Some(judged) => judged.reader == TtyUse::Elsewhere,
            None => terminal.canonical == Some(false),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::{send_request, task};

    fn call(thread: u32, switches: u64, bytes: Option<u64>) -> Option<ReadCall> {
        Some(ReadCall {
            thread,
            switches,
            bytes,
        })
    }

    fn asked(read: Option<ReadCall>, screen: u64) -> AskedQuestion {
        AskedQuestion {
            pid: 7,
            read,
            screen,
        }
    }

    fn evidence(reader: TtyUse, canonical: bool) -> TtyEvidence {
        TtyEvidence {
            reader,
            canonical: Some(canonical),
            ..TtyEvidence::default()
        }
    }

    /// A question that was reported at 100, while a program read it in this call.
    fn reported(terminal: &TtyEvidence, read: Option<ReadCall>) -> Explanation {
        let task = task("@1#1 a running : Go? [y/N]");
        Explanation {
            state: ExplainedState::Waiting,
            waiting_since: Some(100),
            read,
            ..Explanation::new(&task, None, Some(terminal))
        }
    }

    #[test]
    fn guarded_input_names_its_prompt_and_is_no_secret() {
        let task = task("@1#1 a running pid=7");
        let explanation = |asks: bool, secret, hidden: bool| {
            let terminal = TtyEvidence {
                echo: Some(!hidden),
                ..evidence(TtyUse::Reading, true)
            };
            Explanation {
                state: ExplainedState::Waiting,
                asks,
                prompt: asks.then(|| "Proceed?".to_owned()),
                secret: Some(secret),
                ..Explanation::new(&task, None, Some(&terminal))
            }
        };
        let check = |explanation: &Explanation,
                     input: &TypedInput,
                     prompt: Option<&str>,
                     expected: Option<&str>| {
            let request = SendRequest {
                if_prompt: prompt.map(str::to_owned),
                is_guarded: true,
                ..send_request("a", input.clone())
            };
            let refused = guard(&request, Some(explanation), &task).err();
            assert_eq!(refused.map(|error| error.to_string()).as_deref(), expected);
        };
        let text = TypedInput::Text("y".to_owned());
        let interrupt = TypedInput::Keys(vec!["C-c".to_owned()]);
        let spelt = TypedInput::Keys(vec!["h".to_owned(), "Enter".to_owned()]);
        let asks = explanation(true, false, false);
        check(&asks, &text, None, Some("a asks: Proceed?"));
        check(&asks, &text, Some("Proceed?"), None);
        let silent = Explanation {
            prompt: Some(String::new()),
            ..asks.clone()
        };
        let no_question = "a asks for input and shows no question";
        check(&silent, &text, None, Some(no_question));
        check(&explanation(false, false, false), &text, None, None);
        let shown = Some("a asks for a secret: Proceed?; nothing was typed");
        let hidden = Some("a asks for a secret; nothing was typed");
        for (explanation, refused) in [
            (explanation(true, true, true), shown),
            (explanation(true, true, false), shown),
            (explanation(false, false, true), hidden),
        ] {
            check(&explanation, &text, Some("Proceed?"), refused);
            check(&explanation, &spelt, Some("Proceed?"), refused);
            check(&explanation, &interrupt, Some("Proceed?"), None);
        }
    }

    #[test]
    fn the_call_of_read_tells_two_questions_apart() {
        let answered = asked(call(1, 5, Some(10)), 3);
        for (read, screen, expected) in [
            // The same call, and one after a signal.
            (call(1, 5, Some(10)), 3, true),
            (call(1, 5, Some(10)), 4, true),
            (call(1, 6, Some(10)), 4, true),
            // The answer was read, also if nothing was printed.
            (call(1, 6, Some(12)), 3, false),
            (call(2, 1, Some(0)), 3, false),
            // Nothing but the screen is known.
            (call(1, 6, None), 3, true),
            (call(1, 6, None), 4, false),
            (None, 3, true),
            (None, 4, false),
        ] {
            let now = asked(read, screen);
            assert_eq!(now.may_be(&answered), expected, "{read:?} {screen}");
        }
        let polled = asked(None, 3);
        assert!(asked(call(1, 5, Some(10)), 3).may_be(&polled));
        assert!(!asked(call(1, 5, Some(10)), 4).may_be(&polled));
        let other_run = AskedQuestion { pid: 8, ..answered };
        assert!(!other_run.may_be(&answered));
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        for read in [None, call(1, 5, Some(10)), call(1, 5, None)] {
            let answered = AnsweredQuestion {
                asked: asked(read, u64::MAX),
                at: 1_700_000_000_000,
            };
            assert_eq!(parse(&answered.to_string()), Some(answered));
        }
        for note in ["", "1.2.3", "#(id).-.-.-.1.2", "1.-.-.-.x.2"] {
            assert_eq!(parse(note), None, "{note}");
        }
    }

    /// Judges a question that was reported in the first call at each of these examinations: the
    /// milliseconds, what the program does, and what follows. `first` reads in that call, `next` and `third`
    /// in later ones; `works` and `keys` read nothing.
    #[track_caller]
    fn check(
        answered: Option<(Option<ReadCall>, u64, Millis)>,
        has_unread_input: bool,
        steps: &[(u64, &str, Readiness)],
    ) {
        let reads = evidence(TtyUse::Reading, true);
        let explanation = reported(&reads, call(1, 5, Some(10)));
        let began = Instant::now();
        let mut examinations = Examinations::new(began);
        for (at, does, expected) in steps {
            let (reader, canonical, read) = match *does {
                "first" => (TtyUse::Reading, true, call(1, 5, Some(10))),
                "next" => (TtyUse::Reading, true, call(1, 6, Some(12))),
                "third" => (TtyUse::Reading, true, call(1, 7, Some(14))),
                "works" => (TtyUse::Elsewhere, true, None),
                _ => (TtyUse::Elsewhere, false, None),
            };
            let terminal = evidence(reader, canonical);
            let moment = Moment {
                asked: asked(read, 3),
                terminal: Some(&terminal),
                has_unread_input,
                answered: answered.map(|(read, screen, at)| AnsweredQuestion {
                    asked: asked(read, screen),
                    at,
                }),
            };
            let now = began + Duration::from_millis(*at);
            let readiness = examinations.judge(&explanation, &moment, now);
            assert_eq!(readiness, *expected, "{does} after {at} ms");
        }
    }

    #[test]
    fn a_question_is_answered_when_it_is_certain_and_once() {
        use Readiness::{Answered, AsksNothing, Doubtful, Ready};
        // A reported question, at once and once.
        check(None, false, &[(0, "first", Ready)]);
        // An answer before it was reported was another question's.
        let earlier = Some((call(1, 4, Some(8)), 2, 99));
        check(earlier, false, &[(0, "first", Ready)]);
        let this = Some((call(1, 5, Some(10)), 3, 101));
        check(this, false, &[(0, "first", Answered)]);
        // A program that works asks nothing.
        let works = [
            (0, "works", Doubtful),
            (99, "works", Doubtful),
            (100, "works", AsksNothing),
        ];
        check(None, false, &works);
        let keys = [(100, "keys", Doubtful), (1000, "keys", AsksNothing)];
        check(None, false, &keys);
        // It has handled a signal.
        check(None, false, &[works[0], (50, "first", Ready)]);
        // A new call is answered when what it asks is on the screen.
        for answered in [None, this] {
            let steps = [
                (0, "next", Doubtful),
                (249, "next", Doubtful),
                (250, "next", Ready),
            ];
            check(answered, false, &steps);
            let steps = [
                (0, "next", Doubtful),
                (200, "third", Doubtful),
                (400, "third", Doubtful),
                (450, "third", Ready),
            ];
            check(answered, false, &steps);
        }
        // One with unread input has an answer.
        let steps = [
            (0, "first", Doubtful),
            (900, "first", Doubtful),
            (1000, "first", Answered),
        ];
        check(None, true, &steps);
    }

    #[test]
    fn what_seemed_to_do_something_else_before_may_do_so_still() {
        let checks_keys = evidence(TtyUse::Elsewhere, false);
        let explanation = reported(&checks_keys, None);
        assert!(takes_input(Some(&checks_keys), &explanation));
        let now = evidence(TtyUse::Elsewhere, true);
        assert!(!takes_input(
            Some(&now),
            &reported(&evidence(TtyUse::Polling, true), None)
        ));
        assert!(takes_input(None, &explanation));
    }
}
