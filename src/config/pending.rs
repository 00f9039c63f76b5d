//! Which settings of the file a running daemon does not have.

use std::collections::BTreeMap;

/// The beginnings of the keys that adapters and commands read, and the daemon does not use.
const NOT_OF_DAEMON: [&str; 2] = ["agents.", "hosts."];

/// A setting that differs between the file and the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PendingSetting {
    /// Its key.
    pub key: String,
    /// Whether the present configuration has it.
    pub is_set: bool,
    /// What the daemon has, as [`super::Setting::comparable`]; `None` if it has nothing.
    pub of_daemon: Option<String>,
}

/// Whether the daemon uses the setting with this key.
pub(crate) fn is_of_daemon(key: &str) -> bool {
    !NOT_OF_DAEMON.iter().any(|of| key.starts_with(of))
}

/// Returns the settings that differ between the present configuration and that of the daemon, by key.
pub(crate) fn pending_settings(
    present: &BTreeMap<String, String>,
    of_daemon: &BTreeMap<String, String>,
) -> Vec<PendingSetting> {
    let gone = of_daemon.keys().filter(|key| !present.contains_key(*key));
    let mut keys: Vec<&String> = present.keys().chain(gone).collect();
    keys.retain(|key| is_of_daemon(key) && present.get(*key) != of_daemon.get(*key));
    keys.sort();
    let pending = |key: &String| PendingSetting {
        key: key.clone(),
        is_set: present.contains_key(key),
        of_daemon: of_daemon.get(key).cloned(),
    };
    keys.into_iter().map(pending).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(present: &[(&str, &str)], of_daemon: &[(&str, &str)], expected: &[&str]) {
        let map = |settings: &[(&str, &str)]| {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            settings.iter().map(owned).collect::<BTreeMap<_, _>>()
        };
        let pending = pending_settings(&map(present), &map(of_daemon));
        let shown = |one: &PendingSetting| {
            let PendingSetting {
                key,
                is_set,
                of_daemon,
            } = one;
            format!("{key} {is_set} {}", of_daemon.as_deref().unwrap_or("-"))
        };
        let shown: Vec<String> = pending.iter().map(shown).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_was_changed_added_or_removed_is_pending() {
        let runs = ("logs.keep-runs", "5");
        check(&[runs], &[runs], &[]);
        check(
            &[runs],
            &[("logs.keep-runs", "6")],
            &["logs.keep-runs true 6"],
        );
        check(&[("sink.a", "exec 1")], &[], &["sink.a true -"]);
        check(&[], &[("sink.a", "exec 1")], &["sink.a false exec 1"]);
        check(
            &[("b", "1"), runs],
            &[("a", "1"), runs],
            &["a false 1", "b true -"],
        );
        let of_agents = "agents.max-per-minute";
        check(&[(of_agents, "1")], &[(of_agents, "2")], &[]);
    }
}
