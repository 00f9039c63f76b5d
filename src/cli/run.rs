//! `run`: starts a task in its slot.

use std::io::IsTerminal;

use serde_json::json;

use super::args::Run;
use super::context::Context;
use super::failure::{Failure, OrFail};
use super::output;
use super::until::{self, Until};
use crate::ops::{self, Caller, LaunchWait, OlderDaemon, RunOptions, StartedRun};
use crate::wire::ReplacedRun;

pub(super) async fn run(context: &Context, args: Run) -> Result<(), Failure> {
    let options = RunOptions {
        name: args.name,
        cwd: args.cwd,
        is_env_clean: args.clean_env,
        env: args.env,
        command: args.command,
        only_if_absent: args.if_absent,
        owner: Caller::of_environment().owner,
        wait: match (args.wait, args.until.as_slice()) {
            (_, [_, ..]) => LaunchWait::Text,
            (true, []) => LaunchWait::End,
            (false, []) => LaunchWait::No,
        },
    };
    options.check().or_fail("run")?;
    until::check(args.until.iter().chain(&args.stop))?;
    let session = context.session("run").await?;
    let will_wait = options.wait != LaunchWait::No;
    let started = ops::run(session, options).await.or_fail("run")?;
    print(&started, args.json.json)?;
    if let Some(why) = started.unreachable.as_ref().filter(|_| !will_wait) {
        output::note(&format!(
            "tmux-task: run: no message will come when this task ends or asks for input: {why}\n\
             hint: `tmux-task wait {}` waits for it",
            started.name
        ));
    }
    let StartedRun {
        name,
        run,
        daemon,
        gate,
        ..
    } = started;
    let until = Until {
        texts: args.until,
        stops: args.stop,
        timeout: args.timeout,
        through_prompts: args.through_prompts,
        tail: args.tail,
        json: args.json.json,
    };
    match (will_wait, daemon) {
        (false, _) => Ok(()),
        (true, Some(mut daemon)) => {
            context.limit.wait(until.timeout);
            until.follow(&mut daemon, &name, &run, gate).await
        }
        (true, None) => Err(ops::OpsError::NoDaemonToWait).or_fail("run"),
    }
}

fn print(started: &StartedRun, is_json: bool) -> Result<(), Failure> {
    let StartedRun {
        session_name,
        name,
        cwd,
        run,
        older_daemon,
        ..
    } = started;
    if is_json {
        output::json(&json!({
            "sessionName": session_name,
            "windowId": run.window_id,
            "windowName": name,
            "taskCwd": cwd,
            "run": run.run,
            "cursor": run.cursor,
            "replaced": run.replaced,
        }))?;
    } else {
        output::lines([
            format!("session={session_name}").as_str(),
            &format!("window_id={}", run.window_id),
            &format!("task={name}"),
            &format!("cwd={cwd}"),
        ])?;
    }
    if let Some(OlderDaemon { version, why }) = older_daemon {
        let ours = env!("CARGO_PKG_VERSION");
        output::note(&format!(
            "tmux-task: run: the daemon is version {version}, older than this program ({ours}), and \
             goes on: {why}\nhint: {}",
            ops::STOP_OLDER_DAEMON
        ));
    }
    if run.replaced == Some(ReplacedRun::Live) && std::io::stderr().is_terminal() {
        output::note(&format!(
            "tmux-task: run: replaced the live run of task `{name}`"
        ));
    }
    Ok(())
}
