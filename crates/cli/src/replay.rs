//! What of a recorded shell's output a terminal is given: colours, places and erasing, nothing that reaches beyond the screen.
//!
//! What ran in the Pod decided about the output. Whoever watches it must not have their clipboard written, their title or
//! keys changed, or answers typed in their name.

/// Longest control sequence that is kept until its end is known.
const LONGEST: usize = 64;

/// Takes output piece by piece: a sequence may lie across two.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    state: State,
    /// A control sequence that has begun, without `ESC [`.
    sequence: String,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After `ESC`.
    Escape,
    /// After `ESC` and intermediate characters.
    Intermediate,
    /// After `ESC [`.
    Control,
    /// In a string that only its end ends: of the operating system, a device, an application.
    String,
    /// After `ESC` in such a string.
    StringEscape,
}

impl Replay {
    /// What may be shown of the next piece.
    pub(crate) fn shown(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for letter in text.chars() {
            self.take(letter, &mut out);
        }
        out
    }

    #[expect(clippy::match_same_arms, reason = "each arm has its own reason, and their order counts")]
    fn take(&mut self, letter: char, out: &mut String) {
        self.state = match (self.state, letter) {
            // The end of a string; a sequence that ends in the middle.
            (State::String, '\u{7}' | '\u{9c}')
            | (State::StringEscape, '\\')
            | (State::Control | State::Intermediate, '\u{18}' | '\u{1a}') => State::Text,
            (State::String, '\u{1b}') => State::StringEscape,
            (State::String, _) => State::String,
            // Any other sequence ends the string, too.
            (State::StringEscape | State::Escape, _) => self.escaped(letter, out),
            (_, '\u{1b}') => State::Escape,
            (State::Intermediate, '\u{20}'..='\u{2f}') => State::Intermediate,
            // A set of characters, of which nothing here depends.
            (State::Intermediate, _) => State::Text,
            (State::Control, '\u{20}'..='\u{3f}') if self.sequence.len() < LONGEST => {
                self.sequence.push(letter);
                State::Control
            }
            (State::Control, '\u{20}'..='\u{3f}') => State::Control,
            (State::Control, '@'..='~') => {
                if self.sequence.len() < LONGEST && is_harmless(&self.sequence, letter) {
                    out.push_str("\u{1b}[");
                    out.push_str(&self.sequence);
                    out.push(letter);
                }
                State::Text
            }
            // The same beginnings in one character.
            (State::Text | State::Control, '\u{9b}') => self.control(),
            (State::Text | State::Control, '\u{90}' | '\u{98}' | '\u{9d}'..='\u{9f}') => State::String,
            (
                state @ (State::Text | State::Control),
                '\u{7}' | '\u{8}' | '\t' | '\n' | '\r' | '\u{b}' | '\u{c}',
            ) => {
                out.push(letter);
                state
            }
            (state, letter) if letter.is_control() => state,
            (_, letter) => {
                out.push(letter);
                State::Text
            }
        };
    }

    fn control(&mut self) -> State {
        self.sequence.clear();
        State::Control
    }

    fn escaped(&mut self, letter: char, out: &mut String) -> State {
        match letter {
            '[' => self.control(),
            ']' | 'P' | 'X' | '^' | '_' => State::String,
            '\u{1b}' => State::Escape,
            '\u{20}'..='\u{2f}' => State::Intermediate,
            // Keep and fetch the place, lines up and down, the keypad's mode.
            '7' | '8' | 'D' | 'E' | 'M' | '=' | '>' => {
                out.push('\u{1b}');
                out.push(letter);
                State::Text
            }
            _ => State::Text,
        }
    }
}

/// Moves, erases, scrolls, colours; modes of the screen, not of keys and mouse. Whatever a terminal answers is not among them.
fn is_harmless(sequence: &str, last: char) -> bool {
    let plain = sequence.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b';' | b':'));
    match last {
        '@'..='H'
        | 'J'..='M'
        | 'P'
        | 'S'
        | 'T'
        | 'X'
        | '`'
        | 'a'
        | 'd'
        | 'e'
        | 'f'
        | 'g'
        | 'm'
        | 'r'
        | 's'
        | 'u' => plain,
        // Wrapping, the cursor's look, the other screen.
        'h' | 'l' => matches!(sequence, "4" | "?7" | "?12" | "?25" | "?47" | "?1047" | "?1048" | "?1049"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let whole = Replay::default().shown(text);
        // However it is cut.
        let mut replay = Replay::default();
        let pieces: String = text.chars().map(|letter| replay.shown(&letter.to_string())).collect();
        assert_eq!(pieces, whole, "{text:?}");
        whole
    }

    #[test]
    fn a_screen_is_shown_as_it_was() {
        for text in [
            "total 0\r\n",
            "\u{1b}[1;31mred\u{1b}[0m \u{1b}[38;5;196mmore\u{1b}[m",
            "\u{1b}[?1049h\u{1b}[H\u{1b}[2J\u{1b}[10;20Htop\u{1b}[K\u{1b}[?25l\u{1b}[?1049l",
            "\u{1b}7\u{1b}[1A\u{1b}8 日本 ö\u{8}\t\u{7}",
        ] {
            assert_eq!(shown(text), text);
        }
    }

    #[test]
    fn what_reaches_beyond_the_screen_is_left_out() {
        for attack in [
            "\u{1b}]52;c;cm0gLXJmIC8=\u{7}",
            "\u{1b}]52;c;cm0gLXJmIC8=\u{1b}\\",
            "\u{9d}52;c;cm0gLXJmIC8=\u{9c}",
            "\u{1b}]0;title\u{7}",
            "\u{1b}]8;;https://evil.example\u{1b}\\",
            "\u{1b}]50;?\u{7}",
            "\u{1b}P+q544e\u{1b}\\",
            "\u{90}$qm\u{9c}",
            "\u{1b}_application\u{1b}\\",
            "\u{1b}^private\u{1b}\\",
            "\u{1b}Xstring\u{1b}\\",
            "\u{1b}[6n",
            "\u{9b}6n",
            "\u{1b}[c",
            "\u{1b}[>c",
            "\u{1b}[21t",
            "\u{1b}[?2004$p",
            "\u{1b}[?1000h",
            "\u{1b}[?2004h",
            "\u{1b}[4i",
            "\u{1b}[>4;1m",
            "\u{1b}Z",
            "\u{1b}c",
            "\u{1b}(0",
            "\u{5}",
        ] {
            assert_eq!(shown(&format!("a{attack}b")), "ab", "{attack:?}");
        }
        // One inside another, and one that never ends.
        assert_eq!(shown("a\u{1b}]0;\u{1b}[6n\u{7}b"), "a\u{7}b");
        assert_eq!(shown("a\u{1b}]52;c;\nnever ends"), "a");
        assert_eq!(shown(&format!("a\u{1b}[{}mb", "1;".repeat(100))), "ab");
        assert_eq!(shown("\u{1b}[3\u{1b}[6n1m"), "1m");
    }
}
