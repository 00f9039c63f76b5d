//! Options that windows and sessions inherit.
//!
//! A format finds an option also where it is set for all windows, for all sessions or for the
//! server. What describes a task must be set on its own window. tmux expands the format of
//! `list-commands` without a session or a window, so there it finds only what all of them inherit.

use super::quoted::read_rows;
use super::rows::{OPTION_NAMES, OPTIONS_FORMAT, WindowOptions, read_options};
use crate::protocol::Command;
use crate::protocol::rows::{Death, WindowRow};

/// Prints a format with the inherited options only. It may not be the only reason to start a server.
pub(super) fn print_inherited(format: &str) -> Command {
    Command::new("list-commands").args(["-F", format, "list-commands"])
}

/// Returns a format that prints those of these options that are inherited and not empty, each
/// followed by a blank.
pub(super) fn names_format(names: &[&str]) -> String {
    let if_set = |name: &&str| format!("#{{?#{{!=:#{{{name}}},}},{name} ,}}");
    names.iter().map(if_set).collect()
}

/// Prints something if windows inherit any option that describes a task. This is much cheaper than
/// [`values_command`].
pub(super) fn check_command() -> Command {
    let names = OPTION_NAMES.map(|name| format!("#{{=1:{name}}}"));
    print_inherited(&names.concat())
}

/// Prints the values for [`InheritedOptions::parse`].
pub(super) fn values_command() -> Command {
    print_inherited(&OPTIONS_FORMAT)
}

/// The options describing a task, as all windows inherit them.
#[derive(Debug)]
pub(super) struct InheritedOptions(WindowOptions);

impl InheritedOptions {
    /// Parses what [`values_command`] prints.
    pub(super) fn parse(text: &str) -> Option<Self> {
        read_rows(text, read_options)?.pop().map(Self)
    }

    /// Removes what a window seems to have and only inherits. An option of its own with the same
    /// value is removed as well, since a format cannot tell them apart.
    pub(super) fn remove_from(&self, row: &mut WindowRow) {
        let Self(inherited) = self;
        unset_if_same(&mut row.run, &inherited.run);
        unset_if_same(&mut row.started, &inherited.started);
        unset_if_same(&mut row.replaced, &inherited.replaced);
        unset_if_same(&mut row.owner, &inherited.owner);
        unset_if_same(&mut row.command, &inherited.command);
        unset_if_same(&mut row.cwd, &inherited.cwd);
    }

    /// The same for what a hook has recorded with a death.
    pub(super) fn remove_from_death(&self, death: &mut Death) {
        unset_if_same(&mut death.run, &self.0.run);
        unset_if_same(&mut death.owner, &self.0.owner);
    }
}

fn unset_if_same<T: PartialEq>(value: &mut Option<T>, inherited: &Option<T>) {
    if value == inherited {
        *value = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{StopSettings, WindowId};

    fn row(owner: &str, command: &str) -> WindowRow {
        WindowRow {
            window: WindowId(1),
            name: "api".to_owned(),
            bell: false,
            bell_count: None,
            activity: 0,
            run: Some(2),
            started: None,
            replaced: None,
            owner: Some(owner.to_owned()),
            restarts: None,
            stop: StopSettings::default(),
            notify_on: None,
            slot: None,
            ending: None,
            is_bare: false,
            is_named_by_tmux: false,
            is_linked: false,
            is_launching: false,
            command: Some(command.to_owned()),
            cwd: None,
            pane: None,
        }
    }

    #[test]
    fn what_is_inherited_is_not_the_windows_own() {
        let inherited = InheritedOptions::parse("<7 | | |pi:1|make|||||>").unwrap();
        let mut own = row("pi:2", "make test");
        inherited.remove_from(&mut own);
        assert_eq!(own, row("pi:2", "make test"));
        let mut other = row("pi:1", "make");
        other.run = Some(7);
        inherited.remove_from(&mut other);
        assert_eq!((other.run, other.owner, other.command), (None, None, None));
        assert!(InheritedOptions::parse("").is_none());
    }

    #[test]
    fn names_are_printed_where_they_are_set() {
        let format = names_format(&["@a", "@b"]);
        assert_eq!(format, "#{?#{!=:#{@a},},@a ,}#{?#{!=:#{@b},},@b ,}");
    }
}
