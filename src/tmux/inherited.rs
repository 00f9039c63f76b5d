//! Options that windows and sessions inherit.
//!
//! A format finds an option also where it is set for all windows, for all sessions or for the
//! server. What describes a task must be set on its own window. tmux expands the format of
//! `list-commands` without a session or a window, so there it finds only what all of them inherit.

use super::window_options::OPTION_NAMES;
use crate::model::SessionId;
use crate::protocol::Command;

/// Returns the value of a session option that is believed only on its own session: it begins with the
/// session's id.
pub(super) fn own_value(session: SessionId, value: &str) -> String {
    format!("{session} {value}")
}

/// Returns what the value of such an option says, if it is the session's own.
pub(super) fn read_own(session: SessionId, value: &str) -> Option<&str> {
    value.strip_prefix(&own_value(session, ""))
}

/// Returns a format that is true if such an option is the session's own.
pub(super) fn is_own(option: &str) -> String {
    format!("#{{m:#{{session_id}} *,#{{{option}}}}}")
}

/// Returns a format that prints such an option if it is the session's own.
pub(super) fn own_format(option: &str) -> String {
    format!("#{{?{},#{{{option}}},}}", is_own(option))
}

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

    #[test]
    fn a_value_is_believed_on_its_own_session_only() {
        let value = own_value(SessionId(1), "work-0a");
        assert_eq!(value, "$1 work-0a");
        assert_eq!(read_own(SessionId(1), &value), Some("work-0a"));
        for (session, value) in [(2, "$1 x"), (1, "$12 x"), (1, "$1"), (1, "x"), (1, "")] {
            assert_eq!(read_own(SessionId(session), value), None, "{value}");
        }
    }
}
