//! The far side of `--host`: the program executes itself for another machine.
//!
//! `far-call` reads the call from standard input, starts `far-call run`, which reads it from there in its
//! turn and is the command, and watches whether the caller is still there. `far-call WORD` becomes the
//! command in this terminal.

use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{ExitCode, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};

use super::output;
use crate::hosts::{FarCall, MAX_CALL, OURS};
use crate::model::{Error, FarAnswer, FarPiece, FarStdin, text};

/// Returns the call whose command this process is to be; else it has ended.
pub(super) fn run(words: &[OsString]) -> Result<FarCall, ExitCode> {
    let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
    let outcome = match words.as_deref() {
        Some([]) => serve().map(Err),
        Some(["run"]) => read_call().map(Ok),
        Some(["run", word]) => call_of(word).map(Ok),
        Some([word]) => call_of(word).and_then(|call| become_command(&call, word)),
        Some(_) | None => Err(no_call()),
    };
    let outcome = outcome.unwrap_or_else(|error| {
        output::complain(&Error::of(&error), "far-call", "");
        Err(ExitCode::FAILURE)
    });
    if outcome.is_ok() {
        // Without the process that watches the caller, nobody waits for it.
        #[cfg(linux)]
        rustix::process::set_parent_process_death_signal(Some(Signal::INT)).unwrap_or_default();
    }
    outcome
}

fn no_call() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "this is no call")
}

fn call_of(word: &str) -> io::Result<FarCall> {
    FarCall::of_word(word).ok_or_else(no_call)
}

/// Reads a call from standard input, and nothing of what is behind it that others could not read.
fn read_call() -> io::Result<FarCall> {
    let mut line = Vec::new();
    io::stdin()
        .lock()
        .take(MAX_CALL)
        .read_until(b'\n', &mut line)?;
    serde_json::from_slice(&line).map_err(|_| no_call())
}

/// Executes the command in this terminal.
fn become_command<T>(call: &FarCall, word: &str) -> io::Result<T> {
    let host = &call.caller.host;
    if call.version != OURS {
        let why = format!("{host} has tmux-task {OURS}, {} asks", call.version);
        return Err(io::Error::other(why));
    }
    let (mut command, note) = call.start(Some(word))?;
    if let Some(note) = note {
        output::note(&note);
    }
    Err(command.exec())
}

/// Executes a command for whoever sends its call.
fn serve() -> io::Result<ExitCode> {
    let call = read_call()?;
    // What start files have printed ends here.
    answer(&FarAnswer::TmuxTask(OURS.to_owned()))?;
    if call.version != OURS {
        return Ok(ExitCode::FAILURE);
    }
    let (mut command, note) = call.start(None)?;
    if let Some(note) = note {
        let line = format!("{}\n", text::row(note.as_bytes()));
        answer(&FarAnswer::Stderr(FarPiece::Text(line)))?;
    }
    let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = streams.stderr(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    let pid = Pid::from_child(&child);
    thread::spawn(move || {
        if let Some(stdin) = stdin {
            // A command that does not read it says so itself.
            pass_on(&call, stdin).unwrap_or_default();
        }
        // Whoever sends nothing more has left, or closes what the command reads.
        io::copy(&mut io::stdin(), &mut io::sink()).unwrap_or_default();
        if call.stdin != FarStdin::Follows {
            // It may have ended.
            kill_process(pid, Signal::INT).unwrap_or_default();
        }
    });
    let stderr = child.stderr.take();
    let saying = thread::spawn(|| pass_back(stderr, FarAnswer::Stderr));
    pass_back(child.stdout.take(), FarAnswer::Stdout)?;
    saying.join().unwrap_or_else(|_| Err(no_call()))?;
    let code = exit_code(child.wait()?);
    answer(&FarAnswer::Exit(code))?;
    Ok(ExitCode::from(code))
}

/// How much of a stream is read at once, in bytes.
const CHUNK: usize = 32 << 10;

/// Passes back what the command writes, to the end of the stream.
fn pass_back(from: Option<impl Read>, piece: fn(FarPiece) -> FarAnswer) -> io::Result<()> {
    let mut bytes = [0; CHUNK];
    let Some(mut from) = from else { return Ok(()) };
    while let n @ 1.. = from.read(&mut bytes)? {
        answer(&piece(FarPiece::of(bytes[..n].to_vec())))?;
    }
    Ok(())
}

/// Writes a line to whoever asks.
fn answer(answer: &FarAnswer) -> io::Result<()> {
    let line = serde_json::to_string(answer)? + "\n";
    let mut stdout = io::stdout().lock();
    stdout.write_all(line.as_bytes())?;
    stdout.flush()
}

/// Writes the call to the command's standard input, and what it is to read.
fn pass_on(call: &FarCall, mut to: impl Write) -> io::Result<()> {
    to.write_all(call.line().as_bytes())?;
    match &call.stdin {
        FarStdin::Nothing => {}
        FarStdin::Text(text) => to.write_all(text.as_bytes())?,
        FarStdin::Follows | FarStdin::Acknowledgements => {
            io::copy(&mut io::stdin(), &mut to)?;
        }
    }
    Ok(())
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
}
