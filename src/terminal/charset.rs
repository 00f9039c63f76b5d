/// The character sets in use: text, or line drawing (`ESC ( 0`, `ESC ) 0` and SO).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Charsets {
    /// For each of the two sets, whether it is line drawing.
    draws: [bool; 2],
    /// The index of the set in use.
    used: usize,
}

impl Charsets {
    /// Assigns the first or the second set.
    pub(super) fn assign(&mut self, set: usize, draws: bool) {
        self.draws[set] = draws;
    }

    /// Selects a set.
    pub(super) fn turn_to(&mut self, set: usize) {
        self.used = set;
    }

    /// Whether the set in use is text.
    #[inline] // For each character of output.
    pub(super) fn is_text(self) -> bool {
        !self.draws[self.used]
    }

    /// Whether this character is a line-drawing one in the set in use.
    pub(super) fn draws(self, c: char) -> bool {
        !self.is_text() && drawn(c) != c
    }
}

/// Returns the drawn form of a character, as tmux shows it on a terminal that supports Unicode.
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
