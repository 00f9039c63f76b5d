mod patterns;
mod properties;
mod sequences;
mod speed;
mod telling;
mod tmux;

use super::*;

/// What is told of `chunks`, each of them one call with the next stamp, the first being 1. A
/// complete line ends with `⏎`.
fn told(terminal: &mut Terminal, chunks: &[&[u8]]) -> Vec<String> {
    let mut told = Vec::new();
    for (stamp, chunk) in (1..).zip(chunks) {
        terminal.write(chunk, stamp, &mut |line| told.push(describe(line)));
    }
    told
}

fn describe(line: &Line<'_>) -> String {
    let end = if line.is_complete() { "⏎" } else { "" };
    format!("{}{end}", line.text())
}
