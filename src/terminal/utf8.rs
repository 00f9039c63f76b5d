/// Splits a stream of UTF-8 between characters: a character cut between two calls is passed on
/// whole.
///
/// The parser can join characters too, but vte 0.15 loses an ASCII character between two that are
/// cut.
#[derive(Debug, Default)]
pub(crate) struct Utf8Splitter {
    /// The start of a character.
    held: Vec<u8>,
}

impl Utf8Splitter {
    /// Passes on the bytes, except for an incomplete character at their end, which is kept for the
    /// next call. Bytes that are not UTF-8 are passed on unchanged.
    pub(crate) fn pass(&mut self, mut bytes: &[u8], mut whole: impl FnMut(&[u8])) {
        if !self.held.is_empty() {
            while incomplete_tail(&self.held) > 0 {
                match bytes.split_first() {
                    Some((&byte, rest)) if is_continuation(byte) => {
                        self.held.push(byte);
                        bytes = rest;
                    }
                    Some(_) => break,
                    None => return,
                }
            }
            whole(&self.held);
            self.held.clear();
        }
        let (now, later) = bytes.split_at(bytes.len() - incomplete_tail(bytes));
        self.held.extend_from_slice(later);
        if !now.is_empty() {
            whole(now);
        }
    }
}

/// Returns how many bytes at the end are the start of a character.
fn incomplete_tail(bytes: &[u8]) -> usize {
    // A character has four bytes at most.
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(start) = tail.iter().rposition(|&byte| !is_continuation(byte)) else {
        return 0;
    };
    match std::str::from_utf8(&tail[start..]) {
        Err(error) if error.error_len().is_none() => tail.len() - start,
        Ok(_) | Err(_) => 0,
    }
}

fn is_continuation(byte: u8) -> bool {
    matches!(byte, 0x80..=0xbf)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns what is passed on, piece by piece, and what is kept at the end.
    fn pieces(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let mut splitter = Utf8Splitter::default();
        let mut pieces = Vec::new();
        for chunk in chunks {
            splitter.pass(chunk, |whole| pieces.push(whole.to_vec()));
        }
        (pieces, splitter.held)
    }

    #[test]
    fn a_character_is_held_until_it_is_whole() {
        let euro = "€".as_bytes();
        let (handed_on, held) = pieces(&[b"a", &euro[..1], &euro[1..2], b"", &euro[2..], b"b"]);
        assert_eq!(handed_on, [b"a".as_slice(), euro, b"b"]);
        assert!(held.is_empty());
        let (handed_on, held) = pieces(&[b"a\xf0\x9f\x8e"]);
        assert_eq!(handed_on, [b"a"]);
        assert_eq!(held, b"\xf0\x9f\x8e");
    }

    #[test]
    fn what_can_be_no_character_is_not_held() {
        for bytes in [
            &b"\xff"[..],
            b"\xe0\x80",
            b"\xc0",
            b"\x80\x80\x80\x80",
            b"\xf5",
        ] {
            let (handed_on, held) = pieces(&[bytes]);
            assert_eq!(handed_on.concat(), bytes);
            assert!(held.is_empty(), "{bytes:x?}");
        }
        let (handed_on, held) = pieces(&[b"\xe2", b"\xc3", b"x"]);
        assert_eq!(handed_on, [&b"\xe2"[..], b"\xc3", b"x"]);
        assert!(held.is_empty());
    }

    proptest! {
        #[test]
        fn cuts_change_no_text(
            bytes in prop_oneof![any::<String>().prop_map(String::into_bytes), any::<Vec<u8>>()],
            cuts: Vec<prop::sample::Index>,
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let chunks: Vec<&[u8]> = cuts.windows(2).map(|at| &bytes[at[0]..at[1]]).collect();
            let (handed_on, held) = pieces(&chunks);
            prop_assert_eq!([handed_on.concat(), held.clone()].concat(), bytes.clone());
            let text: String = handed_on.iter().map(|piece| String::from_utf8_lossy(piece)).collect();
            let text = text + &String::from_utf8_lossy(&held);
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
