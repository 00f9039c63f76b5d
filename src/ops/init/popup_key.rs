//! The key that opens the panel in a popup of tmux.

use std::path::{Path, PathBuf};

use crate::paths::{Env, folder_of};

/// `-EE`: the popup stays open when the panel fails, so that its error can be read.
pub(super) const BINDING: &str =
    r##"bind-key T display-popup -EE -w 90% -h 90% -d "#{pane_current_path}" "tmux-task panel""##;

/// Returns tmux's configuration file: of the two places, the one that has it.
pub(super) fn tmux_config(home: &Path, env: Env<'_>) -> PathBuf {
    let own = home.join(".tmux.conf");
    let config = folder_of(env, "XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    let other = config.join("tmux/tmux.conf");
    if !own.exists() && other.exists() {
        other
    } else {
        own
    }
}
