//! Displays alerts to the user: on the desktop, by attached terminals and on tmux's status line, if enabled.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::model::{Body, Now, SessionId, WindowId};
use crate::outlets::notice::write_to_terminal;
use crate::rules::alerts::{
    Alert, AlertAction, AlertRules, AlertSubject, Alerts, Place, TerminalSequence,
};
use crate::tmux::{self, Connection, TmuxError, Viewer};

/// How long the desktop may take for its queue when the daemon stops.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);

/// The user option with the counts, for `status-right` and the like.
pub(super) const STATUS_OPTION: &str = "@tmux_task_status";

#[derive(Debug)]
pub(super) struct Displays {
    /// Nothing is decided if they are displayed nowhere.
    pub(super) alerts: Alerts,
    desktop: Option<DesktopDisplay>,
}

/// What is to be displayed now, except for tasks whose windows the user has in view.
#[derive(Debug)]
pub(super) struct DueAlerts {
    actions: Vec<AlertAction>,
    desktop_queue: Option<mpsc::Sender<AlertAction>>,
}

/// The desktop, which may be slow, has its own task.
#[derive(Debug)]
struct DesktopDisplay {
    queue: mpsc::Sender<AlertAction>,
    clicks: mpsc::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Displays {
    pub(super) fn new(mut rules: AlertRules) -> Self {
        let is_on_desktop = rules.places.contains(&Place::Desktop);
        let desktop = is_on_desktop.then(DesktopDisplay::start).flatten();
        if desktop.is_none() {
            rules.places.remove(&Place::Desktop);
        }
        Self {
            alerts: Alerts::new(rules),
            desktop,
        }
    }

    pub(super) fn add(&mut self, what: &Body, now: Instant) {
        if self.alerts.rules.places.is_empty() {
            return;
        }
        match what {
            Body::Event(event) => self.alerts.add(event, now),
            Body::Notice { level, text, .. } => self.alerts.add_notice(*level, text),
            Body::FollowUp { .. } => {}
        }
    }

    /// Returns what is to be displayed now; `None` for nothing.
    pub(super) fn take_due(&mut self, now: Now, session_name: &str) -> Option<DueAlerts> {
        let actions = self.alerts.take_due(now.mono, session_name);
        (!actions.is_empty()).then(|| DueAlerts {
            actions,
            desktop_queue: self.desktop.as_ref().map(|desktop| desktop.queue.clone()),
        })
    }

    /// Resolves with the window of a task whose alert the user has clicked. No click is lost.
    pub(super) async fn clicked(&mut self) -> WindowId {
        while let Some(desktop) = &mut self.desktop
            && let Some(slot) = desktop.clicks.recv().await
        {
            if let Ok(window) = u32::try_from(slot) {
                return WindowId(window);
            }
        }
        std::future::pending().await
    }

    pub(super) async fn close(self) {
        let Some(DesktopDisplay { queue, task, .. }) = self.desktop else {
            return;
        };
        drop(queue);
        // Each notice has its own time limit; a queue full of hung ones is not waited for.
        let aborter = task.abort_handle();
        if tokio::time::timeout(CLOSED_WITHIN, task).await.is_err() {
            aborter.abort();
        }
    }
}

impl DueAlerts {
    /// Tells the viewers' terminals to show the alerts, each those of windows that it does not show.
    fn tell_terminals(&self, viewers: &[Viewer]) {
        for viewer in viewers {
            let Some(sequence) = TerminalSequence::choose(&viewer.terminal) else {
                continue;
            };
            for alert in self.actions.iter().filter_map(shown) {
                if alert.subject == AlertSubject::Task(viewer.window) {
                    continue;
                }
                let text = sequence.encode(&alert.text, viewer.is_utf8);
                if let Err(error) = write_to_terminal(Path::new(&viewer.tty), text.as_bytes()) {
                    tracing::debug!(%error, tty = viewer.tty, "a terminal takes no notification");
                }
            }
        }
    }

    /// Returns those that are not about a window which the user looks at.
    fn not_in_view<'a>(&'a self, viewers: &'a [Viewer]) -> impl Iterator<Item = &'a AlertAction> {
        let is_seen = |alert: &Alert| {
            let mut focused = viewers.iter().filter(|viewer| viewer.is_focused);
            focused.any(|viewer| alert.subject == AlertSubject::Task(viewer.window))
        };
        let actions = self.actions.iter();
        actions.filter(move |action| !shown(action).is_some_and(is_seen))
    }
}

fn shown(action: &AlertAction) -> Option<&Alert> {
    match action {
        AlertAction::Show(alert) => Some(alert),
        AlertAction::Withdraw(_) => None,
    }
}

fn one_line(alert: &Alert) -> String {
    match &alert.text.advice {
        Some(advice) => format!("{} ({advice})", alert.text.title),
        None => alert.text.title.clone(),
    }
}

/// Displays alerts at these places, except for those of windows that the user has in view.
pub(super) async fn show(
    connection: &mut Connection<'_>,
    session: Option<SessionId>,
    places: &BTreeSet<Place>,
    due: &DueAlerts,
) {
    // If the server is gone, nothing is in view.
    let viewers = tmux::list_viewers(connection).await.unwrap_or_default();
    for action in due.not_in_view(&viewers) {
        let queue = due.desktop_queue.as_ref();
        if queue.is_some_and(|queue| queue.try_send(action.clone()).is_err()) {
            tracing::debug!("the desktop is slow: an alert is only in the feed");
        }
    }
    if places.contains(&Place::Terminal) {
        due.tell_terminals(&viewers);
    }
    let lines = due.not_in_view(&viewers).filter_map(shown).map(one_line);
    let lines: Vec<String> = lines.collect();
    if let Some(session) = session.filter(|_| places.contains(&Place::Tmux) && !lines.is_empty()) {
        let line = lines.join(" | ");
        log_failure(tmux::show_notice(connection, session, &viewers, &line).await);
    }
}

/// Sets an option of the session for tmux's status line, or removes it.
pub(super) async fn set_option(
    connection: &mut Connection<'_>,
    session: SessionId,
    option: &str,
    value: Option<&str>,
) {
    log_failure(tmux::set_session_option(connection, session, option, value).await);
}

fn log_failure(outcome: Result<(), TmuxError>) {
    match outcome {
        // The session was closed meanwhile.
        Err(error) if !error.is_missing() => {
            tracing::warn!(%error, "could not show a notice in tmux");
        }
        Ok(()) | Err(_) => {}
    }
}

impl DesktopDisplay {
    #[cfg(all(feature = "notice", not(target_os = "macos")))]
    fn start() -> Option<Self> {
        let (queue, queued) = mpsc::channel(on_desktop::QUEUE);
        let (clicked, clicks) = mpsc::channel(on_desktop::CLICKS);
        let task = tokio::spawn(on_desktop::serve(queued, clicked));
        Some(Self {
            queue,
            clicks,
            task,
        })
    }

    #[cfg(not(all(feature = "notice", not(target_os = "macos"))))]
    fn start() -> Option<Self> {
        tracing::info!("this program was built without desktop notices");
        None
    }
}

#[cfg(all(feature = "notice", not(target_os = "macos")))]
mod on_desktop {
    use tokio::sync::mpsc;

    use crate::outlets::notice::{Desktop, DesktopNotice};
    use crate::rules::alerts::{Alert, AlertAction, AlertSubject};

    /// How many alerts may be queued for a slow desktop, which must not delay anything. The feed has them all.
    pub(super) const QUEUE: usize = 16;

    /// How many clicks may be queued. Nobody clicks more.
    pub(super) const CLICKS: usize = 4;

    /// The slot of alerts about many tasks. Those of tasks are the windows' numbers.
    const MANY: u64 = u64::MAX;

    const CLICK: &str = "Show the window";

    /// Shows what is queued, and reports clicks.
    pub(super) async fn serve(mut queued: mpsc::Receiver<AlertAction>, clicked: mpsc::Sender<u64>) {
        let mut desktop = Desktop::new(clicked);
        loop {
            // Losing an arm mid-await is safe: both take nothing before they are done.
            let action = tokio::select! {
                action = queued.recv() => action,
                never = desktop.watch() => match never {},
            };
            match action {
                // It logs its failures itself.
                Some(AlertAction::Show(alert)) => drop(desktop.show(&notice(alert)).await),
                Some(AlertAction::Withdraw(window)) => {
                    desktop.withdraw(u64::from(window.0)).await;
                }
                None => return,
            }
        }
    }

    fn notice(alert: Alert) -> DesktopNotice {
        let text = alert.text;
        let (slot, action) = match alert.subject {
            AlertSubject::Task(window) => (Some(u64::from(window.0)), Some(CLICK.to_owned())),
            AlertSubject::Many => (Some(MANY), None),
            AlertSubject::Notice => (None, None),
        };
        let body: Vec<String> = text.details.into_iter().chain(text.advice).collect();
        DesktopNotice {
            level: alert.level,
            title: text.title,
            body: body.join("\n"),
            slot,
            action,
        }
    }
}
