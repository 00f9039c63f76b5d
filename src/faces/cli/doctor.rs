//! `doctor`: what was checked, what was found, and what to do about it.

use super::args::Json;
use super::context::Context;
use super::output;
use crate::model::{Error, ErrorKind, text};
use crate::ops;
use crate::terminal::columns_of;
use crate::wire::{DoctorCheck, DoctorReport};

pub(super) async fn run(context: &Context, args: Json) -> Result<(), Error> {
    // Each check has a time limit of its own.
    context.limit.lift();
    let report = ops::examine(&context.choice()).await?;
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

fn lines(report: &DoctorReport) -> Vec<String> {
    let widths = report.checks.iter().map(|check| columns_of(check.check));
    let width = widths.max().unwrap_or_default();
    let mut lines = Vec::new();
    for DoctorCheck {
        check,
        result,
        message,
        hint,
    } in &report.checks
    {
        lines.push(format!("{result:4}  {check:width$}  {message}"));
        let indent = " ".repeat(width + 8);
        lines.extend(hint.iter().map(|hint| format!("{indent}hint: {hint}")));
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
    use crate::wire::CheckResult;

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
        assert_eq!(
            lines(&report),
            [
                "ok    tmux    the tmux",
                "warn  locale  the locale",
                "              hint: set LANG",
                "fail  daemon  the daemon",
                "              hint: resume it",
                "no failures, 1 warning",
            ]
        );
    }
}
