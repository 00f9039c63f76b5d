//! What a user gives for a task: the options of `run` for its settings, and the keys of its table in the
//! project's file; also what it is ready by.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::time::Duration;

use clap::Args;
use regex::Regex;

use super::named_path::NamedPath;
use super::reader::{Table, Value};
use super::settings::parse_signal;
use super::value::{if_right, parse_duration, quotable, read_duration, read_time, wrong};
use crate::model::*;
use crate::rules::restarts::{self, DEFAULT_BACKOFF};

// How the runs of a task are treated, as options.
#[derive(Debug, Args)]
pub(crate) struct GivenSettings {
    /// Run it again when it ends with another code than 0 or by a signal: at most N times in a row
    /// (5). A run of a minute or more resets the count
    #[arg(
        long,
        value_name = "on-failure[:N]",
        value_parser = restarts::parse_limit,
        conflicts_with = "ends"
    )]
    restart: Option<u32>,
    /// With --restart: the pause before the first restart in a row [default: 1s]; it doubles with each
    /// one, up to a minute
    #[arg(long, value_name = "D", value_parser = |text: &str| restarts::check_backoff(read_duration(text)?), requires = "restart")]
    backoff: Option<Duration>,
    /// End the run when it has lasted this long, like 90s, 10m or 2h; as `kill` does
    #[arg(long, value_name = "D", value_parser = read_time)]
    kill_after: Option<Duration>,
    /// The signal that asks it to end, like SIGINT [default: SIGTERM, or `stop.signal` in the
    /// configuration]
    #[arg(long, value_name = "SIG", value_parser = parse_signal)]
    stop_signal: Option<Signal>,
    /// How long it has to end before SIGKILL; 0: no time [default: 10s, or `stop.grace` in the
    /// configuration]
    #[arg(long, value_name = "D", value_parser = read_duration)]
    grace: Option<Duration>,
    /// Send the signal to the command itself only, for programs that pass it on to their children
    /// and take a second one as `at once`, like docker compose
    #[arg(long)]
    parent_only: bool,
    /// Notify the owner when a line contains this text: at once, and then at most once in ten seconds;
    /// may be given more than once
    #[arg(long, value_name = "PATTERN", allow_hyphen_values = true)]
    notify_on: Vec<String>,
    /// Run at most so many at once of all runs with this name, in all sessions, like build:2; the others
    /// wait, in the order in which they came
    #[arg(long, value_name = "NAME:N", value_parser = Slot::parse)]
    slot: Option<Slot>,
    /// Which ends wake the conversation that started it; others are notices. A question always wakes [default:
    /// always]
    #[arg(long)]
    wake: Option<WakePolicy>,
    /// One message for the runs of this group: when the last of them has ended, and at once when one fails or
    /// asks for input
    #[arg(long, value_name = "NAME", value_parser = parse_group)]
    group: Option<String>,
}

impl GivenSettings {
    /// Returns the settings; the texts are read so.
    pub(crate) fn settings(self, regex: bool, ignore_case: bool) -> TaskSettings {
        TaskSettings {
            restarts: policy(self.restart, self.backoff),
            stop: StopSettings {
                signal: self.stop_signal,
                grace: self.grace,
                parent_only: self.parent_only,
                kill_after: self.kill_after,
            },
            notify_on: NotifyOn::given(self.notify_on, regex, ignore_case),
            slot: self.slot,
            wake: self.wake,
            group: self.group,
        }
    }
}

/// Reads the name of a group of runs.
pub(crate) fn parse_group(text: &str) -> Result<String, String> {
    task_name_of(text, "the name of a group")
}

fn policy(limit: Option<u32>, backoff: Option<Duration>) -> Option<TaskRestarts> {
    let backoff = backoff.unwrap_or(DEFAULT_BACKOFF);
    limit.map(|limit| TaskRestarts::new(RestartPolicy { limit, backoff }))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEntry {
    pub(crate) name: String,
    /// What is started, once [`TaskEntry::resolve`] has found its directory and variables.
    pub(crate) spec: TaskSpec,
    pub(crate) cwd: NamedPath,
    /// The files with variables for it; what its table has goes before them.
    pub(super) env_files: Vec<NamedPath>,
    pub(crate) after: Vec<String>,
    /// What says that it is ready. Without it, it is ready when it has ended with code 0.
    pub(crate) ready: Option<Ready>,
    /// Whether the user has named it: then it runs again although it has finished.
    pub(crate) is_named: bool,
}

impl TaskEntry {
    /// Finds its directory, and its variables: those of its files as they are now, and its own.
    pub(crate) fn resolve(mut self) -> Result<Self, Error> {
        self.spec.cwd = Some(self.cwd.resolve()?);
        let mut variables = BTreeMap::new();
        for file in &self.env_files {
            variables.extend(file.read_variables()?);
        }
        variables.extend(self.spec.env);
        self.spec.env = variables.into_iter().collect();
        Ok(self)
    }

    /// Reads the task of this name, of the table `tasks`. If it names no files of variables, it has these.
    pub(super) fn read(
        tasks: &Value<'_>,
        name: &str,
        table: &mut Table<'_>,
        env_files: &[NamedPath],
    ) -> Result<Self, String> {
        let command = table.read("command", command);
        let folder = table.path("cwd");
        let cwd = table.read("cwd", |value| {
            let path = (value.start, without_nul(value)?);
            Some(value.path(&path))
        });
        let env = table.read("env", |env| {
            env.map(|name, value| variable(env, name, value))
        });
        let restart = table.read("restart", |value| {
            value.text("\"on-failure\" or \"on-failure:N\"", restarts::parse_limit)
        });
        let has_restart = table.has("restart");
        let backoff = table.read("backoff", |value| {
            let pause = value.duration("a duration such as \"500ms\" or \"2s\"", |text| {
                let pause = parse_duration(text).ok_or_else(|| wrong(text, "is not a duration"))?;
                restarts::check_backoff(pause)
            })?;
            match has_restart {
                true => Some(pause),
                false => value.fail("needs `restart`"),
            }
        });
        let stop = StopSettings {
            signal: table.read("stop-signal", |value| {
                value.text("the name of a signal like \"SIGINT\"", parse_signal)
            }),
            grace: table.read("grace", |value| {
                value.duration("a duration such as \"10s\"", stop_time)
            }),
            parent_only: table.read_or("parent-only", false, |value| value.boolean()),
            kill_after: table.read("kill-after", |value| {
                value.duration("a duration such as \"10m\"", |text| {
                    match stop_time(text)? {
                        Duration::ZERO => Err("a run must have some time".to_owned()),
                        after => Ok(after),
                    }
                })
            }),
        };
        let after = |value: &Value<'_>| {
            let names = value.one_or_many("the name of a task, or a list of names")?;
            for (start, after) in &names {
                if after == name {
                    return value.fail_at(*start, "it cannot start after itself");
                } else if tasks.part(after).is_none() {
                    let why = format!("there is no task `{}`", quotable(after));
                    return value.fail_at(*start, &why);
                }
            }
            Some(names.into_iter().map(|(_, name)| name).collect())
        };
        let after = table.read("after", after).unwrap_or_default();
        let own_files = table.read("env-file", files_of_variables);
        let ready = table.read("ready", ready);
        let settings = TaskSettings {
            restarts: policy(restart, backoff),
            stop,
            notify_on: table.read("notify-on", notify_on),
            slot: table.read("slot", |value| {
                value.text("a slot like \"build:2\"", |text| {
                    Slot::parse(text).map_err(|why| wrong(text, &format!("is {why}")))
                })
            }),
            wake: table.read("wake", |value| value.choice()),
            group: table.read("group", |value| {
                value.text("the name of a group", parse_group)
            }),
        };
        Ok(Self {
            name: task_name(name)?,
            spec: TaskSpec {
                command: command.ok_or("missing field `command`")?,
                env: env.unwrap_or_default().into_iter().collect(),
                settings,
                ..TaskSpec::default()
            },
            cwd: cwd.unwrap_or(folder),
            env_files: own_files.unwrap_or_else(|| env_files.to_vec()),
            after,
            ready,
            is_named: false,
        })
    }
}

pub(super) fn task_name(name: &str) -> Result<String, String> {
    task_name_of(name, "a task name")
}

fn task_name_of(name: &str, what: &str) -> Result<String, String> {
    let why = format!("is not {what}: {TASK_NAME_RULE}");
    if_right(name, is_task_name(name), &why)
}

/// Reads a shell line, or a program and its arguments.
fn command(value: &Value<'_>) -> Option<Vec<OsString>> {
    let words = value.one_or_many("a shell line, or a list of a program and its arguments")?;
    let words: Vec<String> = words.into_iter().map(|(_, word)| word).collect();
    if words.iter().all(|word| word.trim().is_empty()) {
        return value.fail("must not be empty");
    }
    if words.iter().any(|word| word.contains('\0')) {
        return value.fail("must not contain a NUL");
    }
    Some(words.into_iter().map(Into::into).collect())
}

/// Reads a variable for the environment, of the table `env`.
fn variable(env: &Value<'_>, name: &str, value: &Value<'_>) -> Option<String> {
    let is_bad = |c: char| c == '=' || c.is_whitespace() || c.is_control();
    if name.is_empty() || name.contains(is_bad) {
        let why = wrong(name, "cannot be the name of a variable");
        return env.fail_at(value.start, &why);
    }
    without_nul(value)
}

fn without_nul(value: &Value<'_>) -> Option<String> {
    let text = value.string()?;
    match text.contains('\0') {
        true => value.fail("must not contain a NUL"),
        false => Some(text),
    }
}

pub(super) fn files_of_variables(value: &Value<'_>) -> Option<Vec<NamedPath>> {
    let files = value.one_or_many("a file, or a list of files")?;
    Some(files.iter().map(|file| value.path(file)).collect())
}

/// Reads the texts of `notify-on`, or a table with how they are read.
fn notify_on(value: &Value<'_>) -> Option<NotifyOn> {
    let texts = |value: &Value<'_>| {
        let texts = value.one_or_many("a text, or a list of texts")?.into_iter();
        Some(texts.map(|(_, text)| text).collect())
    };
    if !value.is_table() {
        return Some(NotifyOn {
            patterns: texts(value)?,
            ..NotifyOn::default()
        });
    }
    let keys = ["patterns", "regex", "ignore-case"];
    value.has_only(&keys, "one of `patterns`, `regex`, `ignore-case`")?;
    let flag = |key| value.part(key).map_or(Some(false), |flag| flag.boolean());
    let Some(patterns) = value.part("patterns") else {
        return value.fail("missing field `patterns`");
    };
    Some(NotifyOn {
        patterns: texts(&patterns)?,
        regex: flag("regex")?,
        ignore_case: flag("ignore-case")?,
    })
}

fn stop_time(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).filter(|time| *time <= StopSettings::LONGEST);
    duration.ok_or_else(|| wrong(text, "is not a duration, up to 366d"))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ready {
    /// A text of its output.
    Text(String),
    /// Its own processes listen on this port.
    Port(u16),
    /// It answers with a success or a redirection here.
    Http(HttpUrl),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpUrl {
    /// The host, a name or an address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Reads a text, `{ port = 3000 }` or `{ http = "http://127.0.0.1:3000/health" }`.
fn ready(value: &Value<'_>) -> Option<Ready> {
    if let Some(text) = value.as_str() {
        return value.checked(parse_text(text));
    }
    if !value.is_table() {
        return value.fail("must be a string, or a table with `port` or `http`");
    }
    value.has_only(&["port", "http"], "`port` or `http`")?;
    match (value.part("port"), value.part("http")) {
        (Some(port), None) => match port.number_like("u16", 0..=u16::MAX.into())? {
            0 => value.fail("must not have port 0"),
            port => Some(Ready::Port(port)),
        },
        (None, Some(url)) => value.checked(HttpUrl::parse(&url.string()?).map(Ready::Http)),
        (Some(_), Some(_)) | (None, None) => value.fail("must have either `port` or `http`"),
    }
}

fn parse_text(text: &str) -> Result<Ready, String> {
    if text.is_empty() {
        return Err("must not be empty: an empty text matches everything".to_owned());
    }
    let why = "must not contain a line break or another control character: it is searched in single \
               lines of the output";
    match text.contains(char::is_control) {
        true => Err(why.to_owned()),
        false => Ok(Ready::Text(text.to_owned())),
    }
}

impl HttpUrl {
    pub(crate) fn is_of_this_machine(&self) -> bool {
        let ip = self.host.parse::<IpAddr>();
        self.host == "localhost" || ip.is_ok_and(|ip| ip.is_loopback())
    }

    fn parse(text: &str) -> Result<Self, String> {
        // A fragment is not sent.
        static URL: LazyLock<Regex> = LazyLock::new(|| {
            let host = r"(?:\[([^\]]+)\]|([^\[\]/?#:@]+))";
            Regex::new(&format!(
                r"^http://{host}(?::([0-9]+))?([/?][^#]*)?(?:#.*)?$"
            ))
            .expect("a constant pattern compiles")
        });
        let wrong = |why: &str| Err(format!("`{}` {why}", quotable(text)));
        if text.starts_with("https://") {
            return wrong("is refused: https is not supported, only http");
        }
        let is_plain = text.chars().all(|c| c.is_ascii_graphic());
        let parts = URL.captures(text).filter(|_| is_plain);
        let part = |n: usize| Some(parts.as_ref()?.get(n)?.as_str());
        let port = part(3).map_or(Ok(80), str::parse).unwrap_or_default();
        let Some(host) = part(1).or(part(2)).filter(|_| port != 0) else {
            return wrong("is not an address like http://127.0.0.1:3000/health");
        };
        let path = part(4).unwrap_or_default();
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            host: host.to_owned(),
            port,
            path: format!("{slash}{path}"),
            text: text.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::rows;

    #[test]
    fn an_address_has_a_host_a_port_and_a_path() {
        let parts = |text: &str| {
            let url = HttpUrl::parse(text).ok()?;
            Some(format!("{} {} {}", url.host, url.port, url.path))
        };
        for [text, expected] in rows(
            "http://127.0.0.1:3000/health | 127.0.0.1 3000 /health
             http://localhost | localhost 80 /
             http://localhost:8080?deep=1 | localhost 8080 /?deep=1
             http://[::1]:3000/a:b/ | ::1 3000 /a:b/
             http://[::1]/#part | ::1 80 /",
        ) {
            assert_eq!(parts(&text), Some(expected), "{text}");
        }
        let wrong = "127.0.0.1:3000 ftp://a/ http:// http://:80/ http://a:0/ http://a:70000/ \
                     http://a:port/ http://user@a/";
        let with_blanks = ["", "http://a/ HTTP/1.1", "http://a/\r\nX: y"];
        for text in wrong.split(' ').chain(with_blanks) {
            assert_eq!(parts(text), None, "{text}");
        }
        let refused = HttpUrl::parse("https://a/").unwrap_err();
        let expected = "`https://a/` is refused: https is not supported, only http";
        assert_eq!(refused, expected);
    }
}
