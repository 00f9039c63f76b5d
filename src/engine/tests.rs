mod deliveries;
mod events;
mod properties;
mod restarts;

use super::*;
use crate::model::test_notation::{describe, snapshot, task};

/// Drives an engine as the daemon does: what is due is delivered before each look.
struct Driver {
    engine: Engine,
    now: Now,
}

impl Driver {
    fn new(settings: Settings, memory: RestoredState) -> Self {
        let now = Now {
            mono: Instant::now(),
            wall: 0,
        };
        Self {
            engine: Engine::new(settings, memory, now),
            now,
        }
    }

    /// A step is a snapshot, at the time that a leading `+20` (milliseconds) moves on to, or
    /// `+20` alone, or `deliver`, or `tried 4`: the disk has had the records up to that number.
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
            _ => self.engine.look(snapshot(step), self.now),
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
    let mark = |level: &Level| if *level == Level::Warning { "!" } else { "" };
    let list = |events: &[Seq]| {
        let seqs: Vec<String> = events.iter().map(ToString::to_string).collect();
        seqs.join(" ")
    };
    let what = match &record.body {
        Body::Event(event) => describe(event),
        Body::Notice {
            level,
            text,
            events,
            ..
        } if events.is_empty() => {
            format!("notice{} {text}", mark(level))
        }
        Body::Notice { level, events, .. } => format!("notice{} of {}", mark(level), list(events)),
        Body::FollowUp { level, events, .. } => {
            format!("followUp{} of {}", mark(level), list(events))
        }
    };
    format!("{} {what}", record.seq)
}

#[track_caller]
fn check_from(settings: Settings, memory: RestoredState, steps: &[(&str, &[&str])]) {
    let mut driver = Driver::new(settings, memory);
    for (index, (step, expected)) in steps.iter().enumerate() {
        assert_eq!(driver.step(step), *expected, "step {index}: `{step}`");
    }
}

/// Snapshots as `replay` takes them: what each brings is delivered with it. Counts are left out.
#[track_caller]
fn check(looks: &[(&str, &[&str])]) {
    let mut driver = Driver::new(Settings::REPLAY, RestoredState::default());
    for (index, (look, expected)) in looks.iter().enumerate() {
        let mut effects = driver.step(look);
        effects.extend(driver.step("deliver"));
        effects.retain(|effect| !effect.starts_with("tmux:") && !effect.starts_with("status"));
        assert_eq!(effects, *expected, "look {index}: `{look}`");
    }
}

/// Looks of a daemon, with all their effects.
#[track_caller]
fn check_live(steps: &[(&str, &[&str])]) {
    check_from(Settings::LIVE, RestoredState::default(), steps);
}
