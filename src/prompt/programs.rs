//! Programs that are known by their names: those that always expect input, and those whose agent asks.

use crate::model::{PromptKind, TtyEvidence};

/// Programs that show text page by page.
const PAGERS: &[&str] = &[
    "less", "more", "most", "pg", "man", "bat", "w3m", "mcview", "lnav",
];

/// Programs that edit text.
const EDITORS: &[&str] = &[
    "vi", "vim", "nvim", "view", "vimdiff", "nano", "pico", "emacs", "mg", "micro", "hx", "helix",
    "kak", "joe", "jed", "ne", "mcedit", "tilde",
];

/// Programs in which a user goes through files, mail, news, appointments or commits. They do nothing
/// unless a key is pressed.
const BROWSERS: &[&str] = &[
    "nnn", "vifm", "ranger", "mc", "lf", "yazi", "joshuto", "broot", "xplr", "newsboat",
    "newsraft", "alpine", "mutt", "neomutt", "aerc", "calcurse", "ikhal", "tig", "lazygit",
    "gitui", "lynx", "elinks", "links",
];

/// Programs in which a user picks a line of their input. They need not take the whole screen.
const PICKERS: &[&str] = &[
    "fzf", "fzy", "sk", "peco", "percol", "pick", "smenu", "iselect",
];

/// Programs whose agent asks for the secret. The agent starts a program that asks on the same
/// terminal, but is not a child of theirs.
const ASK_BY_AGENT: &[&str] = &["gpg", "gpg2", "gpgsm"];

/// Whether one of the foreground programs may be waiting for a secret that its agent asks for.
pub(super) fn may_ask_by_agent(terminal: &TtyEvidence) -> bool {
    let mut programs = terminal.programs.iter();
    programs.any(|program| ASK_BY_AGENT.contains(&program.as_str()))
}

/// Returns the kind for pagers, editors, browsers and pickers, which always expect input.
pub(super) fn kind_of_program(programs: &[String]) -> Option<PromptKind> {
    if is_among(programs, EDITORS) {
        Some(PromptKind::Editor)
    } else if is_among(programs, PAGERS) {
        Some(PromptKind::Pager)
    } else {
        (is_browser(programs) || is_picker(programs)).then_some(PromptKind::Menu)
    }
}

pub(super) fn is_browser(programs: &[String]) -> bool {
    is_among(programs, BROWSERS)
}

pub(super) fn is_picker(programs: &[String]) -> bool {
    is_among(programs, PICKERS)
}

fn is_among(programs: &[String], names: &[&str]) -> bool {
    let mut programs = programs.iter();
    programs.any(|program| names.contains(&program.as_str()))
}
