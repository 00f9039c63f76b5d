//! Consumers of the feed that acknowledge some of their records, are killed and restarted.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::support::{Dice, World, pid};

/// One consumer.
pub(super) struct Consumer {
    pub(super) name: String,
    number: u64,
    seed: u64,
    state: Mutex<State>,
}

/// What it has had.
#[derive(Default)]
pub(super) struct State {
    /// By number, as it came first.
    pub(super) records: BTreeMap<u64, Value>,
    /// The last record that it has acknowledged.
    pub(super) sent: u64,
    /// The last acknowledgement that was confirmed.
    pub(super) confirmed: u64,
    /// How many streams it has had.
    pub(super) n_streams: usize,
    /// What must not have happened.
    pub(super) faults: Vec<String>,
    /// What its commands said on stderr.
    pub(super) complaints: BTreeMap<String, usize>,
    /// The process that reads now.
    reader: Option<i64>,
    /// Acknowledge every record, and what was not acknowledged yet.
    acknowledges_all: bool,
    is_over: bool,
}

impl State {
    /// The number after that of the last record.
    pub(super) fn next(&self) -> u64 {
        self.records.keys().next_back().map_or(1, |last| last + 1)
    }
}

impl Consumer {
    pub(super) fn new(number: usize, seed: u64) -> Self {
        Self {
            name: format!("consumer{number}"),
            number: number as u64,
            seed,
            state: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number after that of the last record that it has had.
    pub(super) fn next(&self) -> u64 {
        self.state().next()
    }

    /// Reads one stream after another, until it is stopped.
    pub(super) fn read(&self, world: &World) {
        let mut dice = Dice::new(self.seed, self.number);
        while !self.state().is_over {
            let mut command = world.command(World::program());
            command
                .args(["feed", "--follow", "--consumer", &self.name])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            {
                let mut state = self.state();
                state.reader = Some(child.id().into());
                state.n_streams += 1;
                // It may have been stopped just now.
                if state.is_over {
                    drop(child.kill());
                }
            }
            self.read_stream(&mut child, &mut dice);
            let mut state = self.state();
            // Before its number can be another process's.
            state.reader = None;
            let complaint = BufReader::new(child.stderr.take().unwrap()).lines().next();
            drop(child.wait());
            if let Some(Ok(line)) = complaint {
                *state.complaints.entry(line).or_default() += 1;
            }
        }
    }

    fn read_stream(&self, child: &mut Child, dice: &mut Dice) {
        let mut stdin = child.stdin.take().unwrap();
        let mut last = None;
        for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
            let Ok(line) = line else { return };
            let Ok(record) = serde_json::from_slice::<Value>(&line) else {
                // Its command was killed in the middle of a line.
                return;
            };
            let ack = self.take(record, &mut last, dice);
            if let Some(seq) = ack {
                let mut state = self.state();
                state.sent = state.sent.max(seq);
                drop(state);
                if writeln!(stdin, "{{\"ack\":{seq}}}").is_err() {
                    return;
                }
            }
        }
    }

    /// Notes a line of the stream; returns which record to acknowledge, if any.
    fn take(&self, record: Value, last: &mut Option<u64>, dice: &mut Dice) -> Option<u64> {
        let mut state = self.state();
        if let Some(acked) = record["acked"].as_u64() {
            if acked < state.confirmed || acked > state.sent {
                let fault = format!(
                    "confirmed {acked}, after {} and with {} sent",
                    state.confirmed, state.sent
                );
                state.faults.push(fault);
            }
            state.confirmed = acked;
            return None;
        }
        let Some(seq) = record["seq"].as_u64() else {
            if record["kind"] == "gap" {
                state.faults.push(format!("a gap: {record}"));
            }
            return None;
        };
        match *last {
            Some(before) if seq != before + 1 => {
                state.faults.push(format!("{seq} after {before}"));
            }
            // Confirmed acknowledgements are kept; others may be kept too, if their confirmation was lost.
            None if seq <= state.confirmed || seq > state.sent + 1 => {
                let fault = format!(
                    "a stream begins at {seq}, with {} confirmed and {} sent",
                    state.confirmed, state.sent
                );
                state.faults.push(fault);
            }
            Some(_) | None => {}
        }
        *last = Some(seq);
        match state.records.get(&seq) {
            Some(before) if *before != record => {
                let fault = format!("{seq} was {before} and is {record}");
                state.faults.push(fault);
            }
            Some(_) => {}
            None => drop(state.records.insert(seq, record)),
        }
        // What a killed reader had not passed on was acknowledged in vain.
        (dice.below(3) == 0 || state.acknowledges_all).then_some(seq)
    }

    /// From here on every record is acknowledged. The next stream begins with those that were not.
    pub(super) fn acknowledge_all(&self) {
        self.state().acknowledges_all = true;
        self.kill_reader();
    }

    /// Kills the process that reads; returns whether there was one.
    pub(super) fn kill_reader(&self) -> bool {
        // The lock keeps the process from being waited for.
        let state = self.state();
        let killed = state
            .reader
            .map(|reader| kill_process(pid(reader), Signal::KILL));
        matches!(killed, Some(Ok(())))
    }

    /// Ends it for good.
    pub(super) fn stop(&self) {
        self.state().is_over = true;
        self.kill_reader();
    }
}
