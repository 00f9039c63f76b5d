//! The far side of a channel: our own program as a child, for whoever asks from elsewhere.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Semaphore, mpsc};

use super::channel::widened;
use super::far_call::{FarCall, FarStdin};
use super::frame::{CHUNK, Chunk, Frame, WINDOW};
use crate::model::{Error, with_causes};

/// The signals that may be passed on: those that a terminal sends, and the one that ends.
const SIGNALS: [Signal; 4] = [Signal::INT, Signal::QUIT, Signal::HUP, Signal::TERM];

/// Executes a call, and passes its output to `send`: the last frame is [`Frame::Exit`] or
/// [`Frame::Failed`]. `frames` has what comes for it. [`Frame::Close`], or its end, terminates it.
pub(crate) async fn execute(
    call: &FarCall,
    mut frames: mpsc::UnboundedReceiver<Frame>,
    send: impl AsyncFn(Frame),
) {
    let mut child = match start(call) {
        Ok((child, note)) => {
            if let Some(note) = note {
                send(Frame::Stderr(Chunk::of(format!("{note}\n").as_bytes()))).await;
            }
            child
        }
        Err(error) => {
            let why = format!(
                "could not start on {}: {}",
                call.caller.host,
                with_causes(&error)
            );
            return send(Frame::Failed(Error::failed(why))).await;
        }
    };
    let window = Semaphore::new(WINDOW);
    let stdout = child.stdout.take().expect("stdout is piped");
    let stderr = child.stderr.take().expect("stderr is piped");
    let (to_stdin, stdin_queue) = mpsc::channel(WINDOW);
    let stdin = child.stdin.take();
    let input = feed_stdin(stdin, &call.stdin, stdin_queue, &send);
    let output = async {
        tokio::join!(
            pass_on(stdout, &window, &send, Frame::Stdout),
            pass_on(stderr, &window, &send, Frame::Stderr)
        );
    };
    let pid = child
        .id()
        .and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
    let control = async {
        let mut to_stdin = Some(to_stdin);
        while let Some(frame) = frames.recv().await {
            match frame {
                Frame::Stdin(chunk) => {
                    let queue = to_stdin.as_ref();
                    if queue.is_some_and(|queue| queue.try_send(chunk.into_bytes()).is_err()) {
                        // More than its window, or nothing reads it any more.
                        to_stdin = None;
                    }
                }
                Frame::StdinEnd {} => to_stdin = None,
                Frame::Signal(number) => {
                    let known = SIGNALS.into_iter().find(|signal| signal.as_raw() == number);
                    kill(pid, known);
                }
                Frame::More(n) => window.add_permits(widened(n)),
                Frame::Close {} => break,
                Frame::Hello(_)
                | Frame::Open(_)
                | Frame::Stdout(_)
                | Frame::Stderr(_)
                | Frame::Exit(_)
                | Frame::Failed(_) => {}
            }
        }
        kill(pid, Some(Signal::TERM));
        // Nobody takes its output, which must not keep it from ending.
        window.close();
        drop(to_stdin);
        std::future::pending::<()>().await;
    };
    // Losing an arm is safe: without its output, nothing else is of interest.
    tokio::select! {
        () = output => {}
        () = async { tokio::join!(input, control); } => {}
    }
    let code = child.wait().await.map_or(1, exit_code);
    send(Frame::Exit(code)).await;
}

fn start(call: &FarCall) -> std::io::Result<(Child, Option<String>)> {
    let start = call.start()?;
    let stdin = match call.stdin {
        FarStdin::Nothing => Stdio::null(),
        FarStdin::Follows | FarStdin::Text(_) => Stdio::piped(),
    };
    let child = Command::new(start.program)
        .args(start.args)
        .env_clear()
        .envs(start.env)
        .current_dir(start.cwd)
        .stdin(stdin)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    Ok((child, start.note))
}

fn kill(pid: Option<Pid>, signal: Option<Signal>) {
    if let (Some(pid), Some(signal)) = (pid, signal) {
        // It may have ended.
        kill_process(pid, signal).ok();
    }
}

async fn feed_stdin(
    stdin: Option<ChildStdin>,
    given: &FarStdin,
    mut queue: mpsc::Receiver<Vec<u8>>,
    send: &impl AsyncFn(Frame),
) {
    let Some(mut stdin) = stdin else { return };
    if let FarStdin::Text(text) = given {
        // What does not read it says so itself.
        return drop(stdin.write_all(text.as_bytes()).await);
    }
    while let Some(bytes) = queue.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
        send(Frame::More(1)).await;
    }
}

/// Passes on a stream to its end, as far as the window allows.
async fn pass_on(
    mut from: impl AsyncRead + Unpin,
    window: &Semaphore,
    send: &impl AsyncFn(Frame),
    frame: fn(Chunk) -> Frame,
) {
    let mut bytes = vec![0; CHUNK];
    while let Ok(n @ 1..) = from.read(&mut bytes).await {
        // Without a reader, what comes is read and thrown away.
        if let Ok(permit) = window.acquire().await {
            permit.forget();
            send(frame(Chunk::of(&bytes[..n]))).await;
        }
    }
}

fn exit_code(status: std::process::ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt;

    let code = status.code().or(status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(1)
}
