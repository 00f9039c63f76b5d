//! `kill`, `kill-all`, `prune`.

use serde_json::json;

use super::args::{Json, Kill, KillAll, Prune};
use super::context::Context;
use super::ending::watched;
use super::{confirm, output};
use crate::model::{Error, StopChoice, text};
use crate::ops::{self, Caller, EndWatch};
use crate::wire::EndedTask;

pub(super) async fn kill(context: &Context, args: Kill) -> Result<(), Error> {
    let mut session = context.given()?;
    let choice = StopChoice {
        signal: args.signal,
        grace: args.grace,
    };
    let watch = EndWatch::default();
    let (asking, names) = (session.for_request(), args.names.clone());
    let work = ops::kill(
        &mut session,
        Caller::of_environment(),
        args.names,
        &choice,
        &watch,
    );
    let (ended, _) = watched(context, &asking, &names, &watch, work).await?;
    let ended = ended?;
    report(DoneTo::Killed, &ended, args.json)
}

pub(super) async fn kill_all(context: &Context, args: KillAll) -> Result<(), Error> {
    let choice = StopChoice {
        signal: None,
        grace: args.grace,
    };
    let watch = EndWatch::default();
    let (mut session, target) = if args.yes {
        (context.given()?, None)
    } else {
        let session = context.session().await?;
        let target = ops::session_to_kill(&session).await?;
        let active = target.tasks.iter().filter(|task| task.is_alive()).count();
        let tasks = text::counted(target.tasks.len(), "task");
        let name = &session.name;
        confirm::ask(
            "this ends every task",
            &format!("End session {name} with {tasks} ({active} active)?"),
            "nothing was ended",
        )?;
        (session, Some(target))
    };
    let asking = session.for_request();
    let work = ops::kill_all(&mut session, target, &choice, &watch);
    let (ended, _) = watched(context, &asking, &[], &watch, work).await?;
    let ops::KilledSession { ended, moved } = ended?;
    if args.json.json {
        return output::json(&json!({ "killed": ended, "moved": moved }));
    }
    report(DoneTo::Killed, &ended, args.json)?;
    output::lines(moved.iter().map(|task| {
        let (window, name) = (&task.window_id, &task.window_name);
        format!("not ended {window} ({name}): it lives on in another session")
    }))
}

pub(super) async fn prune(context: &Context, args: Prune) -> Result<(), Error> {
    let mut session = context.given()?;
    let pruned = ops::prune(&mut session).await?;
    report(DoneTo::Pruned, &pruned, args.json)
}

/// What was done to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DoneTo {
    /// Nothing of their runs is left.
    Killed,
    /// Their windows were removed; their runs had ended.
    Pruned,
}

pub(super) fn report(done: DoneTo, ended: &[EndedTask], args: Json) -> Result<(), Error> {
    let (key, word) = match done {
        DoneTo::Killed => ("killed", "ended"),
        DoneTo::Pruned => ("pruned", "pruned"),
    };
    if args.json {
        return output::json(&json!({ key: ended }));
    }
    let lines = ended.iter();
    output::lines(lines.map(|task| format!("{word} {} ({})", task.window_id, task.window_name)))
}
