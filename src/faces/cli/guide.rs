//! `guide`: how an agent uses tasks, on one page.

use super::output;
use crate::model::Error;

/// The skill for agents: the guide below a header for the client.
const SKILL: &str = include_str!("../../../hooks/skill/SKILL.md");

/// The line that begins and ends the header.
const FENCE: &str = "---\n";

pub(super) fn run() -> Result<(), Error> {
    output::lines(guide().lines())
}

/// Returns the skill without its header.
fn guide() -> &'static str {
    let body = SKILL
        .strip_prefix(FENCE)
        .and_then(|rest| rest.split_once(FENCE));
    body.map_or(SKILL, |(_, body)| body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guide_is_short_and_has_no_header() {
        assert!(guide().starts_with("# tmux-task\n"));
        assert!(!guide().contains("\n---\n"));
        assert!(SKILL.lines().count() < 60);
        // Clients cut a longer description.
        let description = SKILL.lines().find(|line| line.starts_with("description: "));
        assert!(description.is_some_and(|line| line.len() < 1024));
    }
}
