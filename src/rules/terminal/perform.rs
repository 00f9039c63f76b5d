use vte::{Params, Perform};

use super::writer::Writer;

/// The effects of control characters and sequences. Those that tmux ignores, and those that change
/// no text, are missing.
impl Perform for Writer<'_> {
    fn print(&mut self, c: char) {
        if c != '\x7f' {
            Writer::print(self, c);
        }
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            0x08 => self.backspace(),
            b'\t' => self.tab(),
            b'\n' | 0x0b | 0x0c => self.line_feed(),
            b'\r' => self.carriage_return(),
            0x0e => self.grid.charsets.used = 1,
            0x0f => self.grid.charsets.used = 0,
            _ => {}
        }
        self.grid.last = None;
    }

    fn esc_dispatch(&mut self, intermediates: &[u8], _ignore: bool, byte: u8) {
        if intermediates.is_empty() {
            match byte {
                b'7' => self.save_cursor(),
                b'8' => self.restore_cursor(),
                b'D' => self.line_feed(),
                b'E' => {
                    self.carriage_return();
                    self.line_feed();
                }
                b'H' => self.set_tab(true),
                b'M' => self.reverse_index(),
                b'c' => self.reset(),
                _ => {}
            }
        }
        match (intermediates, byte) {
            ([b'('], b'0' | b'B') => self.grid.charsets.draws[0] = byte == b'0',
            ([b')'], b'0' | b'B') => self.grid.charsets.draws[1] = byte == b'0',
            _ => {}
        }
        self.grid.last = None;
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], ignore: bool, action: char) {
        let numbers = Numbers(params);
        match intermediates {
            _ if ignore => {}
            [] => sequence(self, &numbers, action),
            [b'?'] => private_mode(self, &numbers, action),
            _ => {}
        }
        self.grid.last = None;
    }
}

fn sequence(writer: &mut Writer<'_>, numbers: &Numbers<'_>, action: char) {
    let Some(first) = numbers.get(0) else {
        return;
    };
    let count = first.max(1);
    match action {
        '@' => writer.insert_characters(count),
        'A' => writer.up(count),
        'B' => writer.down(count),
        'C' => writer.right(count),
        'D' => writer.left(count),
        'E' => {
            writer.carriage_return();
            writer.down(count);
        }
        'F' => {
            writer.carriage_return();
            writer.up(count);
        }
        'G' | '`' => writer.go_to(Some(count - 1), None),
        'H' | 'f' => {
            if let Some(column) = numbers.get(1) {
                writer.go_to(Some(column.max(1) - 1), Some(count - 1));
            }
        }
        'J' => match first {
            0 => writer.erase_screen_after(),
            1 => writer.erase_screen_before(),
            2 => writer.erase_screen(),
            3 => writer.erase_history(),
            _ => {}
        },
        'K' => match first {
            0 => writer.erase_line_after(),
            1 => writer.erase_line_before(),
            2 => writer.erase_line(),
            _ => {}
        },
        'L' => writer.insert_lines(count),
        'M' => writer.delete_lines(count),
        'P' => writer.delete_characters(count),
        'S' => writer.scroll_up(count),
        'T' => writer.scroll_down(count),
        'X' => writer.erase_characters(count),
        'Z' => writer.back_tab(count),
        'b' => writer.repeat(count),
        'd' => writer.go_to(None, Some(count - 1)),
        'g' => match first {
            0 => writer.set_tab(false),
            3 => writer.grid.tabs.fill(false),
            _ => {}
        },
        'h' | 'l' if numbers.all().any(|number| number == 4) => {
            writer.grid.modes.insert = action == 'h';
        }
        'r' => match numbers.get(1) {
            Some(0) => writer.set_region(count - 1, writer.grid.height - 1),
            Some(bottom) => writer.set_region(count - 1, bottom - 1),
            None => {}
        },
        's' => writer.save_cursor(),
        'u' => writer.restore_cursor(),
        _ => {}
    }
}

fn private_mode(writer: &mut Writer<'_>, numbers: &Numbers<'_>, action: char) {
    let on = match action {
        'h' => true,
        'l' => false,
        _ => return,
    };
    for number in numbers.all() {
        match number {
            3 => {
                writer.go_to(Some(0), Some(0));
                writer.erase_screen();
            }
            6 => {
                writer.grid.modes.origin = on;
                writer.go_to(Some(0), Some(0));
            }
            7 => writer.grid.modes.wrap = on,
            47 | 1047 | 1049 => match on {
                true => writer.enter_alternate(number == 1049),
                false => writer.leave_alternate(number == 1049),
            },
            _ => {}
        }
    }
}

/// The numbers of a control sequence. A missing one is 0; one that is not a plain number makes tmux
/// ignore the sequence.
struct Numbers<'a>(&'a Params);

impl Numbers<'_> {
    fn get(&self, index: usize) -> Option<usize> {
        match self.0.iter().nth(index) {
            None => Some(0),
            Some([number]) => Some(usize::from(*number)),
            Some(_) => None,
        }
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        self.0.iter().filter_map(|parameter| match parameter {
            [number] => Some(usize::from(*number)),
            _ => None,
        })
    }
}
