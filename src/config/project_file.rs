//! Reads a file that describes the tasks of a project, for `up` and `down`: `tmux-task.toml`, or a
//! Procfile.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::error::quotable;
use super::file::{MAX_BYTES, not_utf8};
use super::named_path::NamedPath;
use super::parse::{line_of, parse_as};
use super::ready::{Ready, ready};
use super::settings::parse_signal;
use super::value::{OneOrMany, duration, from_value, one_or_many, text, wrong};
use super::{ConfigError, parse_duration, procfile};
use crate::files;
use crate::model::{
    NotifyOn, RestartPolicy, Signal, Slot, StopSettings, TASK_NAME_RULE, is_task_name,
};
use crate::restarts;

/// The file's usual name, in the project's folder.
pub(crate) const TASK_FILE: &str = "tmux-task.toml";

/// The file that is read where there is no [`TASK_FILE`].
pub(crate) const PROCFILE: &str = "Procfile";

/// The file of variables beside a Procfile.
const ENV_FILE: &str = ".env";

/// How many tasks a file has at most: more windows than tmux serves well.
const MOST_TASKS: usize = 1000;

/// A task of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub(crate) name: String,
    /// One word is a shell line, several are a program and its arguments.
    pub(crate) command: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: NamedPath,
    /// The files with variables for it; what `env` has goes before them.
    env_files: Vec<NamedPath>,
    /// Additional variables.
    pub(crate) env: Vec<(String, String)>,
    /// When it is run again by itself.
    pub(crate) restart: Option<RestartPolicy>,
    /// How it is ended.
    pub(crate) stop: StopSettings,
    /// The tasks that it starts after.
    pub(crate) after: Vec<String>,
    /// What says that it is ready. Without it, it is ready when it has ended with code 0.
    pub(crate) ready: Option<Ready>,
    /// The lines that its owner is notified of.
    pub(crate) notify_on: Option<NotifyOn>,
    /// The slot in which it runs.
    pub(crate) slot: Option<Slot>,
}

impl TaskEntry {
    /// Returns its variables: those of its files as they are now, and its own.
    ///
    /// # Errors
    ///
    /// When a file cannot be read, or is not one of variables.
    pub(crate) fn variables(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let mut variables = BTreeMap::new();
        for file in &self.env_files {
            variables.extend(file.read_variables()?);
        }
        variables.extend(self.env.iter().cloned());
        Ok(variables.into_iter().collect())
    }
}

/// Returns the tasks of the file, each after those that it starts after; otherwise in the file's order.
///
/// # Errors
///
/// When the file cannot be read or can be changed by others, is not TOML, contains an unknown key or a
/// value that its key does not accept, names a task that it does not have, or has a circle.
pub(crate) fn read_tasks(path: &Path) -> Result<Vec<TaskEntry>, ConfigError> {
    let bytes = files::read_written(path, MAX_BYTES).map_err(|source| {
        let refused = source.get_ref().and_then(|inner| inner.downcast_ref());
        match refused.cloned() {
            Some(refused) => ConfigError::NotOurs {
                refused,
                variable: None,
            },
            None if source.kind() == ErrorKind::NotFound => ConfigError::NoTasks(path.to_owned()),
            None => ConfigError::Read {
                path: path.to_owned(),
                source,
            },
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    if is_procfile(path) {
        parse_procfile(path, &text)
    } else {
        parse_tasks(path, &text)
    }
}

/// Whether a file is a Procfile, by its name: `Procfile`, `Procfile.dev`.
pub(crate) fn is_procfile(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str);
    let rest = name.and_then(|name| name.strip_prefix(PROCFILE));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.') && rest != ".toml")
}

/// Returns the tasks of a Procfile. They have the variables of the file `.env` beside it, if there is
/// one.
fn parse_procfile(path: &Path, text: &str) -> Result<Vec<TaskEntry>, ConfigError> {
    let processes = procfile::parse(text).map_err(|(start, problem)| ConfigError::Invalid {
        path: path.to_owned(),
        line: line_of(text.as_bytes(), start),
        problem,
    })?;
    let task = |(name, (start, command)): (&str, (usize, &str))| {
        let fields = Fields {
            command: vec![command.to_owned()],
            ..Fields::default()
        };
        (name.to_owned(), Spanned::new(start..start, fields))
    };
    let has_env = fs::symlink_metadata(path.with_file_name(ENV_FILE)).is_ok();
    let env_file = has_env.then(|| Spanned::new(0..0, ENV_FILE.to_owned()));
    let file = TaskFile {
        env_file: env_file.into_iter().collect(),
        tasks: processes.into_iter().map(task).collect(),
    };
    entries(path, text, &file)
}

/// Returns the tasks in `text`. `path` is for errors, and its folder is where they run.
fn parse_tasks(path: &Path, text: &str) -> Result<Vec<TaskEntry>, ConfigError> {
    entries(path, text, &parse_as(path, text)?)
}

/// Checks the tasks of a file with this text, and returns them in their order.
fn entries(path: &Path, text: &str, file: &TaskFile) -> Result<Vec<TaskEntry>, ConfigError> {
    let invalid = |span: Range<usize>, problem: String| ConfigError::Invalid {
        path: path.to_owned(),
        line: line_of(text.as_bytes(), span.start),
        problem,
    };
    if file.tasks.is_empty() {
        return Err(invalid(0..0, "there is no task in it".to_owned()));
    }
    let mut places: Vec<Range<usize>> = file.tasks.values().map(Spanned::span).collect();
    places.sort_by_key(|place| place.start);
    if let Some(place) = places.get(MOST_TASKS) {
        let n = places.len();
        let problem = format!("{n} tasks are too many: a file has at most {MOST_TASKS}");
        return Err(invalid(place.clone(), problem));
    }
    for (name, fields) in &file.tasks {
        let shown = quotable(name);
        for after in &fields.get_ref().after {
            let other = quotable(after.get_ref());
            if after.get_ref() == name {
                let problem = format!("`tasks.{shown}.after`: it cannot start after itself");
                return Err(invalid(after.span(), problem));
            }
            if !file.tasks.contains_key(after.get_ref()) {
                let problem = format!("`tasks.{shown}.after`: there is no task `{other}`");
                return Err(invalid(after.span(), problem));
            }
        }
        if !is_task_name(name) {
            let problem =
                format!("`tasks.{shown}`: `{shown}` is not a task name: {TASK_NAME_RULE}");
            return Err(invalid(fields.span(), problem));
        }
        if let Some((span, problem)) = problem_of(fields.get_ref()) {
            return Err(invalid(span, format!("`tasks.{shown}.{problem}")));
        }
    }
    let order = in_order(&file.tasks).map_err(|circle| {
        let names = quotable(&circle.names);
        let problem = format!("tasks that start after each other: {names}");
        invalid(circle.span, problem)
    })?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let named = |name: &str, span: Range<usize>, key: String| NamedPath {
        path: folder.join(name),
        file: path.to_owned(),
        line: line_of(text.as_bytes(), span.start),
        key,
    };
    let entry_of = |(name, spanned): (&str, &Spanned<Fields>)| {
        let fields = spanned.get_ref();
        let of_task = |key: &str| format!("tasks.{}.{key}", quotable(name));
        let given = fields.cwd.as_ref();
        let span = given.map_or(spanned.span(), Spanned::span);
        let cwd = given.map_or("", |cwd| cwd.get_ref());
        let cwd = named(cwd, span, of_task("cwd"));
        let (env_files, key) = match &fields.env_file {
            Some(own) => (own, of_task("env-file")),
            None => (&file.env_file, "env-file".to_owned()),
        };
        let env_files = env_files.iter();
        let env_files = env_files.map(|file| named(file.get_ref(), file.span(), key.clone()));
        entry(name, fields, cwd, env_files.collect())
    };
    Ok(order.into_iter().map(entry_of).collect())
}

/// Returns the first value that no task can have, and what is wrong with it, from its key on.
fn problem_of(fields: &Fields) -> Option<(Range<usize>, String)> {
    let has_nul = |text: &str| text.contains('\0');
    if let Some(cwd) = fields.cwd.as_ref().filter(|cwd| has_nul(cwd.get_ref())) {
        return Some((cwd.span(), "cwd` must not contain a NUL".to_owned()));
    }
    for (name, value) in &fields.env {
        let shown = quotable(name);
        let is_bad = |c: char| c == '=' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.contains(is_bad) {
            let why = format!("env`: `{shown}` cannot be the name of a variable");
            return Some((value.span(), why));
        }
        if has_nul(value.get_ref()) {
            return Some((value.span(), format!("env.{shown}` must not contain a NUL")));
        }
    }
    let backoff = fields.backoff.as_ref().filter(|_| fields.restart.is_none());
    backoff.map(|backoff| (backoff.span(), "backoff` needs `restart`".to_owned()))
}

fn entry(name: &str, fields: &Fields, cwd: NamedPath, env_files: Vec<NamedPath>) -> TaskEntry {
    let variables = fields.env.iter();
    TaskEntry {
        name: name.to_owned(),
        command: fields.command.clone(),
        cwd,
        env_files,
        env: variables
            .map(|(name, value)| (name.clone(), value.get_ref().clone()))
            .collect(),
        restart: fields.restart.map(|limit| RestartPolicy {
            limit,
            backoff: fields
                .backoff
                .as_ref()
                .map_or(restarts::DEFAULT_BACKOFF, |backoff| *backoff.get_ref()),
        }),
        stop: StopSettings {
            signal: fields.stop_signal.clone(),
            grace: fields.grace,
            parent_only: fields.parent_only,
            kill_after: fields.kill_after,
        },
        after: fields
            .after
            .iter()
            .map(|name| name.get_ref().clone())
            .collect(),
        ready: fields.ready.clone(),
        notify_on: fields.notify_on.clone(),
        slot: fields.slot.clone(),
    }
}

/// Tasks that start after each other.
struct Circle {
    /// The place of a task that waits for them.
    span: Range<usize>,
    /// `a after b after a`.
    names: String,
}

/// Returns the tasks, each after those that it starts after.
fn in_order(
    tasks: &BTreeMap<String, Spanned<Fields>>,
) -> Result<Vec<(&str, &Spanned<Fields>)>, Circle> {
    let mut left: Vec<(&str, &Spanned<Fields>)> = tasks
        .iter()
        .map(|(name, fields)| (name.as_str(), fields))
        .collect();
    left.sort_by_key(|(_, fields)| fields.span().start);
    let mut order = Vec::new();
    let mut placed: BTreeSet<&str> = BTreeSet::new();
    while !left.is_empty() {
        let next = left.iter().position(|(_, fields)| {
            let mut after = fields.get_ref().after.iter();
            after.all(|name| placed.contains(name.get_ref().as_str()))
        });
        let Some(next) = next else {
            let (name, fields) = left[0];
            return Err(Circle {
                span: fields.span(),
                names: circle_from(name, tasks, &placed),
            });
        };
        let (name, fields) = left.remove(next);
        placed.insert(name);
        order.push((name, fields));
    }
    Ok(order)
}

/// Follows the tasks that are not placed until one comes again: `a after b after a`.
fn circle_from<'a>(
    name: &'a str,
    tasks: &'a BTreeMap<String, Spanned<Fields>>,
    placed: &BTreeSet<&str>,
) -> String {
    let mut path = vec![name];
    loop {
        let last = path.last().copied().unwrap_or_default();
        let after = tasks.get(last).into_iter();
        let mut after = after.flat_map(|fields| &fields.get_ref().after);
        let Some(next) = after.find(|name| !placed.contains(name.get_ref().as_str())) else {
            return path.join(" after ");
        };
        let next = next.get_ref().as_str();
        let first = path.iter().position(|known| *known == next);
        path.push(next);
        if let Some(first) = first {
            return path[first..].join(" after ");
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table")]
struct TaskFile {
    /// For all tasks that name none.
    #[serde(default, deserialize_with = "files_of_variables", rename = "env-file")]
    env_file: Vec<Spanned<String>>,
    #[serde(default)]
    tasks: BTreeMap<String, Spanned<Fields>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct Fields {
    #[serde(deserialize_with = "command")]
    command: Vec<String>,
    #[serde(default)]
    cwd: Option<Spanned<String>>,
    #[serde(default)]
    env: BTreeMap<String, Spanned<String>>,
    #[serde(default, deserialize_with = "own_files_of_variables")]
    env_file: Option<Vec<Spanned<String>>>,
    #[serde(default, deserialize_with = "restart")]
    restart: Option<u32>,
    #[serde(default, deserialize_with = "backoff")]
    backoff: Option<Spanned<Duration>>,
    #[serde(default, deserialize_with = "after")]
    after: Vec<Spanned<String>>,
    #[serde(default, deserialize_with = "ready")]
    ready: Option<Ready>,
    #[serde(default, deserialize_with = "stop_signal")]
    stop_signal: Option<Signal>,
    #[serde(default, deserialize_with = "grace")]
    grace: Option<Duration>,
    #[serde(default)]
    parent_only: bool,
    #[serde(default, deserialize_with = "kill_after")]
    kill_after: Option<Duration>,
    #[serde(default, deserialize_with = "notify_on")]
    notify_on: Option<NotifyOn>,
    #[serde(default, deserialize_with = "slot")]
    slot: Option<Slot>,
}

fn slot<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Slot>, D::Error> {
    let parse = |text: &str| Slot::parse(text).map_err(|why| wrong(text, &format!("is {why}")));
    text(from, "a slot like \"build:2\"", parse).map(Some)
}

fn stop_signal<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Signal>, D::Error> {
    text(from, "the name of a signal like \"SIGINT\"", parse_signal).map(Some)
}

fn grace<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from, "a duration such as \"10s\"", stop_time).map(Some)
}

fn kill_after<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    let parse = |text: &str| {
        let after = stop_time(text)?;
        if after.is_zero() {
            return Err("a run must have some time".to_owned());
        }
        Ok(after)
    };
    duration(from, "a duration such as \"10m\"", parse).map(Some)
}

fn stop_time(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|time| *time <= StopSettings::LONGEST);
    duration.ok_or_else(|| wrong(text, "is not a duration, up to 366d"))
}

fn restart<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    text(
        from,
        "\"on-failure\" or \"on-failure:N\"",
        restarts::parse_limit,
    )
    .map(Some)
}

fn backoff<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Spanned<Duration>>, D::Error> {
    let given = Spanned::<Backoff>::deserialize(from)?;
    Ok(Some(Spanned::new(given.span(), given.into_inner().0)))
}

#[derive(Deserialize)]
#[serde(transparent)]
struct Backoff(#[serde(deserialize_with = "pause")] Duration);

fn pause<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let parse = |text: &str| {
        let pause = parse_duration(text).ok_or_else(|| wrong(text, "is not a duration"))?;
        restarts::check_backoff(pause)
    };
    duration(from, "a duration such as \"500ms\" or \"2s\"", parse)
}

/// Defines how a string or a list of strings is read, each with its place.
macro_rules! spanned_list {
    ($read:ident, $expected:literal) => {
        fn $read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Spanned<String>>, D::Error> {
            #[derive(Deserialize)]
            #[serde(transparent)]
            struct List(#[serde(deserialize_with = "read")] OneOrMany<Spanned<String>>);

            fn read<'de, D: Deserializer<'de>>(
                from: D,
            ) -> Result<OneOrMany<Spanned<String>>, D::Error> {
                one_or_many(from, $expected)
            }

            let list = Spanned::<List>::deserialize(from)?;
            let span = list.span();
            Ok(match list.into_inner().0 {
                OneOrMany::One(one) => vec![Spanned::new(span, one)],
                OneOrMany::Many(many) => many,
            })
        }
    };
}

spanned_list!(after, "the name of a task, or a list of names");
spanned_list!(files_of_variables, "a file, or a list of files");

fn own_files_of_variables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Vec<Spanned<String>>>, D::Error> {
    files_of_variables(from).map(Some)
}

/// Reads a shell line, or a program and its arguments.
fn command<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let expected = "a shell line, or a list of a program and its arguments";
    let words: Vec<String> = match one_or_many(from, expected)? {
        OneOrMany::One(line) => vec![line],
        OneOrMany::Many(words) => words,
    };
    if words.iter().all(|word| word.trim().is_empty()) {
        return Err(D::Error::custom("must not be empty"));
    }
    if words.iter().any(|word| word.contains('\0')) {
        return Err(D::Error::custom("must not contain a NUL"));
    }
    Ok(words)
}

/// The texts of `notify-on`, with how they are read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct NotifyOnTable {
    #[serde(deserialize_with = "patterns")]
    patterns: OneOrMany<String>,
    #[serde(default)]
    regex: bool,
    #[serde(default)]
    ignore_case: bool,
}

fn patterns<'de, D: Deserializer<'de>>(from: D) -> Result<OneOrMany<String>, D::Error> {
    one_or_many(from, "a text, or a list of texts")
}

fn notify_on<'de, D: Deserializer<'de>>(from: D) -> Result<Option<NotifyOn>, D::Error> {
    let given = toml::Value::deserialize(from)?;
    let table = if given.is_table() {
        given
    } else {
        toml::Table::from_iter([("patterns".to_owned(), given)]).into()
    };
    let table: NotifyOnTable = from_value(table)?;
    Ok(Some(NotifyOn {
        patterns: match table.patterns {
            OneOrMany::One(text) => vec![text],
            OneOrMany::Many(texts) => texts,
        },
        regex: table.regex,
        ignore_case: table.ignore_case,
    }))
}

#[cfg(test)]
mod tests;
