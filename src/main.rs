//! The program `tmux-task`.

fn main() {}
