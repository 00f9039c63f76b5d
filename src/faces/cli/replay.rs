//! `replay`: runs the whole pure path without tmux.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;

use super::output::{self, Json};
use crate::model::{Context, Error, Now};
use crate::rules::engine::{Engine, EngineEffect, RestoredState, Settings};
use crate::rules::wire::SnapshotLine;

#[derive(Debug, Args)]
pub(super) struct Replay {
    /// The file of snapshots [default: standard input]
    pub(super) file: Option<PathBuf>,
    /// No effect: records are always JSON lines
    #[command(flatten)]
    json: Json,
}

pub(super) fn run(args: &Replay) -> Result<(), Error> {
    match args.file.as_ref().filter(|path| path.as_os_str() != "-") {
        None => replay(io::stdin().lock()),
        Some(path) => {
            let file = File::open(path)
                .map_err(|error| Error::of(&error).about(format!("replay {}", path.display())))?;
            replay(BufReader::new(file))
        }
    }
}

fn replay(input: impl BufRead) -> Result<(), Error> {
    let start = Instant::now();
    let mut engine = None;
    let mut context = Context {
        epoch: "replay".to_owned(),
        session_name: String::new(),
        session_id: String::new(),
        checkpoint: None,
    };
    let mut out = output::Results::new();
    for (index, line) in input.split(b'\n').enumerate() {
        let bad = |why: String| Error::failed(format!("line {}: {why}", index + 1));
        let line = line.map_err(|error| bad(error.to_string()))?;
        if line.trim_ascii().is_empty() {
            continue;
        }
        let snapshot = serde_json::from_slice::<SnapshotLine>(&line)
            .map_err(|error| error.to_string())
            .and_then(|line| line.to_snapshot())
            // The lines before a bad one have been processed, and are printed when this ends.
            .map_err(bad)?;
        context.session_name.clone_from(&snapshot.session);
        context.session_id.clone_from(&snapshot.session);
        let now = Now {
            mono: start,
            wall: snapshot.captured_at,
        };
        let engine = engine
            .get_or_insert_with(|| Engine::new(Settings::REPLAY, RestoredState::default(), now));
        let mut effects = engine.look(snapshot, now);
        effects.extend(engine.deliver(now));
        for effect in effects {
            match effect {
                EngineEffect::Append(records) => {
                    let mut more = u32::try_from(records.len()).unwrap_or(u32::MAX);
                    for record in &records {
                        more = more.saturating_sub(1);
                        let record = record.clone().stamped(more, &context);
                        let line = serde_json::to_string(&record).map_err(Error::of)?;
                        out.line(&line)?;
                    }
                }
                // Live-only.
                EngineEffect::Status(_) => {}
            }
        }
    }
    out.end()
}
