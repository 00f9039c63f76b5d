//! The command line: one file per subcommand. All errors get their final form here.

mod after;
mod agent;
mod args;
mod attach;
mod completions;
mod config;
mod confirm;
mod consume;
mod consumer;
mod context;
mod daemon;
mod doctor;
mod explain;
mod failure;
mod feed;
mod feed_text;
mod guide;
mod init;
mod kill;
mod liveness;
mod logs;
mod ls;
mod man;
#[cfg(feature = "mcp")]
mod mcp;
mod output;
#[cfg(feature = "panel")]
mod panel;
mod prune_state;
#[cfg(test)]
mod reference;
mod replay;
mod run;
mod runs;
mod search;
mod send;
mod set_environment;
mod status;
mod task_names;
mod time_limit;
mod until;
mod wait;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use args::{Cli, Command, Restart, Run};
use context::Context;
use failure::{Failure, Kind};

/// The first descriptor that is not a standard stream.
const FIRST_BEYOND_STDERR: i32 = 3;

/// Runs the program with these arguments, its own name first, and returns its exit code.
///
/// The runtime has one thread: nothing here computes for long, and an idle runtime costs nothing.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Long-lived children (a daemon, a tmux server) must not inherit our caller's locks and pipes.
    close_fds::set_fds_cloexec(FIRST_BEYOND_STDERR, &[]);
    let args: Vec<OsString> = args.into_iter().collect();
    match completions::answer(&args) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return usage(&error),
    }
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(command(cli));
            // A blocked read of standard input must not keep the process alive.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Failure::of(Kind::Failed, "start", &error)),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            output::complain(&failure);
            ExitCode::from(failure.kind.code())
        }
    }
}

async fn command(cli: Cli) -> Result<(), Failure> {
    let context = Context::new(cli.global);
    let passes_code_through = matches!(
        &cli.command,
        Command::Run(Run { follow, .. }) | Command::Restart(Restart { follow, .. }) if follow.wait
    );
    let outcome = tokio::select! {
        outcome = dispatch(&context, cli.command) => outcome,
        failure = context.silence() => Err(failure),
    };
    if passes_code_through {
        outcome.map_err(Failure::of_run)
    } else {
        outcome
    }
}

async fn dispatch(context: &Context, command: Command) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::run(context, args).await,
        Command::Restart(args) => run::restart(context, args).await,
        Command::Daemon(args) => daemon::run(context, args).await,
        Command::Feed(args) => feed::run(context, args).await,
        Command::Consumer(args) => consumer::run(context, args).await,
        Command::Ls(args) => ls::run(context, args).await,
        Command::Logs(args) => logs::run(context, args).await,
        Command::Stats(args) => runs::stats(context, &args).await,
        Command::Search(args) => search::run(context, args).await,
        Command::Wait(args) => wait::wait(context, args).await,
        Command::Signal(args) => wait::signal(context, args).await,
        Command::Explain(args) => explain::run(context, args).await,
        Command::Send(args) => send::run(context, args).await,
        Command::Kill(args) => kill::kill(context, args).await,
        Command::KillAll(args) => kill::kill_all(context, args).await,
        Command::Prune(args) => kill::prune(context, args).await,
        Command::Status(args) => status::run(context, args).await,
        Command::Config(args) => config::run(context, &args),
        Command::Doctor(args) => doctor::run(context, args).await,
        Command::Attach(args) => attach::run(context, args).await,
        #[cfg(feature = "panel")]
        Command::Panel(args) => panel::run(context, &args).await,
        Command::Guide => guide::run(),
        Command::Completions(args) => completions::run(args),
        Command::Man(args) => man::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Agent(args) => agent::run(context, args).await,
        #[cfg(feature = "mcp")]
        Command::Mcp(args) => mcp::run(context, &args).await,
        Command::SetEnvironment(args) => set_environment::run(args),
        Command::Replay(args) => {
            context.limit.lift();
            replay::run(&args)
        }
    }
}

/// clap's help is printed unchanged; its errors become one line and a hint, like all others.
fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return output::help(&error.render().to_string());
    }
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let mut why = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let mut hint = "see `tmux-task --help`".to_owned();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // The rest is the whole help.
        let failure = Failure::new(Kind::Usage, "usage", "a command is missing").with_hint(hint);
        output::complain(&failure);
        return ExitCode::from(Kind::Usage.code());
    }
    for line in lines {
        if let Some(tip) = line.strip_prefix("tip: ") {
            tip.clone_into(&mut hint);
        } else if let Some(usage) = line.strip_prefix("Usage: ") {
            if hint.starts_with("see") {
                hint = format!("usage: {usage}");
            }
        } else if line.starts_with('<') || line.starts_with("--") {
            // The missing arguments are on separate lines.
            why.push(' ');
            why.push_str(line);
        }
    }
    let failure = Failure::new(Kind::Usage, "usage", why).with_hint(hint);
    output::complain(&failure);
    ExitCode::from(Kind::Usage.code())
}
