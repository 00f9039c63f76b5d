//! `kill`, `kill-all`, `prune`.

use std::io::{self, BufRead, IsTerminal, Write};

use serde_json::json;

use super::args::{Json, Kill, KillAll};
use super::context::Context;
use super::failure::{Failure, Kind, OrFail};
use super::output;
use crate::ops::{self, Session, SessionToKill};
use crate::wire::EndedTask;

pub(super) async fn kill(context: &Context, args: Kill) -> Result<(), Failure> {
    let session = context.session("kill").await?;
    let ended = ops::kill(&session, args.names).await.or_fail("kill")?;
    report("killed", &ended, args.json)
}

pub(super) async fn kill_all(context: &Context, args: KillAll) -> Result<(), Failure> {
    let session = context.session("kill-all").await?;
    let target = ops::session_to_kill(&session).await.or_fail("kill-all")?;
    if !args.yes {
        confirm(&session, &target)?;
    }
    let ended = ops::kill_all(&session, &target).await.or_fail("kill-all")?;
    report("killed", &ended, args.json)
}

pub(super) async fn prune(context: &Context, args: Json) -> Result<(), Failure> {
    let session = context.session("prune").await?;
    let pruned = ops::prune(&session).await.or_fail("prune")?;
    report("pruned", &pruned, args)
}

fn confirm(session: &Session, target: &SessionToKill) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let why = "this ends every task, and there is no terminal to ask on";
        return Err(
            Failure::new(Kind::Usage, "kill-all", why).with_hint("say --yes when you mean it")
        );
    }
    let active = target.tasks.iter().filter(|task| task.is_alive()).count();
    let n = target.tasks.len();
    let tasks = if n == 1 { "task" } else { "tasks" };
    let mut stderr = io::stderr();
    let question = format!(
        "End session {} with {n} {tasks} ({active} active)? [y/N] ",
        session.name
    );
    let mut answer = String::new();
    let asked = write!(stderr, "{question}")
        .and_then(|()| stderr.flush())
        .and_then(|()| io::stdin().lock().read_line(&mut answer));
    asked.map_err(|error| Failure::of(Kind::Failed, "kill-all", &error))?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Failure::new(
            Kind::Failed,
            "kill-all",
            "not confirmed, nothing was ended",
        ))
    }
}

fn report(done: &str, ended: &[EndedTask], args: Json) -> Result<(), Failure> {
    if args.json {
        return output::json(&json!({ done: ended }));
    }
    let lines: Vec<String> = ended
        .iter()
        .map(|task| format!("{done} {} ({})", task.window_id, task.window_name))
        .collect();
    output::lines(lines.iter().map(String::as_str))
}
