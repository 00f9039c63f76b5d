/// Which characters a program writes: text, or lines to draw with (`ESC ( 0`, `ESC ) 0` and SO).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charsets {
    /// Whether each of the two sets draws.
    draws: [bool; 2],
    /// The set in use.
    used: usize,
}

impl Charsets {
    /// Assigns a set, the first or the second.
    pub(super) fn assign(&mut self, set: usize, draws: bool) {
        self.draws[set] = draws;
    }

    /// Turns to a set.
    pub(super) fn turn_to(&mut self, set: usize) {
        self.used = set;
    }

    /// Whether this character is one to draw with.
    pub(super) fn draws(self, c: char) -> bool {
        self.draws[self.used] && drawn(c) != c
    }
}

/// Returns what a character is drawn as, as tmux does it on a terminal that knows Unicode.
pub(super) fn drawn(c: char) -> char {
    match c {
        '+' => '→',
        ',' => '←',
        '-' => '↑',
        '.' => '↓',
        '0' => '▮',
        '`' => '◆',
        'a' => '▒',
        'b' => '␉',
        'c' => '␌',
        'd' => '␍',
        'e' => '␊',
        'f' => '°',
        'g' => '±',
        'h' => '␤',
        'i' => '␋',
        'j' => '┘',
        'k' => '┐',
        'l' => '┌',
        'm' => '└',
        'n' => '┼',
        'o' => '⎺',
        'p' => '⎻',
        'q' => '─',
        'r' => '⎼',
        's' => '⎽',
        't' => '├',
        'u' => '┤',
        'v' => '┴',
        'w' => '┬',
        'x' => '│',
        'y' => '≤',
        'z' => '≥',
        '{' => 'π',
        '|' => '≠',
        '}' => '£',
        '~' => '·',
        c => c,
    }
}
