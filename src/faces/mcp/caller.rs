//! On whose behalf a call is made.

use serde_json::{Map, Value};

use crate::model::text;
use crate::ops::Caller;

/// The maximum length of a conversation's id, in characters.
const ID_CHARS: usize = 160;

/// Returns the caller of a request with this `_meta`: the conversation that it names, else the one
/// in whose environment the server was started. Codex names its thread in each call.
pub(super) fn caller_of(meta: &Map<String, Value>) -> Caller {
    let named = meta.get("threadId").and_then(Value::as_str).and_then(codex);
    let caller = Caller::of_environment();
    // The machine that passes a call on says whose it is.
    let named = named.filter(|_| caller.remote_name().is_none());
    Caller {
        owner: named.or(caller.owner),
        is_agent: true,
    }
}

fn codex(id: &str) -> Option<String> {
    let id = text::one_line(id.as_bytes(), ID_CHARS);
    (!id.is_empty()).then(|| format!("codex:{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_the_owner() {
        let of = |id: Value| caller_of(&Map::from_iter([("threadId".to_owned(), id)]));
        let caller = of("01-ab".into());
        assert_eq!(
            (caller.owner.as_deref(), caller.is_agent),
            (Some("codex:01-ab"), true)
        );
        assert_eq!(codex("a\u{1b}[1m\nb").as_deref(), Some("codex:a b"));
        assert_eq!(codex(" "), None);
        assert!(of(3.into()).is_agent);
    }
}
