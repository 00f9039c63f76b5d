//! Says to a conversation that nothing delivers messages to it.

use super::context::Context;
use crate::ops::{self, Adapter, Caller, StartedRun, TaskSession, Undelivered};

/// Says it on stderr to the owner of a run that was started, if that is so. It is said each time: a model
/// may have lost what it was told before.
pub(super) async fn say(context: &Context, started: &mut StartedRun) {
    if let Some(undelivered) = ops::undelivered(started).await {
        note(context, &undelivered, &started.name);
    }
}

/// The same to the caller, who has started these tasks.
pub(super) async fn say_to_caller(context: &Context, session: &TaskSession, names: &[&str]) {
    let Some(owner) = Caller::of_environment().owner.filter(|_| !names.is_empty()) else {
        return;
    };
    let Ok(mut daemon) = session.daemon().await else {
        return;
    };
    let undelivered = ops::undelivered_to(owner, daemon.as_mut()).await;
    if let Some(undelivered) = undelivered {
        note(context, &undelivered, &names.join(" "));
    }
}

fn note(context: &Context, undelivered: &Undelivered, names: &str) {
    let more = match undelivered.adapter {
        Adapter::None => String::new(),
        Adapter::Available(client) => {
            format!("; `tmux-task init {client} --write` installs what delivers messages")
        }
        Adapter::Silent(client) => format!(
            "; the adapter of {client} is installed and does not follow this session: start {client} \
             again in this project"
        ),
    };
    context.note(&format!(
        "tmux-task: {}: nothing delivers messages to {}\nhint: `tmux-task wait {names}` blocks until \
         the task ends or asks for input{more}",
        context.what(),
        undelivered.owner
    ));
}
