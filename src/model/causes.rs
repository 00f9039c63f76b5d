//! Errors as text.

use std::error::Error;

/// Returns an error with its causes, `what: why: why`. The text is not sanitised.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("could not {0}")]
    struct Failed(&'static str, #[source] Option<Box<Self>>);

    #[test]
    fn all_causes_are_named_from_the_outside() {
        let inner = Failed("read c", None);
        let outer = Failed("load b", Some(Box::new(inner)));
        assert_eq!(with_causes(&outer), "could not load b: could not read c");
        let outermost = Failed("start a", Some(Box::new(outer)));
        assert_eq!(
            with_causes(&outermost),
            "could not start a: could not load b: could not read c"
        );
    }
}
