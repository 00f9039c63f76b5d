//! Reads a file that describes the tasks of a project, for `up` and `down`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::error::quotable;
use super::file::{MAX_BYTES, not_utf8};
use super::parse::{line_of, parse_as};
use super::settings::parse_signal;
use super::value::{OneOrMany, duration, one_or_many, text, wrong};
use super::{ConfigError, parse_duration};
use crate::files;
use crate::model::{
    NotifyOn, RestartPolicy, Signal, Slot, StopSettings, TASK_NAME_RULE, is_task_name, with_causes,
};
use crate::restarts;

/// The file's usual name, in the project's folder.
pub(crate) const TASK_FILE: &str = "tmux-task.toml";

/// How many tasks a file has at most: more windows than tmux serves well.
const MOST_TASKS: usize = 1000;

/// A task of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub(crate) name: String,
    /// One word is a shell line, several are a program and its arguments.
    pub(crate) command: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: TaskFolder,
    /// Additional variables.
    pub(crate) env: Vec<(String, String)>,
    /// When it is run again by itself.
    pub(crate) restart: Option<RestartPolicy>,
    /// How it is ended.
    pub(crate) stop: StopSettings,
    /// The tasks that it starts after.
    pub(crate) after: Vec<String>,
    /// The text of its output that says that it is ready. Without one, it is ready when it has ended
    /// with code 0.
    pub(crate) ready: Option<String>,
    /// The lines that its owner is notified of.
    pub(crate) notify_on: Option<NotifyOn>,
    /// The slot in which it runs.
    pub(crate) slot: Option<Slot>,
}

/// Where a task of the file runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskFolder {
    path: PathBuf,
    /// The file and the line that say so.
    file: PathBuf,
    line: u32,
}

impl TaskFolder {
    /// Returns its absolute path without links.
    ///
    /// # Errors
    ///
    /// When it does not exist or is not a directory. `task` is for the error.
    pub(crate) fn resolve(&self, task: &str) -> Result<PathBuf, ConfigError> {
        let invalid = |why: &str| ConfigError::Invalid {
            path: self.file.clone(),
            line: self.line,
            problem: format!("`tasks.{}.cwd`: {why}", quotable(task)),
        };
        let shown = self.path.to_string_lossy();
        let shown = quotable(&shown);
        match self.path.canonicalize() {
            Ok(path) if path.is_dir() => Ok(path),
            Ok(_) => Err(invalid(&format!("`{shown}` is not a directory"))),
            Err(error) => {
                let is_home = self.path.iter().any(|part| part == "~");
                let note = if is_home { "; `~` is not expanded" } else { "" };
                Err(invalid(&format!(
                    "cannot run in `{shown}`: {}{note}",
                    with_causes(&error)
                )))
            }
        }
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
            Some(refused) => ConfigError::NotOurs { refused },
            None if source.kind() == ErrorKind::NotFound => ConfigError::NoTasks(path.to_owned()),
            None => ConfigError::Read {
                path: path.to_owned(),
                source,
            },
        }
    })?;
    let text = String::from_utf8(bytes).map_err(|error| not_utf8(path, &error))?;
    parse_tasks(path, &text)
}

/// Returns the tasks in `text`. `path` is for errors, and its folder is where they run.
fn parse_tasks(path: &Path, text: &str) -> Result<Vec<TaskEntry>, ConfigError> {
    let file: TaskFile = parse_as(path, text)?;
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
    let entry_of = |(name, spanned): (&str, &Spanned<Fields>)| {
        let fields = spanned.get_ref();
        let given = fields.cwd.as_ref();
        let span = given.map_or(spanned.span(), Spanned::span);
        let cwd = TaskFolder {
            path: folder.join(given.map_or("", |cwd| cwd.get_ref())),
            file: path.to_owned(),
            line: line_of(text.as_bytes(), span.start),
        };
        entry(name, fields, cwd)
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
    match (fields.restart, &fields.backoff) {
        (None, Some(backoff)) => Some((backoff.span(), "backoff` needs `restart`".to_owned())),
        _ => None,
    }
}

fn entry(name: &str, fields: &Fields, cwd: TaskFolder) -> TaskEntry {
    let variables = fields.env.iter();
    TaskEntry {
        name: name.to_owned(),
        command: fields.command.clone(),
        cwd,
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
    #[serde(default)]
    tasks: BTreeMap<String, Spanned<Fields>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", expecting = "a table")]
struct Fields {
    #[serde(deserialize_with = "command")]
    command: Vec<String>,
    #[serde(default)]
    cwd: Option<Spanned<String>>,
    #[serde(default)]
    env: BTreeMap<String, Spanned<String>>,
    #[serde(default, deserialize_with = "restart")]
    restart: Option<u32>,
    #[serde(default, deserialize_with = "backoff")]
    backoff: Option<Spanned<Duration>>,
    #[serde(default, deserialize_with = "after")]
    after: Vec<Spanned<String>>,
    #[serde(default, deserialize_with = "ready")]
    ready: Option<String>,
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

fn after<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Spanned<String>>, D::Error> {
    let names = Spanned::<Names>::deserialize(from)?;
    let span = names.span();
    Ok(match names.into_inner().0 {
        OneOrMany::One(name) => vec![Spanned::new(span, name)],
        OneOrMany::Many(names) => names,
    })
}

/// The name of a task, or a list of names.
#[derive(Debug, Deserialize)]
#[serde(transparent)]
struct Names(#[serde(deserialize_with = "names")] OneOrMany<Spanned<String>>);

fn names<'de, D: Deserializer<'de>>(from: D) -> Result<OneOrMany<Spanned<String>>, D::Error> {
    one_or_many(from, "the name of a task, or a list of names")
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

fn ready<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    text(from, "a string", |text| {
        if text.is_empty() {
            return Err("must not be empty: an empty text matches everything".to_owned());
        }
        if text.contains(char::is_control) {
            return Err(
                "must not contain a line break or another control character: it is searched \
                        in single lines of the output"
                    .to_owned(),
            );
        }
        Ok(Some(text.to_owned()))
    })
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
    let table: NotifyOnTable = table.try_into().map_err(D::Error::custom)?;
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
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<TaskEntry>, String> {
        parse_tasks(Path::new("/p/t.toml"), text).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn check_error(text: &str, expected: &str) {
        let error = parse(text).expect_err(text);
        assert_eq!(error, format!("/p/t.toml:{expected}"));
    }

    fn folder(path: &str, line: u32) -> TaskFolder {
        TaskFolder {
            path: path.into(),
            file: "/p/t.toml".into(),
            line,
        }
    }

    #[test]
    fn a_folder_that_is_none_is_an_error_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("t.toml");
        std::fs::write(&file, "").unwrap();
        let problem = |cwd: &str| {
            let text = format!("[tasks.a]\ncommand = 'x'\ncwd = '{cwd}'\n");
            let tasks = parse_tasks(&file, &text).unwrap();
            tasks[0].cwd.resolve("a").map_err(|error| error.to_string())
        };
        assert_eq!(problem("."), Ok(dir.path().canonicalize().unwrap()));
        let (file, dir) = (file.display(), dir.path().display());
        let missing = "No such file or directory";
        for (cwd, why) in [
            ("t.toml", format!("`{dir}/t.toml` is not a directory")),
            ("nope", format!("cannot run in `{dir}/nope`: {missing}")),
            (
                "~/a",
                format!("cannot run in `{dir}/~/a`: {missing}; `~` is not expanded"),
            ),
        ] {
            assert_eq!(problem(cwd), Err(format!("{file}:3: `tasks.a.cwd`: {why}")));
        }
    }

    #[test]
    fn every_key_is_read() {
        let text = r#"
            [tasks.api]
            command = ["npm", "start"]
            cwd = "web"
            restart = "on-failure:3"
            backoff = "500ms"
            after = ["db"]
            ready = "listening"

            [tasks.db]
            command = "docker compose up db"
            env = { A = "1" }
        "#;
        let [db, api] = <[TaskEntry; 2]>::try_from(parse(text).unwrap()).unwrap();
        assert_eq!(
            db,
            TaskEntry {
                name: "db".to_owned(),
                command: vec!["docker compose up db".to_owned()],
                cwd: folder("/p/", 10),
                env: vec![("A".to_owned(), "1".to_owned())],
                restart: None,
                stop: StopSettings::default(),
                notify_on: None,
                slot: None,
                after: Vec::new(),
                ready: None,
            }
        );
        assert_eq!(
            api,
            TaskEntry {
                name: "api".to_owned(),
                command: vec!["npm".to_owned(), "start".to_owned()],
                cwd: folder("/p/web", 4),
                env: Vec::new(),
                restart: Some(RestartPolicy {
                    limit: 3,
                    backoff: Duration::from_millis(500),
                }),
                stop: StopSettings::default(),
                notify_on: None,
                slot: None,
                after: vec!["db".to_owned()],
                ready: Some("listening".to_owned()),
            }
        );
    }

    #[test]
    fn tasks_come_after_those_before_them_and_else_as_in_the_file() {
        let tasks = parse(
            "[tasks.z]\ncommand = '1'\n[tasks.a]\ncommand = '2'\nafter = ['m']\n\
             [tasks.m]\ncommand = '3'\nafter = ['z']\n[tasks.b]\ncommand = '4'\n",
        );
        let names: Vec<String> = tasks.unwrap().into_iter().map(|task| task.name).collect();
        assert_eq!(names, ["z", "m", "a", "b"]);
    }

    #[test]
    fn one_name_is_a_list_of_one() {
        let before = |text: &str| {
            let tasks = parse(&format!(
                "[tasks.a]\ncommand = 'x'\n[tasks.b]\ncommand = 'y'\n{text}"
            ));
            tasks.map(|tasks| tasks.last().unwrap().after.clone())
        };
        for text in ["after = 'a'", "after = ['a']"] {
            assert_eq!(before(text), Ok(vec!["a".to_owned()]), "{text}");
        }
        assert_eq!(before("after = []"), Ok(Vec::new()));
        for (text, problem) in [
            ("after = 'c'", "`tasks.b.after`: there is no task `c`"),
            (
                "after = 'b'",
                "`tasks.b.after`: it cannot start after itself",
            ),
        ] {
            assert_eq!(before(text), Err(format!("/p/t.toml:5: {problem}")));
        }
        let error = before("after = 7").unwrap_err();
        assert!(
            error.contains("the name of a task, or a list of names"),
            "{error}"
        );
    }

    #[test]
    fn errors_name_the_line_and_the_key() {
        check_error("", "1: there is no task in it");
        check_error(
            "[taks.a]\ncommand = 'x'\n",
            "1: unknown key `taks`; did you mean `tasks`?",
        );
        check_error(
            "[tasks.a]\ncomand = 'x'\n",
            "2: unknown key `tasks.a.comand`; did you mean `command`?",
        );
        check_error("\n[tasks.a]\n", "2: `tasks.a`: missing field `command`");
        check_error(
            "[tasks.a]\ncommand = 7\n",
            "2: `tasks.a.command` must be a shell line, or a list of a program and its \
             arguments, found an integer",
        );
        check_error(
            "[tasks.a]\ncommand = ' '\n",
            "2: `tasks.a.command` must not be empty",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\nrestart = 'always'\n",
            "3: `tasks.a.restart`: `always` is not on-failure or on-failure:N, N from 1 to 1000",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\nbackoff = '1s'\n",
            "3: `tasks.a.backoff` needs `restart`",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\nready = ''\n",
            "3: `tasks.a.ready` must not be empty: an empty text matches everything",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\n[tasks.'a b']\ncommand = 'x'\n",
            "3: `tasks.a b`: `a b` is not a task name: 1 to 40 of `A-Z a-z 0-9 . _ -`, the first a \
             letter or digit",
        );
        for name in ["A=B", "B C", ""] {
            check_error(
                &format!("[tasks.a]\ncommand = 'x'\n[tasks.a.env]\nA = '1'\n'{name}' = '1'\n"),
                &format!("5: `tasks.a.env`: `{name}` cannot be the name of a variable"),
            );
        }
        for (key, line, text) in [
            ("command", 2, "command = [\"a\", \"b\\u0000\"]"),
            ("cwd", 3, "command = 'x'\ncwd = \"\\u0000\""),
            ("env.A", 3, "command = 'x'\nenv.A = \"\\u0000\""),
        ] {
            check_error(
                &format!("[tasks.a]\n{text}\n"),
                &format!("{line}: `tasks.a.{key}` must not contain a NUL"),
            );
        }
        check_error(
            "[tasks.a]\ncommand = 'x'\nready = \"a\\nb\"\n",
            "3: `tasks.a.ready` must not contain a line break or another control character: it is \
             searched in single lines of the output",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\nafter = ['b']\n",
            "3: `tasks.a.after`: there is no task `b`",
        );
        check_error(
            "[tasks.a]\ncommand = 'x'\nafter = ['a']\n",
            "3: `tasks.a.after`: it cannot start after itself",
        );
        check_error(
            "[tasks.o]\ncommand = 'x'\nafter = ['a']\n[tasks.a]\ncommand = 'x'\nafter = ['b']\n\
             [tasks.b]\ncommand = 'x'\nafter = ['a']\n",
            "1: tasks that start after each other: a after b after a",
        );
        let many = |n| {
            let tasks = (1..=n).map(|n| format!("[tasks.t{n}]\ncommand = 'x'\n"));
            tasks.collect::<String>()
        };
        check_error(
            &many(MOST_TASKS + 2),
            "2001: 1002 tasks are too many: a file has at most 1000",
        );
        assert_eq!(
            parse_tasks(Path::new("f"), &many(MOST_TASKS))
                .unwrap()
                .len(),
            MOST_TASKS
        );
    }
}
