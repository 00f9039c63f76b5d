//! Errors of the command line: what clap reports becomes one line and a hint, like all other errors.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, CommandFactory, FromArgMatches};

use super::args::Cli;
use crate::model::{Error, quote_where_needed};

/// Returns the failure for an error in these arguments, the program's name first.
pub(super) fn failure(error: &clap::Error, args: &[OsString]) -> Error {
    let command = command_of(args);
    let text = error.render().to_string();
    let mut lines = text.lines().map(str::trim);
    let first = lines.next().unwrap_or_default();
    let mut why = first.strip_prefix("error: ").unwrap_or(first).to_owned();
    let (mut tip, mut usage) = (None, None);
    for line in lines {
        if let Some(line) = line.strip_prefix("tip: ") {
            // A name or a number does not begin with a hyphen, and the usage that follows has no options.
            let takes_text = command.ends_with(" send") || command.ends_with(" search");
            if line.starts_with("to pass") && !takes_text {
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
    let hint = meant_command(error)
        .or_else(|| run_hint(error, &command, args))
        .or(tip)
        .or(usage.filter(|_| is_helpful))
        .unwrap_or_else(|| format!("see `{command} --help`"));
    Error::usage(why).with_hint(hint)
}

/// Returns the help of the command that these arguments name, if it needs another one below it.
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
fn meant_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let (_, command) = OTHER_WORDS.iter().find(|(other, _)| other == word)?;
    Some(format!("did you mean `tmux-task {command}`?"))
}

/// Returns what to do about the two commonest mistakes with `run`.
fn run_hint(error: &clap::Error, command: &str, args: &[OsString]) -> Option<String> {
    let words: Vec<&str> = args.iter().filter_map(|word| word.to_str()).collect();
    let starts = command.ends_with(" run") || command.ends_with(" restart");
    let is_timeout = |word: &&str| word.split('=').next() == Some("--timeout");
    match (error.kind(), error.get(ContextKind::InvalidArg)?) {
        (ErrorKind::UnknownArgument, ContextValue::String(word))
            if command.ends_with(" run") && !word.starts_with('-') =>
        {
            // With options between them it is not clear where the command begins.
            let at = words.iter().position(|word| *word == "run")?;
            let run = match &words[at + 1..] {
                [name, command @ ..] if command.first() == Some(&word.as_str()) => {
                    let words = command.iter().map(|word| quote_where_needed(word));
                    format!("{name} -- {}", words.collect::<Vec<_>>().join(" "))
                }
                _ => "NAME -- COMMAND".to_owned(),
            };
            Some(format!("the command follows `--`: `tmux-task run {run}`"))
        }
        (ErrorKind::MissingRequiredArgument, _) if starts && words.iter().any(is_timeout) => {
            let hint = "--timeout limits a wait, it does not end the task; add --wait, --until or --listen";
            Some(hint.to_owned())
        }
        _ => None,
    }
}

fn command_of(args: &[OsString]) -> String {
    let program = Cli::command().ignore_errors(true);
    let matches = program.try_get_matches_from(args).unwrap_or_default();
    [vec!["tmux-task".to_owned()], commands(&matches)]
        .concat()
        .join(" ")
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
    use crate::model::test_notation::rows;
    use clap::Parser;

    #[test]
    fn an_error_has_what_may_be_given_and_points_to_its_command() {
        let table = "
            completions nu | invalid value 'nu' for '<SHELL>'; possible values: bash, fish, zsh
              | see `tmux-task completions --help`
            feed --kind x | invalid value 'x' for '--kind <K>'; possible values: event, notice, followUp
              | see `tmux-task feed --help`
            frobnicate | unrecognized subcommand 'frobnicate' | see `tmux-task --help`
            -s run -L x feed --kind notic
              | invalid value 'notic' for '--kind <K>'; possible values: event, notice, followUp
              | a similar value exists: 'notice'
            daemon --interval 0 | invalid value '0' for '--interval <D>': `0` must be more than zero
              | see `tmux-task daemon --help`
            up --timeout 0s | invalid value '0s' for '--timeout <D>': `0s` must be more than zero
              | see `tmux-task up --help`
            logs x -n -1 | invalid value '-1' for '--lines <N>': `-1` is not a number of lines, like 20
              | see `tmux-task logs --help`
            logs x -n few | invalid value 'few' for '--lines <N>': `few` is not a number of lines, like 20
              | see `tmux-task logs --help`
            logs x --run -2 | invalid value '-2' for '--run <N>': `-2` is not the number of a run, like 3
              | see `tmux-task logs --help`
            feed -n -5 | invalid value '-5' for '--lines <N>': `-5` is not a number of records, like 20
              | see `tmux-task feed --help`
            run x --wait --tail -3 -- make
              | invalid value '-3' for '--tail <N>': `-3` is not a number of lines, like 20
              | see `tmux-task run --help`
            logs x -5 | unexpected argument '-5' found | see `tmux-task logs --help`
            logs x --tail 3 | unexpected argument '--tail' found | a similar argument exists: '--all'
            send x --force | unexpected argument '--force' found
              | to pass '--force' as a value, use '-- --force'
            run tests cargo test | unexpected argument 'cargo' found
              | the command follows `--`: `tmux-task run tests -- cargo test`
            explain run extra | unexpected argument 'extra' found | usage: tmux-task explain [OPTIONS] <NAME>
            rnu tests -- make | unrecognized subcommand 'rnu' | see `tmux-task --help`
            tail tests | unrecognized subcommand 'tail' | did you mean `tmux-task logs -f NAME`?
            start api | unrecognized subcommand 'start' | did you mean `tmux-task run NAME -- COMMAND`?
            daemon staus | unrecognized subcommand 'staus' | a similar subcommand exists: 'status'";
        for [line, why, hint] in rows(table) {
            let args = std::iter::once("tmux-task").chain(line.split_whitespace());
            let args: Vec<OsString> = args.map(OsString::from).collect();
            let error = failure(&Cli::try_parse_from(&args).unwrap_err(), &args);
            assert_eq!(error.message, why, "{line}");
            assert_eq!(error.hint.unwrap_or_default(), hint, "{line}");
        }
    }
}
