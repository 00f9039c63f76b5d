//! What gets records: a program or an address. Each delivery succeeds or fails as a whole.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use clap::ValueEnum;
use tokio::process::Command;

use super::delivery::Delivery;
#[cfg(feature = "webhook")]
use super::webhook::Webhook;
use crate::config::{SinkConfig, SinkFilter, SinkTarget};
use crate::model::environment::reaches_tmux_server;
use crate::model::{Body, Error, EventType, Kind, Level, Millis};
use crate::process::{ProgramEnd, run_program};
use crate::wire::{Filter, is_owner_of};

#[derive(Debug, Clone)]
pub(super) enum Sink {
    /// A program.
    Exec(Exec),
    /// An address.
    #[cfg(feature = "webhook")]
    Webhook(Webhook),
}

impl Sink {
    /// Returns the sink that the configuration describes.
    pub(super) fn of(config: &SinkConfig) -> Self {
        match &config.target {
            SinkTarget::Exec(words) => Self::Exec(Exec {
                words: words.clone(),
                timeout: config.timeout,
            }),
            #[cfg(feature = "webhook")]
            SinkTarget::Webhook {
                url,
                secret_file,
                ca_file,
                message,
            } => Self::Webhook(Webhook {
                url: url.clone(),
                secret_file: secret_file.clone(),
                ca_file: ca_file.clone(),
                message: message.clone(),
                timeout: config.timeout,
            }),
        }
    }

    /// Returns what kind of sink it is, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Exec(_) => "exec",
            #[cfg(feature = "webhook")]
            Self::Webhook(_) => "webhook",
        }
    }

    /// Delivers a record. `now` is the present time.
    ///
    /// # Cancel safety
    ///
    /// When the future is dropped, a program is ended, and a request may go on until it has ended.
    ///
    /// # Errors
    ///
    /// When it is not certain that the sink has it.
    #[cfg_attr(
        not(feature = "webhook"),
        allow(unused_variables, reason = "only a webhook's signature has the time")
    )]
    pub(super) async fn deliver(&self, delivery: &Delivery, now: Millis) -> Result<(), Error> {
        match self {
            Self::Exec(exec) => exec.deliver(delivery).await,
            #[cfg(feature = "webhook")]
            Self::Webhook(webhook) => webhook.deliver(delivery, now).await,
        }
    }
}

/// A program with its arguments. No shell reads them.
#[derive(Debug, Clone)]
pub(crate) struct Exec {
    /// The program, then its arguments.
    pub(crate) words: Vec<String>,
    /// How long it may run.
    pub(crate) timeout: Duration,
}

impl Exec {
    /// Runs the program. It has taken the record if it ends with 0.
    pub(super) async fn deliver(&self, delivery: &Delivery) -> Result<(), Error> {
        let Some((program, args)) = self.words.split_first() else {
            return Ok(());
        };
        // What whoever started the daemon had in their environment is none of the program's business.
        let login =
            env::vars_os().filter(|(name, _)| name.to_str().is_some_and(reaches_tmux_server));
        let own = delivery.variables.iter();
        let own =
            own.map(|(name, value)| (OsString::from(format!("TMUX_TASK_{name}")), value.into()));
        let variables: Vec<(OsString, OsString)> = login.chain(own).collect();
        let home = env::home_dir().filter(|home| home.is_dir());
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(variables)
            .current_dir(home.as_deref().unwrap_or(Path::new("/")))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        // A program need not read the record.
        let record = format!("{}\n", delivery.line);
        let ended = run_program(&mut command, record.as_bytes(), self.timeout).await;
        ended.map_err(|end| match end {
            ProgramEnd::NotStarted(error) => {
                Error::io(format_args!("could not start `{program}`"), &error)
            }
            ProgramEnd::TimedOut => {
                let limit = self.timeout.as_secs_f32();
                Error::failed(format!("no end within {limit}s"))
            }
            ProgramEnd::Unknown(error) => Error::failed(error.to_string()),
            ProgramEnd::Failed(status, Some(last)) => Error::failed(format!("{status}: {last}")),
            ProgramEnd::Failed(status, None) => Error::failed(status.to_string()),
        })
    }
}

#[derive(Debug, Clone)]
pub(super) struct Selection {
    pub(super) filter: Filter,
    pub(super) owners: Vec<String>,
    level: Option<Level>,
}

impl Selection {
    pub(super) fn new(config: &SinkFilter) -> Self {
        Self {
            filter: Filter::new(
                config
                    .kinds
                    .iter()
                    .filter_map(|name| Kind::from_str(name, false).ok())
                    .collect(),
                config
                    .types
                    .iter()
                    .filter_map(|name| EventType::from_str(name, false).ok())
                    .collect(),
                config.tasks.clone(),
            ),
            owners: config.owners.clone(),
            level: config.level,
        }
    }

    /// Whether a record that the filter passes is wanted.
    pub(super) fn wants(&self, body: &Body) -> bool {
        let (level, owner) = match body {
            Body::Event(event) => (event.level(), &event.task.owner),
            Body::Notice { level, owner, .. } | Body::FollowUp { level, owner, .. } => {
                (*level, owner)
            }
        };
        let is_important = self.level != Some(Level::Warning) || level == Level::Warning;
        // What has no owner is everybody's.
        let is_theirs = self.owners.is_empty()
            || owner
                .as_ref()
                .is_none_or(|owner| self.owners.iter().any(|one| is_owner_of(one, owner)));
        is_important && is_theirs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::with_causes;

    async fn run(line: &str, timeout: Duration) -> Result<(), Error> {
        let words = ["sh", "-c", line].map(str::to_owned).to_vec();
        let delivery = Delivery {
            id: "e:1".to_owned(),
            line: "{\"seq\":1}".to_owned(),
            variables: vec![("KIND", "event".to_owned())],
        };
        Exec { words, timeout }.deliver(&delivery).await
    }

    #[track_caller]
    fn check(said: Result<(), Error>, expected: &str) {
        assert_eq!(said.unwrap_err().to_string(), expected);
    }

    #[tokio::test]
    async fn a_program_has_the_record_if_it_ends_with_0() {
        let minute = Duration::from_secs(60);
        let line = "read -r r && test \"$r\" = '{\"seq\":1}' && test \"$TMUX_TASK_KIND\" = event";
        run(line, minute).await.unwrap();
        // It need not read, and what it leaves behind is not waited for.
        let dir = tempfile::tempdir().unwrap();
        let left = format!(
            "while test -e '{}'; do sleep 0.1; done & true",
            dir.path().display()
        );
        run(&left, minute).await.unwrap();
        drop(dir);
        check(
            run("echo a >&2; echo b >&2; exit 3", minute).await,
            "exit status: 3: b",
        );
        check(run("kill -9 $$", minute).await, "signal: 9 (SIGKILL)");
        check(
            run("sleep 60", Duration::from_millis(50)).await,
            "no end within 0.05s",
        );
        let exec = Exec {
            words: vec!["/no/such".to_owned()],
            timeout: minute,
        };
        let delivery = Delivery {
            id: String::new(),
            line: String::new(),
            variables: Vec::new(),
        };
        let error = with_causes(&exec.deliver(&delivery).await.unwrap_err());
        assert!(
            error.starts_with("could not start `/no/such`: No such file"),
            "{error}"
        );
    }
}

#[cfg(test)]
mod selection_tests {
    use super::*;

    #[track_caller]
    fn check(owners: &[&str], level: Option<Level>, of: Option<&str>, at: &str, wanted: bool) {
        let config = SinkFilter {
            owners: owners.iter().map(|&owner| owner.to_owned()).collect(),
            level,
            ..SinkFilter::default()
        };
        let notice = serde_json::json!({"kind": "notice", "level": at, "text": "", "events": [], "owner": of});
        let body = serde_json::from_value(notice).unwrap();
        assert_eq!(Selection::new(&config).wants(&body), wanted);
    }

    #[test]
    fn a_sink_gets_its_owners_and_everybodys_records() {
        check(&[], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:1"), "info", true);
        check(&["pi:1"], None, Some("pi:12"), "info", false);
        check(&["x", "pi:*"], None, Some("pi:12"), "info", true);
        check(&["pi:1"], None, None, "info", true);
        check(&[], Some(Level::Warning), None, "info", false);
        check(&[], Some(Level::Warning), None, "warning", true);
        check(&[], Some(Level::Info), None, "info", true);
    }

    #[test]
    fn kinds_and_types_are_those_of_the_feed() {
        let config = SinkFilter {
            kinds: vec!["event", "notice", "followUp"],
            types: vec![
                "started",
                "exited",
                "notify",
                "output",
                "input",
                "inputResolved",
                "disappeared",
            ],
            ..SinkFilter::default()
        };
        let filter = Selection::new(&config).filter;
        assert_eq!(filter.kinds, [Kind::Event, Kind::Notice, Kind::FollowUp]);
        assert_eq!(filter.types, EventType::value_variants());
    }
}
