//! What the program says of itself: `man`, the manual pages, made from the help; `guide`, how an agent
//! uses tasks, on one page; and shell completion, whose script asks the program itself at each completion, so
//! that it knows the tasks.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, Command, ValueEnum};
use clap_complete::env::{CompleteEnv, Shells};
use clap_mangen::Man as Page;

use super::output;
use crate::model::Error;

#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(super) shell: Shell,
}

/// The shells that have a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    /// For ~/.bashrc: source <(tmux-task completions bash)
    Bash,
    /// For config.fish: tmux-task completions fish | source
    Fish,
    /// For ~/.zshrc, after compinit: source <(tmux-task completions zsh)
    Zsh,
}

#[derive(Debug, Args)]
pub(super) struct Man {
    /// The command whose page is printed [default: the page of tmux-task]
    pub(super) command: Option<String>,
    /// Write the pages of all commands to this folder instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(super) dir: Option<PathBuf>,
}

/// Commands for programs: they have help and manual pages, and are not among the first ones.
const FOR_PROGRAMS: [&str; 6] = ["completions", "consumer", "man", "mcp", "replay", "signal"];

/// Whether a command has a page: all but those that only the program itself uses.
pub(super) fn is_documented(command: &clap::Command) -> bool {
    !command.is_hide_set() || FOR_PROGRAMS.contains(&command.get_name())
}

pub(super) fn run(args: &Man, program: Command) -> Result<(), Error> {
    if let Some(folder) = &args.dir {
        return write_all(folder, &program);
    }
    let command = match &args.command {
        None => &program,
        Some(name) => program.find_subcommand(name).ok_or_else(|| {
            Error::usage(format!("there is no command `{name}`"))
                .with_hint("see `tmux-task --help`")
        })?,
    };
    output::text(&page(command)?)
}

fn write_all(folder: &Path, program: &Command) -> Result<(), Error> {
    let failed = |error| Error::of(&error);
    fs::create_dir_all(folder).map_err(failed)?;
    let shown = program.get_subcommands().filter(|one| is_documented(one));
    for command in std::iter::once(program).chain(shown) {
        let path = folder.join(format!("{}.1", title(command)));
        fs::write(path, page(command)?).map_err(failed)?;
    }
    Ok(())
}

fn page(command: &Command) -> Result<String, Error> {
    let title = title(command);
    let mut page = Vec::new();
    Page::new(
        command
            .clone()
            .display_name(title.clone())
            .bin_name(invocation(command))
            .override_usage(synopsis(command)),
    )
    .title(title.to_uppercase())
    .render(&mut page)
    .map_err(Error::of)?;
    Ok(String::from_utf8_lossy(&page).into_owned())
}

/// Returns the name of a command's page, as in git: `tmux-task-run`.
fn title(command: &Command) -> String {
    invocation(command).replace(' ', "-")
}

/// Returns how a command is called: `tmux-task run`.
fn invocation(command: &Command) -> String {
    command
        .get_bin_name()
        .unwrap_or(command.get_name())
        .to_owned()
}

/// Returns how a command is called, with each option and its value.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let options = command
        .get_arguments()
        .filter(|one| !one.is_positional() && !one.is_hide_set() && !one.is_required_set());
    // A command's own come first.
    let (general, own): (Vec<&Arg>, Vec<&Arg>) = options.partition(|one| one.is_global_set());
    let options = own.into_iter().chain(general);
    let options: Vec<String> = options.map(|option| format!("[{option}]")).collect();
    usage
        .trim_start_matches("Usage: ")
        .replace("[OPTIONS]", &options.join(" "))
}

/// The variable by which the script says that it wants candidates.
const COMPLETION: &str = "TMUX_TASK_COMPLETE";

pub(super) fn completions(args: Completions) -> Result<(), Error> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let name = "tmux-task";
    let shell = args.shell.to_possible_value();
    let shell = shell.and_then(|shell| shells.completer(shell.get_name()));
    let shell = shell.ok_or_else(|| Error::failed("no such script"))?;
    let written = shell.write_registration(COMPLETION, name, name, name, &mut script);
    written.map_err(Error::of)?;
    output::text(&String::from_utf8_lossy(&script))
}

/// Prints the candidates if a shell asks for them. Returns whether it did.
pub(super) fn answer_completion(
    args: &[OsString],
    program: fn() -> Command,
) -> Result<bool, clap::Error> {
    if std::env::var_os(COMPLETION).is_none() {
        return Ok(false);
    }
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(program)
        .var(COMPLETION)
        .try_complete(args.iter().cloned(), folder.as_deref())
}

/// The skill for agents: the guide_text below a header for the client.
const SKILL: &str = include_str!("../../../hooks/claude-code/skills/tmux-task/SKILL.md");

const FENCE: &str = "---\n";

pub(super) fn guide() -> Result<(), Error> {
    output::lines(guide_text().lines())
}

fn guide_text() -> &'static str {
    let body = SKILL
        .strip_prefix(FENCE)
        .and_then(|rest| rest.split_once(FENCE));
    body.map_or(SKILL, |(_, body)| body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_shows_options_with_their_values() {
        let program = super::super::args::program();
        let run = program.find_subcommand("run").unwrap();
        let synopsis = synopsis(run);
        assert!(synopsis.starts_with("tmux-task run ["), "{synopsis}");
        for part in [" [--cwd <DIR>] ", " [--if-absent] ", " [NAME] "] {
            assert!(synopsis.contains(part), "{synopsis}");
        }
        assert!(!synopsis.contains("OPTIONS"), "{synopsis}");
        let page = page(run).unwrap();
        assert!(page.contains(r"[\-\-cwd <DIR>]"), "{page}");
    }

    #[test]
    fn the_guide_is_short_and_has_no_header() {
        assert!(guide_text().starts_with("# tmux-task\n"));
        assert!(!guide_text().contains("\n---\n"));
        assert!(SKILL.lines().count() < 60);
        // Clients cut a longer description.
        let description = SKILL.lines().find(|line| line.starts_with("description: "));
        assert!(description.is_some_and(|line| line.len() < 1024));
    }
}
