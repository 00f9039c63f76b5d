//! Figures and how they are printed: as tables that can stand in a document.

use std::time::Duration;

use super::Effort;

pub(crate) fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

/// Says what was measured, and where.
pub(crate) fn about(effort: Effort) {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let tmux = std::process::Command::new("tmux").arg("-V").output();
    let tmux = tmux.map_or_else(
        |_| String::new(),
        |said| String::from_utf8_lossy(&said.stdout).trim().to_owned(),
    );
    let cpus = std::thread::available_parallelism().map_or(0, usize::from);
    let cpuinfo = read("/proc/cpuinfo");
    let model = cpuinfo
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or("", |(_, model)| model);
    println!(
        "tmux-task {} beside a poller: {tmux}, Linux {}, {cpus} x {model}, load {}, {} run",
        env!("CARGO_PKG_VERSION"),
        read("/proc/sys/kernel/osrelease").trim(),
        read("/proc/loadavg").split(' ').next().unwrap_or(""),
        effort.pick("quick", "full"),
    );
    if !super::namespace::is_ours() {
        println!("No process namespace is to be had: processes are counted in the whole system.");
    }
}

pub(crate) fn heading(title: &str) {
    println!("\n## {title}\n");
}

/// A table of text, its columns lined up.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Begins with the names of its columns, separated by `|`.
    pub(crate) fn new(columns: &str) -> Self {
        Self {
            rows: vec![columns.split('|').map(str::to_owned).collect()],
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    pub(crate) fn print(&self) {
        let columns = self.rows[0].len();
        let width = |n: usize| {
            let cells = self.rows.iter().map(|row| row[n].chars().count());
            cells.max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (n, row) in self.rows.iter().enumerate() {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:<width$}"))
                .collect();
            println!("| {} |", cells.join(" | "));
            if n == 0 {
                let dashes: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                println!("|-{}-|", dashes.join("-|-"));
            }
        }
    }
}

/// Returns the value below which a share of the samples lies.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Option<Duration> {
    let last = sorted.len().checked_sub(1)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "small positive numbers"
    )]
    let at = (last as f64 * share).ceil() as usize;
    sorted.get(at).copied()
}

/// The cells of a table for how long something took: how often, and shares of it in milliseconds.
pub(crate) fn cells<const N: usize>(
    took: &mut [Duration],
    shares: [f64; N],
    digits: usize,
) -> Vec<String> {
    took.sort();
    let cell = |share| format!("{:.digits$}", ms(quantile(took, share).unwrap()));
    let mut cells = vec![took.len().to_string()];
    cells.extend(shares.map(cell));
    cells
}

pub(crate) fn verdict(met: bool) -> &'static str {
    if met { "pass" } else { "MISS" }
}
