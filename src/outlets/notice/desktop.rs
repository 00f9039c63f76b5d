//! Desktop notifications (`org.freedesktop.Notifications`), by notify-rust.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::future::{Future, pending};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::{FutureExt as _, StreamExt as _};
use notify_rust::{Notification, NotificationHandle, NotificationResponse, Urgency};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use zbus::{Connection, MessageStream};

use crate::model::{Level, text};

/// Time limit for one notice: a bus that hangs never answers, and a late notice is useless.
const LIMIT: Duration = Duration::from_secs(2);
const MAX_TITLE_CHARS: usize = 100;
const MAX_BODY_CHARS: usize = 1000;

/// The signal that another program shows notifications from now on.
const OTHER_NOTIFIER: &str = "type='signal',sender='org.freedesktop.DBus',\
    interface='org.freedesktop.DBus',member='NameOwnerChanged',\
    arg0='org.freedesktop.Notifications'";

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
    /// The label of what a click does, which [`Desktop::new`] is told; `None` for nothing. Needs a slot.
    pub action: Option<String>,
}

/// Shows notices on the desktop.
///
/// The bus is connected to for each notice, so that the desktop may start, end or be replaced at any time. A
/// failure is logged once until another one or a success; callers need not log the errors of [`Desktop::show`].
#[derive(Debug)]
pub struct Desktop {
    /// Gets the slots of notices that the user has clicked.
    clicked: mpsc::Sender<u64>,
    is_failing: bool,
    /// The last notice in each slot.
    shown: BTreeMap<u64, Shown>,
    /// Has a message when `shown` is void, and ends with the bus; `None` while nothing was shown.
    other_notifier: Option<MessageStream>,
}

/// A notice, and the task that waits for what the user does with it.
#[derive(Debug)]
struct Shown {
    /// Until it is closed.
    handle: Weak<NotificationHandle>,
    task: AbortHandle,
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.task.abort();
    }
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
    #[error("the desktop did not answer within {} s", LIMIT.as_secs())]
    TimedOut,
    /// The bus cannot be reached, or the notification server refused the notice.
    #[error("could not send a desktop notice")]
    Failed(#[source] notify_rust::error::Error),
}

impl Desktop {
    /// Returns a display for the desktop that this process's environment names. It connects when there
    /// is something to show, and passes on the slot of a notice that the user has clicked. Clicks that
    /// `clicked` has no room for do not matter.
    pub fn new(clicked: mpsc::Sender<u64>) -> Self {
        Self {
            clicked,
            is_failing: false,
            shown: BTreeMap::new(),
            other_notifier: None,
        }
    }

    /// Shows one notice, within two seconds. Failures are harmless. The notice may or may not have been
    /// shown if the future is dropped.
    pub async fn show(&mut self, notice: &DesktopNotice) -> Result<(), DesktopError> {
        let outcome = self.try_show(notice).await;
        let was_failing = std::mem::replace(&mut self.is_failing, outcome.is_err());
        match &outcome {
            Ok(()) if was_failing => tracing::info!("desktop notices work again"),
            Err(error) if !was_failing => {
                let cause = std::error::Error::source(error).map(tracing::field::display);
                tracing::warn!(%error, cause, "desktop notices are not shown");
            }
            Ok(()) | Err(_) => {}
        }
        outcome
    }

    async fn try_show(&mut self, notice: &DesktopNotice) -> Result<(), DesktopError> {
        if !is_bus_in_environment() {
            return Err(DesktopError::NoBus);
        }
        if let Some(stream) = &mut self.other_notifier
            && stream.next().now_or_never().is_some()
        {
            self.forget();
        }
        let shown = |slot| self.shown.get(&slot)?.handle.upgrade();
        let replaced = notice.slot.and_then(shown).map(|handle| handle.id());
        let notification = notification(notice, replaced);
        let showing = within(async {
            if self.other_notifier.is_none() {
                let connection = Connection::session().await?;
                let watch = MessageStream::for_match_rule(OTHER_NOTIFIER, &connection, None);
                self.other_notifier = Some(watch.await?);
            }
            notification.show_async().await
        });
        let handle = showing.await.inspect_err(|_| self.forget())?;
        if let Some(slot) = notice.slot {
            self.keep(slot, handle);
        }
        Ok(())
    }

    /// Waits for clicks on a notice until it is closed.
    fn keep(&mut self, slot: u64, handle: NotificationHandle) {
        let shown = &mut self.shown;
        shown.retain(|_, shown| shown.handle.strong_count() > 0);
        let handle = Arc::new(handle);
        let shown = Shown {
            handle: Arc::downgrade(&handle),
            task: tokio::spawn(report_clicks(slot, handle, self.clicked.clone())).abort_handle(),
        };
        self.shown.insert(slot, shown);
    }

    /// What was shown is not there any more, or not ours: another notifier counts its own ids.
    fn forget(&mut self) {
        self.shown.clear();
        self.other_notifier = None;
    }

    /// Removes the notice of this slot, if it is still shown.
    pub async fn withdraw(&mut self, slot: u64) {
        if let Some(shown) = self.shown.remove(&slot)
            && let Some(handle) = shown.handle.upgrade()
        {
            // The user may have closed it.
            drop(timeout(LIMIT, handle.close_async()).await);
        }
    }

    /// Forgets what was shown when the notifier is replaced. To be awaited while there is nothing to show;
    /// never resolves. Nothing is lost when the future is dropped.
    pub async fn watch(&mut self) -> Infallible {
        loop {
            match &mut self.other_notifier {
                Some(stream) => drop(stream.next().await),
                None => return pending().await,
            }
            self.forget();
        }
    }
}

/// Reports the clicks on a notice until it is closed, or the bus is gone. The library begins to listen
/// when the notice is shown already: a click within a few round trips to the bus is lost.
async fn report_clicks(slot: u64, handle: Arc<NotificationHandle>, clicked: mpsc::Sender<u64>) {
    loop {
        let mut is_click = false;
        let on_response = |response: &NotificationResponse| {
            is_click = !matches!(response, NotificationResponse::Closed(_));
        };
        handle.wait_for_action_async(on_response).await;
        if !is_click {
            return;
        }
        clicked.try_send(slot).unwrap_or_default();
    }
}

fn notification(notice: &DesktopNotice, replaced: Option<u32>) -> Notification {
    let mut notification = Notification::new();
    notification
        .appname("tmux-task")
        .summary(&render_title(&notice.title))
        .body(&render_body(&notice.body))
        .urgency(urgency(notice.level));
    if let Some(id) = replaced {
        notification.id(id);
    }
    // A server without actions ignores it.
    if let Some(label) = &notice.action {
        notification.action(CLICK, label);
    }
    notification
}

async fn within<T>(
    call: impl Future<Output = notify_rust::error::Result<T>>,
) -> Result<T, DesktopError> {
    match timeout(LIMIT, call).await {
        Ok(answer) => answer.map_err(classify),
        Err(_elapsed) => Err(DesktopError::TimedOut),
    }
}

/// Returns the name of the notification service, which this starts where the bus does so.
pub async fn notifier() -> Result<String, DesktopError> {
    if !is_bus_in_environment() {
        return Err(DesktopError::NoBus);
    }
    // It blocks its thread for as long as the bus hangs.
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || sender.send(notify_rust::get_server_information()));
    let asked = within(async { receiver.await.unwrap_or_else(|_| Err("it panicked".into())) });
    asked.await.map(|server| render_title(&server.name))
}

fn is_bus_in_environment() -> bool {
    is_bus_named(
        std::env::var_os("DBUS_SESSION_BUS_ADDRESS").as_deref(),
        std::env::var_os("XDG_RUNTIME_DIR").as_deref(),
    )
}

/// Whether the environment names a bus. As for the D-Bus client, an empty address names none.
fn is_bus_named(address: Option<&OsStr>, runtime_dir: Option<&OsStr>) -> bool {
    match address {
        Some(address) => !address.is_empty(),
        None => {
            runtime_dir.is_some_and(|dir| !dir.is_empty() && Path::new(dir).join("bus").exists())
        }
    }
}

/// An error of the bus has several variants. Their texts start with its D-Bus name.
fn classify(source: notify_rust::error::Error) -> DesktopError {
    const NO_OWNER: [&str; 2] = [
        "org.freedesktop.DBus.Error.ServiceUnknown",
        "org.freedesktop.DBus.Error.NameHasNoOwner",
    ];
    let text = source.to_string();
    match NO_OWNER.iter().any(|name| text.starts_with(name)) {
        true => DesktopError::NoNotifier,
        false => DesktopError::Failed(source),
    }
}

/// Critical notices stay on most desktops until they are dismissed, and some ignore "do not
/// disturb". A task is never that important.
fn urgency(level: Level) -> Urgency {
    match level {
        Level::Info => Urgency::Low,
        Level::Warning => Urgency::Normal,
    }
}

/// Titles are plain text on every desktop, so nothing is escaped.
fn render_title(title: &str) -> String {
    text::one_line(title.as_bytes(), MAX_TITLE_CHARS)
}

/// Bodies are markup: each line is sanitised, then all is bounded and escaped.
fn render_body(body: &str) -> String {
    let rows = body.split('\n').map(|line| text::row(line.as_bytes()));
    let rows: Vec<String> = rows.collect();
    let text = text::bounded(rows.join("\n").trim_end_matches('\n'), MAX_BODY_CHARS);
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;")
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
            proptest::prop_assert!(shown(&markup).chars().count() <= MAX_BODY_CHARS);
            proptest::prop_assert!(!markup.contains(['<', '>']));
            for (at, _) in markup.match_indices('&') {
                let entity = &markup[at..];
                proptest::prop_assert!(
                    ["&amp;", "&lt;", "&gt;"].iter().any(|known| entity.starts_with(known))
                );
            }
            proptest::prop_assert!(!markup.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
