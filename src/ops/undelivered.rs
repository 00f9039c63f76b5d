//! Whether anything delivers messages to the conversation that has started a task. For a thread of Codex, a process
//! is started that does.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::list::count;
use super::lookup;
use super::remote_conversation::{consumer_name, find_consumer};
use super::session::TaskSession;
use crate::client::READY;
use crate::clock;
use crate::config::paths::adapter_file;
use crate::env;
use crate::model::environment::covers_name;
use crate::model::{Error, Millis, with_causes};
use crate::process::ancestor_named;
use crate::rules::wire::{
    ADAPTER_CLIENTS, ConsumerStatus, MessageReaders, Request, SINK_PREFIX, client_of,
};

/// How long an adapter that is starting, or a program that connects again, may take.
const CONNECTS_WITHIN: Duration = Duration::from_secs(1);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long the consumer of a conversation may have no reader, in milliseconds, while its client's
/// adapter is installed: the one of Claude Code reads when a turn ends, and others read again when the
/// conversation is resumed.
const RESUMED_WITHIN: Millis = 24 * 60 * 60 * 1000;

/// How long programs have to connect to a new daemon, in milliseconds.
const CONNECTED_WITHIN: Millis = 60_000;

/// The adapter of a conversation's client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Adapter {
    /// The client has none.
    None,
    /// `init` installs it for this client.
    Available(&'static str),
    /// It is installed, and does not follow the conversation in this session.
    Silent(&'static str),
}

/// Returns the adapter of the owner of runs in this session, if nothing delivers messages to it. A reader that is
/// expected is waited for. What cannot be found out counts as a delivery.
pub(crate) async fn undelivered_to(session: &TaskSession, owner: &str) -> Option<Adapter> {
    let adapters = installed_adapters();
    // Without a daemon nothing is recorded, and nobody gets a message.
    if let Some(mut daemon) = session.daemon().await.ok()? {
        let deadline = Instant::now() + CONNECTS_WITHIN;
        loop {
            let found = daemon.ask(&Request::MessageReaders).await.ok()?;
            let readers = Readers {
                found,
                adapters: &adapters,
                now: clock::now().wall,
            };
            if readers.deliver_to(owner) {
                return None;
            }
            if !readers.are_expected(owner) || Instant::now() >= deadline {
                break;
            }
            sleep(LOOK_EVERY).await;
        }
    }
    Some(match client_of(owner) {
        None => Adapter::None,
        Some(client) if adapters.contains(&client) => Adapter::Silent(client),
        Some(client) => Adapter::Available(client),
    })
}

fn installed_adapters() -> Vec<&'static str> {
    let is_installed = |client: &&str| {
        let file = adapter_file(client, &lookup);
        file.as_deref().is_some_and(Path::exists)
    };
    ADAPTER_CLIENTS.into_iter().filter(is_installed).collect()
}

/// Whether a consumer reads the messages of this owner.
fn reads_for(consumer: &ConsumerStatus, owner: &str) -> bool {
    let audience = &consumer.audience;
    // A log, or what tells the user, where the client has an adapter.
    let is_log = || consumer.name.starts_with(SINK_PREFIX) && client_of(owner).is_some();
    audience.follow_ups
        && match audience.owners.as_slice() {
            [] => !is_log(),
            owners => owners.iter().any(|pattern| covers_name(pattern, owner)),
        }
}

/// Who reads the messages of a session, and for which clients this user has an adapter.
struct Readers<'a> {
    found: MessageReaders,
    adapters: &'a [&'static str],
    now: Millis,
}

impl Readers<'_> {
    /// Whether something will deliver a message for this owner that is recorded now.
    fn deliver_to(&self, owner: &str) -> bool {
        let reads = |program: &Option<String>| program.as_ref().is_none_or(|of| of == owner);
        let is_read = |consumer| reads_for(consumer, owner) && self.is_there(consumer);
        // A process follows a thread of Codex only from its first launch on: the launch has started it.
        let is_followed_later = client_of(owner) == Some("codex") && self.has_adapter("codex");
        self.found.programs.iter().any(reads)
            || self.found.consumers.iter().any(is_read)
            || is_followed_later
    }

    /// Whether a reader may connect soon: its adapter is installed, or one has left just now.
    fn are_expected(&self, owner: &str) -> bool {
        let has_left = |consumer: &ConsumerStatus| {
            reads_for(consumer, owner) && self.now - consumer.used_at < CONNECTED_WITHIN
        };
        client_of(owner).is_some_and(|client| self.has_adapter(client))
            || self.found.consumers.iter().any(has_left)
    }

    /// Whether a consumer is read, or will be.
    fn is_there(&self, consumer: &ConsumerStatus) -> bool {
        let unused = self.now.saturating_sub(consumer.used_at);
        // That of a conversation of another machine, `MACHINE.CLIENT:ID`, has its adapter there.
        let mut clients = ADAPTER_CLIENTS.iter();
        let is_resumed = client_of(&consumer.name).is_some_and(|client| self.has_adapter(client))
            || clients.any(|client| consumer.name.contains(&format!(".{client}:")));
        // A daemon that has seen no reader of it: programs connect again.
        let started_at = self.found.daemon_started_at;
        let is_connecting =
            consumer.used_at < started_at && self.now - started_at < CONNECTED_WITHIN;
        consumer.reader.is_some() || (is_resumed || is_connecting) && unused < RESUMED_WITHIN
    }

    fn has_adapter(&self, client: &str) -> bool {
        self.adapters.contains(&client)
    }
}

// The process that delivers follow-ups to a thread of Codex is started when a task is run from its shell.
//
// There is one such process for each thread and task session: the reader of the thread's consumer. When it has ended
// its stream, it looks once more whether it is needed. So a launch that has found the reader is noticed by it.

/// How long a launch waits to learn whether the thread can be woken.
const REPORTS_WITHIN: Duration = Duration::from_secs(3);

/// Starts a follower if the owner is a thread of Codex, Codex's adapter is installed and no follower
/// runs. To be called after the launch. Returns why the thread cannot be woken; `None` when it can be,
/// or when that is not known in time.
pub(super) async fn start_codex_follower(
    session: &TaskSession,
    owner: Option<&str>,
) -> Option<String> {
    let thread = owner?.strip_prefix("codex:")?;
    if !adapter_file("codex", &lookup)?.exists() {
        return None;
    }
    let known = consumer(session, owner?).await;
    if known.is_ok_and(|known| known.is_some_and(|known| known.reader.is_some())) {
        return None;
    }
    let mut command = follower_command(session, "codex", thread).ok()?;
    command
        .arg("--background")
        // Codex's shells need not have it on their `PATH`.
        .args(ancestor_named("codex").map_or_else(Vec::new, |program| {
            vec![OsString::from("--program"), program.into()]
        }))
        .stdout(Stdio::piped());
    let mut follower = match command.spawn() {
        Ok(follower) => follower,
        Err(error) => {
            let why = with_causes(&error);
            return Some(format!("no process for it could be started: {why}"));
        }
    };
    let mut line = String::new();
    let mut stdout = BufReader::new(follower.stdout.take()?);
    let read = timeout(REPORTS_WITHIN, stdout.read_line(&mut line)).await;
    let line = line.trim();
    (matches!(read, Ok(Ok(_))) && !line.is_empty() && line != READY).then(|| line.to_owned())
}

/// Returns a process that delivers follow-ups to this conversation of a client, and says nothing.
pub(crate) fn follower_command(
    session: &TaskSession,
    client: &str,
    id: &str,
) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    env::pass_on(command.as_std_mut());
    command
        .args(session.words())
        .args(["agent", client, "--id", id])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Ok(command)
}

/// Whether something is left to do for a thread that has no follower.
pub(crate) async fn needs_codex_follower(
    session: &TaskSession,
    owner: &str,
) -> Result<bool, Error> {
    let known = consumer(session, owner).await?;
    let Some(known) = known.filter(|known| known.reader.is_none()) else {
        return Ok(false);
    };
    let counts = count(&mut session.for_request()).await?;
    Ok(known.lag > 0 || counts.running + counts.waiting + counts.restarting > 0)
}

/// Returns the consumer of a thread; `None` when there is none, or no daemon.
async fn consumer(session: &TaskSession, owner: &str) -> Result<Option<ConsumerStatus>, Error> {
    match session.daemon().await? {
        Some(mut daemon) => find_consumer(&mut daemon, &consumer_name("", owner)).await,
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::test_notation::consumer_status;
    use crate::rules::wire::ConsumerAudience;

    const HOUR: Millis = 3_600_000;
    const DAY: Millis = 24 * HOUR;

    const NO_ADAPTER: &[&str] = &[];

    /// The time, by the clock of a daemon that has run for long.
    const NOW: Millis = 100 * DAY;

    /// A consumer for this owner, or for all, that was last used so long ago.
    fn consumer(name: &str, owner: Option<&str>, unused: Millis, is_read: bool) -> ConsumerStatus {
        ConsumerStatus {
            reader: is_read.then_some(7),
            audience: ConsumerAudience {
                follow_ups: true,
                owners: owner.map(ToOwned::to_owned).into_iter().collect(),
            },
            ..consumer_status(name, 0, 0, NOW - unused)
        }
    }

    /// Whether messages reach `claude:a`.
    fn reach(found: MessageReaders, adapters: &[&'static str]) -> bool {
        let readers = Readers {
            found,
            adapters,
            now: NOW,
        };
        readers.deliver_to("claude:a")
    }

    #[test]
    fn a_program_or_a_consumer_that_is_there_delivers() {
        for (owners, adapters, expected) in [
            (&[Some("pi:1"), Some("claude:a")][..], NO_ADAPTER, true),
            (&[Some("pi:1")], NO_ADAPTER, false),
            (&[None], NO_ADAPTER, true),
            (&[], &["pi"], false),
        ] {
            let owned = |owner: &Option<&str>| owner.map(ToOwned::to_owned);
            let programs = MessageReaders {
                programs: owners.iter().map(owned).collect(),
                ..MessageReaders::default()
            };
            assert_eq!(reach(programs, adapters), expected, "{owners:?}");
        }
        let own = Some("claude:a");
        for (name, owner, unused, is_read, adapters, expected) in [
            ("claude:a", own, 0, true, NO_ADAPTER, true),
            ("claude:a", own, 0, false, NO_ADAPTER, false),
            ("claude:a", own, HOUR, false, &["claude"], true),
            ("claude:a", own, DAY, false, &["claude"], false),
            // Its adapter is installed on its machine.
            ("desk.claude:a", own, HOUR, false, NO_ADAPTER, true),
            // A sink for all owners is a log, where the client has an adapter.
            ("sink:s", None, 0, true, NO_ADAPTER, false),
            ("sink:s", Some("claude:*"), 0, true, NO_ADAPTER, true),
            ("all", None, 0, true, NO_ADAPTER, true),
        ] {
            let found = MessageReaders {
                consumers: vec![consumer(name, owner, unused, is_read)],
                ..MessageReaders::default()
            };
            let case = format!("{name} {owner:?} {unused} {is_read} {adapters:?}");
            assert_eq!(reach(found, adapters), expected, "{case}");
        }
    }

    #[test]
    fn readers_of_the_last_daemon_have_a_minute_to_connect() {
        for (started, unused, expected) in [
            (1000, HOUR, true),
            (1000, 2 * DAY, false),
            // It has left this daemon.
            (2000, 1000, false),
            (60_000, HOUR, false),
        ] {
            let found = MessageReaders {
                consumers: vec![consumer("mine", None, unused, false)],
                daemon_started_at: NOW - started,
                ..MessageReaders::default()
            };
            assert_eq!(reach(found, NO_ADAPTER), expected, "{started} {unused}");
        }
    }
}
