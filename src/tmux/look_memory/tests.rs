use proptest::prelude::*;

use super::super::look_lines::ROOM;
use super::*;
use crate::rules::protocol::Frame;
use crate::tmux::rows::Formats;

/// How many of 300 windows fit into one line that asks for their signs only, or for everything of
/// them.
const SIGNS_PER_LINE: usize = 15;
const ROWS_PER_LINE: usize = 6;

/// A tmux server with one session that answers lines.
#[derive(Debug, Clone)]
struct FakeServer {
    time: i64,
    /// Whether the session was killed.
    is_gone: bool,
    windows: BTreeMap<WindowId, FakeWindow>,
    next: u32,
    deaths: Vec<String>,
    /// How many links windows of the session have besides their first ones.
    n_links: usize,
}

#[derive(Debug, Clone)]
struct FakeWindow {
    pane: PaneId,
    pid: u32,
    is_dead: bool,
    activity: i64,
    text: String,
}

/// What happens in tmux between two lines, to the window at a place.
#[derive(Debug, Clone, Copy)]
enum Happens {
    Nothing,
    Open,
    /// The window ends its process and stays.
    Die,
    Respawn,
    Close,
    Print,
    /// Its primary pane is killed, another one is left.
    ClosePane,
}

use Happens::{Close, ClosePane, Die, Nothing, Open, Print, Respawn};

impl FakeServer {
    fn new(n_windows: usize) -> Self {
        let mut server = Self {
            time: 100,
            is_gone: false,
            windows: BTreeMap::new(),
            next: 1,
            deaths: Vec::new(),
            n_links: 0,
        };
        (0..n_windows).for_each(|place| server.happen(Open, place));
        server.time += 10;
        server
    }

    fn at(&self, place: usize) -> WindowId {
        let mut windows = self.windows.keys();
        *windows.nth(place % windows.len()).unwrap()
    }

    fn happen(&mut self, what: Happens, place: usize) {
        self.next += 1;
        let (number, time) = (self.next, self.time);
        let new = FakeWindow {
            pane: PaneId(number),
            pid: number,
            is_dead: false,
            activity: time,
            text: format!("text {number}"),
        };
        if let Open = what {
            self.windows.insert(WindowId(number), new);
            return;
        }
        let (id, is_last) = (self.at(place), self.windows.len() == 1);
        let window = self.windows.get_mut(&id).unwrap();
        let (pane, text) = (window.pane, window.text.clone());
        match what {
            Die if !window.is_dead => {
                window.is_dead = true;
                let (pid, number) = (window.pid, self.deaths.len() + 1);
                let death = format!("{id} {pane} {pid} 3  {time} {number}");
                self.deaths.push(death);
            }
            Respawn => *window = FakeWindow { pane, text, ..new },
            ClosePane => *window = FakeWindow { text, ..new },
            Print => (window.activity, window.text) = (time, new.text),
            // The last window would take the session along.
            Close if !is_last => drop(self.windows.remove(&id)),
            Die | Close | Nothing | Open => {}
        }
    }

    fn answer(&self, line: &LookLine) -> Vec<Frame> {
        let mut frames = Vec::new();
        for answer in self.print(line) {
            let ok = answer.is_ok();
            let (Ok(text) | Err(text)) = answer;
            frames.push(Frame {
                time: self.time,
                ok,
                ..Frame::printed(&text)
            });
            if !ok {
                break;
            }
        }
        frames
    }

    /// What each command of a line prints.
    fn print(&self, line: &LookLine) -> Vec<Result<String, String>> {
        if self.is_gone {
            return vec![Err("can't find session: $0".to_owned())];
        }
        let mut printed = Vec::new();
        if line.in_full().next().is_some() {
            printed.push(Ok(String::new()));
        }
        if line.index {
            let ids = |(id, window): (_, &FakeWindow)| format!("<{id}|{}|0>", window.pane);
            let ids: Vec<String> = self.windows.iter().map(ids).collect();
            printed.push(Ok(ids.join("\n")));
        }
        for (window, query) in &line.windows {
            let gone = || format!("can't find window: {window}");
            let found = self.windows.get(window).ok_or_else(gone);
            printed.push(found.clone().map(|found| match query {
                WindowQuery::Sign => found.sign_row(*window),
                WindowQuery::Full(_) => found.row(*window),
            }));
            if *query != WindowQuery::Sign {
                printed.push(Ok("@tmux_task_command cmd".to_owned()));
            }
            let WindowQuery::Full(Some(screen)) = query else {
                continue;
            };
            let mut windows = self.windows.values();
            let captured = match screen.pane {
                None => found,
                Some(pane) => windows
                    .find(|window| window.pane == pane)
                    .ok_or_else(|| format!("can't find pane: {pane}")),
            };
            let captured = captured.map(FakeWindow::screen);
            printed.extend(vec![captured; 1 + usize::from(screen.has_rows)]);
        }
        let deaths = self.deaths.join(";");
        let n = self.windows.len() + self.n_links;
        printed.push(Ok(format!("<7|1|$0|1|{n}|demo|||{deaths};>")));
        printed
    }
}

impl FakeWindow {
    fn sign(&self) -> String {
        let dead = u8::from(self.is_dead);
        format!("{} {dead} {} 0   0 0", self.pid, self.activity)
    }

    /// All rows of it.
    fn screen(&self) -> String {
        self.text.clone() + &"\n".repeat(24)
    }

    fn sign_row(&self, window: WindowId) -> String {
        format!("<{window}|{}|{}>", self.pane, self.sign())
    }

    fn row(&self, window: WindowId) -> String {
        let (pane, pid, activity) = (self.pane, self.pid, self.activity);
        let (dead, status) = if self.is_dead { ("1", "3") } else { ("0", "") };
        let sign = self.sign();
        let of_window = format!("0|{activity}||0|0|0|name");
        let of_pane = format!("{pid}|{dead}|{status}|||80|24|0|0|0|0|0|0|||||");
        format!("<{window}|{pane}|{sign}|{of_window}|{of_pane}>")
    }
}

/// Asks the next line of a look, and returns it; `None` at its end.
fn step(server: &FakeServer, inquiry: &mut Inquiry<'_>) -> Result<Option<LookLine>, TmuxError> {
    let Some(line) = inquiry.next_line() else {
        return Ok(None);
    };
    let commands = line.commands("$0:", Formats::whole());
    match line.read(&commands, server.answer(&line))? {
        Some(answer) => inquiry.take(&line, answer),
        None => inquiry.ask_again(&line),
    }
    Ok(Some(line))
}

/// Takes a look while these things happen, one after each line.
fn look_while(
    server: &mut FakeServer,
    memory: &mut LookMemory,
    kind: LookKind,
    room: usize,
    happens: &[(Happens, usize)],
) -> Result<LookRows, TmuxError> {
    let mut happens = happens.iter();
    let mut inquiry = Inquiry::new(memory, kind, room);
    while step(server, &mut inquiry)?.is_some() {
        if let Some((what, place)) = happens.next() {
            server.happen(*what, *place);
        }
    }
    inquiry.finish()
}

/// Returns the lines of a look.
fn lines(server: &FakeServer, memory: &mut LookMemory, kind: LookKind) -> Vec<LookLine> {
    let mut inquiry = Inquiry::new(memory, kind, ROOM);
    let lines = std::iter::from_fn(|| step(server, &mut inquiry).unwrap());
    let lines = lines.collect();
    inquiry.finish().unwrap();
    lines
}

fn look(server: &mut FakeServer, memory: &mut LookMemory, kind: LookKind) -> LookRows {
    look_while(server, memory, kind, ROOM, &[]).unwrap()
}

/// A server with so many windows, and the memory of a look at it.
fn known(n_windows: usize) -> (FakeServer, LookMemory) {
    let (mut server, mut memory) = (FakeServer::new(n_windows), LookMemory::default());
    look(&mut server, &mut memory, LookKind::Windows);
    (server, memory)
}

/// Checks that the next look shows what is there.
#[track_caller]
fn check_look(server: &mut FakeServer, memory: &mut LookMemory) {
    let seen = look(server, memory, LookKind::Windows);
    assert_eq!(shown(&seen), there(server));
}

/// Looks because these windows were reported.
fn expect(memory: &mut LookMemory, windows: impl IntoIterator<Item = WindowId>) {
    memory.expect([], &BTreeSet::new(), windows);
}

/// Lets so much time pass that a sweep queries all windows in full.
fn make_old(server: &mut FakeServer, memory: &mut LookMemory) {
    server.time += 1000;
    look(server, memory, LookKind::Windows);
}

/// Sweeps; returns the last look and how many slices it took.
fn sweep(server: &mut FakeServer, memory: &mut LookMemory) -> (LookRows, usize) {
    let mut n = 1;
    let mut last = look(server, memory, LookKind::Slice);
    while memory.is_sweeping() {
        last = look(server, memory, LookKind::Slice);
        n += 1;
    }
    (last, n)
}

/// The windows of a look with their processes, the ends of these, and their screens.
fn shown(look: &LookRows) -> Vec<(WindowId, u32, bool, Vec<String>)> {
    let windows = look.windows.iter();
    windows
        .map(|row| {
            let pane = row.pane.as_ref().unwrap();
            let rows = pane.screen.rows.to_vec();
            (row.window, pane.pid.unwrap(), pane.dead.is_some(), rows)
        })
        .collect()
}

fn there(server: &FakeServer) -> Vec<(WindowId, u32, bool, Vec<String>)> {
    let windows = server.windows.iter();
    windows
        .map(|(id, window)| (*id, window.pid, window.is_dead, vec![window.text.clone()]))
        .collect()
}

#[test]
fn a_reported_window_that_is_gone_is_gone_by_a_list_of_all() {
    let (mut server, mut memory) = known(30);
    let closed = server.at(3);
    server.happen(Close, 3);
    expect(&mut memory, [closed]);
    let lines = lines(&server, &mut memory, LookKind::Windows);
    let asked = lines.iter().map(|line| (line.index, line.windows.len()));
    assert_eq!(asked.collect::<Vec<_>>(), [(false, 1), (true, 0)]);
    expect(&mut memory, [server.at(0)]);
    check_look(&mut server, &mut memory);
}

#[test]
fn windows_that_a_command_has_ended_are_looked_for_in_a_list_of_all() {
    let (mut server, mut memory) = known(30);
    // One of the two has survived.
    let killed = [server.at(3), server.at(4)];
    server.happen(Close, 3);
    expect(&mut memory, killed);
    memory.forget_windows(&killed);
    let lines = lines(&server, &mut memory, LookKind::Windows);
    assert!(lines[0].index && lines[0].windows.is_empty());
    check_look(&mut server, &mut memory);
}

#[test]
fn a_run_number_that_was_written_holds_for_windows_that_are_not_asked_again() {
    let (mut server, mut memory) = known(3);
    let [first, second] = [server.at(0), server.at(1)];
    memory.note_run(first, 7);
    // What tmux says counts once it is asked.
    for (asked, expected) in [(second, Some(7)), (first, None)] {
        expect(&mut memory, [asked]);
        let seen = look(&mut server, &mut memory, LookKind::Windows);
        let row = seen.windows.iter().find(|row| row.window == first);
        assert_eq!(row.unwrap().run, expected);
    }
}

#[test]
fn windows_whose_processes_were_hung_up_on_are_queried_if_a_list_of_all_contains_them() {
    let (mut server, mut memory) = known(30);
    let of = |place: usize| server.windows[&server.at(place)].clone();
    let [closed, respawned, printed] = [3, 4, 5].map(of);
    for (what, place) in [(Print, 5), (Respawn, 4), (Close, 3)] {
        server.happen(what, place);
    }
    memory.expect([closed.pane, printed.pane], &BTreeSet::new(), []);
    memory.forget_hung_up(&[closed.pid, respawned.pid].into());
    let first = &lines(&server, &mut memory, LookKind::Windows)[0];
    assert_eq!((first.index, counts(first)), (true, (1, 0)));
    check_look(&mut server, &mut memory);
    // A window that is known to exist is queried at once.
    let respawned = server.at(4);
    expect(&mut memory, [respawned]);
    memory.forget_hung_up(&[server.windows[&respawned].pid].into());
    server.happen(Respawn, 4);
    let first = &lines(&server, &mut memory, LookKind::Windows)[0];
    assert!(!first.index && first.in_full().any(|window| window == respawned));
    check_look(&mut server, &mut memory);
}

#[test]
fn a_session_that_is_killed_between_two_lines_is_missing() {
    let mut server = FakeServer::new(30);
    let mut memory = LookMemory::default();
    let mut inquiry = Inquiry::new(&mut memory, LookKind::Windows, ROOM);
    step(&server, &mut inquiry).unwrap();
    server.is_gone = true;
    let error = loop {
        match step(&server, &mut inquiry) {
            Ok(line) => assert!(line.is_some()),
            Err(error) => break error,
        }
    };
    assert!(error.is_missing());
}

#[test]
fn a_sign_that_is_not_printed_is_no_answer() {
    let (server, mut memory) = known(3);
    let mut inquiry = Inquiry::new(&mut memory, LookKind::Slice, ROOM);
    let line = inquiry.next_line().unwrap();
    let commands = line.commands("$0:", Formats::whole());
    let mut frames = server.answer(&line);
    assert_eq!(line.windows[0].1, WindowQuery::Sign);
    frames[0].body.clear();
    let error = line.read(&commands, frames).unwrap_err();
    assert!(matches!(error, TmuxError::Confused { .. }), "{error}");
}

#[test]
fn a_sweep_asks_once_for_each_window_and_goes_on_after_other_looks() {
    let (mut server, mut memory) = known(300);
    // What nothing reports is found by the slice that asks for its window.
    look(&mut server, &mut memory, LookKind::Slice);
    server.happen(Respawn, 299);
    expect(&mut memory, [server.at(0)]);
    look(&mut server, &mut memory, LookKind::Windows);
    assert!(memory.is_sweeping());
    let (seen, _) = sweep(&mut server, &mut memory);
    assert_eq!(shown(&seen), there(&server));
}

#[test]
fn a_sweep_lists_all_windows_only_if_one_may_have_come() {
    let (mut server, mut memory) = known(100);
    let lists = |server: &mut FakeServer, memory: &mut LookMemory| {
        let mut n_lists = 0;
        loop {
            let lines = lines(server, memory, LookKind::Slice);
            n_lists += lines.iter().filter(|line| line.index).count();
            if !memory.is_sweeping() {
                check_look(server, memory);
                return n_lists;
            }
        }
    };
    assert_eq!(lists(&mut server, &mut memory), 0);
    server.happen(Open, 0);
    assert_eq!(lists(&mut server, &mut memory), 1);
    assert_eq!(lists(&mut server, &mut memory), 0);
    // One has come and another one has gone: the line that names that one fails.
    server.happen(Close, 50);
    server.happen(Open, 0);
    assert_eq!(lists(&mut server, &mut memory), 1);
    server.happen(Close, 7);
    assert_eq!(lists(&mut server, &mut memory), 1);
    // A window that is linked twice counts twice: another one may have taken the place of a link.
    server.n_links = 1;
    assert_eq!(lists(&mut server, &mut memory), 1);
    server.n_links = 0;
    server.happen(Open, 0);
    assert_eq!(lists(&mut server, &mut memory), 1);
    assert_eq!(lists(&mut server, &mut memory), 0);
    // One that comes while a sweep is under way is found by the next one.
    look(&mut server, &mut memory, LookKind::Slice);
    assert!(memory.is_sweeping());
    server.happen(Open, 0);
    sweep(&mut server, &mut memory);
    assert_eq!(lists(&mut server, &mut memory), 1);
    assert_eq!(lists(&mut server, &mut memory), 0);
}

#[test]
fn each_slice_of_a_sweep_asks_for_a_window_although_a_list_fills_the_line() {
    let (mut server, mut memory) = known(400);
    look(&mut server, &mut memory, LookKind::Slice);
    assert!(memory.is_sweeping());
    memory.forget_windows(&[WindowId(9999)]);
    let lines = asked(&mut server, &mut memory, LookKind::Slice);
    assert_eq!(lines.first(), Some(&(0, 0)), "the list");
    let n_signs: usize = lines.iter().map(|(_, signs)| signs).sum();
    assert_eq!(n_signs, 1);
}

#[test]
fn a_slice_of_a_sweep_is_one_short_line_and_a_sweep_over_few_windows_is_one() {
    let n_lines_of_300 = [SIGNS_PER_LINE, ROWS_PER_LINE].map(|n| 300_usize.div_ceil(n));
    let many = (300, n_lines_of_300[0], n_lines_of_300[1]);
    for (n_windows, n_lines, n_lines_for_everything) in
        [(1, 1, 1), (5, 1, 1), (10, 1, 2), (25, 1, 5), many]
    {
        let (mut server, mut memory) = known(n_windows);
        let (seen, n_slices) = sweep(&mut server, &mut memory);
        assert_eq!(n_slices, n_lines, "{n_windows} windows");
        assert_eq!(shown(&seen), there(&server));
        make_old(&mut server, &mut memory);
        let (_, n_slices) = sweep(&mut server, &mut memory);
        assert_eq!(n_slices, n_lines_for_everything, "{n_windows} windows");
    }
}

/// Returns how many windows a line queries in full, and how many signs.
fn counts(line: &LookLine) -> (usize, usize) {
    let in_full = line.in_full().count();
    (in_full, line.windows.len() - in_full)
}

/// Returns the windows that the lines of a look name: with everything, or with their signs.
fn asked(server: &mut FakeServer, memory: &mut LookMemory, kind: LookKind) -> Vec<(usize, usize)> {
    lines(server, memory, kind).iter().map(counts).collect()
}

#[test]
fn a_look_at_reported_windows_queries_no_others_although_they_printed_just_now() {
    let mut server = FakeServer::new(100);
    let mut memory = LookMemory::default();
    (0..100).for_each(|place| server.happen(Print, place));
    look(&mut server, &mut memory, LookKind::Windows);
    server.happen(Print, 7);
    expect(&mut memory, [server.at(7)]);
    assert_eq!(asked(&mut server, &mut memory, LookKind::Windows), [(1, 0)]);
    // Without a report: which windows there are.
    assert_eq!(asked(&mut server, &mut memory, LookKind::Windows), [(0, 0)]);
    // The sweep reads everything, also of those that may have printed since, in short lines.
    for _ in 0..4 {
        let lines = asked(&mut server, &mut memory, LookKind::Slice);
        assert!(matches!(lines[..], [(1..=ROWS_PER_LINE, 0)]), "{lines:?}");
    }
    let (seen, _) = sweep(&mut server, &mut memory);
    assert_eq!(shown(&seen), there(&server));
}

fn happens() -> impl Strategy<Value = (Happens, usize)> {
    let all = [Nothing, Open, Die, Respawn, Close, Print, ClosePane];
    (prop::sample::select(all.to_vec()), 0..99_usize)
}

fn kinds() -> impl Strategy<Value = LookKind> {
    prop_oneof![Just(LookKind::Windows), Just(LookKind::Slice)]
}

proptest! {
    #[test]
    fn slices_of_what_does_not_change_are_the_same_as_one_line(
        n in 1..70_usize,
        before in prop::collection::vec(happens(), 0..20),
        is_old: bool,
    ) {
        let (mut server, mut one) = known(n);
        let mut cut = LookMemory::default();
        look(&mut server, &mut cut, LookKind::Windows);
        if is_old {
            make_old(&mut server, &mut one);
            look(&mut server, &mut cut, LookKind::Windows);
        }
        server.time += 5;
        before.iter().for_each(|(what, place)| server.happen(*what, *place));
        server.time += 5;
        let all = LookKind::Slice;
        one.expect_all();
        let one = look_while(&mut server, &mut one, all, usize::MAX, &[]).unwrap();
        let (cut, _) = sweep(&mut server, &mut cut);
        prop_assert_eq!(&one, &cut);
        prop_assert_eq!(shown(&one), there(&server));
    }

    #[test]
    fn whatever_happens_between_lines_looks_agree_with_themselves_and_end_with_what_is_there(
        n in 1..40_usize,
        looks in prop::collection::vec(
            (kinds(), any::<(bool, bool)>(), prop::collection::vec(happens(), 0..12)), 1..6),
    ) {
        let mut server = FakeServer::new(n);
        let mut memory = LookMemory::default();
        for (kind, (is_old, is_of_all), happens) in looks {
            if is_old {
                make_old(&mut server, &mut memory);
            }
            if is_of_all {
                memory.expect_all();
            }
            let never_closed: BTreeSet<WindowId> = server.windows.keys().copied().collect();
            let seen = look_while(&mut server, &mut memory, kind, ROOM, &happens).unwrap();
            let is_there = |window: &WindowId| seen.windows.iter().any(|row| row.window == *window);
            for window in never_closed.iter().filter(|window| server.windows.contains_key(window)) {
                let was_known = memory.windows.contains_key(window);
                prop_assert!(is_there(window) || !was_known, "{window} is missing");
            }
            for death in &seen.deaths {
                let row = seen.windows.iter().find(|row| row.window == death.window);
                let is_left = server.windows.contains_key(&death.window);
                prop_assert!(row.is_some() || !is_left, "{death:?} has no window");
                let pane = row.and_then(|row| row.pane.as_ref());
                if let Some(pane) = pane.filter(|pane| pane.pid == death.pid) {
                    prop_assert!(pane.dead.is_some(), "{death:?} is not in {pane:?}");
                }
            }
            server.time += 3;
        }
        memory.expect_all();
        let seen = look(&mut server, &mut memory, LookKind::Windows);
        prop_assert_eq!(shown(&seen), there(&server));
        prop_assert_eq!(seen.deaths.len(), server.deaths.len());
    }
}
