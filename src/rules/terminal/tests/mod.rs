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

/// The bytes, cut at these places.
pub(super) fn cut<'a>(bytes: &'a [u8], cuts: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|at| &bytes[at[0]..at[1]]).collect()
}
