//! `kill`, `kill-all`, `prune`: through the daemon where one runs, so that it knows why tasks go.

use std::collections::BTreeMap;
use std::io::{self, BufRead, IsTerminal, Write};
use std::sync::Arc;

use serde_json::json;

use super::args::{Json, Kill, KillAll};
use super::context::{self, Context, Session, lookup};
use super::failure::{Failure, Kind};
use super::output;
use crate::model::{PaneId, Task, WindowId, owner_of_environment};
use crate::tmux;
use crate::wire::{Ended, Request, Response};

pub(super) async fn kill(context: &Context, args: Kill) -> Result<(), Failure> {
    let session = context.session("kill").await?;
    let request = Request::Kill {
        tasks: vec![args.name.clone()],
        owner: owner_of_environment(&lookup),
    };
    let ended = match ask(&session, "kill", &request).await? {
        Some(ended) => ended,
        None => {
            let task = session.task("kill", &args.name).await?;
            let mut connection = session.connection();
            tmux::kill_window(&mut connection, task.window)
                .await
                .map_err(|error| context::tmux("kill", &error))?;
            vec![of(&task)]
        }
    };
    report("killed", &ended, args.json)
}

pub(super) async fn kill_all(context: &Context, args: KillAll) -> Result<(), Failure> {
    let session = context.session("kill-all").await?;
    let look = session.look("kill-all").await?;
    let Some(life) = look.life.filter(|_| look.exists) else {
        return Err(session.missing("kill-all"));
    };
    let tasks: Vec<Arc<Task>> = look.tasks.into_values().collect();
    if !args.yes {
        confirm(&session, &tasks)?;
    }
    let kill_all = Request::KillAll {
        owner: owner_of_environment(&lookup),
    };
    let ended = match ask(&session, "kill-all", &kill_all).await? {
        Some(ended) => ended,
        None => {
            let _lock = session.lock_server("kill-all").await?;
            tmux::kill_session(&mut session.connection(), life.id)
                .await
                .map_err(|error| context::tmux("kill-all", &error))?;
            tasks.iter().map(|task| of(task)).collect()
        }
    };
    report("killed", &ended, args.json)
}

pub(super) async fn prune(context: &Context, args: Json) -> Result<(), Failure> {
    let session = context.session("prune").await?;
    let ended = match ask(&session, "prune", &Request::Prune).await? {
        Some(ended) => ended,
        None => prune_directly(&session).await?,
    };
    report("pruned", &ended, args)
}

async fn prune_directly(session: &Session) -> Result<Vec<Ended>, Failure> {
    let failed = |error| context::tmux("prune", &error);
    let before = session.look("prune").await?;
    let dead: BTreeMap<WindowId, (PaneId, Ended)> = before
        .tasks
        .into_values()
        .filter(|task| !task.is_alive())
        .filter_map(|task| Some((task.window, (task.pane?, of(&task)))))
        .collect();
    let panes: Vec<_> = dead
        .iter()
        .map(|(window, (pane, _))| (*window, *pane))
        .collect();
    tmux::prune_windows(&mut session.connection(), &panes)
        .await
        .map_err(failed)?;
    let after = session.look("prune").await?;
    let gone = dead
        .into_iter()
        .filter(|(window, _)| !after.tasks.contains_key(window));
    Ok(gone.map(|(_, (_, ended))| ended).collect())
}

/// Asks the daemon; `None` when none runs.
async fn ask(
    session: &Session,
    what: &str,
    request: &Request,
) -> Result<Option<Vec<Ended>>, Failure> {
    match session.ask(what, request).await? {
        None => Ok(None),
        Some(Response::Ended { tasks }) => Ok(Some(tasks)),
        Some(_) => Err(context::unexpected(what)),
    }
}

fn confirm(session: &Session, tasks: &[Arc<Task>]) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        let why = "this ends every task, and there is no terminal to ask on";
        return Err(
            Failure::new(Kind::Usage, "kill-all", why).with_hint("say --yes when you mean it")
        );
    }
    let active = tasks.iter().filter(|task| task.is_alive()).count();
    let n = tasks.len();
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

fn of(task: &Task) -> Ended {
    Ended {
        window_id: task.window.to_string(),
        window_name: task.name.clone(),
    }
}

fn report(done: &str, ended: &[Ended], args: Json) -> Result<(), Failure> {
    if args.json {
        return output::json(&json!({ done: ended }));
    }
    let lines: Vec<String> = ended
        .iter()
        .map(|task| format!("{done} {} ({})", task.window_id, task.window_name))
        .collect();
    output::lines(lines.iter().map(String::as_str))
}
