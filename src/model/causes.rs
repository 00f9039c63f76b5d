//! Errors as text.

use std::error::Error;

/// Returns an error with its causes, `what: why: why`, without the numbers of the system's errors. The
/// text is not sanitised.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    without_numbers(text)
}

/// Removes what [`std::io::Error`] adds to the words of the system: ` (os error 2)`.
fn without_numbers(mut text: String) -> String {
    const BEFORE: &str = " (os error ";
    let mut from = 0;
    while let Some(start) = text[from..].find(BEFORE).map(|at| from + at) {
        let number = &text[start + BEFORE.len()..];
        let digits = number.len()
            - number
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .len();
        from = start + BEFORE.len();
        if digits > 0 && number[digits..].starts_with(')') {
            text.replace_range(start..from + digits + 1, "");
            from = start;
        }
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

    #[test]
    fn errors_of_the_system_are_in_words_alone() {
        #[derive(Debug, thiserror::Error)]
        #[error("line 3: {0}; connecting again")]
        struct Within(std::io::Error);
        let missing = || std::io::Error::from_raw_os_error(2);
        assert_eq!(with_causes(&missing()), "No such file or directory");
        assert_eq!(
            with_causes(&Within(missing())),
            "line 3: No such file or directory; connecting again"
        );
        let check = |text: &str, expected| assert_eq!(without_numbers(text.to_owned()), expected);
        check("a (os error 2): b (os error 13)", "a: b");
        check(
            "a (os error )(os error x) (os error 2",
            "a (os error )(os error x) (os error 2",
        );
    }
}
