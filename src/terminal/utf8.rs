/// Keeps characters whole that are cut between calls.
///
/// The parser can do that too, but vte 0.15 loses an ASCII character that comes after a cut one
/// and before another cut one.
#[derive(Debug, Default)]
pub(super) struct Utf8 {
    /// The beginning of a character.
    held: Vec<u8>,
}

impl Utf8 {
    /// Hands on bytes, without the beginning of a character at their end.
    pub(super) fn pass(&mut self, mut bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            let missing = length(self.held[0]) - self.held.len();
            let more = bytes.iter().take(missing);
            let more = more.take_while(|&&byte| is_continuation(byte)).count();
            let (taken, rest) = bytes.split_at(more);
            self.held.extend_from_slice(taken);
            if more < missing && rest.is_empty() {
                return;
            }
            whole(&self.held);
            self.held.clear();
            bytes = rest;
        }
        let (now, later) = bytes.split_at(bytes.len() - cut(bytes));
        self.held.extend_from_slice(later);
        if !now.is_empty() {
            whole(now);
        }
    }
}

/// How many bytes at the end are the beginning of a character.
fn cut(bytes: &[u8]) -> usize {
    let tail = bytes.iter().rev().take(3);
    let after = tail.take_while(|&&byte| is_continuation(byte)).count();
    match bytes.len().checked_sub(after + 1).map(|at| bytes[at]) {
        Some(lead) if length(lead) > after + 1 => after + 1,
        Some(_) | None => 0,
    }
}

/// How many bytes a character has that begins like this.
fn length(lead: u8) -> usize {
    match lead {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    }
}

fn is_continuation(byte: u8) -> bool {
    matches!(byte, 0x80..=0xbf)
}
