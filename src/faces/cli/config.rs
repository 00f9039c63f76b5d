//! `config show` and `config example`.

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::context::Context;
use super::output::{self, Json};
use crate::config::{self, Setting};
use crate::model::{Error, rfc3339, text};
use crate::ops::{self, lookup};

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum ConfigCommand {
    /// Print each setting with its value and where that is from
    Show(Json),
    /// Print a configuration file with all settings, their defaults and what they mean
    Example,
}

/// The maximum length of a value, in characters: it may be a path.
const MAX_CHARS: usize = 4096;

/// Values are padded up to this column, so that the sources are below each other.
const COLUMN: usize = 48;

/// How long the daemon, and tmux if it is asked where the session is, may take to answer.
const ANSWERS_WITHIN: Duration = Duration::from_secs(3);

/// A value that options and variables select.
#[derive(Serialize)]
struct SelectedValue {
    key: &'static str,
    value: String,
    /// What kind of thing selects it: `option`, `environment` or `default`.
    source: &'static str,
    /// The option or variable; `None` for the default.
    by: Option<&'static str>,
}

pub(super) async fn run(context: &Context, command: ConfigCommand) -> Result<(), Error> {
    match command {
        ConfigCommand::Example => output::text(config::EXAMPLE),
        ConfigCommand::Show(json) => show(context, json).await,
    }
}

async fn show(context: &Context, args: Json) -> Result<(), Error> {
    // The daemon is asked with a time limit of its own.
    context.limit.lift();
    let shown = config::show(&lookup).map_err(|error| {
        Error::of(&error)
            .with_hint("a running daemon keeps the settings that it has; no other one starts")
    })?;
    let selected = selected(context)?;
    let mut session = context.given()?;
    let asked = timeout(ANSWERS_WITHIN, ops::daemon_status(&mut session)).await;
    let daemon = asked.ok().and_then(Result::ok);
    if args.json {
        let setting = |setting: &Setting| {
            let Setting { key, value, line } = setting;
            let source = if line.is_some() { "file" } else { "default" };
            json!({"key": key, "value": value, "source": source, "line": line})
        };
        let settings: Vec<Value> = shown.settings.iter().map(setting).collect();
        let daemon =
            daemon.map(|daemon| json!({"file": daemon.config.file, "since": daemon.started_at}));
        return output::json(&json!({
            "file": shown.path(),
            "exists": shown.exists,
            "selected": selected,
            "settings": settings,
            "daemon": daemon,
        }));
    }
    let mut lines = Vec::new();
    for selected in &selected {
        let source = selected.by.unwrap_or(selected.source);
        lines.push(line(selected.key, &selected.value, source));
    }
    let missing = match shown.exists {
        true => "",
        false => " (there is no such file)",
    };
    lines.push(match shown.path() {
        Some(path) => format!("\n# {path}{missing}"),
        None => "\n# no file: there is no home directory".to_owned(),
    });
    for setting in &shown.settings {
        let value = setting.value.as_deref().unwrap_or("(none)");
        let source = setting.line.map(|line| format!("line {line}"));
        let source = source.as_deref().unwrap_or("default");
        lines.push(line(&setting.key, value, source));
    }
    if let Some(daemon) = daemon {
        let since = rfc3339(daemon.started_at);
        let from = match daemon.config.file {
            Some(file) if shown.path().as_ref() != Some(&file) => format!(" from {file}"),
            Some(_) | None => String::new(),
        };
        lines.push(format!(
            "\n# the running daemon has its settings{from} since {since}"
        ));
    }
    output::lines(&lines)
}

fn line(key: &str, value: &str, source: &str) -> String {
    let set = format!("{key} = {value}");
    format!("{set:COLUMN$}  # {source}")
}

fn selected(context: &Context) -> Result<Vec<SelectedValue>, Error> {
    let session = context.given()?;
    let choice = context.global.choice();
    let (server, paths) = (&choice.server, &session.paths);
    let file = config::find(&lookup);
    let file = file.as_ref().map_or(Path::new(""), |file| &file.path);
    let value_of = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let set = |variables: &[&'static str]| {
        let mut variables = variables.iter().copied();
        variables.find(|name| value_of(name).is_some())
    };
    // One that is ignored, such as a relative $XDG_STATE_HOME, does not name the path.
    let names = |path: &Path, variables: &[&'static str]| {
        let is_in = |name: &str| value_of(name).is_some_and(|folder| path.starts_with(folder));
        variables.iter().copied().find(|name| is_in(name))
    };
    let of = |key, value: &[u8], by: Option<&'static str>| SelectedValue {
        key,
        value: text::one_line(value, MAX_CHARS),
        source: match by {
            Some(by) if by.starts_with('-') => "option",
            Some(_) => "environment",
            None => "default",
        },
        by,
    };
    let of_path = |key, path: &Path, by| of(key, path.as_os_str().as_encoded_bytes(), by);
    let session_by = match choice.session {
        Some(_) => Some("--session"),
        None => set(&["TMUX_TASK_SESSION", "PI_TMUX_SESSION"]),
    };
    let server_by = match (&server.socket_path, &server.socket_name) {
        (Some(_), _) => Some("-S"),
        (None, Some(_)) => Some("-L"),
        (None, None) => set(&["TMUX", "TMUX_TMPDIR"]),
    };
    let tmux_by = match server.program {
        Some(_) => Some("--tmux"),
        None => set(&["TMUX_TASK_TMUX"]),
    };
    let state_by = ["TMUX_TASK_STATE_DIR", "XDG_STATE_HOME"];
    let runtime_by = ["TMUX_TASK_RUNTIME_DIR", "XDG_RUNTIME_DIR"];
    let autostart = set(&["TMUX_TASK_NO_AUTOSTART"]);
    let starts = autostart.is_none().to_string();
    let file_by = names(file, &["TMUX_TASK_CONFIG", "XDG_CONFIG_HOME"]);
    Ok(vec![
        of("session", session.name.as_bytes(), session_by),
        of_path("server", session.server.socket(), server_by),
        of_path("tmux", session.server.program(), tmux_by),
        of_path("state", &paths.state, names(&paths.state, &state_by)),
        of_path(
            "runtime",
            &paths.runtime,
            names(&paths.runtime, &runtime_by),
        ),
        of("autostart", starts.as_bytes(), autostart),
        of_path("config", file, file_by),
    ])
}
