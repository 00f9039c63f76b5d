//! Checks `docs/reference.md`: the commands and options as clap has them.

use std::fs;
use std::path::Path;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

use super::args;
use super::man::is_documented;

const PREFACE: &str = "\
# Command reference

All commands and their options, as `tmux-task COMMAND --help` and the manual pages have them. \
[Commands](commands.md) says in short what each command is for, how session and server are found, \
and what the exit codes mean.

This page is made from the program: `TMUX_TASK_BLESS=1 cargo test --lib reference` writes it again.
";

/// Returns the page.
fn page() -> String {
    let program = args::program();
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
    let commands = command.get_subcommands();
    commands.filter(|command| is_documented(command))
}

/// Adds a command below a heading, and the commands below it.
fn push_command(page: &mut String, command: &Command, level: &str, above: &str) {
    let name = format!("{above}{}", command.get_name());
    page.push_str(&format!("\n{level} {name}\n"));
    let about = command.get_long_about().or(command.get_about());
    let about = about.map(ToString::to_string).unwrap_or_default();
    for paragraph in about.split("\n\n").filter(|text| !text.is_empty()) {
        let text = prose(paragraph);
        page.push_str(&format!("\n{}.\n", text.trim_end_matches('.')));
    }
    let aliases = quoted(command.get_visible_aliases());
    if !aliases.is_empty() {
        page.push_str(&format!("\nAlso: {aliases}.\n"));
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

/// Returns a list of words as code.
fn quoted(words: impl Iterator<Item = impl std::fmt::Display>) -> String {
    let words: Vec<String> = words.map(|word| format!("`{word}`")).collect();
    words.join(", ")
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
    let mut possible = arg.get_possible_values();
    possible.retain(|value| !value.is_hide_set());
    let possible = quoted(possible.iter().map(PossibleValue::get_name));
    if !possible.is_empty() {
        text.push_str(&format!(". One of {possible}"));
    }
    let defaults = quoted(arg.get_default_values().iter().map(|value| value.display()));
    if !defaults.is_empty() && !arg.is_hide_default_value_set() {
        text.push_str(&format!(". Default: {}", defaults.replace("`, `", "` `")));
    }
    text
}

/// Returns a help text as one paragraph of Markdown.
fn prose(help: &str) -> String {
    let words: Vec<&str> = help.split_whitespace().collect();
    let text = words.join(" ");
    // Outside of code, `<` would begin an HTML tag.
    let parts = text.split('`').enumerate().map(|(at, part)| match at % 2 {
        0 => part.replace('<', "\\<"),
        _ => part.to_owned(),
    });
    parts.collect::<Vec<_>>().join("`")
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
}
