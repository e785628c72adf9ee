// SPDX-License-Identifier: GPL-2.0-only
//! YAML as a tree in which each value has its line. The crate saphyr-parser has the grammar.
//!
//! Anchors, tags and several documents are refused: a topology needs none, and anchors let a short
//! file grow without limit.

use crate::error::{Error, Result};
use crate::quantity::ParseResult;
use saphyr_parser::{Event, Parser, ScalarStyle, Span};

/// Most bytes of a file.
pub const LARGEST: usize = 1 << 20;
/// Most lists and maps inside each other.
const DEEPEST: usize = 16;

/// A value and the line where it begins.
#[derive(Clone, Debug)]
pub struct Yaml {
    pub line: usize,
    pub value: YamlValue,
}

#[derive(Clone, Debug)]
pub enum YamlValue {
    /// `~`, `null`, or nothing at all.
    Nothing,
    Text(String),
    List(Vec<Yaml>),
    Map(Vec<(YamlKey, Yaml)>),
}

#[derive(Clone, Debug)]
pub struct YamlKey {
    pub line: usize,
    pub name: String,
}

struct Reader<'a> {
    parser: Parser<'a, saphyr_parser::StrInput<'a>>,
    depth: usize,
}

/// Parses a file with one document.
pub fn parse(text: &str) -> Result<Yaml> {
    let mut reader = Reader {
        parser: Parser::new_from_str(text),
        depth: 0,
    };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(_), _) => {}
            (Event::StreamEnd, line) => return Err(Error::topology(line, "the file is empty")),
            (event, line) => {
                let document = reader.value(event, line)?;
                return reader.end(document);
            }
        }
    }
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, usize)> {
        match self.parser.next_event() {
            Some(Ok((event, Span { start, .. }))) => Ok((event, start.line())),
            Some(Err(error)) => Err(Error::topology(error.marker().line(), error.info())),
            None => Err(Error::topology(0, "the file ends in the middle")),
        }
    }

    fn end(&mut self, document: Yaml) -> Result<Yaml> {
        loop {
            match self.next()? {
                (Event::DocumentEnd, _) => {}
                (Event::StreamEnd, _) => return Ok(document),
                (_, line) => return Err(Error::topology(line, "a second document: write one")),
            }
        }
    }

    fn value(&mut self, event: Event<'a>, line: usize) -> Result<Yaml> {
        let value = match event {
            Event::Scalar(text, style, 0, None) => scalar(&text, style),
            Event::SequenceStart(0, None) => self.nested(line, Self::list)?,
            Event::MappingStart(0, None) => self.nested(line, Self::map)?,
            _ => {
                let text = "anchors (&), aliases (*) and tags (!) are refused";
                return Err(Error::topology(line, text));
            }
        };
        Ok(Yaml { line, value })
    }

    fn nested(
        &mut self,
        line: usize,
        read: impl FnOnce(&mut Self) -> Result<YamlValue>,
    ) -> Result<YamlValue> {
        if self.depth == DEEPEST {
            let text = format!("more than {DEEPEST} lists and maps inside each other");
            return Err(Error::topology(line, text));
        }
        self.depth += 1;
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    fn list(&mut self) -> Result<YamlValue> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(YamlValue::List(items)),
                (event, line) => items.push(self.value(event, line)?),
            }
        }
    }

    fn map(&mut self) -> Result<YamlValue> {
        let mut pairs: Vec<(YamlKey, Yaml)> = Vec::new();
        let mut lines = std::collections::HashMap::new();
        loop {
            let (event, line) = self.next()?;
            let name = match event {
                Event::MappingEnd => return Ok(YamlValue::Map(pairs)),
                Event::Scalar(text, _, 0, None) => text.into_owned(),
                _ => return Err(Error::topology(line, "a key is one word")),
            };
            if let Some(first) = lines.insert(name.clone(), line) {
                let text = format!("{name:?} is there already, in line {first}");
                return Err(Error::topology(line, text));
            }
            let (event, value_line) = self.next()?;
            let value = self.value(event, value_line)?;
            pairs.push((YamlKey { line, name }, value));
        }
    }
}

fn scalar(text: &str, style: ScalarStyle) -> YamlValue {
    match (text, style) {
        ("" | "~" | "null", ScalarStyle::Plain) => YamlValue::Nothing,
        _ => YamlValue::Text(text.to_owned()),
    }
}

impl Yaml {
    /// The text of a value that is one word or line. `what`: its name, for the error.
    pub fn text(&self, what: &str) -> Result<&str> {
        match &self.value {
            YamlValue::Text(text) => Ok(text),
            _ => Err(Error::topology(self.line, format!("{what}: write a text"))),
        }
    }

    /// The items of a list. A single text is a list of one; nothing is an empty list.
    pub fn items(&self, what: &str) -> Result<&[Yaml]> {
        match &self.value {
            YamlValue::List(items) => Ok(items),
            YamlValue::Text(_) => Ok(std::slice::from_ref(self)),
            YamlValue::Nothing => Ok(&[]),
            YamlValue::Map(_) => Err(Error::topology(self.line, format!("{what}: write a list"))),
        }
    }

    /// The pairs of a map. Nothing is an empty map.
    pub fn pairs(&self, what: &str) -> Result<&[(YamlKey, Yaml)]> {
        match &self.value {
            YamlValue::Map(pairs) => Ok(pairs),
            YamlValue::Nothing => Ok(&[]),
            _ => Err(Error::topology(
                self.line,
                format!("{what}: write KEY: VALUE"),
            )),
        }
    }

    /// The members of a map whose keys are known. Another key is an error.
    pub fn members<'a>(&'a self, what: &str, known: &[&str]) -> Result<MapReader<'a>> {
        let pairs = self.pairs(what)?;
        if let Some((key, _)) = pairs
            .iter()
            .find(|(key, _)| !known.contains(&key.name.as_str()))
        {
            let text = format!(
                "{what}: unknown key {:?}: use {}",
                key.name,
                known.join(", ")
            );
            return Err(Error::topology(key.line, text));
        }
        Ok(MapReader { pairs })
    }
}

/// The members of a map.
#[derive(Clone, Copy)]
pub struct MapReader<'a> {
    pairs: &'a [(YamlKey, Yaml)],
}

impl<'a> MapReader<'a> {
    /// The value of a key.
    pub fn get(&self, name: &str) -> Option<&'a Yaml> {
        let mut pairs = self.pairs.iter();
        pairs.find_map(|(key, value)| (key.name == name).then_some(value))
    }

    /// Parses the text of a key, if it is there.
    pub fn parse<T>(
        &self,
        name: &str,
        parse: impl FnOnce(&str) -> ParseResult<T>,
    ) -> Result<Option<T>> {
        let Some(yaml) = self.get(name) else {
            return Ok(None);
        };
        let text = yaml.text(name)?;
        let wrong =
            |hint| Error::topology(yaml.line, format!("{name}: {text:?} is refused: {hint}"));
        parse(text).map(Some).map_err(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        parse(text).unwrap_err().to_string()
    }

    #[test]
    fn values_have_lines() {
        let yaml = parse("a: 1\nb:\n  - x\n  - {y: z}\n").unwrap();
        let members = yaml.members("file", &["a", "b"]).unwrap();
        assert_eq!(members.get("a").unwrap().text("a").unwrap(), "1");
        let items = members.get("b").unwrap().items("b").unwrap();
        assert_eq!([items[0].line, items[1].line], [3, 4]);
    }

    #[test]
    fn hostile_files_are_errors_with_a_line() {
        assert_eq!(
            error("a: 1\na: 2"),
            "line 2: \"a\" is there already, in line 1"
        );
        assert!(error("a: &x 1\nb: *x").starts_with("line 1: anchors"));
        assert!(error(&"[".repeat(100)).contains("inside each other"));
        assert!(error("a: [1").starts_with("line"));
        assert!(error("").contains("empty"));
        assert!(error("a: 1\n---\nb: 2").contains("second document"));
        let unknown = parse("a: 1\nb: 2").unwrap();
        let unknown = unknown.members("file", &["a"]).map(drop).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "line 2: file: unknown key \"b\": use a"
        );
    }
}
