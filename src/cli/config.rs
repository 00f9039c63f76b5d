//! `config show` and `config example`.

use std::path::Path;

use serde_json::{Value, json};

use super::args::{Config, ConfigCommand, Json};
use super::context::Context;
use super::failure::{Failure, Kind};
use super::output;
use crate::config::{self, Setting, ShownConfig};
use crate::model::text;
use crate::ops::lookup;

const WHAT: &str = "config";

/// The maximum length of a value, in characters: it may be a path.
const MAX_CHARS: usize = 4096;

/// Values are padded up to this column, so that the sources are below each other.
const COLUMN: usize = 48;

/// A value that options and variables select.
struct SelectedValue {
    key: &'static str,
    value: String,
    /// The option or variable; `None` for the default.
    by: Option<&'static str>,
}

pub(super) fn run(context: &Context, args: &Config) -> Result<(), Failure> {
    match args.command {
        ConfigCommand::Example => output::text(config::EXAMPLE),
        ConfigCommand::Show(json) => show(context, json),
    }
}

fn show(context: &Context, args: Json) -> Result<(), Failure> {
    let shown = config::show(&lookup).map_err(|error| Failure::of(Kind::Failed, WHAT, &error))?;
    let selected = selected(context)?;
    if args.json {
        return print_json(&shown, &selected);
    }
    let mut lines = Vec::new();
    for SelectedValue { key, value, by } in &selected {
        let source = by.map_or_else(|| "default".to_owned(), str::to_owned);
        lines.push(line(key, value, &source));
    }
    let path = shown.file.as_ref().map(|file| one_line(file.path()));
    lines.push(match (&path, shown.exists) {
        (Some(path), true) => format!("\n# {path}"),
        (Some(path), false) => format!("\n# {path} (there is no such file)"),
        (None, _) => "\n# no file: there is no home directory".to_owned(),
    });
    for Setting {
        key,
        value,
        line: at,
    } in &shown.settings
    {
        let value = value.as_deref().unwrap_or("(none)");
        let source = at.map_or("default".to_owned(), |at| format!("line {at}"));
        lines.push(line(key, value, &source));
    }
    output::lines(lines.iter().map(String::as_str))
}

fn line(key: &str, value: &str, source: &str) -> String {
    let set = format!("{key} = {value}");
    format!("{set:COLUMN$}  # {source}")
}

fn print_json(shown: &ShownConfig, selected: &[SelectedValue]) -> Result<(), Failure> {
    let selected: Vec<Value> = selected
        .iter()
        .map(|SelectedValue { key, value, by }| {
            let source = match by {
                Some(by) if by.starts_with('-') => "option",
                Some(_) => "environment",
                None => "default",
            };
            json!({"key": key, "value": value, "source": source, "by": by})
        })
        .collect();
    let settings: Vec<Value> = shown
        .settings
        .iter()
        .map(|Setting { key, value, line }| {
            let source = if line.is_some() { "file" } else { "default" };
            json!({"key": key, "value": value, "source": source, "line": line})
        })
        .collect();
    output::json(&json!({
        "file": shown.file.as_ref().map(|file| one_line(file.path())),
        "exists": shown.exists,
        "selected": selected,
        "settings": settings,
    }))
}

/// Returns what options and variables select.
fn selected(context: &Context) -> Result<Vec<SelectedValue>, Failure> {
    let session = context.given(WHAT)?;
    let choice = context.choice();
    let by = |option: Option<&'static str>, variables: &[&'static str]| {
        let is_set = |name: &&&str| lookup(name).is_some_and(|value| !value.is_empty());
        option.or_else(|| variables.iter().find(is_set).copied())
    };
    let given = |is_given: bool, option| is_given.then_some(option);
    let server = &choice.server;
    let socket = given(server.socket_path.is_some(), "-S")
        .or_else(|| given(server.socket_name.is_some(), "-L"));
    let autostart = by(None, &["TMUX_TASK_NO_AUTOSTART"]);
    Ok(vec![
        SelectedValue {
            key: "session",
            value: text::one_line(session.name.as_bytes(), MAX_CHARS),
            by: by(
                given(choice.session.is_some(), "--session"),
                &["TMUX_TASK_SESSION", "PI_TMUX_SESSION"],
            ),
        },
        SelectedValue {
            key: "server",
            value: one_line(session.server.socket()),
            by: by(socket, &["TMUX", "TMUX_TMPDIR"]),
        },
        SelectedValue {
            key: "tmux",
            value: one_line(session.server.program()),
            by: by(
                given(server.program.is_some(), "--tmux"),
                &["TMUX_TASK_TMUX"],
            ),
        },
        SelectedValue {
            key: "state",
            value: one_line(&session.paths.state),
            by: by(None, &["TMUX_TASK_STATE_DIR", "XDG_STATE_HOME"]),
        },
        SelectedValue {
            key: "runtime",
            value: one_line(&session.paths.runtime),
            by: by(None, &["TMUX_TASK_RUNTIME_DIR", "XDG_RUNTIME_DIR"]),
        },
        SelectedValue {
            key: "autostart",
            value: autostart.is_none().to_string(),
            by: autostart,
        },
        SelectedValue {
            key: "config",
            value: config::find(&lookup).map_or_else(String::new, |file| one_line(file.path())),
            by: by(None, &["TMUX_TASK_CONFIG", "XDG_CONFIG_HOME"]),
        },
    ])
}

fn one_line(path: &Path) -> String {
    text::one_line(path.as_os_str().as_encoded_bytes(), MAX_CHARS)
}
