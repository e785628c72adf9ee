// SPDX-License-Identifier: GPL-2.0-only
//! The text format of LVM's metadata: `name = value`, and nested sections in braces.
//!
//! A value is a number, a text in double quotes, or a list of both in brackets. `#` begins a
//! comment.

use std::collections::BTreeMap;

/// Most levels of sections. LVM itself has four.
const DEEPEST: usize = 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TextValue {
    Number(i64),
    Text(String),
    List(Vec<TextValue>),
    Section(Section),
}

/// The contents of a section, or of a whole text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Section(BTreeMap<String, TextValue>);

impl Section {
    /// Parses a text. `None`: it is not well-formed.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parser = Parser { rest: text };
        let section = parser.section(0)?;
        parser.token();
        parser.rest.is_empty().then_some(section)
    }

    pub(super) fn section(&self, name: &str) -> Option<&Section> {
        match self.0.get(name)? {
            TextValue::Section(section) => Some(section),
            _ => None,
        }
    }

    /// All sections, by name.
    pub(super) fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.0.iter().filter_map(|(name, value)| match value {
            TextValue::Section(section) => Some((name.as_str(), section)),
            _ => None,
        })
    }

    /// A number that is not negative.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        match self.0.get(name)? {
            TextValue::Number(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            TextValue::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn list(&self, name: &str) -> Option<&[TextValue]> {
        match self.0.get(name)? {
            TextValue::List(values) => Some(values),
            _ => None,
        }
    }

    /// Whether a list contains this text.
    pub(super) fn lists(&self, name: &str, wanted: &str) -> bool {
        let values = self.list(name).unwrap_or_default();
        values
            .iter()
            .any(|value| matches!(value, TextValue::Text(text) if text == wanted))
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    /// Skips blanks and comments. Returns the next character without taking it.
    fn token(&mut self) -> Option<char> {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else {
                return self.rest.chars().next();
            };
            let end = comment.find('\n').unwrap_or(comment.len());
            self.rest = &comment[end..];
        }
    }

    /// Takes the next character if it is this one.
    fn take(&mut self, wanted: char) -> bool {
        if self.token() != Some(wanted) {
            return false;
        }
        self.rest = &self.rest[wanted.len_utf8()..];
        true
    }

    /// The characters up to the first that `belongs` refuses.
    fn word(&mut self, belongs: impl Fn(char) -> bool) -> Option<String> {
        self.token()?;
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then(|| word.to_owned())
    }

    fn section(&mut self, depth: usize) -> Option<Section> {
        if depth > DEEPEST {
            return None;
        }
        let mut section = Section::default();
        while !matches!(self.token(), None | Some('}')) {
            let name = self.word(|c| c.is_alphanumeric() || "_-.+/".contains(c))?;
            let value = if self.take('=') {
                self.value()?
            } else if self.take('{') {
                let inner = self.section(depth + 1)?;
                if !self.take('}') {
                    return None;
                }
                TextValue::Section(inner)
            } else {
                return None;
            };
            section.0.insert(name, value);
        }
        Some(section)
    }

    fn value(&mut self) -> Option<TextValue> {
        if !self.take('[') {
            return self.scalar();
        }
        let mut values = Vec::new();
        while !self.take(']') {
            values.push(self.scalar()?);
            if !self.take(',') && self.token() != Some(']') {
                return None;
            }
        }
        Some(TextValue::List(values))
    }

    fn scalar(&mut self) -> Option<TextValue> {
        if self.take('"') {
            return self.quoted().map(TextValue::Text);
        }
        let digits = self.word(|c| c.is_ascii_digit() || c == '-')?;
        digits.parse().ok().map(TextValue::Number)
    }

    /// A text up to its closing quote. A backslash stands before quotes and backslashes in it.
    fn quoted(&mut self) -> Option<String> {
        let mut text = String::new();
        let mut characters = self.rest.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => text.push(characters.next()?.1),
                other => text.push(other),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds() {
        let section = Section::parse(
            "# a comment\nvg0 {\n  n = 12 # twelve\n  t = \"a \\\"b\\\" \\\\\"\n  l = [\"x\", 0,\
             \n \"y\"]\n e = []\n s { m = -1 }\n}\nlast = 1\n",
        )
        .unwrap();
        let group = section.section("vg0").unwrap();
        assert_eq!(group.number("n"), Some(12));
        assert_eq!(group.text("t"), Some("a \"b\" \\"));
        assert!(group.lists("l", "y") && !group.lists("l", "z"));
        assert_eq!(group.list("l").unwrap()[1], TextValue::Number(0));
        assert_eq!(group.list("e"), Some(&[][..]));
        assert_eq!(group.section("s").unwrap().number("m"), None);
        assert_eq!(section.number("last"), Some(1));
        assert_eq!(section.sections().count(), 1);
    }

    #[test]
    fn what_is_not_well_formed() {
        for bad in [
            "a",
            "a =",
            "a = [",
            "a = [1",
            "a = [1 2]",
            "a = \"b",
            "a = \"b\\",
            "a { b = 1",
            "}",
            "a = 1 }",
            "= 1",
            "a = 99999999999999999999",
            "a = 1-1",
            "a = [[1]]",
            "\u{0}",
        ] {
            assert_eq!(Section::parse(bad), None, "{bad}");
        }
        assert_eq!(Section::parse(&"a {".repeat(1000)), None);
        assert_eq!(
            Section::parse(&("a {".repeat(100_000) + &"}".repeat(100_000))),
            None
        );
    }
}
