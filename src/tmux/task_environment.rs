//! The environment of a task.
//!
//! Its values are on no command line and in nothing that tmux keeps: everybody can see arguments, a
//! session's environment goes to every later window, and tmux logs its commands. They are passed in
//! the [task's file](super::task_file).

use std::ffi::{OsStr, OsString};

use sha2::{Digest, Sha256};

use crate::model::environment::WithheldVariables;

/// The environment of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TaskEnvironment {
    variables: Vec<(OsString, OsString)>,
    /// Whether it is added to tmux's own environment.
    is_on_top_of_tmux: bool,
    withheld: WithheldVariables,
    /// The digest of the variables that were given for this task, if there are any.
    given: Option<u16>,
}

/// Returns the digest of variables that are given for a task; `None` if there are none. Their order does
/// not matter.
#[must_use]
pub(crate) fn digest_of(variables: &[(String, String)]) -> Option<u16> {
    let mut variables: Vec<&(String, String)> = variables.iter().collect();
    variables.sort();
    let mut hash = Sha256::new();
    for text in variables.iter().flat_map(|(name, value)| [name, value]) {
        hash.update(text);
        hash.update([0]);
    }
    let hash = hash.finalize();
    (!variables.is_empty()).then(|| u16::from_be_bytes([hash[0], hash[1]]))
}

impl TaskEnvironment {
    /// Returns the caller's environment without the withheld variables.
    #[must_use]
    pub(crate) fn of_caller(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        withheld: WithheldVariables,
    ) -> Self {
        let is_withheld = |name: &OsStr| name.to_str().is_some_and(|name| withheld.covers(name));
        let variables = variables
            .into_iter()
            .filter(|(name, _)| !is_withheld(name))
            .collect();
        Self {
            variables,
            is_on_top_of_tmux: false,
            withheld,
            given: None,
        }
    }

    /// Returns tmux's environment.
    #[must_use]
    pub(crate) fn of_tmux(withheld: WithheldVariables) -> Self {
        Self {
            variables: Vec::new(),
            is_on_top_of_tmux: true,
            withheld,
            given: None,
        }
    }

    /// Returns it with these variables set, even if they are withheld by name.
    #[must_use]
    pub(crate) fn with(mut self, given: impl IntoIterator<Item = (String, String)>) -> Self {
        let given: Vec<(String, String)> = given.into_iter().collect();
        self.given = digest_of(&given).or(self.given);
        for (name, value) in given {
            set(&mut self.variables, &name, &value);
        }
        self
    }

    /// Returns the digest of the variables that were given for this task, if there are any.
    pub(super) fn given(&self) -> Option<u16> {
        self.given
    }

    /// Whether it is added to tmux's own environment.
    pub(super) fn is_on_top_of_tmux(&self) -> bool {
        self.is_on_top_of_tmux
    }

    pub(super) fn variables(&self) -> &[(OsString, OsString)] {
        &self.variables
    }

    pub(super) fn withheld(&self) -> &WithheldVariables {
        &self.withheld
    }
}

/// Sets a variable, in place of one of this name.
pub(super) fn set(variables: &mut Vec<(OsString, OsString)>, name: &str, value: &str) {
    variables.retain(|(known, _)| known != name);
    variables.push((name.into(), value.into()));
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    fn variable(name: &str, value: &[u8]) -> (OsString, OsString) {
        (name.into(), OsStr::from_bytes(value).to_owned())
    }

    #[test]
    fn other_variables_have_another_digest() {
        let variables = |all: &[(&str, &str)]| {
            let all = all.iter();
            let all = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            digest_of(&all.collect::<Vec<_>>())
        };
        assert_eq!(variables(&[]), None);
        let digest = variables(&[("A", "1"), ("B", "2")]);
        assert_eq!(digest, variables(&[("B", "2"), ("A", "1")]));
        for other in [
            &[("A", "1")][..],
            &[("A", "1"), ("B", "3")],
            &[("A", "1B"), ("", "2")],
        ] {
            assert_ne!(digest, variables(other));
        }
    }

    #[test]
    fn what_is_given_goes_before_what_is_withheld() {
        let caller = [variable("FOO", b"1"), variable("CLAUDECODE", b"1")];
        let given = [("FOO", "2"), ("CLAUDECODE", "mine")];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let caller = TaskEnvironment::of_caller(caller, WithheldVariables::default());
        assert_eq!(caller.variables, [variable("FOO", b"1")]);
        assert_eq!(
            caller.with(given).variables,
            [variable("FOO", b"2"), variable("CLAUDECODE", b"mine")]
        );
    }
}
