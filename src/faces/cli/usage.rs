//! Errors of the command line: what clap reports becomes one line and a hint, like all other errors.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Command, CommandFactory, FromArgMatches};

use super::args::Cli;
use super::man;
use crate::model::Error;

/// Commands whose words are any text, also text that begins with a hyphen.
const TAKE_TEXT: [&str; 2] = ["send", "search"];

/// Returns the failure for an error in these arguments, the program's name first.
pub(super) fn failure(error: &clap::Error, args: &[OsString]) -> Error {
    let path = command_of(args);
    let help = format!("see `{} --help`", path.join(" "));
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let mut why = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let (mut tip, mut usage) = (None, None);
    for line in lines {
        if let Some(line) = line.strip_prefix("tip: ") {
            if names_hidden(line, &man::program()) {
                if let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
                    && takes_text(&path)
                {
                    tip = Some(format!("to pass '{arg}' as a value, use '-- {arg}'"));
                }
                continue;
            }
            if line.starts_with("to pass") && !takes_text(&path) {
                // A name or a number does not begin with a hyphen, and the usage that follows has no
                // options.
                break;
            }
            tip.get_or_insert_with(|| line.to_owned());
        } else if let Some(line) = line.strip_prefix("Usage: ") {
            usage = Some(format!("usage: {line}"));
        } else if let Some(values) = line.strip_prefix("[possible values: ") {
            why.push_str("; possible values: ");
            why.push_str(values.trim_end_matches(']'));
        } else if line.starts_with('<') || line.starts_with("--") {
            // The missing arguments are on separate lines.
            why.push(' ');
            why.push_str(line);
        }
    }
    // The usage of a command that does not exist says nothing, and that of arguments which exclude each
    // other has them together.
    let is_helpful = !matches!(
        error.kind(),
        ErrorKind::InvalidSubcommand | ErrorKind::ArgumentConflict
    );
    let usage = usage.filter(|_| is_helpful);
    let hint = meant_command(error, &path)
        .or_else(|| without_separator(error, &path, args))
        .or_else(|| without_wait(error, &path, args))
        .or(tip)
        .or(usage);
    Error::usage(why).with_hint(hint.unwrap_or(help))
}

/// Whether a tip is about an option that only the program itself uses. clap does not leave them out.
fn names_hidden(tip: &str, command: &Command) -> bool {
    let mut hidden = command.get_arguments().filter(|arg| arg.is_hide_set());
    let mut below = command.get_subcommands();
    hidden.any(|arg| {
        let long = arg.get_long();
        long.is_some_and(|long| tip.contains(&format!("'--{long}'")))
    }) || below.any(|command| names_hidden(tip, command))
}

/// Returns the help of the command that these arguments name, if they end there and it needs another one
/// below it. `error` is about these arguments.
pub(super) fn help_without_command(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let is_missing = matches!(
        error.kind(),
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand | ErrorKind::MissingSubcommand
    );
    if !is_missing {
        return None;
    }
    let mut args = args.to_vec();
    args.push("--help".into());
    let help = parse(&args).err()?;
    (!help.use_stderr()).then(|| help.render().to_string())
}

/// What other programs call a command, with the command that there is instead.
const OTHER_WORDS: [(&str, &str); 10] = [
    ("start", "run NAME -- COMMAND"),
    ("exec", "run NAME -- COMMAND"),
    ("list", "ls"),
    ("tail", "logs -f NAME"),
    ("show", "logs NAME"),
    ("grep", "search PATTERN"),
    ("events", "feed"),
    ("top", "panel"),
    ("rm", "kill NAME"),
    ("clean", "prune"),
];

/// Returns which command was probably meant by one that other programs have.
fn meant_command(error: &clap::Error, path: &[String]) -> Option<String> {
    let (ErrorKind::InvalidSubcommand, Some(ContextValue::String(word)), [_]) = (
        error.kind(),
        error.get(ContextKind::InvalidSubcommand),
        path,
    ) else {
        return None;
    };
    let (_, command) = OTHER_WORDS.iter().find(|(other, _)| other == word)?;
    Some(format!("did you mean `tmux-task {command}`?"))
}

fn takes_text(path: &[String]) -> bool {
    path.last()
        .is_some_and(|name| TAKE_TEXT.contains(&name.as_str()))
}

/// Returns what to do about the command of a task that is not separated from its name.
fn without_separator(error: &clap::Error, path: &[String], args: &[OsString]) -> Option<String> {
    let is_run = path.last().is_some_and(|name| name == "run");
    if !is_run || error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if word.starts_with('-') {
        return None;
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=@,+%".contains(c);
    let words = args.iter().skip_while(|word| *word != "run").skip(1);
    let words: Option<Vec<&str>> = words.map(|word| word.to_str()).collect();
    let run = match words.as_deref() {
        // With options between them it is not clear where the command begins.
        Some([name, command @ ..])
            if command.first() == Some(&word.as_str())
                && command.iter().all(|word| word.chars().all(is_plain)) =>
        {
            format!("{name} -- {}", command.join(" "))
        }
        Some(_) | None => "NAME -- COMMAND".to_owned(),
    };
    Some(format!("the command follows `--`: `tmux-task run {run}`"))
}

/// Returns what to do about an option that is for waits alone.
fn without_wait(error: &clap::Error, path: &[String], args: &[OsString]) -> Option<String> {
    let starts = path
        .last()
        .is_some_and(|name| name == "run" || name == "restart");
    if !starts || error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let mut words = args.iter().filter_map(|word| word.to_str());
    let is_timeout = words.any(|word| word.split('=').next() == Some("--timeout"));
    is_timeout.then(|| {
        "--timeout limits a wait, it does not end the task; add --wait, --until or --listen"
            .to_owned()
    })
}

/// Returns the names of the program and of the command that these arguments are for.
fn command_of(args: &[OsString]) -> Vec<String> {
    let program = Cli::command().ignore_errors(true);
    let path = vec![program.get_name().to_owned()];
    let matches = program.try_get_matches_from(args).unwrap_or_default();
    path.into_iter().chain(commands(&matches)).collect()
}

/// Returns the names of the command that was given and of its part.
fn commands(mut matches: &ArgMatches) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((name, of_command)) = matches.subcommand() {
        names.push(name.to_owned());
        matches = of_command;
    }
    names
}

/// Parses the arguments, the program's name first. Returns also the command as errors name it: `daemon status`.
///
/// # Errors
///
/// When they are not valid.
pub(super) fn parse(args: &[OsString]) -> Result<(Cli, String), clap::Error> {
    let matches = Cli::command().try_get_matches_from(args)?;
    let words = commands(&matches);
    let words = match words.first() {
        Some(only) if only == "agent" || only == "config" => only.clone(),
        Some(_) | None => words.join(" "),
    };
    Ok((Cli::from_arg_matches(&matches)?, words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn an_error_has_what_may_be_given_and_points_to_its_command() {
        let cases = [
            (
                "completions nu",
                "invalid value 'nu' for '<SHELL>'; possible values: bash, fish, zsh",
                "see `tmux-task completions --help`",
            ),
            (
                "feed --kind x",
                "invalid value 'x' for '--kind <K>'; possible values: event, notice, followUp",
                "see `tmux-task feed --help`",
            ),
            (
                "frobnicate",
                "unrecognized subcommand 'frobnicate'",
                "see `tmux-task --help`",
            ),
            (
                "-s run -L x feed --kind notic",
                "invalid value 'notic' for '--kind <K>'; possible values: event, notice, followUp",
                "a similar value exists: 'notice'",
            ),
            (
                "daemon --interval 0",
                "invalid value '0' for '--interval <D>': `0` must be more than zero",
                "see `tmux-task daemon --help`",
            ),
            (
                "up --timeout 0s",
                "invalid value '0s' for '--timeout <D>': `0s` must be more than zero",
                "see `tmux-task up --help`",
            ),
            (
                "logs x -n -1",
                "invalid value '-1' for '--lines <N>': `-1` is not a number of lines, like 20",
                "see `tmux-task logs --help`",
            ),
            (
                "logs x -n few",
                "invalid value 'few' for '--lines <N>': `few` is not a number of lines, like 20",
                "see `tmux-task logs --help`",
            ),
            (
                "logs x --run -2",
                "invalid value '-2' for '--run <N>': `-2` is not the number of a run, like 3",
                "see `tmux-task logs --help`",
            ),
            (
                "feed -n -5",
                "invalid value '-5' for '--lines <N>': `-5` is not a number of records, like 20",
                "see `tmux-task feed --help`",
            ),
            (
                "run x --wait --tail -3 -- make",
                "invalid value '-3' for '--tail <N>': `-3` is not a number of lines, like 20",
                "see `tmux-task run --help`",
            ),
            (
                "logs x -5",
                "unexpected argument '-5' found",
                "see `tmux-task logs --help`",
            ),
            (
                "logs x --tail 3",
                "unexpected argument '--tail' found",
                "a similar argument exists: '--all'",
            ),
            (
                "send x --force",
                "unexpected argument '--force' found",
                "to pass '--force' as a value, use '-- --force'",
            ),
            (
                "run tests cargo test",
                "unexpected argument 'cargo' found",
                "the command follows `--`: `tmux-task run tests -- cargo test`",
            ),
            (
                "daemon --as-chil x",
                "unexpected argument '--as-chil' found",
                "usage: tmux-task daemon [OPTIONS]",
            ),
            (
                "run tests --env A=1 cargo test",
                "unexpected argument 'cargo' found",
                "the command follows `--`: `tmux-task run NAME -- COMMAND`",
            ),
            (
                "run tests --timeout 5s -- make",
                "the following required arguments were not provided: \
                 <--wait|--follow|--until <PATTERN>|--listen [<PORT>]|--after <TASK>>",
                "--timeout limits a wait, it does not end the task; add --wait, --until or --listen",
            ),
            (
                "rnu tests -- make",
                "unrecognized subcommand 'rnu'",
                "see `tmux-task --help`",
            ),
            (
                "tail tests",
                "unrecognized subcommand 'tail'",
                "did you mean `tmux-task logs -f NAME`?",
            ),
            (
                "start api",
                "unrecognized subcommand 'start'",
                "did you mean `tmux-task run NAME -- COMMAND`?",
            ),
            (
                "daemon staus",
                "unrecognized subcommand 'staus'",
                "a similar subcommand exists: 'status'",
            ),
        ];
        let shown = |line: &str| {
            let args = std::iter::once("tmux-task").chain(line.split_whitespace());
            let args: Vec<OsString> = args.map(OsString::from).collect();
            let error = Cli::try_parse_from(&args).unwrap_err();
            let Error { message, hint, .. } = failure(&error, &args);
            format!("{message}\nhint: {}", hint.unwrap_or_default())
        };
        let expected = cases.map(|(_, why, hint)| format!("{why}\nhint: {hint}"));
        assert_eq!(cases.map(|(line, _, _)| shown(line)), expected);
    }
}
