//! How values on the command line are parsed.

pub(super) fn parse_key(text: &str) -> Result<String, String> {
    if crate::tmux::is_key(text) {
        Ok(text.to_owned())
    } else {
        Err("tmux has no such key; keys are called Enter, Escape, Up, C-c, M-x, F1".to_owned())
    }
}

pub(super) fn parse_lines(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number of lines, like 20"))
}

pub(super) fn parse_records(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a number of records, like 20"))
}

pub(super) fn parse_run(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not the number of a run, like 3"))
}

pub(super) fn parse_port(text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("`{text}` is not a port, like 3000"))
}

pub(super) fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("a variable is given as NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_name_and_value() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(parse_variable("A="), Ok(("A".into(), String::new())));
        assert!(parse_variable("A").is_err());
        assert!(parse_variable("=b").is_err());
    }
}
