// SPDX-License-Identifier: GPL-2.0-only
//! `outboard getfattr`.

use super::descend::{look, Descend, VisitedFile};
use crate::output::{Output, Print};
use crate::record::Bytes;
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use clap::{Args, ValueEnum};
use outboard_error::{Error, Failures, Result};
use outboard_volume::octal::quote;
use outboard_volume::session::Session;
use regex::bytes::{Regex, RegexBuilder};
use serde::{Serialize, Serializer};
use std::ffi::{CString, OsString};
use std::io;

/// Show extended attributes of files in an image
///
/// Without -n and -d, getfattr shows names only; without -m, only names that begin with "user.".
/// "setfattr --restore" reads the output of -d.
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard getfattr -d disk.img:/srv/file\
                  \n  outboard getfattr -d -m - disk.img:/usr/bin/ping\
                  \n  outboard getfattr -n security.capability -e hex disk.img:/usr/bin/ping\
                  \n  outboard getfattr -R -d -m - disk.img:/ > attributes.txt"
)]
pub struct GetfattrArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Show the value of this attribute
    #[arg(short, long, value_name = "NAME")]
    pub name: Option<OsString>,
    /// Show the values of all attributes
    #[arg(short, long)]
    pub dump: bool,
    /// The form of values [default: text where they are text, else base64]
    #[arg(short, long, value_enum)]
    pub encoding: Option<Encoding>,
    /// Show the attributes of a symbolic link itself, not of its target
    #[arg(short = 'h', long)]
    pub no_dereference: bool,
    /// Show only attributes whose names match this regular expression; "-": all
    #[arg(
        short = 'm',
        long = "match",
        value_name = "PATTERN",
        default_value = "^user\\."
    )]
    pub pattern: String,
    /// Write the bytes of the values alone
    #[arg(long)]
    pub only_values: bool,
    /// Show paths with their leading slash
    #[arg(long)]
    pub absolute_names: bool,
    /// Include everything below directories
    #[arg(short = 'R', long)]
    pub recursive: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Encoding {
    Text,
    Hex,
    Base64,
}

pub fn run(options: &GetfattrArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let pattern = pattern(&options.pattern)?;
    let descend = Descend {
        write: false,
        recursive: options.recursive,
        follow: !options.no_dereference,
    };
    descend.run(session, &options.places, |found| {
        let link = found.kind() == libc::S_IFLNK;
        if !link || options.no_dereference {
            return show(options, &pattern, found, output);
        }
        // A link that was found below a directory. One that leads nowhere has nothing to show.
        match look(found.tree, found.id, found.place.clone(), true) {
            Ok(target) => show(options, &pattern, &target, output),
            Err(_) => Ok(()),
        }
    })
}

/// `None`: everything matches.
fn pattern(text: &str) -> Result<Option<Regex>> {
    if text == "-" {
        return Ok(None);
    }
    RegexBuilder::new(text)
        .unicode(false)
        .build()
        .map(Some)
        .map_err(|error| Error::Usage(format!("the pattern makes no sense: {error}")))
}

/// The names that are to be shown, sorted.
fn names(
    options: &GetfattrArgs,
    pattern: &Option<Regex>,
    found: &VisitedFile,
) -> Result<Vec<CString>> {
    if let Some(name) = &options.name {
        return Ok(vec![super::setfattr::attribute(name)?]);
    }
    let mut names = match found.file.xattrs() {
        Ok(names) => names,
        Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Vec::new(),
        Err(error) => return Err(found.failed("list attributes of", &error)),
    };
    let matches = |name: &CString| {
        pattern
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(name.to_bytes()))
    };
    names.retain(matches);
    names.sort();
    Ok(names)
}

fn show(
    options: &GetfattrArgs,
    pattern: &Option<Regex>,
    found: &VisitedFile,
    output: &mut Output,
) -> Result<()> {
    let with_values = options.dump || options.name.is_some() || options.only_values;
    let mut attributes = Vec::new();
    // One that cannot be read does not hide the others.
    let mut failures = Failures::default();
    for name in names(options, pattern, found)? {
        let value = if with_values {
            failures.take(value(found, &name))?
        } else {
            None
        };
        if value.is_some() || !with_values {
            attributes.push(Attribute { name, value });
        }
    }
    if !attributes.is_empty() {
        output.item(&Shown {
            options,
            found,
            attributes,
        })?;
    }
    failures.finish()
}

struct Attribute {
    name: CString,
    /// `None`: only its name is shown.
    value: Option<Vec<u8>>,
}

impl Serialize for Attribute {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            #[serde(flatten)]
            name: Bytes<'a>,
            #[serde(flatten)]
            value: Option<Bytes<'a>>,
        }
        let value = self.value.as_deref();
        let record = Record {
            name: Bytes::new("name", self.name.to_bytes()),
            value: value.map(|value| Bytes::new("value", value)),
        };
        record.serialize(serializer)
    }
}

/// The attributes of a file.
struct Shown<'a> {
    options: &'a GetfattrArgs,
    found: &'a VisitedFile<'a>,
    attributes: Vec<Attribute>,
}

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record<'a> {
            #[serde(flatten)]
            path: Bytes<'static>,
            attributes: &'a [Attribute],
        }
        let record = Record {
            path: Bytes::new("path", self.found.place.operand()),
            attributes: &self.attributes,
        };
        record.serialize(serializer)
    }
}

impl Print for Shown<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        if self.options.only_values {
            let attributes = self.attributes.iter();
            let mut values = attributes.filter_map(|attribute| attribute.value.as_ref());
            return values.try_for_each(|value| output.bytes(value));
        }
        let terminal = output.is_terminal();
        let path = self.found.path(self.options.absolute_names);
        let path = quote(path, b"\n\r\\", terminal);
        output.line([b"# file: ".as_slice(), &path].concat())?;
        for Attribute { name, value } in &self.attributes {
            let mut line = quote(name.to_bytes(), b"=\n\r\\", terminal);
            if let Some(value) = value {
                line.push(b'=');
                line.extend(encode(value, self.options.encoding, terminal));
            }
            output.line(line)?;
        }
        output.line("")
    }
}

fn value(found: &VisitedFile, name: &CString) -> Result<Vec<u8>> {
    found.file.xattr(name).map_err(|error| {
        let name = outboard_error::format::escaped(name.to_bytes());
        match error.raw_os_error() {
            Some(libc::ENODATA) => found.failed(
                &format!("show {name} of"),
                &io::Error::other("no such attribute"),
            ),
            _ => found.failed(&format!("show {name} of"), &error),
        }
    })
}

/// Whether a value is shown as text: at most one byte of eight is not printable.
fn is_text(value: &[u8]) -> bool {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let strange = value.iter().filter(|byte| !matches!(byte, b' '..=b'~'));
    value.len() >= strange.count() * 8
}

/// A value as it is written where any bytes must be.
pub fn encode(value: &[u8], encoding: Option<Encoding>, terminal: bool) -> Vec<u8> {
    let encoding = encoding.unwrap_or(if is_text(value) {
        Encoding::Text
    } else {
        Encoding::Base64
    });
    match encoding {
        Encoding::Base64 => format!("0s{}", STANDARD.encode(value)).into_bytes(),
        Encoding::Hex => format!("0x{}", hex::encode(value)).into_bytes(),
        Encoding::Text => text(value, terminal),
    }
}

/// In double quotes, with a backslash before what has a meaning there.
fn text(value: &[u8], terminal: bool) -> Vec<u8> {
    let mut text = vec![b'"'];
    for piece in value.split_inclusive(|byte| matches!(byte, b'"' | b'\\')) {
        let (plain, special) = match piece.split_last() {
            Some((last @ (b'"' | b'\\'), plain)) => (plain, Some(*last)),
            _ => (piece, None),
        };
        text.extend(quote(plain, b"\0\n\r", terminal));
        if let Some(special) = special {
            text.extend([b'\\', special]);
        }
    }
    text.push(b'"');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::setfattr::decode;

    #[test]
    fn values_there_and_back() {
        for value in [
            b"plain".as_slice(),
            b"",
            b"a\"b\\c\nd\0",
            b"\x01\x02\xff",
            b"\\101",
        ] {
            for encoding in [
                None,
                Some(Encoding::Text),
                Some(Encoding::Hex),
                Some(Encoding::Base64),
            ] {
                let shown = encode(value, encoding, false);
                assert_eq!(decode(&shown), Ok(value.to_vec()), "{encoding:?}");
            }
        }
        assert_eq!(encode(b"a\"\n", None, false), b"0sYSIK");
        assert_eq!(
            encode(b"twelve bytes\n", None, false),
            b"\"twelve bytes\\012\""
        );
    }
}
