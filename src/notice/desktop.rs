//! Desktop notifications, sent over the session bus (`org.freedesktop.Notifications`).

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::future::{Future, pending};
use std::path::Path;
use std::time::Duration;

use futures_util::StreamExt;
use zbus::message::Type;
use zbus::{Connection, Message, MessageStream, Variant};

use super::LogOnce;
use crate::model::{Level, text};

/// Time limit for one notice. A bus or a notification server that hangs never answers, and a notice
/// that arrives later is useless.
const LIMIT: Duration = Duration::from_secs(2);

/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 100;

/// The maximum length of a body, in characters, with entities expanded.
const MAX_BODY_CHARS: usize = 1000;

/// How many slots are remembered. An older notice is not replaced.
const MOST_SLOTS: usize = 256;

/// The service that shows notifications: its name, its interface, and the path of its object.
const SERVICE: &str = "org.freedesktop.Notifications";
const OBJECT: &str = "/org/freedesktop/Notifications";

/// The name and interface of the bus itself.
const BUS: &str = "org.freedesktop.DBus";

/// What is received: clicks, and that another program shows notifications from now on.
const RULES: [&str; 2] = [
    "type='signal',sender='org.freedesktop.Notifications',\
     interface='org.freedesktop.Notifications',member='ActionInvoked'",
    "type='signal',sender='org.freedesktop.DBus',interface='org.freedesktop.DBus',\
     member='NameOwnerChanged',arg0='org.freedesktop.Notifications'",
];

/// The action of a click on the notification itself.
const CLICK: &str = "default";

/// A notice for the desktop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesktopNotice {
    /// How urgent it is.
    pub level: Level,
    /// Shown as one line of at most 100 characters.
    pub title: String,
    /// Shown literally, line ends included, with markup escaped, and at most 1000 characters long.
    pub body: String,
    /// A notice replaces the earlier one of its slot. `None` replaces nothing.
    pub slot: Option<u64>,
    /// The label of what a click does, which [`Desktop::clicked`] reports; `None` for nothing.
    /// Needs a slot.
    pub action: Option<String>,
}

/// Shows notices on the desktop.
///
/// The connection is made for the first notice and made again after a failure, so that the desktop
/// may start, end or be replaced at any time. Each kind of failure is logged once until a notice
/// succeeds again; callers need not log the errors of [`Desktop::show`].
#[derive(Debug, Default)]
pub struct Desktop {
    failures: LogOnce<DesktopError>,
    session: Option<Session>,
}

/// A connection to the bus, and what is shown over it.
#[derive(Debug)]
struct Session {
    connection: Connection,
    messages: MessageStream,
    /// Whether the notification server supports actions; `None` until it was asked.
    has_actions: Option<bool>,
    /// The server's id of the last notice in each slot.
    ids: BTreeMap<u64, u32>,
}

/// Why a notice did not reach the desktop.
#[derive(Debug, thiserror::Error)]
pub enum DesktopError {
    /// No session bus is named: normal on servers and in containers. Nothing was tried.
    #[error("no session bus: neither $DBUS_SESSION_BUS_ADDRESS nor $XDG_RUNTIME_DIR/bus is there")]
    NoBus,
    /// The bus works, but no notification server is running on it.
    #[error("no notifier is running on the session bus")]
    NoNotifier,
    /// The bus or the notification server hangs.
    #[error("the desktop did not answer within {} s", .limit.as_secs())]
    TimedOut {
        /// The time limit.
        limit: Duration,
    },
    /// The bus cannot be reached, or the notification server refused the notice.
    #[error("could not send a desktop notice")]
    Failed {
        /// The error of the D-Bus client.
        #[source]
        source: Box<zbus::Error>,
    },
}

impl Desktop {
    /// Returns a sink for the desktop that this process's environment names. It connects when there
    /// is something to show.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows one notice, within two seconds.
    ///
    /// # Errors
    ///
    /// Failures are harmless. New kinds of failure have been logged.
    ///
    /// # Cancel safety
    ///
    /// The notice may or may not have been shown if the future is dropped.
    pub async fn show(&mut self, notice: &DesktopNotice) -> Result<(), DesktopError> {
        let outcome = self.try_show(notice).await;
        match &outcome {
            Ok(()) => {
                if self.failures.clear() {
                    tracing::info!("desktop notices work again");
                }
            }
            Err(error) => {
                if self.failures.admit(error) {
                    let cause = std::error::Error::source(error).map(tracing::field::display);
                    tracing::warn!(%error, cause, "desktop notices are not shown");
                }
            }
        }
        outcome
    }

    async fn try_show(&mut self, notice: &DesktopNotice) -> Result<(), DesktopError> {
        if !is_bus_in_environment() {
            return Err(DesktopError::NoBus);
        }
        // A connection that was lost since the last notice is not a failure.
        self.session
            .take_if(|session| session.connection.is_closed());
        let outcome = within(async {
            let session = match self.session.take() {
                Some(session) => session,
                None => Session::open().await?,
            };
            self.session.insert(session).show(notice).await
        })
        .await;
        if outcome.is_err() {
            self.session = None;
        }
        outcome
    }

    /// Removes the notice of this slot, if it is still shown.
    pub async fn withdraw(&mut self, slot: u64) {
        if let Some(session) = &mut self.session
            && let Some(id) = session.ids.remove(&slot)
        {
            // The user may have closed it.
            let closed = within(session.call("CloseNotification", &id)).await;
            drop(closed);
        }
    }

    /// Resolves with the slot of a notice that the user has clicked.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped.
    pub async fn clicked(&mut self) -> u64 {
        loop {
            let Some(session) = &mut self.session else {
                return pending().await;
            };
            match session.messages.next().await {
                Some(Ok(message)) => {
                    if let Some(slot) = session.on_message(&message) {
                        return slot;
                    }
                }
                // The next notice connects again.
                Some(Err(_)) | None => self.session = None,
            }
        }
    }
}

impl Session {
    async fn open() -> zbus::Result<Self> {
        let connection = Connection::session().await?;
        let messages = MessageStream::from(&connection);
        for rule in RULES {
            connection
                .call_method(
                    Some(BUS),
                    "/org/freedesktop/DBus",
                    Some(BUS),
                    "AddMatch",
                    &rule,
                )
                .await?;
        }
        Ok(Self {
            connection,
            messages,
            has_actions: None,
            ids: BTreeMap::new(),
        })
    }

    async fn call<B>(&self, method: &'static str, body: &B) -> zbus::Result<Message>
    where
        B: serde::Serialize + zbus::zvariant::DynamicType,
    {
        self.connection
            .call_method(Some(SERVICE), OBJECT, Some(SERVICE), method, body)
            .await
    }

    async fn show(&mut self, notice: &DesktopNotice) -> zbus::Result<()> {
        let mut actions: Vec<&str> = Vec::new();
        if let Some(label) = &notice.action
            && self.has_actions().await?
        {
            actions.extend([CLICK, label]);
        }
        let replaced = notice.slot.and_then(|slot| self.ids.get(&slot).copied());
        let hints = HashMap::from([("urgency", Variant::from(urgency(notice.level)))]);
        let reply = self
            .call(
                "Notify",
                &(
                    "tmux-task",
                    replaced.unwrap_or(0),
                    "",
                    render_title(&notice.title),
                    render_body(&notice.body),
                    actions,
                    hints,
                    -1_i32,
                ),
            )
            .await?;
        let id: u32 = reply.body().deserialize()?;
        if let Some(slot) = notice.slot {
            self.ids.insert(slot, id);
            while self.ids.len() > MOST_SLOTS {
                // The server counts its ids upwards.
                let oldest = self.ids.iter().min_by_key(|(_, id)| **id);
                let Some(oldest) = oldest.map(|(slot, _)| *slot) else {
                    break;
                };
                self.ids.remove(&oldest);
            }
        }
        Ok(())
    }

    async fn has_actions(&mut self) -> zbus::Result<bool> {
        if let Some(known) = self.has_actions {
            return Ok(known);
        }
        let reply = self.call("GetCapabilities", &()).await?;
        let capabilities: Vec<String> = reply.body().deserialize()?;
        let has_actions = capabilities.iter().any(|known| known == "actions");
        self.has_actions = Some(has_actions);
        Ok(has_actions)
    }

    /// Processes a message of the bus. Returns the slot of a notice that was clicked.
    fn on_message(&mut self, message: &Message) -> Option<u64> {
        let header = message.header();
        if header.message_type() != Type::Signal {
            return None;
        }
        match header.member()?.as_str() {
            "ActionInvoked" => {
                let (id, _action): (u32, String) = message.body().deserialize().ok()?;
                let clicked = self.ids.iter().find(|(_, known)| **known == id)?;
                Some(*clicked.0)
            }
            "NameOwnerChanged" => {
                // Another server counts its own ids.
                self.ids.clear();
                self.has_actions = None;
                None
            }
            _ => None,
        }
    }
}

async fn within<T>(call: impl Future<Output = zbus::Result<T>>) -> Result<T, DesktopError> {
    match tokio::time::timeout(LIMIT, call).await {
        Ok(answer) => answer.map_err(classify),
        Err(_elapsed) => Err(DesktopError::TimedOut { limit: LIMIT }),
    }
}

/// Returns the name of the notification service of the desktop that this process's environment
/// names. Asking starts it where the bus does so.
///
/// # Errors
///
/// When there is no bus or no service, or no answer within two seconds.
pub async fn notifier() -> Result<String, DesktopError> {
    if !is_bus_in_environment() {
        return Err(DesktopError::NoBus);
    }
    within(async {
        let session = Session::open().await?;
        let reply = session.call("GetServerInformation", &()).await?;
        let (name, _vendor, _version, _spec): (String, String, String, String) =
            reply.body().deserialize()?;
        Ok(render_title(&name))
    })
    .await
}

fn is_bus_in_environment() -> bool {
    is_bus_named(
        std::env::var_os("DBUS_SESSION_BUS_ADDRESS").as_deref(),
        std::env::var_os("XDG_RUNTIME_DIR").as_deref(),
    )
}

/// Whether the environment names a bus. An address that is set but empty names none, as for the
/// D-Bus client.
fn is_bus_named(address: Option<&OsStr>, runtime_dir: Option<&OsStr>) -> bool {
    match address {
        Some(address) => !address.is_empty(),
        None => runtime_dir
            .filter(|dir| !dir.is_empty())
            .is_some_and(|dir| Path::new(dir).join("bus").exists()),
    }
}

/// The D-Bus client has several variants for an error of the bus. Their texts start with its D-Bus
/// name.
fn classify(source: zbus::Error) -> DesktopError {
    const NO_OWNER: [&str; 2] = [
        "org.freedesktop.DBus.Error.ServiceUnknown",
        "org.freedesktop.DBus.Error.NameHasNoOwner",
    ];
    let text = source.to_string();
    if NO_OWNER.iter().any(|name| text.starts_with(name)) {
        DesktopError::NoNotifier
    } else {
        DesktopError::Failed {
            source: Box::new(source),
        }
    }
}

/// Critical notices (2) stay on most desktops until they are dismissed, and some ignore "do not
/// disturb". A task is never that important.
fn urgency(level: Level) -> u8 {
    match level {
        Level::Info => 0,
        Level::Warning => 1,
    }
}

/// Titles are plain text on every desktop, so nothing is escaped.
fn render_title(title: &str) -> String {
    text::one_line(title.as_bytes(), MAX_TITLE_CHARS)
}

/// Bodies are markup: each line is sanitised, then all is escaped and bounded.
fn render_body(body: &str) -> String {
    let rows: Vec<String> = body
        .split('\n')
        .map(|line| text::row(line.as_bytes()))
        .collect();
    escape(rows.join("\n").trim_end_matches('\n'), MAX_BODY_CHARS)
}

/// Returns `text` as markup that displays it, at most `max_chars` characters with entities
/// expanded. `…` marks a cut, which never splits an entity.
fn escape(text: &str, max_chars: usize) -> String {
    let mut markup = String::with_capacity(text.len().min(max_chars * 4));
    let mut n_chars = 0;
    // Where `markup` ends if it has to be cut: the last place with room for the `…`.
    let mut cut_at = 0;
    for c in text.chars() {
        let before = markup.len();
        match c {
            '&' => markup.push_str("&amp;"),
            '<' => markup.push_str("&lt;"),
            '>' => markup.push_str("&gt;"),
            c => markup.push(c),
        }
        n_chars += markup[before..].chars().count();
        if n_chars > max_chars {
            markup.truncate(cut_at);
            if max_chars > 0 {
                markup.push('…');
            }
            return markup;
        }
        if n_chars < max_chars {
            cut_at = markup.len();
        }
    }
    markup
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_body(body: &str, expected: &str) {
        assert_eq!(render_body(body), expected);
    }

    #[test]
    fn a_body_is_shown_as_the_text_it_is() {
        check_body("plain", "plain");
        check_body(
            "<b>a</b> & 'b' \"c\"",
            "&lt;b&gt;a&lt;/b&gt; &amp; 'b' \"c\"",
        );
        check_body("&amp;", "&amp;amp;");
        check_body("two\n  lines\n\nand more", "two\n  lines\n\nand more");
        check_body("dos\r\nlines\n", "dos\nlines");
        check_body("a\0b\x07c\x1b[31md\u{202e}e\tf", "abcde f");
        check_body("a\x1b]0;never ends\nb", "a\nb");
        check_body("日本 🎉 👩‍🚀", "日本 🎉 👩‍🚀");
        check_body("", "");
    }

    #[test]
    fn a_title_is_one_plain_line() {
        assert_eq!(render_title("a <b> & c\nd\0"), "a <b> & c d");
        let long = render_title(&"x".repeat(101));
        assert_eq!(long.chars().count(), 100);
        assert!(long.ends_with("x…"));
    }

    #[track_caller]
    fn check_cut(text: &str, max_chars: usize, expected: &str) {
        assert_eq!(escape(text, max_chars), expected);
    }

    #[test]
    fn a_cut_is_shown_and_leaves_entities_whole() {
        check_cut("abcdef", 6, "abcdef");
        check_cut("abcdefg", 6, "abcde…");
        check_cut("a&b", 7, "a&amp;b");
        check_cut("a&b", 6, "a…");
        check_cut("a&bc", 7, "a&amp;…");
        check_cut("a&bc", 6, "a…");
        check_cut("a<", 5, "a&lt;");
        check_cut("a<", 4, "a…");
        check_cut("🎉🎉🎉", 2, "🎉…");
        check_cut("&", 1, "…");
        check_cut("a", 0, "");
    }

    #[test]
    fn a_bus_is_named_by_its_address_or_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        let runtime_dir = Some(dir.path().as_os_str());
        let address = Some(OsStr::new("unix:path=/nowhere"));
        let empty = Some(OsStr::new(""));
        assert!(!is_bus_named(None, None));
        assert!(!is_bus_named(None, empty));
        assert!(!is_bus_named(None, runtime_dir));
        assert!(is_bus_named(address, None));
        std::fs::write(dir.path().join("bus"), "").unwrap();
        assert!(is_bus_named(None, runtime_dir));
        assert!(!is_bus_named(empty, runtime_dir));
    }

    /// What a desktop makes of a body: its entities read back.
    fn shown(markup: &str) -> String {
        markup
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&amp;", "&")
    }

    proptest::proptest! {
        #[test]
        fn any_body_is_bounded_markup_free_text(body in "(?s)[<>&;a\n\\x00-\\x1f🎉…]{0,1500}|(?s).{0,1500}") {
            let markup = render_body(&body);
            proptest::prop_assert!(markup.chars().count() <= MAX_BODY_CHARS);
            proptest::prop_assert!(!markup.contains(['<', '>']));
            for (at, _) in markup.match_indices('&') {
                let entity = &markup[at..];
                proptest::prop_assert!(
                    ["&amp;", "&lt;", "&gt;"].iter().any(|known| entity.starts_with(known))
                );
            }
            proptest::prop_assert!(!markup.chars().any(|c| c.is_control() && c != '\n'));
        }

        #[test]
        fn what_fits_is_shown_whole(text in "[<>&;ampltg 🎉]{0,60}", max_chars in 0_usize..400) {
            let markup = escape(&text, max_chars);
            proptest::prop_assert!(markup.chars().count() <= max_chars);
            if shown(&markup) != text {
                let whole = escape(&text, usize::MAX / 4).chars().count();
                proptest::prop_assert!(whole > max_chars);
                let kept = shown(markup.trim_end_matches('…'));
                proptest::prop_assert!(text.starts_with(&kept));
            }
        }
    }
}
