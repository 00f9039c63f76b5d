//! A task that executes commands and records when: there is no shell and no start-up between the
//! time and the action.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::world::{Driver, SESSION, World};

pub(crate) const PART: &str = "part-of-task";

/// The same, but it does not read its terminal before a command to do so.
pub(crate) const DEAF_PART: &str = "part-of-deaf-task";

/// What it prints to ask something, and to be done with asking.
const QUESTION: &str = "Proceed? [y/N] ";

/// The task's own side: obeys the lines of its pipe, and listens to its terminal.
pub(crate) fn run(path: &str) {
    // A task that does not read its terminal does not wait for input.
    thread::spawn(|| {
        let stdin = std::io::stdin();
        let mut files = [PollFd::new(&stdin, PollFlags::IN)];
        poll(&mut files, None).unwrap();
    });
    obey(path);
}

/// Obeys the lines of its pipe.
pub(crate) fn obey(path: &str) {
    // For writing as well: then it never ends.
    let orders = OpenOptions::new().read(true).write(true).open(path);
    let at = File::create(format!("{path}.at")).unwrap();
    let tell = |text: &str| {
        note_time(&at);
        print(text);
    };
    for order in BufReader::new(orders.unwrap()).lines() {
        let order = order.unwrap();
        match order.as_str() {
            "ring" => tell("\u{7}"),
            "ask" => tell(QUESTION),
            "nap" => loop {
                thread::sleep(Duration::from_millis(100));
            },
            "read" => {
                note_time(&at);
                std::io::stdin().read_line(&mut String::new()).unwrap();
            }
            "go on" => tell("y\r\n\u{1b}[2J\u{1b}[H"),
            "chat" => {
                for n in 0_u64.. {
                    print(&format!(
                        "{n} a line as programs print them while they work\r\n"
                    ));
                    thread::sleep(Duration::from_millis(10));
                }
            }
            code => {
                let code = code.parse().unwrap();
                note_time(&at);
                std::process::exit(code);
            }
        }
    }
}

fn print(text: &str) {
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes()).unwrap();
    stdout.flush().unwrap();
}

fn note_time(file: &File) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let text = format!("{:020}", now.as_nanos());
    file.write_all_at(text.as_bytes(), 0).unwrap();
}

/// The other side.
pub(crate) struct Orders {
    path: PathBuf,
    pipe: File,
}

impl Orders {
    /// Makes the pipe; the task may be started later.
    pub(crate) fn new(path: PathBuf) -> Self {
        mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        let pipe = OpenOptions::new().read(true).write(true).open(&path);
        Self {
            pipe: pipe.unwrap(),
            path,
        }
    }

    /// What the task runs: this program in that part.
    pub(crate) fn words(&self, part: &str) -> [String; 3] {
        let program = std::env::current_exe().unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        [text(&program), part.to_owned(), text(&self.path)]
    }

    /// Makes the pipe of a task in a window of its own, and starts it. Returns the window's id, too.
    pub(crate) fn start(
        world: &World,
        driver: &mut Driver,
        name: &str,
        part: &str,
    ) -> (String, Self) {
        let orders = Self::new(world.path(name));
        let window = driver.new_window(SESSION, name, &orders.words(part));
        (window, orders)
    }

    pub(crate) fn give(&mut self, order: &str) {
        self.pipe
            .write_all(format!("{order}\n").as_bytes())
            .unwrap();
    }

    /// Returns when the task executed its last command, which it has done by now.
    pub(crate) fn done_at(&self) -> SystemTime {
        let text = std::fs::read_to_string(format!("{}.at", self.path.display())).unwrap();
        UNIX_EPOCH + Duration::from_nanos(text.trim().parse().unwrap())
    }
}
