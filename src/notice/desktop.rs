//! Desktop notifications, sent over the session bus (`org.freedesktop.Notifications`).

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use notify_rust::{Notification, Urgency};

use super::LogOnce;
use crate::model::{Level, text};

/// Time limit for one notice. A bus or a notification server that hangs never answers, and a notice
/// that arrives later is useless.
const LIMIT: Duration = Duration::from_secs(2);

/// The maximum length of a title, in characters.
const MAX_TITLE_CHARS: usize = 100;

/// The maximum length of a body, in characters, with entities expanded.
const MAX_BODY_CHARS: usize = 1000;

/// Shows notices on the desktop.
///
/// Each notice opens its own connection, so that the desktop may start, end or be replaced at any
/// time. Each kind of failure is logged once until a notice succeeds again; callers need not log
/// the errors of [`Desktop::show`].
#[derive(Debug, Default)]
pub struct Desktop {
    failures: LogOnce<DesktopError>,
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
        source: notify_rust::error::Error,
    },
}

impl Desktop {
    /// Returns a sink for the desktop that this process's environment names. It connects when there
    /// is something to show.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows one notice, within two seconds. `title` becomes one line of at most 100 characters.
    /// `body` is shown literally, line ends included, with markup escaped, and at most 1000
    /// characters long.
    ///
    /// # Errors
    ///
    /// Failures are harmless. New kinds of failure have been logged.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection; the notice may or may not have been shown.
    pub async fn show(
        &mut self,
        level: Level,
        title: &str,
        body: &str,
    ) -> Result<(), DesktopError> {
        let outcome = send(level, title, body).await;
        match &outcome {
            Ok(()) => {
                if self.failures.settle() {
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
    // The D-Bus client's function blocks.
    let asked = tokio::task::spawn_blocking(notify_rust::get_server_information);
    match tokio::time::timeout(LIMIT, asked).await {
        Ok(Ok(Ok(service))) => Ok(render_title(&service.name)),
        Ok(Ok(Err(source))) => Err(classify(source)),
        Ok(Err(_)) | Err(_) => Err(DesktopError::TimedOut { limit: LIMIT }),
    }
}

async fn send(level: Level, title: &str, body: &str) -> Result<(), DesktopError> {
    if !is_bus_in_environment() {
        return Err(DesktopError::NoBus);
    }
    let mut notification = Notification::new();
    notification
        .appname("tmux-task")
        .summary(&render_title(title))
        .body(&render_body(body))
        .urgency(urgency(level));
    match tokio::time::timeout(LIMIT, notification.show_async()).await {
        Ok(Ok(_handle)) => Ok(()),
        Ok(Err(source)) => Err(classify(source)),
        Err(_elapsed) => Err(DesktopError::TimedOut { limit: LIMIT }),
    }
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

/// The D-Bus client does not expose the kind of its errors. Their text starts with the D-Bus names.
fn classify(source: notify_rust::error::Error) -> DesktopError {
    const NO_OWNER: [&str; 2] = [
        "org.freedesktop.DBus.Error.ServiceUnknown",
        "org.freedesktop.DBus.Error.NameHasNoOwner",
    ];
    let text = source.to_string();
    if NO_OWNER.iter().any(|name| text.starts_with(name)) {
        DesktopError::NoNotifier
    } else {
        DesktopError::Failed { source }
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
