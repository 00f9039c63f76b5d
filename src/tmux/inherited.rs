//! Options that windows and sessions inherit.
//!
//! A format finds an option also where it is set for all windows, for all sessions or for the
//! server. What describes a task must be set on its own window. tmux expands the format of
//! `list-commands` without a session or a window, so there it finds only what all of them inherit.

use super::window_options::OPTION_NAMES;
use crate::protocol::Command;

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

/// Prints something if all windows inherit any option that describes a task.
pub(super) fn check_command() -> Command {
    let names = OPTION_NAMES.map(|name| format!("#{{=1:{name}}}"));
    print_inherited(&names.concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_printed_where_they_are_set() {
        let format = names_format(&["@a", "@b"]);
        assert_eq!(format, "#{?#{!=:#{@a},},@a ,}#{?#{!=:#{@b},},@b ,}");
    }
}
