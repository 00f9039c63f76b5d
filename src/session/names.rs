//! Which session has which name: a session can be renamed, and its name be given to another one.

use crate::model::SessionLife;

/// Whether the server's sessions have to be listed to know which of them `asked` means: the session
/// that is supervised had another name in the last look.
#[must_use]
pub(crate) fn is_list_needed(asked: &str, name: Option<&str>) -> bool {
    name.is_some_and(|name| name != asked)
}

/// Returns the present name of the session that is supervised, and the session that has the name
/// `asked` now, if that is another one. `name` and `life` read an entry of the server's list.
pub(crate) fn owners_of_names<'a, S>(
    asked: &str,
    supervised: &SessionLife,
    sessions: &'a [S],
    name: impl Fn(&S) -> &str,
    life: impl Fn(&S) -> &SessionLife,
) -> (Option<String>, Option<&'a S>) {
    let ours = sessions.iter().find(|session| life(session) == supervised);
    let mut others = sessions
        .iter()
        .filter(|session| life(session) != supervised);
    let other = others.find(|session| name(session) == asked);
    (ours.map(|ours| name(ours).to_owned()), other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::SessionId;

    fn life(id: u32) -> SessionLife {
        SessionLife {
            server_pid: 7,
            server_started: 1,
            id: SessionId(id),
            created: 2,
        }
    }

    #[test]
    fn the_list_is_needed_only_for_a_session_that_was_renamed() {
        assert!(is_list_needed("work", Some("renamed")));
        assert!(!is_list_needed("work", Some("work")));
        assert!(!is_list_needed("work", None));
    }

    #[test]
    fn a_name_belongs_to_the_session_that_has_it_now() {
        let owners = |sessions: &[(&'static str, SessionLife)]| {
            let (name, other) =
                owners_of_names("work", &life(1), sessions, |one| one.0, |one| &one.1);
            (name, other.map(|other| other.1.id.0))
        };
        let renamed = Some("renamed".to_owned());
        assert_eq!(
            owners(&[("renamed", life(1)), ("work", life(2))]),
            (renamed.clone(), Some(2))
        );
        assert_eq!(owners(&[("renamed", life(1))]), (renamed, None));
        // It has been given its name back.
        assert_eq!(
            owners(&[("work", life(1))]),
            (Some("work".to_owned()), None)
        );
        assert_eq!(owners(&[("work", life(2))]), (None, Some(2)));
    }
}
