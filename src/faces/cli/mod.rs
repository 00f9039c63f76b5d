//! The command line: one file per subcommand.

mod agent;
mod args;
mod attach;
mod config;
mod context;
mod daemon;
mod doctor;
mod far_call;
mod feed;
mod forward;
mod kill;
mod logs;
mod ls;
mod man;
mod output;
#[cfg(test)]
mod reference_tests;
mod replay;
mod run;
mod send;
mod table;
mod up;
mod usage;
mod wait;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::CommandFactory as _;

use crate::model::{Error, ErrorKind, FAR_CALL, FarCall};
use agent::{Init, InitClient};
use args::{Cli, CliCommand};
use context::Context;
use run::{Restart, Run};

/// Runs the program with these arguments, its own name first, and returns its exit code.
///
/// The runtime has one thread: nothing here computes for long, and an idle runtime costs nothing.
#[must_use]
pub fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    // Long-lived children (a daemon, a tmux server) must not inherit our caller's locks and pipes, only the
    // standard streams.
    close_fds::set_fds_cloexec(3, &[]);
    let args: Vec<OsString> = args.into_iter().collect();
    // What a task's pane starts, and nobody else: no time is spent on anything else.
    if let [_, word, file] = args.as_slice()
        && word == run::EXEC_PANE
    {
        return run::exec(Path::new(file));
    }
    if let [_, word, words @ ..] = args.as_slice()
        && word == FAR_CALL
    {
        return match far_call::run(words) {
            Ok((call, answers)) => {
                let name = OsString::from("tmux-task");
                let words = call.args.iter().map(OsString::from);
                let code = execute(std::iter::once(name).chain(words).collect(), Some(call));
                if let Some(answers) = answers {
                    answers.end(code);
                }
                ExitCode::from(code)
            }
            Err(code) => code,
        };
    }
    match man::answer_completion(&args, Cli::command) {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => return usage_error(&error, &args).into(),
    }
    execute(args, None).into()
}

/// Executes the command with these arguments, here or for another machine.
fn execute(args: Vec<OsString>, far: Option<FarCall>) -> u8 {
    let (mut cli, words) = match usage::parse(&args) {
        Ok(parsed) => parsed,
        Err(error) => return usage_error(&error, &args),
    };
    if let Some(call) = far {
        cli.global.is_far = true;
        cli.global.socket_path = call.server.or(cli.global.socket_path);
        if let CliCommand::Wait(args) = &mut cli.command {
            args.since = call.wait_since.or(args.since.take());
            args.timeout = call.wait_ms.map(Duration::from_millis).or(args.timeout);
        }
        output::for_caller(call.caller);
    }
    let options = match cli.global.forwards_to() {
        // The far side's hints have them already.
        Some(_) => String::new(),
        None => cli.global.words(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => {
            let outcome = runtime.block_on(command(cli, &words, &args));
            // A blocked read of standard input must not keep the process alive.
            runtime.shutdown_background();
            outcome
        }
        Err(error) => Err(Error::of(&error).about("start")),
    };
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            output::complain(&error, &words, &options);
            error.kind.exit_code()
        }
    }
}

async fn command(cli: Cli, words: &str, args: &[OsString]) -> Result<(), Error> {
    let context = Context::new(cli.global, words.to_owned());
    let choice = context.global.choice();
    let passes_code_through = matches!(
        &cli.command,
        CliCommand::Run(Run { follow, .. }) | CliCommand::Restart(Restart { follow, .. }) if follow.wait || follow.follow
    );
    if let CliCommand::Init(Init {
        client: InitClient::Host,
        machine: Some(name),
        ..
    }) = &cli.command
        && context.global.forwards_to().is_none()
    {
        return Box::pin(forward::init_host(&context, name.clone())).await;
    }
    let outcome = match context.global.forwards_to() {
        Some(host) => Box::pin(forward::run(host, &choice, (words, args), &cli.command)).await,
        // Losing an arm is safe: the command ends with the other.
        None => tokio::select! {
            outcome = cli.command.execute(&context) => outcome,
            failure = context.silence() => Err(failure),
        },
    };
    if passes_code_through {
        outcome.map_err(|error| Error {
            kind: error.kind.of_run(),
            ..error
        })
    } else {
        outcome
    }
}

/// clap's help is printed unchanged; its errors become one line and a hint, like all others.
fn usage_error(error: &clap::Error, args: &[OsString]) -> u8 {
    if !error.use_stderr() {
        return output::help(&error.render().to_string());
    }
    if let Some(help) = usage::help_without_command(error, args) {
        return output::help(&help);
    }
    output::complain(&usage::failure(error, args), "usage", "");
    ErrorKind::Usage.exit_code()
}
