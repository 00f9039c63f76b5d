//! The program `tmux-task`.

use std::process::ExitCode;

fn main() -> ExitCode {
    tmux_task::faces::cli::run(std::env::args_os())
}
