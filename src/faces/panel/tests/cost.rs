//! What a frame costs. Prints figures and checks none:
//! `cargo test --lib panel::tests::cost -- --ignored --nocapture`

use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::*;
use crate::faces::panel::draw::draw;

const FRAMES: u32 = 200;

/// Returns the mean time of one turn: a task changes, and a frame is drawn.
fn turn(tasks: usize, size: (u16, u16)) -> Duration {
    let name = |n: u32| format!("task-{n}");
    let all = (0..u32::try_from(tasks).unwrap()).map(|n| listed(running(n, &name(n))));
    let mut state = state_with(size, all.collect());
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let began = Instant::now();
    for frame in 0..FRAMES {
        let changed = printed(running(0, &name(0)), &format!("line {frame}"));
        if tasks > 0 {
            change(&mut state, vec![listed(changed)], &[]);
        }
        terminal.draw(|frame| draw(frame, &state)).unwrap();
    }
    began.elapsed() / FRAMES
}

#[test]
#[ignore = "it measures, and proves nothing"]
#[expect(clippy::print_stdout, reason = "the figures are its result")]
fn a_frame_of_300_tasks_beside_an_empty_one() {
    for size in [(40, 10), (80, 24), (200, 50)] {
        let (empty, full) = (turn(0, size), turn(300, size));
        let ratio = full.as_secs_f64() / empty.as_secs_f64();
        println!("{size:?}: empty {empty:?}, 300 tasks {full:?}, ratio {ratio:.1}");
    }
}
