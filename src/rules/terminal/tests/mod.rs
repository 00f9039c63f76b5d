mod patterns;
mod properties;
mod reporting;
mod sequences;

use super::*;

/// The lines reported for `chunks`, each of them one call with the next stamp, starting at 1. A
/// complete line ends with `⏎`.
fn reported(terminal: &mut Terminal, chunks: &[&[u8]]) -> Vec<String> {
    let mut reported = Vec::new();
    for (stamp, chunk) in (1..).zip(chunks) {
        terminal.write(chunk, stamp, &mut |line| reported.push(describe(line)));
    }
    reported
}

fn describe(line: &Line<'_>) -> String {
    let end = if line.is_complete() { "⏎" } else { "" };
    format!("{}{end}", line.text())
}
