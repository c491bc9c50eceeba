//! Words, numbers and separators of a date.

/// A part of a date.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// Letters, in lower case.
    Word(String),
    /// Digits.
    Number {
        /// At most 2^63.
        value: u64,
        digits: usize,
    },
    /// Anything else but white space.
    Mark(char),
}

/// A token, and whether white space stands before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) token: Token,
    pub(super) spaced: bool,
}

impl Placed {
    pub(super) fn word(&self) -> Option<&str> {
        match &self.token {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    pub(super) fn number(&self) -> Option<(u64, usize)> {
        match self.token {
            Token::Number { value, digits } => Some((value, digits)),
            _ => None,
        }
    }

    pub(super) fn is(&self, mark: char) -> bool {
        self.token == Token::Mark(mark)
    }
}

/// The maximum length of a date in bytes.
const LONGEST: usize = 120;

/// The text of a header: UTF-8, or Latin-1 where it is not. `None` if it is too long for a date.
pub(super) fn text(bytes: &[u8]) -> Option<String> {
    if bytes.len() > LONGEST {
        return None;
    }
    Some(match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|&byte| char::from(byte)).collect(),
    })
}

/// Splits a text. What is in parentheses is left out, and so is everything from a semicolon on.
pub(super) fn tokens(text: &str) -> Vec<Placed> {
    let mut tokens: Vec<Placed> = Vec::new();
    let mut spaced = false;
    let mut depth = 0usize;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            ';' => break,
            c if c.is_whitespace() || c == '\u{feff}' => spaced = true,
            c if c.is_ascii_digit() => {
                let mut value = u64::from(c as u8 - b'0');
                let mut digits = 1;
                while let Some(next) = characters.next_if(char::is_ascii_digit) {
                    value = value
                        .saturating_mul(10)
                        .saturating_add(u64::from(next as u8 - b'0'));
                    digits += 1;
                }
                let token = Token::Number { value, digits };
                tokens.push(Placed {
                    token,
                    spaced: std::mem::take(&mut spaced),
                });
            }
            c if c.is_alphabetic() => {
                let mut word: String = c.to_lowercase().collect();
                while let Some(next) = characters.next_if(|c| c.is_alphabetic()) {
                    word.extend(next.to_lowercase());
                }
                tokens.push(Placed {
                    token: Token::Word(word),
                    spaced: std::mem::take(&mut spaced),
                });
            }
            c => tokens.push(Placed {
                token: Token::Mark(c),
                spaced: std::mem::take(&mut spaced),
            }),
        }
    }
    tokens
}
