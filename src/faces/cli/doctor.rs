//! `doctor`: what was checked, what was found, and what to do about it.

use super::context::Context;
use super::output::{self, Json};
use crate::model::{Error, ErrorKind, text};
use crate::ops;
use crate::rules::wire::DoctorReport;

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Error> {
    // Each check has a time limit of its own.
    context.limit.lift();
    let report = ops::examine(&context.global.choice()).await?;
    if args.json {
        output::json(&report)?;
    } else {
        output::lines(lines(&report))?;
    }
    if report.failures > 0 {
        return Err(Error::silent(ErrorKind::Failed));
    }
    Ok(())
}

const WIDTH: usize = 11;

fn lines(report: &DoctorReport) -> Vec<String> {
    let mut lines = Vec::new();
    for found in &report.checks {
        let (check, message) = (found.check, &found.message);
        lines.push(format!("{:4}  {check:WIDTH$}  {message}", found.result));
        let indent = " ".repeat(WIDTH + 8);
        let hints = found.hint.iter();
        lines.extend(hints.map(|hint| format!("{indent}hint: {hint}")));
    }
    lines.push(format!(
        "{}, {}",
        counted(report.failures, "failure"),
        counted(report.warnings, "warning")
    ));
    lines
}

fn counted(number: usize, noun: &str) -> String {
    match number {
        0 => format!("no {noun}s"),
        number => text::counted(number, noun),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::wire::{CheckResult, DoctorCheck};

    fn check(check: &'static str, result: CheckResult, hint: Option<&str>) -> DoctorCheck {
        DoctorCheck {
            check,
            result,
            message: format!("the {check}"),
            hint: hint.map(str::to_owned),
        }
    }

    #[test]
    fn each_check_is_a_line_and_what_to_do_stands_below() {
        let report = DoctorReport {
            checks: vec![
                check("tmux", CheckResult::Ok, None),
                check("locale", CheckResult::Warn, Some("set LANG")),
                check("daemon", CheckResult::Fail, Some("resume it")),
            ],
            warnings: 1,
            failures: 0,
        };
        let expected = [
            "ok    tmux         the tmux",
            "warn  locale       the locale",
            "                   hint: set LANG",
            "fail  daemon       the daemon",
            "                   hint: resume it",
            "no failures, 1 warning",
        ];
        assert_eq!(lines(&report), expected);
    }
}
