// SPDX-License-Identifier: GPL-2.0-only
//! Patterns of names, with the shell's syntax: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:digit:]]`, and `\`
//! before a literal character. Slashes and dots are ordinary characters, as for find and GNU tar.

use outboard_error::format::{pieces, NamePiece};

/// A pattern. Names are bytes; each byte that is not valid UTF-8 counts as one character.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<GlobPart>,
    ignore_case: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum GlobPart {
    Unit(u32),
    Any,
    Set(Set),
    Star,
}

/// Which characters are in a class such as "[:digit:]".
type Class = fn(char) -> bool;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    inverted: bool,
    ranges: Vec<(u32, u32)>,
    classes: Vec<Class>,
}

/// Bytes that are not valid UTF-8 sort above all characters.
const BYTES: u32 = 0x11_0000;

/// The characters of a name, and its bytes that are not valid UTF-8.
fn units(name: &[u8]) -> Vec<u32> {
    let mut units = Vec::with_capacity(name.len());
    for piece in pieces(name) {
        match piece {
            NamePiece::Text(text) => units.extend(text.chars().map(u32::from)),
            NamePiece::Byte(byte) => units.push(BYTES + u32::from(byte)),
        }
    }
    units
}

fn lower(unit: u32) -> u32 {
    let character = char::from_u32(unit).unwrap_or('\0');
    let mut lower = character.to_lowercase();
    match (unit < BYTES, lower.next(), lower.next()) {
        (true, Some(one), None) => one.into(),
        _ => unit,
    }
}

fn upper(unit: u32) -> u32 {
    let character = char::from_u32(unit).unwrap_or('\0');
    let mut upper = character.to_uppercase();
    match (unit < BYTES, upper.next(), upper.next()) {
        (true, Some(one), None) => one.into(),
        _ => unit,
    }
}

impl Pattern {
    /// Compiles a pattern of the shell.
    pub fn new(text: &[u8], ignore_case: bool) -> Self {
        let units = units(text);
        let mut parts = Vec::new();
        let mut rest = units.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            let part = match char::from_u32(*first) {
                Some('*') => GlobPart::Star,
                Some('?') => GlobPart::Any,
                Some('[') => match parse_set(after) {
                    Some((set, after)) => {
                        rest = after;
                        GlobPart::Set(set)
                    }
                    None => GlobPart::Unit(*first),
                },
                Some('\\') if !after.is_empty() => {
                    rest = &after[1..];
                    GlobPart::Unit(after[0])
                }
                _ => GlobPart::Unit(*first),
            };
            parts.push(part);
        }
        Self { parts, ignore_case }
    }

    /// Whether all of a name matches.
    pub fn matches(&self, name: &[u8]) -> bool {
        let name = units(name);
        self.matches_until(&name, |end| end == name.len())
    }

    /// Whether a path matches from its start or from after any slash on, up to its end or to any
    /// slash: GNU tar leaves such a file out, and everything below such a directory.
    pub fn matches_inside(&self, path: &[u8]) -> bool {
        const SLASH: u32 = '/' as u32;
        let path = units(path);
        let after_slashes = (1..=path.len()).filter(|&start| path[start - 1] == SLASH);
        std::iter::once(0).chain(after_slashes).any(|start| {
            let rest = &path[start..];
            self.matches_until(rest, |end| rest.get(end).is_none_or(|unit| *unit == SLASH))
        })
    }

    /// Whether the pattern matches the beginning of a name. `may_end`: whether the match may end at
    /// this unit.
    fn matches_until(&self, name: &[u32], may_end: impl Fn(usize) -> bool) -> bool {
        let (mut part, mut unit) = (0, 0);
        // Index of the last star, and the end of the units that it matches so far.
        let mut star = None;
        loop {
            match self.parts.get(part) {
                Some(GlobPart::Star) => {
                    star = Some((part, unit));
                    part += 1;
                    continue;
                }
                None if may_end(unit) => return true,
                Some(other) if unit < name.len() && self.fits(other, name[unit]) => {
                    part += 1;
                    unit += 1;
                    continue;
                }
                _ => {}
            }
            match star {
                Some((place, taken)) if taken < name.len() => {
                    star = Some((place, taken + 1));
                    part = place + 1;
                    unit = taken + 1;
                }
                _ => return false,
            }
        }
    }

    fn fits(&self, part: &GlobPart, unit: u32) -> bool {
        match part {
            GlobPart::Any | GlobPart::Star => true,
            GlobPart::Unit(wanted) => {
                *wanted == unit || self.ignore_case && lower(*wanted) == lower(unit)
            }
            GlobPart::Set(set) => {
                let found = set.has(unit)
                    || self.ignore_case && (set.has(lower(unit)) || set.has(upper(unit)));
                found != set.inverted
            }
        }
    }
}

impl Set {
    fn has(&self, unit: u32) -> bool {
        let in_range = |range: &(u32, u32)| (range.0..=range.1).contains(&unit);
        let character = char::from_u32(unit);
        self.ranges.iter().any(in_range)
            || character.is_some_and(|character| self.classes.iter().any(|is| is(character)))
    }
}

/// Parses a set after its "[". Returns the set and the text behind its "]"; `None` if it has no
/// end, and the "[" is literal.
fn parse_set(text: &[u32]) -> Option<(Set, &[u32])> {
    const CLOSE: u32 = ']' as u32;
    const DASH: u32 = '-' as u32;
    let mut set = Set {
        inverted: false,
        ranges: Vec::new(),
        classes: Vec::new(),
    };
    let mut rest = text;
    if matches!(
        rest.first().copied().and_then(char::from_u32),
        Some('!' | '^')
    ) {
        set.inverted = true;
        rest = &rest[1..];
    }
    let mut first = true;
    loop {
        if let Some((class, after)) = parse_class(rest) {
            set.classes.push(class);
            rest = after;
        } else if rest.first() == Some(&CLOSE) && !first {
            return Some((set, &rest[1..]));
        } else {
            let (start, after) = parse_unit(rest)?;
            rest = after;
            let mut end = start;
            if let [DASH, after @ ..] = rest {
                if after.first() != Some(&CLOSE) {
                    (end, rest) = parse_unit(after)?;
                }
            }
            set.ranges.push((start, end));
        }
        first = false;
    }
}

/// Parses a character of a set, which may also be written as "[.a.]" or "[=a=]".
fn parse_unit(text: &[u32]) -> Option<(u32, &[u32])> {
    const ESCAPE: u32 = '\\' as u32;
    const OPEN: u32 = '[' as u32;
    const CLOSE: u32 = ']' as u32;
    const DOT: u32 = '.' as u32;
    const EQUAL: u32 = '=' as u32;
    match text {
        [OPEN, DOT, unit, DOT, CLOSE, rest @ ..] => Some((*unit, rest)),
        [OPEN, EQUAL, unit, EQUAL, CLOSE, rest @ ..] => Some((*unit, rest)),
        [ESCAPE, unit, rest @ ..] | [unit, rest @ ..] => Some((*unit, rest)),
        [] => None,
    }
}

/// Parses a class such as "[:digit:]". Returns the class and the text behind it.
fn parse_class(text: &[u32]) -> Option<(Class, &[u32])> {
    let classes: [(&str, Class); 12] = [
        ("[:alnum:]", char::is_alphanumeric),
        ("[:alpha:]", char::is_alphabetic),
        ("[:blank:]", |c| matches!(c, ' ' | '\t')),
        ("[:cntrl:]", char::is_control),
        ("[:digit:]", |c| c.is_ascii_digit()),
        ("[:graph:]", |c| !c.is_control() && !c.is_whitespace()),
        ("[:lower:]", char::is_lowercase),
        ("[:print:]", |c| !c.is_control()),
        ("[:punct:]", |c| c.is_ascii_punctuation()),
        ("[:space:]", char::is_whitespace),
        ("[:upper:]", char::is_uppercase),
        ("[:xdigit:]", |c| c.is_ascii_hexdigit()),
    ];
    classes.iter().find_map(|(name, class)| {
        let name: Vec<u32> = name.chars().map(u32::from).collect();
        Some((*class, text.strip_prefix(name.as_slice())?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &[u8]) -> bool {
        Pattern::new(pattern.as_bytes(), false).matches(name)
    }

    #[test]
    fn matching() {
        for (pattern, name) in [
            ("*", ""),
            ("*.c", ".c"),
            ("a*b*c", "axxbyybc"),
            ("?", "\u{e9}"),
            ("[a-c]x", "bx"),
            ("[!a-c]x", "dx"),
            ("[^a-c]x", "dx"),
            ("[]]", "]"),
            ("[a-]", "-"),
            ("[[:digit:]x]", "7"),
            ("[[:digit:]x]", "x"),
            ("\\*", "*"),
            ("[ab", "[ab"),
            ("a\\", "a\\"),
            ("/a/*", "/a/b/c"),
        ] {
            assert!(matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("", "a"),
            ("a", ""),
            ("*.c", "a.h"),
            ("?", ""),
            ("?", "ab"),
            ("[a-c]", "d"),
            ("[!a-c]", "a"),
            ("\\*", "a"),
            ("a*b", "a*"),
        ] {
            assert!(!matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn text_is_matched_by_characters() {
        for (pattern, name) in [
            ("?", "\u{e9}"),
            ("??", "\u{1f600}e"),
            ("[\u{e0}-\u{ff}]x", "\u{e9}x"),
            ("[!a]", "\u{e9}"),
            ("[[:alpha:]][[:upper:]]", "\u{e9}\u{c9}"),
            ("[[=\u{e9}=]]", "\u{e9}"),
            ("[[.-.]a]", "-"),
            ("[a-[.c.]]", "b"),
        ] {
            assert!(matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("??", "\u{e9}"),
            ("?", "e\u{301}"),
            ("[a-z]", "\u{e9}"),
            ("[!\u{e9}]", "\u{e9}"),
            ("[[:digit:]]", "\u{661}"),
            ("[[:lower:]]", "\u{c9}"),
        ] {
            assert!(!matches(pattern, name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_matched_one_by_one() {
        assert!(matches("a?b", b"a\xffb") && !matches("a?b", b"a\xff\xffb"));
        assert!(matches("*b", b"\xc3b") && matches("[!a]b", b"\xc3b"));
        assert!(!matches("[[:print:][:cntrl:]]", b"\xff"));
        let matches = |pattern: &[u8], name: &[u8]| Pattern::new(pattern, false).matches(name);
        assert!(matches(b"\xff*", b"\xff\xfe"));
        assert!(matches(b"[\xf0-\xff]", b"\xfe") && !matches(b"[\xf0-\xff]", b"\xef"));
        // The first byte of a character is none of its own.
        assert!(!matches(b"\xc3*", "\u{e9}".as_bytes()));
    }

    #[test]
    fn parts_of_paths() {
        let inside = |pattern: &str, path: &[u8]| {
            let pattern = Pattern::new(pattern.as_bytes(), false);
            pattern.matches_inside(path)
        };
        for (pattern, path) in [
            ("*.o", &b"./a/b.o"[..]),
            ("b", b"./a/b"),
            ("b", b"a/b/c"),
            ("a/b", b"x/a/b/c"),
            ("a*c", b"x/a/b/c/d"),
            ("?b", b"x/ab/c"),
            ("[ab]?", b"bc"),
            ("\u{e9}?", "x/\u{e9}\u{e8}/y".as_bytes()),
            ("?", b"x\xff/\xff"),
            ("*", b"a"),
            ("", b"a/"),
        ] {
            assert!(inside(pattern, path), "{pattern}");
        }
        for (pattern, path) in [
            ("b", &b"./a/bc"[..]),
            ("b*", b"./ab"),
            ("a", b"ab/ba"),
            ("?", "\u{e9}\u{e8}".as_bytes()),
            ("a/c", b"a/b/c"),
            ("", b"a"),
        ] {
            assert!(!inside(pattern, path), "{pattern}");
        }
    }

    #[test]
    fn cases() {
        let pattern = Pattern::new("\u{c9}*[A-C]".as_bytes(), true);
        assert!(pattern.matches("\u{e9}xb".as_bytes()) && pattern.matches("\u{c9}B".as_bytes()));
        assert!(!pattern.matches(b"exb"));
    }

    #[test]
    fn many_stars_end() {
        let pattern = "*a".repeat(50) + "b";
        assert!(!matches(&pattern, &[b'a'; 5000]));
    }
}
