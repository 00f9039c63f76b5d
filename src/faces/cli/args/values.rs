//! How values on the command line are parsed.

use std::time::Duration;

use crate::config;
use crate::model::Signal;
use crate::restarts;

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

/// Reads a duration that is not zero.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = parse_any_duration(text)?;
    if duration.is_zero() {
        return Err(format!("`{text}` must be more than zero"));
    }
    Ok(duration)
}

/// Reads a signal, by name or number.
pub(super) fn parse_signal(text: &str) -> Result<Signal, String> {
    config::parse_signal(text)
}

/// Reads the pause before the first restart.
pub(super) fn parse_backoff(text: &str) -> Result<Duration, String> {
    restarts::check_backoff(parse_any_duration(text)?)
}

/// Reads a duration.
pub(super) fn parse_any_duration(text: &str) -> Result<Duration, String> {
    config::parse_duration(text)
        .ok_or_else(|| format!("`{text}` is not a duration like 500ms, 2s, 1.5m or 1h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        let ms = |text| parse_duration(text).map(|d| d.as_millis()).ok();
        assert_eq!(ms("500ms"), Some(500));
        assert_eq!(ms("2s"), Some(2000));
        assert_eq!(ms("2"), Some(2000));
        assert_eq!(ms("1.5m"), Some(90_000));
        assert_eq!(ms("1h"), Some(3_600_000));
        assert_eq!(ms("1.5"), Some(1500));
        assert_eq!(ms(".5s"), Some(500));
        assert_eq!(ms("1m30s"), Some(90_000));
        assert_eq!(ms("2d"), Some(172_800_000));
        for wrong in [
            "", "0s", "1h30", "s", "0", "-1s", "1.5d", "1e9s", "1 s", "nan",
        ] {
            assert_eq!(ms(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn variables_are_name_and_value() {
        assert_eq!(parse_variable("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert_eq!(parse_variable("A="), Ok(("A".into(), String::new())));
        assert!(parse_variable("A").is_err());
        assert!(parse_variable("=b").is_err());
    }
}
