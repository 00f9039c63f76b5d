//! `kill`, `kill-all`, `prune`.

use serde_json::json;

use super::args::{Json, Kill, KillAll, Prune};
use super::context::Context;
use super::failure::{Failure, OrFail};
use super::{confirm, output, prune_state};
use crate::ops::{self, Caller};
use crate::wire::EndedTask;

pub(super) async fn kill(context: &Context, args: Kill) -> Result<(), Failure> {
    let mut session = context.given("kill")?;
    let ended = ops::kill(&mut session, Caller::of_environment(), args.names).await;
    let ended = ended.or_fail("kill")?;
    report("killed", &ended, args.json)
}

pub(super) async fn kill_all(context: &Context, args: KillAll) -> Result<(), Failure> {
    let ended = if args.yes {
        let mut session = context.given("kill-all")?;
        ops::kill_all(&mut session, None).await
    } else {
        let mut session = context.session("kill-all").await?;
        let target = ops::session_to_kill(&session).await.or_fail("kill-all")?;
        let active = target.tasks.iter().filter(|task| task.is_alive()).count();
        let n = target.tasks.len();
        let tasks = if n == 1 { "task" } else { "tasks" };
        let name = &session.name;
        confirm::ask(
            "kill-all",
            "this ends every task",
            &format!("End session {name} with {n} {tasks} ({active} active)?"),
            "nothing was ended",
        )?;
        ops::kill_all(&mut session, Some(target)).await
    };
    let ops::KilledSession { ended, moved } = ended.or_fail("kill-all")?;
    if args.json.json {
        return output::json(&json!({ "killed": ended, "moved": moved }));
    }
    report("killed", &ended, args.json)?;
    let lines: Vec<String> = moved
        .iter()
        .map(|task| {
            let EndedTask {
                window_id,
                window_name,
            } = task;
            format!("not killed {window_id} ({window_name}): it lives on in another session")
        })
        .collect();
    output::lines(lines.iter().map(String::as_str))
}

pub(super) async fn prune(context: &Context, args: Prune) -> Result<(), Failure> {
    if args.state {
        let session = context.session("prune").await?;
        return prune_state::run(&session, &args).await;
    }
    let mut session = context.given("prune")?;
    let pruned = ops::prune(&mut session).await.or_fail("prune")?;
    report("pruned", &pruned, args.json)
}

pub(super) fn report(done: &str, ended: &[EndedTask], args: Json) -> Result<(), Failure> {
    if args.json {
        return output::json(&json!({ done: ended }));
    }
    let lines: Vec<String> = ended
        .iter()
        .map(|task| format!("{done} {} ({})", task.window_id, task.window_name))
        .collect();
    output::lines(lines.iter().map(String::as_str))
}
