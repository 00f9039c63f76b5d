mod deliveries;
mod events;
mod properties;
mod restarts;

use super::*;
use crate::model::test_notation::{at, describe, expectation, prompt, snapshot, stories, task};

/// Drives an engine as the daemon does: what is due is delivered before each look.
struct Driver {
    engine: Engine,
    now: Now,
}

impl Driver {
    fn new(settings: Settings, memory: RestoredState) -> Self {
        let now = at(0);
        Self {
            engine: Engine::new(settings, memory, now),
            now,
        }
    }

    /// A step is a snapshot, at the time that a leading `+20` (milliseconds) moves on to, or
    /// `+20` alone, or one of these:
    ///
    /// ```text
    /// deliver
    /// tried 4              the disk has had the records up to that number
    /// will wait a pi:1     a command of that owner is about to wait for `a`, within 5 s
    /// waits a pi:1         it has begun
    /// will read pi:1 6000  that owner is about to read, within so many milliseconds
    /// has read pi:1 1 2    it has read these records
    /// ```
    fn step(&mut self, step: &str) -> Vec<String> {
        let mut step = step.trim();
        if let Some(rest) = step.strip_prefix('+') {
            let (ms, rest) = rest.split_once(' ').unwrap_or((rest, "wait"));
            self.now = self.now.after(Duration::from_millis(ms.parse().unwrap()));
            step = rest;
        }
        let effects = match step {
            "wait" => self.engine.deliver_due(self.now),
            "deliver" => self.engine.deliver(self.now),
            tried if tried.starts_with("tried ") => {
                self.engine.tried(tried["tried ".len()..].parse().unwrap());
                self.engine.deliver_due(self.now)
            }
            _ => match step.split(' ').collect::<Vec<_>>()[..] {
                ["will", "wait", task, ref owner @ ..] => {
                    let expected = ExpectedWait {
                        task: task.to_owned(),
                        owner: owner.first().map(ToString::to_string),
                        until: self.now.mono + Duration::from_secs(5),
                    };
                    self.engine.expect_wait(expected, self.now);
                    Vec::new()
                }
                ["waits", task, ref owner @ ..] => {
                    self.engine.wait_begun(task, owner.first().copied());
                    Vec::new()
                }
                ["will", "read", owner, ms] => {
                    let until = self.now.mono + Duration::from_millis(ms.parse().unwrap());
                    self.engine.expect_reader(owner.to_owned(), until, self.now);
                    Vec::new()
                }
                ["has", "read", owner, ref seqs @ ..] => {
                    let seqs: Vec<Seq> = seqs.iter().map(|seq| seq.parse().unwrap()).collect();
                    self.engine.note_seen(owner, &seqs, self.now);
                    Vec::new()
                }
                ["gives", "up", window, seq] => {
                    let look = self.engine.last_look().unwrap();
                    let mut task = (*look.tasks[&window.parse().unwrap()]).clone();
                    let effects = self.engine.note_unrestartable(&task, self.now);
                    task.settings.restarts = None;
                    let kind = EventKind::Exited { replaced: None };
                    let seq = seq.parse().unwrap();
                    self.engine
                        .queue_delivery(seq, Event { kind, task }, self.now);
                    effects
                }
                _ => self.engine.look(snapshot(step), self.now),
            },
        };
        effects.iter().map(describe_effect).collect()
    }
}

/// Records of one write are joined by ` & `: `1 started @1 & 2 notify @1 x1`,
/// `3 followUp! of 1 2`, `status 1 running 0 waiting 0 dead`.
fn describe_effect(effect: &EngineEffect) -> String {
    match effect {
        EngineEffect::Append(records) => {
            let records: Vec<String> = records.iter().map(describe_record).collect();
            records.join(" & ")
        }
        EngineEffect::Status(counts) => match counts.line() {
            None => "status gone".to_owned(),
            Some(line) => format!("{line}, {} waiting, {} dead", counts.waiting, counts.dead),
        },
    }
}

fn describe_record(record: &Record) -> String {
    let what = match &record.body {
        Body::Event(event) => describe(event),
        Body::Notice { text, events, .. } if events.is_empty() => format!("notice {text}"),
        Body::Notice { .. } | Body::FollowUp { .. } => describe_delivery(&record.body).0,
    };
    format!("{} {what}", record.seq)
}

/// `notice pi:1 of 1 2` or `followUp! of 3`, and the text; `!` is a warning, the owner is left out where it
/// is for everybody, and so is the header of messages.
pub(super) fn describe_delivery(body: &Body) -> (String, &str) {
    let (kind, level, owner, events, text) = match body {
        Body::Event(_) => panic!("no delivery"),
        Body::Notice {
            level,
            text,
            events,
            owner,
        } => ("notice", level, owner, events, text.as_str()),
        Body::FollowUp {
            level,
            message,
            events,
            owner,
            ..
        } => {
            let text = message.content.split_once('\n').expect("a header").1;
            ("followUp", level, owner, events, text)
        }
    };
    let mark = if *level == Level::Warning { "!" } else { "" };
    let owner = owner.iter().map(|owner| format!(" {owner}"));
    let of: String = events.iter().map(|seq| format!(" {seq}")).collect();
    (
        format!("{kind}{mark}{} of{of}", owner.collect::<String>()),
        text,
    )
}

/// Stories of steps, each with its effects: `step => effect; effect`.
fn check_from(settings: Settings, memory: &RestoredState, text: &str) {
    for (heading, lines) in stories(text) {
        let mut driver = Driver::new(settings, memory.clone());
        for line in lines {
            let (step, expected) = expectation(&line);
            assert_eq!(driver.step(step), expected, "{heading}: `{step}`");
        }
    }
}

/// Snapshots as `replay` takes them: what each brings is delivered with it. Counts are left out.
fn check(text: &str) {
    for (heading, lines) in stories(text) {
        let mut driver = Driver::new(Settings::REPLAY, RestoredState::default());
        for line in lines {
            let (look, expected) = expectation(&line);
            let mut effects = driver.step(look);
            effects.extend(driver.step("deliver"));
            effects.retain(|effect| !effect.starts_with("tmux:") && !effect.starts_with("status"));
            assert_eq!(effects, expected, "{heading}: `{look}`");
        }
    }
}

/// Looks of a daemon, with all their effects.
fn check_live(text: &str) {
    check_from(Settings::LIVE, &RestoredState::default(), text);
}
