// SPDX-License-Identifier: GPL-2.0-only
//! The lines of `--json`, as docs/json.md describes them and docs/json-schema.json defines them.

use crate::exit_code::{code_of_result, exit_code, CommandStatus};
use crate::record::Bytes;
use crate::reports;
use outboard_error::{Error, Kept, Reported, Reports, Result};
use serde::Serialize;
use serde_json::value::{to_raw_value, RawValue};
use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;

/// Changes when a program that reads the output has to change.
const VERSION: u32 = 1;

/// How a command prints JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonLayout {
    /// One object.
    Document,
    /// A head, an object for each item, and an end.
    Items,
    /// Not at all: the command writes data of another form to standard output.
    Refused,
}

/// The JSON of one command.
pub struct Json {
    head: Head,
    layout: JsonLayout,
    /// Whether the head was printed.
    started: bool,
    members: Members,
}

type Members = BTreeMap<&'static str, Box<RawValue>>;

#[derive(Clone, Copy, Serialize)]
struct Head {
    version: u32,
    /// `None`: the command line names no command.
    command: Option<&'static str>,
}

/// How a command ended. With `Layout::Document`, all of the output.
#[derive(Serialize)]
struct LastLine {
    #[serde(flatten)]
    head: Option<Head>,
    ok: bool,
    exit_code: u8,
    #[serde(flatten)]
    members: Members,
    errors: Vec<ErrorRecord>,
    #[serde(skip_serializing_if = "is_zero")]
    more_errors: u64,
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "is_zero")]
    more_warnings: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct ErrorRecord {
    kind: &'static str,
    message: String,
    #[serde(flatten)]
    path: Option<Bytes<'static>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    errno: Option<i32>,
}

impl ErrorRecord {
    /// The error that ended a command. `None`: it was reported before.
    fn of(error: &Error) -> Option<Self> {
        Some(Self {
            kind: error.kind().name(),
            message: error.message()?.to_owned(),
            path: error
                .path()
                .map(|path| Bytes::new("path", path.as_os_str().as_bytes().to_vec())),
            errno: error.errno(),
        })
    }
}

impl From<Reported> for ErrorRecord {
    fn from(failure: Reported) -> Self {
        Self {
            kind: failure.kind.name(),
            message: failure.message,
            path: failure.path.map(|path| Bytes::new("path", path)),
            errno: failure.errno,
        }
    }
}

impl LastLine {
    fn new(result: &Result<CommandStatus>, kept: Kept) -> Self {
        let Reports { first, more } = kept.failures;
        let last = result.as_ref().err();
        // As the program ends.
        let exit_code = exit_code(code_of_result(result));
        let errors = first.into_iter().map(ErrorRecord::from);
        Self {
            head: None,
            ok: exit_code == 0,
            exit_code,
            members: Members::new(),
            errors: errors.chain(last.and_then(ErrorRecord::of)).collect(),
            more_errors: more,
            warnings: kept.warnings.first,
            more_warnings: kept.warnings.more,
        }
    }
}

/// A value as one line.
fn line(value: &impl Serialize) -> Result<String> {
    let text = serde_json::to_string(value).map_err(no_json)?;
    Ok(without_controls(&text))
}

fn no_json(error: serde_json::Error) -> Error {
    Error::Failed(format!("cannot make JSON: {error}"))
}

/// JSON text whose strings also have escapes for U+007F to U+009F, which terminals may obey.
fn without_controls(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            '\u{7f}'..='\u{9f}' => text.push_str(&format!("\\u{:04x}", character as u32)),
            other => text.push(other),
        }
    }
    text
}

impl Json {
    /// The JSON of a command. `None`: what was asked for is no command.
    pub fn new(command: Option<&'static str>, layout: JsonLayout) -> Self {
        let version = VERSION;
        Self {
            head: Head { version, command },
            layout,
            started: false,
            members: Members::new(),
        }
    }

    /// The line of the head, unless it was printed or comes with the end.
    fn head(&mut self) -> Result<Option<String>> {
        if self.layout != JsonLayout::Items || self.started {
            return Ok(None);
        }
        self.started = true;
        line(&self.head).map(Some)
    }

    /// The lines to print for an item.
    pub fn item(&mut self, item: &impl Serialize) -> Result<Vec<String>> {
        let head = self.head()?;
        Ok(head.into_iter().chain([line(item)?]).collect())
    }

    /// Adds a member to the last line.
    pub fn member(&mut self, name: &'static str, value: &impl Serialize) -> Result<()> {
        let value = to_raw_value(value).map_err(no_json)?;
        self.members.insert(name, value);
        Ok(())
    }

    /// The lines to print at the end of a command.
    pub fn end(mut self, result: &Result<CommandStatus>) -> Result<Vec<String>> {
        let head = self.head()?;
        let end = LastLine {
            head: (!self.started).then_some(self.head),
            members: self.members,
            ..LastLine::new(result, reports::take())
        };
        Ok(head.into_iter().chain([line(&end)?]).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_control_characters() {
        assert_eq!(without_controls("\"a\u{9b}\u{e9}\""), "\"a\\u009b\u{e9}\"");
    }

    #[test]
    fn documents() {
        let mut json = Json::new(Some("df"), JsonLayout::Document);
        json.member("filesystems", &[1, 2]).unwrap();
        let end = json.end(&Err(Error::Usage("no".to_owned()))).unwrap();
        let expected = "{\"version\":1,\"command\":\"df\",\"ok\":false,\"exit_code\":2,\
            \"filesystems\":[1,2],\"errors\":[{\"kind\":\"usage\",\"message\":\"no\"}],\
            \"warnings\":[]}";
        assert_eq!(end, [expected]);
    }

    #[test]
    fn items() {
        reports::keep();
        let mut json = Json::new(Some("ls"), JsonLayout::Items);
        let head = "{\"version\":1,\"command\":\"ls\"}";
        assert_eq!(json.item(&1).unwrap(), [head, "1"]);
        assert_eq!(json.item(&i128::MAX).unwrap(), [i128::MAX.to_string()]);
        let end = json.end(&Ok(CommandStatus::SUCCESS)).unwrap();
        let expected = "{\"ok\":true,\"exit_code\":0,\"errors\":[],\"warnings\":[]}";
        assert_eq!(end, [expected]);
        let empty = Json::new(Some("ls"), JsonLayout::Items)
            .end(&Ok(CommandStatus::SUCCESS))
            .unwrap();
        assert_eq!(empty, [head, expected]);
    }
}
