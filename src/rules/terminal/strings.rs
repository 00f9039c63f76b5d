use memchr::memchr;

/// Whether output is text or part of a string that carries no text.
///
/// The parser behind this knows such strings too, but differs from tmux: tmux ends a DCS string
/// only at `ESC \`, supports `ESC k` titles, and stops waiting for an end after a while. Strings
/// are removed before the parser gets them; their start cancels an open sequence in the parser.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// Text, or within a sequence that the parser handles.
    #[default]
    Outside,
    /// After an `ESC` that the parser has got.
    Escape,
    /// In an OSC string, which BEL ends too.
    Osc,
    /// In an APC, PM or SOS string, a title, or a DCS string that tmux does not interpret.
    Ignored,
    /// In a DCS string, before its final character.
    DcsHead,
    /// In a DCS string, which only `ESC \` ends.
    DcsBody,
    /// After an `ESC` in a DCS string.
    DcsEscape,
}

const ESCAPE: u8 = 0x1b;
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;

impl Strings {
    /// Passes on what is not part of a string.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut text: impl FnMut(&[u8])) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if *self == Self::Outside {
                let escape = memchr(ESCAPE, bytes);
                let (plain, rest) = bytes.split_at(escape.map_or(bytes.len(), |at| at + 1));
                if escape.is_some() {
                    *self = Self::Escape;
                }
                text(plain);
                bytes = rest;
                continue;
            }
            *self = self.after(byte, &mut text);
            bytes = rest;
        }
    }

    fn after(self, byte: u8, text: &mut impl FnMut(&[u8])) -> Self {
        match (self, byte) {
            (Self::Outside, _) => unreachable!("text is handed on as a whole"),
            (Self::Escape, _) => after_escape(byte, text),
            (Self::DcsBody, ESCAPE) => Self::DcsEscape,
            (Self::DcsEscape, b'\\') => Self::Outside,
            (Self::DcsBody | Self::DcsEscape, _) => Self::DcsBody,
            (Self::Osc | Self::Ignored | Self::DcsHead, ESCAPE) => {
                text(&[ESCAPE]);
                Self::Escape
            }
            (Self::Osc | Self::Ignored | Self::DcsHead, CANCEL | SUBSTITUTE) => Self::Outside,
            (Self::Osc, 0x07) => Self::Outside,
            (Self::Osc, _) => Self::Osc,
            (Self::Ignored, _) | (Self::DcsHead, b':') => Self::Ignored,
            (Self::DcsHead, b'@'..=b'~') => Self::DcsBody,
            (Self::DcsHead, _) => Self::DcsHead,
        }
    }

    pub(super) fn is_inside(self) -> bool {
        match self {
            Self::Outside | Self::Escape => false,
            Self::Osc | Self::Ignored | Self::DcsHead | Self::DcsBody | Self::DcsEscape => true,
        }
    }

    pub(super) fn abandon(&mut self) {
        if self.is_inside() {
            *self = Self::Outside;
        }
    }
}

fn after_escape(byte: u8, text: &mut impl FnMut(&[u8])) -> Strings {
    let string = match byte {
        b']' => Strings::Osc,
        b'P' => Strings::DcsHead,
        b'X' | b'^' | b'_' | b'k' => Strings::Ignored,
        _ => {
            text(&[byte]);
            return match byte {
                CANCEL | SUBSTITUTE | 0x20..=0x7e => Strings::Outside,
                _ => Strings::Escape, // Finished, but the sequence continues.
            };
        }
    };
    text(&[CANCEL]);
    string
}
