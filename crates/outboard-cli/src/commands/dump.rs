// SPDX-License-Identifier: GPL-2.0-only
//! Reading back what `getfattr` and `getfacl` wrote: sections that begin with "# file: PATH".

use super::descend::{look, VisitedFile};
use super::image_place;
use outboard_error::format::escaped;
use outboard_error::{report, Error, ErrorKind, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::octal::unquote;
use outboard_volume::session::Session;
use outboard_volume::standard_input::StandardInput;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

/// The lines of a dump about one file.
pub struct DumpSection {
    path: Vec<u8>,
    number: usize,
    /// Lines that are not empty, with their numbers.
    pub lines: Vec<(usize, Vec<u8>)>,
}

pub struct Dump {
    name: String,
    sections: Vec<DumpSection>,
}

/// All of a file of the host; "-": of standard input.
pub fn text_of(file: &OsStr) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let read = match file.as_bytes() {
        b"-" => StandardInput::of_a_command()?.read_to_end(&mut text),
        _ => File::open(file).and_then(|mut file| file.read_to_end(&mut text)),
    };
    read.or_else(|error| {
        Interrupt::if_polled().check_before("nothing was changed")?;
        let shown = escaped(file.as_bytes());
        Err(Error::failed(format!("cannot read {shown}"), &error))
    })?;
    Ok(text)
}

impl Dump {
    pub fn read(file: &OsStr) -> Result<Self> {
        Self::parse(escaped(file.as_bytes()), &text_of(file)?)
    }

    fn parse(name: String, text: &[u8]) -> Result<Self> {
        let mut dump = Self {
            name,
            sections: Vec::new(),
        };
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            if let Some(path) = line.strip_prefix(b"# file: ") {
                dump.sections.push(DumpSection {
                    path: unquote(path),
                    number,
                    lines: Vec::new(),
                });
            } else if !line.is_empty() {
                let Some(section) = dump.sections.last_mut() else {
                    let error = Error::known(
                        ErrorKind::Usage,
                        "there is no \"# file: PATH\" before it".to_owned(),
                    );
                    return Err(dump.at(number, error));
                };
                section.lines.push((number, line.to_vec()));
            }
        }
        Ok(dump)
    }

    /// The error of a line, with the line's place.
    pub fn at(&self, number: usize, error: Error) -> Error {
        let text = error.message().unwrap_or_default();
        Error::known(error.kind(), format!("{}:{number}: {text}", self.name))
    }

    /// Shows `apply` the file of each section. Reports each failure and goes on with the next
    /// section.
    pub fn restore(
        &self,
        session: &mut Session,
        operands: &[OsString],
        follow: bool,
        mut apply: impl FnMut(&VisitedFile, &DumpSection) -> Result<()>,
    ) -> Result<()> {
        let [operand] = operands else {
            return Err(Error::Usage(
                "--restore takes one place: the directory that paths are relative to".to_owned(),
            ));
        };
        let place = image_place(operand)?;
        let interrupt = session.catch_interrupts();
        let id = session.open(&place, true)?;
        let tree = session.tree(id);
        let mut failed = false;
        for section in &self.sections {
            if interrupt.asked() {
                let text = format!("interrupted before line {}", section.number);
                return Err(Error::Interrupted(text));
            }
            let found = look(tree, id, target(&place, &section.path), follow)
                .map_err(|error| self.at(section.number, error));
            if let Err(error) = found.and_then(|found| apply(&found, section)) {
                report(error.message().unwrap_or_default().to_owned());
                failed = true;
            }
        }
        if failed {
            return Err(Error::AlreadyReported);
        }
        Ok(())
    }
}

/// The place of a dump's path, below another place.
fn target(place: &Place, path: &[u8]) -> Place {
    let start = path.iter().position(|&byte| byte != b'/');
    place.below(start.map_or(b".", |start| &path[start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections() {
        let text = b"# file: a\\040b\n# owner: root\nx=1\n\n# file: /c\n\n";
        let dump = Dump::parse("d".to_owned(), text).unwrap();
        assert_eq!(dump.sections.len(), 2);
        assert_eq!(dump.sections[0].path, b"a b");
        let (number, line) = &dump.sections[0].lines[1];
        assert_eq!((*number, line.as_slice()), (3, b"x=1".as_slice()));
        assert_eq!(dump.sections[1].lines.len(), 0);
        assert!(Dump::parse("d".to_owned(), b"x=1\n").is_err());
    }
}
