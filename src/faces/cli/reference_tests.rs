//! Checks `docs/reference.md`: the commands and options as clap has them.

use std::fs;
use std::path::Path;

use clap::{Arg, Command};

use super::args::is_documented;
use super::man;

const PREFACE: &str = "\
# Command reference

All commands and their options, as `tmux-task COMMAND --help` and the manual pages have them. \
[Commands](commands.md) says in short what each command is for, how session and server are found, \
and what the exit codes mean.

This page is made from the program: `TMUX_TASK_BLESS=1 cargo test --lib reference` writes it again.
";

/// Returns the page.
fn page() -> String {
    let program = man::program();
    let mut page = PREFACE.to_owned();
    page.push_str("\n## Options of every command\n\n");
    let is_own = |arg: &&Arg| arg.is_global_set() || arg.get_id() == "help";
    push_args(&mut page, program.get_arguments().filter(is_own));
    for command in shown(&program) {
        push_command(&mut page, command, "##", "");
    }
    page
}

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command
        .get_subcommands()
        .filter(|command| is_documented(command))
}

/// Adds a command below a heading, and the commands below it.
fn push_command(page: &mut String, command: &Command, level: &str, above: &str) {
    let name = format!("{above}{}", command.get_name());
    page.push_str(&format!("\n{level} {name}\n"));
    let about = command.get_long_about().or(command.get_about());
    if let Some(about) = about {
        for paragraph in about.to_string().split("\n\n") {
            let text = prose(paragraph);
            page.push_str(&format!("\n{}.\n", text.trim_end_matches('.')));
        }
    }
    let aliases: Vec<String> = command
        .get_visible_aliases()
        .map(|alias| format!("`{alias}`"))
        .collect();
    if !aliases.is_empty() {
        page.push_str(&format!("\nAlso: {}.\n", aliases.join(", ")));
    }
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").lines();
    let usage: Vec<&str> = usage.map(str::trim).collect();
    page.push_str(&format!("\n`{}`\n\n", usage.join("`, `")));
    let is_own = |arg: &&Arg| !arg.is_global_set() && arg.get_id() != "help";
    push_args(page, command.get_arguments().filter(is_own));
    if let Some(after) = command.get_after_help() {
        page.push_str(&format!("\n{}\n", prose(&after.to_string())));
    }
    for below in shown(command) {
        push_command(page, below, &format!("{level}#"), &format!("{name} "));
    }
}

/// Adds a list of arguments.
fn push_args<'a>(page: &mut String, args: impl Iterator<Item = &'a Arg>) {
    for arg in args.filter(|arg| !arg.is_hide_set() && arg.get_id() != "version") {
        page.push_str(&format!("- {}", spelling(arg)));
        let help = arg.get_long_help().or(arg.get_help());
        if let Some(help) = help {
            page.push_str(&format!(": {}", prose(&help.to_string())));
        }
        page.push_str(&values(arg));
        page.push('\n');
    }
}

/// Returns how an argument is given.
fn spelling(arg: &Arg) -> String {
    let takes_value = arg.get_action().takes_values();
    let names = arg.get_value_names().unwrap_or_default();
    let names: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
    let value = match names.as_slice() {
        _ if !takes_value => String::new(),
        [] => format!("<{}>", arg.get_id().as_str().to_uppercase()),
        names => names.join(" "),
    };
    if arg.is_positional() {
        return format!("`{value}`");
    }
    let short = arg.get_short().map(|short| format!("-{short}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    let options: Vec<String> = [short, long].into_iter().flatten().collect();
    format!("`{}`", format!("{} {value}", options.join(", ")).trim_end())
}

/// Returns an argument's possible values and its default.
fn values(arg: &Arg) -> String {
    let mut text = String::new();
    if !arg.get_action().takes_values() || arg.is_hide_possible_values_set() {
        return text;
    }
    let possible = arg.get_possible_values();
    let possible: Vec<String> = possible
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !possible.is_empty() {
        text.push_str(&format!(". One of {}", possible.join(", ")));
    }
    let defaults = arg.get_default_values().iter();
    let defaults: Vec<String> = defaults
        .map(|value| format!("`{}`", value.display()))
        .collect();
    if !defaults.is_empty() && !arg.is_hide_default_value_set() {
        text.push_str(&format!(". Default: {}", defaults.join(" ")));
    }
    text
}

/// Returns a help text as one paragraph of Markdown.
fn prose(help: &str) -> String {
    let words: Vec<&str> = help.split_whitespace().collect();
    let text = words.join(" ");
    // Outside of code, `<` would begin an HTML tag.
    let parts = text.split('`').enumerate();
    let parts: Vec<String> = parts
        .map(|(at, part)| match at % 2 {
            0 => part.replace('<', "\\<"),
            _ => part.to_owned(),
        })
        .collect();
    parts.join("`")
}

/// To write the page again: `TMUX_TASK_BLESS=1 cargo test --lib reference`.
#[test]
#[cfg(all(feature = "panel", feature = "mcp"))]
fn the_reference_in_the_docs_is_that_of_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let page = page();
    if std::env::var_os("TMUX_TASK_BLESS").is_some_and(|value| value == "1") {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/reference.md is not that of the program: `TMUX_TASK_BLESS=1 cargo test --lib \
         reference` writes it again"
    );
}

#[test]
fn every_command_and_option_has_a_help() {
    let page = page();
    let bare = page
        .lines()
        .filter(|line| line.starts_with("- `") && line.ends_with('`') && !line.contains(": "));
    assert_eq!(bare.collect::<Vec<_>>(), [""; 0]);
    assert!(page.contains("\n## run\n") && page.contains("\n### daemon status\n"));
    assert!(page.contains("\n- `-n, --lines <N>`: "), "{page}");
    assert!(page.contains("- `-s, --session <NAME>`: "), "{page}");
}
