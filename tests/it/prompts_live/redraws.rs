//! Questions that stay open while something else is printed.

use super::*;

/// Asks the same question twice, and prints lines while each is open, the way `MODE` says. Then a file
/// shows that all are printed.
const ASKS: &str = r#"
import os, select, sys, termios, time, tty
mode = sys.argv[1]
out = lambda text: os.write(1, text.encode())
question = 'Stop the server? [y/N] '
rows = os.get_terminal_size().lines
# What is not drawn again must not leave the screen.
lines = rows // 4 if mode == 'behind' else 40
tty.setraw(0)
def keys(wait):
    ready, _, _ = select.select([0], [], [], wait)
    return os.read(0, 64).decode() if ready else ''
def show(n):
    if mode == 'list':
        out(f'{n} tokens used\r\nStop the server?\r\n❯ 1. Yes\r\n  2. No\r\n')
    elif mode == 'figure':
        out(f'\r\x1b[K{question}({n} requests)')
    elif mode == 'bottom':
        out(f'\x1b[{rows};1H\x1b[K{question}')
    else:
        out(question)
def printed(n):
    if mode == 'bottom':
        out(f'\x1b[1;{rows - 1}r\x1b[{rows - 1};1H\r\nGET /{n}\x1b[r')
    elif mode == 'list':
        out(f'\x1b[4A\x1b[JGET /{n}\r\n')
    elif mode == 'pages':
        out('\r\x1b[K' + ''.join(f'GET /{n}/{k}\r\n' for k in range(rows * 2)))
    elif mode == 'behind':
        out(f'GET /{n}\r\n')
        return
    elif mode != 'figure':
        out(f'\r\x1b[KGET /{n}\r\n')
    show(n)
    if mode == 'position':
        out('\x1b[6n')
for k in (1, 2):
    show(0)
    typed, n = '', 0
    while mode == 'behind' and not os.path.exists(f'go-{k}'):
        typed += keys(0.05)
    while '\r' not in typed:
        if n < lines:
            n += 1
            typed += keys(0.08).split('R')[-1]
            printed(n)
            if n == lines:
                open(f'{mode}-{k}', 'w').close()
        else:
            typed += keys(None).split('R')[-1]
    out('yes\r\n')
tty.setcbreak(0)
time.sleep(1000)
"#;

/// A shell's job prints while the shell reads a line.
const IN_LINE_MODE: &str = "for k in 1 2; do (until [ -e go-$k ]; do sleep 0.05; done; for n in $(seq 40); do sleep 0.08; echo \"GET /$n\"; done; touch lines-$k) & read -p 'Stop the server? [y/N] ' x; wait; done; sleep 1000";

#[test]
fn an_open_question_is_reported_once_whatever_is_printed() {
    const MODES: &str = "above position bottom figure list pages behind";
    let world = World::new();
    world.write("asks.py", ASKS);
    for mode in MODES.split(' ') {
        world.run(mode, &format!("python3 asks.py {mode}"));
    }
    world.run("lines", IN_LINE_MODE);
    let tasks = || MODES.split(' ').chain(["lines"]);
    for (k, before) in [(1, 0), (2, 2)] {
        let asks = |told: &[PromptEvent], task| events_of(told, task).len() > before;
        // What is not drawn again has to be reported before more is printed.
        world.until("what is drawn once is asked", |told| {
            asks(told, "behind") && asks(told, "lines")
        });
        world.write(&format!("go-{k}"), "");
        let told = world.until("all are asked, and everything is printed", |told| {
            let is_printed = |task| world.file(&format!("{task}-{k}")).is_file();
            tasks().all(|task| is_printed(task) && asks(told, task))
        });
        are_told(
            &told,
            tasks(),
            &["input", "inputResolved", "input"][..=before],
        );
        for task in tasks() {
            world.task(["send", task, "y"]).ok();
        }
    }
    let told = world.until("all are answered", |told| {
        tasks().all(|task| events_of(told, task).len() >= 4)
    });
    are_told(&told, tasks(), &ONCE.repeat(2));
}

/// A menu that is drawn from its first row after each key.
const MENU: &str = r#"k=0; while :; do printf "$CLEARS"; echo 'Pick one:'; for n in 0 1 2; do if [ $n = $k ]; then echo "> choice $n"; else echo "  choice $n"; fi; done; read -rsn1 x; [ "$x" != q ] || break; k=$((k + 1)); done; sleep 1000"#;

#[test]
fn a_menu_that_is_drawn_again_after_a_key_is_the_same_question() {
    // tmux keeps what is cleared from the first cell on in the history.
    let clears = [
        ("all", r"\e[H\e[2J"),
        ("below", r"\e[H\e[J"),
        ("history", r"\e[H\e[2J\e[3J"),
    ];
    let world = World::new();
    for (task, clear) in clears {
        world.run(task, &format!("CLEARS='{clear}'; {MENU}"));
    }
    let tasks = clears.map(|(task, _)| task);
    for n in 0..3 {
        for task in tasks {
            world.until(&format!("{task} shows choice {n}"), |told| {
                let screen = world.task(["logs", task]).out;
                let explained = world.explain(task);
                screen.contains(&format!("> choice {n}"))
                    && explained["asks"] == true
                    && explained["quietMs"].as_u64().is_some_and(|ms| ms > 1000)
                    && !events_of(told, task).is_empty()
            });
            let key = if n < 2 { "x" } else { "q" };
            world.task(["send", task, "--no-enter", key]).ok();
        }
    }
    let told = world.until("all are answered", |told| {
        let mut tasks = tasks.iter();
        tasks.all(|task| events_of(told, task).contains(&"inputResolved"))
    });
    are_told(&told, tasks, &ONCE);
}
