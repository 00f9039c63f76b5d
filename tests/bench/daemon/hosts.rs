//! Other machines over ssh: how long after its end a task is known here, what commands take, and what
//! twenty machines cost while nothing happens.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use super::Effort;
use super::figures::{Table, heading, ms, quantile, verdict};
use super::machines::{HOST_OWNER, Machines};
use super::task::{self, Orders};
use super::usage::{self, time};
use super::world::SLEEP;

/// How much later than a round trip a task's end may be known here, and `ls` may be done.
const KNOWN_WITHIN: Duration = Duration::from_millis(20);
const DONE_WITHIN: Duration = Duration::from_millis(10);

/// What twenty idle machines may cost, in milliseconds a second.
const IDLE_COST: f64 = 2.0;

/// An event that comes later than this is missing.
const LIMIT: Duration = Duration::from_secs(20);

/// Between two commands: what follows one need not be in the next one's time.
const PAUSE: Duration = Duration::from_millis(60);

pub(crate) fn run(effort: Effort) {
    heading("Another machine over ssh, in milliseconds");
    let machines = Machines::new::<1>(true);
    let far = |words: &[&str]| machines.far_command(0, words);
    let near = |words: &[&str]| machines.near_command(0, words);
    succeed(&mut near(&["run", "held", "--", SLEEP]));
    let round_trip = round_trip(&machines);
    let mut table = Table::new("what|where|n|p50|p95|target of p50|");
    let mut rows = |what: &str, there: Vec<Duration>, here: Vec<Duration>, within: Duration| {
        let target = p50(&there) + p50(&round_trip) + within;
        row(&mut table, [what, "there"], there, None);
        row(&mut table, [what, "here"], here, Some(target));
    };
    let records = [
        Lines::of(far(&["feed", "--follow", "--type", "exited"])),
        Lines::of(near(&["feed", "--follow", "--type", "exited"])),
    ];
    // The conversation there has tasks of its own.
    let mut conversations = [
        Lines::of(far(&["agent", "opencode", "--id", "there"])),
        Lines::of(machines.command(&["agent", "opencode", "--id", "here"])),
    ];
    for conversation in &conversations {
        conversation.until("\"kind\":\"following\"");
    }
    let (mut recorded, mut told) = ([vec![], vec![]], [vec![], vec![]]);
    for n in 0..effort.pick(10, 50) {
        for (who, conversation) in conversations.iter_mut().enumerate() {
            let mut orders = Orders::new(machines.near.path(&format!("task-{n}-{who}")));
            let words = orders.words(task::DEAF_PART);
            let words = words.each_ref().map(String::as_str);
            let words = [&["run", "task", "--"][..], &words].concat();
            let (mut command, owner) = match who {
                0 => (far(&words), "opencode:there"),
                _ => (near(&words), HOST_OWNER),
            };
            succeed(command.env("TMUX_TASK_OWNER", owner));
            orders.give("3");
            let at = records
                .each_ref()
                .map(|records| records.until("\"exited\"").0);
            let (told_at, message) = conversation.until("\"kind\":\"message\"");
            conversation.confirm(&message);
            let since = |at: SystemTime| at.duration_since(orders.done_at()).unwrap();
            recorded
                .iter_mut()
                .zip(at)
                .for_each(|(all, at)| all.push(since(at)));
            told[who].push(since(told_at));
        }
    }
    let [there, here] = recorded;
    rows("end to record of `feed`", there, here, KNOWN_WITHIN);
    let [there, here] = told;
    rows("end to message", there, here, KNOWN_WITHIN);
    let (mut there, mut here) = (Vec::new(), Vec::new());
    for _ in 0..effort.pick(10, 50) {
        there.push(succeed(&mut far(&["ls"])));
        here.push(succeed(&mut near(&["ls"])));
    }
    rows("`ls`", there, here, DONE_WITHIN);
    row(
        &mut table,
        ["round trip of the network", ""],
        round_trip,
        None,
    );
    table.print();
    println!(
        "\nThe targets are the p50 there, a round trip, and {} or {} ms.",
        KNOWN_WITHIN.as_millis(),
        DONE_WITHIN.as_millis()
    );
}

pub(crate) fn idle(effort: Effort) {
    heading("Twenty machines over ssh while nothing happens: processor time by the second");
    let machines = Machines::new::<20>(false);
    let conversation = Lines::of(machines.command(&["agent", "opencode", "--id", "here"]));
    conversation.until("\"kind\":\"following\"");
    for n in 0..20 {
        let mut command = machines.near_command(n, &["run", "held", "--", SLEEP]);
        succeed(command.env("TMUX_TASK_OWNER", HOST_OWNER));
    }
    let [settle, time] = effort.pick([14, 10], [30, 60]).map(Duration::from_secs);
    thread::sleep(settle);
    let groups = machines.processes();
    let cost = |pids: &[u32]| pids.iter().map(|pid| usage::on_cpu(*pid)).sum::<Duration>();
    let before: Vec<Duration> = groups.iter().map(|(_, pids)| cost(pids)).collect();
    let began = Instant::now();
    thread::sleep(time);
    let seconds = began.elapsed().as_secs_f64();
    let mut table = Table::new("processes|n|ms/s");
    let mut ours = 0.0;
    for ((name, pids), before) in groups.iter().zip(before) {
        let cost = ms(cost(pids).saturating_sub(before)) / seconds;
        if name.starts_with("tmux-task") {
            ours += cost;
        }
        table.row([
            (*name).to_owned(),
            pids.len().to_string(),
            format!("{cost:.3}"),
        ]);
    }
    table.print();
    println!(
        "\nMeasured over {seconds:.0} s; a conversation has a task on each. Those of tmux-task together: \
         {ours:.3} ms/s, target < {IDLE_COST} ms/s: {}",
        verdict(ours < IDLE_COST)
    );
}

/// The lines that a program prints, with the times at which they came. Dropping it ends the program.
struct Lines {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<(SystemTime, String)>,
}

impl Lines {
    fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, lines) = mpsc::channel();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if sender.send((SystemTime::now(), line)).is_err() {
                    return;
                }
            }
        });
        Self {
            stdin: child.stdin.take().unwrap(),
            child,
            lines,
        }
    }

    /// Returns the next line that has this in it.
    fn until(&self, part: &str) -> (SystemTime, String) {
        loop {
            let line = self.lines.recv_timeout(LIMIT).expect("a line comes");
            if line.1.contains(part) {
                return line;
            }
        }
    }

    fn confirm(&mut self, message: &str) {
        let message: serde_json::Value = serde_json::from_str(message).unwrap();
        let receipt = serde_json::json!({"received": {"to": message["to"], "id": message["id"]}});
        writeln!(self.stdin, "{receipt}").unwrap();
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Runs a command, and returns how long it took.
fn succeed(command: &mut Command) -> Duration {
    let took = time(command);
    thread::sleep(PAUSE);
    took
}

/// Returns how long a byte takes to be back, over a relay of the same kind.
fn round_trip(machines: &Machines) -> Vec<Duration> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = machines.relay(listener.local_addr().unwrap().port());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let ping = |_| {
        thread::sleep(Duration::from_millis(5));
        let began = Instant::now();
        stream.write_all(b"x").unwrap();
        stream.read_exact(&mut [0]).unwrap();
        began.elapsed()
    };
    (0..100).map(ping).collect()
}

fn p50(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort();
    quantile(&sorted, 0.5).unwrap()
}

fn row(table: &mut Table, names: [&str; 2], mut took: Vec<Duration>, target: Option<Duration>) {
    took.sort();
    let cell = |duration| format!("{:.2}", ms(duration));
    let met = |target| verdict(quantile(&took, 0.5).unwrap() <= target).to_owned();
    table.row(names.map(str::to_owned).into_iter().chain([
        took.len().to_string(),
        cell(quantile(&took, 0.5).unwrap()),
        cell(quantile(&took, 0.95).unwrap()),
        target.map(cell).unwrap_or_default(),
        target.map(met).unwrap_or_default(),
    ]));
}
