// SPDX-License-Identifier: GPL-2.0-only
//! `outboard lsattr`, and the letters of inode flags.

use super::descend::{look, Below, VisitedFile};
use super::each::each_place;
use crate::format;
use crate::output::{Output, Print};
use crate::record::Bytes;
use clap::Args;
use outboard::{Fd, Tree};
use outboard_error::{Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::walk::{Entry, EntryText, OpenDirectory, Step};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use serde::{Serialize, Serializer};
use std::ffi::{CStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;

/// A flag of an inode, in the order in which flags are shown.
pub struct InodeFlag {
    pub letter: char,
    pub bit: u32,
    name: &'static str,
    /// Whether `chattr` can change it.
    pub changeable: bool,
}

const fn flag(letter: char, bit: u32, name: &'static str, changeable: bool) -> InodeFlag {
    InodeFlag {
        letter,
        bit,
        name,
        changeable,
    }
}

pub const FLAGS: [InodeFlag; 22] = [
    flag('s', 0x1, "Secure_Deletion", true),
    flag('u', 0x2, "Undelete", true),
    flag('S', 0x8, "Synchronous_Updates", true),
    flag('D', 0x1_0000, "Synchronous_Directory_Updates", true),
    flag('i', 0x10, "Immutable", true),
    flag('a', 0x20, "Append_Only", true),
    flag('d', 0x40, "No_Dump", true),
    flag('A', 0x80, "No_Atime", true),
    flag('c', 0x4, "Compression_Requested", true),
    flag('E', 0x800, "Encrypted", false),
    flag('j', 0x4000, "Journaled_Data", true),
    flag('I', 0x1000, "Indexed_directory", false),
    flag('t', 0x8000, "No_Tailmerging", true),
    flag('T', 0x2_0000, "Top_of_Directory_Hierarchies", true),
    flag('e', 0x8_0000, "Extents", true),
    flag('C', 0x80_0000, "No_COW", true),
    flag('x', 0x200_0000, "DAX", true),
    flag('F', 0x4000_0000, "Casefold", true),
    flag('N', 0x1000_0000, "Inline_Data", false),
    flag('P', 0x2000_0000, "Project_Hierarchy", true),
    flag('V', 0x10_0000, "Verity", false),
    flag('m', 0x400, "Dont_Compress", true),
];

/// Show the flags of files in an image (immutable, append only...)
///
/// Only regular files and directories have flags, so lsattr lists no others.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard lsattr disk.img:/etc\
                        \n  outboard lsattr -d disk.img:/etc disk.img:/srv\
                        \n  outboard lsattr -Ra disk.img:/srv")]
pub struct LsattrArgs {
    /// The files and directories: IMAGE:/PATH or IMAGE@N:/PATH
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Include names that begin with a dot
    #[arg(short)]
    pub all: bool,
    /// List directories themselves, not their contents
    #[arg(short)]
    pub directory: bool,
    /// Print the names of flags
    #[arg(short)]
    pub long: bool,
    /// List subdirectories, too
    #[arg(short = 'R')]
    pub recursive: bool,
}

/// Opens a file to get at its flags. EOPNOTSUPP: it is neither a file nor a directory.
pub fn open(found: &VisitedFile) -> io::Result<Fd> {
    match found.kind() {
        libc::S_IFREG | libc::S_IFDIR => found.file.open(libc::O_RDONLY | libc::O_NONBLOCK),
        _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
    }
}

pub fn flags_of(found: &VisitedFile) -> Result<u32> {
    let flags = open(found).and_then(|file| file.inode_flags());
    flags.map_err(|error| match error.raw_os_error() {
        Some(libc::ENOTTY) => {
            let why = io::Error::other("its file system has no flags");
            found.failed("read the flags of", &why)
        }
        _ => found.failed("read the flags of", &error),
    })
}

pub fn run(options: &LsattrArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    each_place(
        session,
        &options.places,
        false,
        |session, place, interrupt| {
            let id = session.open(place, false)?;
            let mut listing = Listing {
                options,
                interrupt: interrupt.clone(),
                output: &mut *output,
                failures: Failures::default(),
            };
            listing.operand(session.tree(id), id, place.clone())?;
            listing.failures.finish()
        },
    )
}

fn is_hidden(name: &CStr) -> bool {
    name.to_bytes().starts_with(b".")
}

/// The flags of a file.
struct Flags<'a> {
    place: &'a Place,
    flags: u32,
    /// Text has their names.
    long: bool,
}

impl Flags<'_> {
    fn set(&self) -> impl Iterator<Item = &'static InodeFlag> + '_ {
        FLAGS.iter().filter(move |flag| self.flags & flag.bit != 0)
    }

    /// A letter for each flag that is set, and a dash for the others.
    fn letters(&self) -> String {
        let letter = |flag: &InodeFlag| match self.flags & flag.bit {
            0 => '-',
            _ => flag.letter,
        };
        FLAGS.iter().map(letter).collect()
    }
}

impl Serialize for Flags<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Record {
            #[serde(flatten)]
            path: Bytes<'static>,
            flags: u32,
            names: Vec<&'static str>,
            letters: String,
        }
        let record = Record {
            path: Bytes::new("path", self.place.operand()),
            flags: self.flags,
            names: self.set().map(|flag| flag.name).collect(),
            letters: self.letters(),
        };
        record.serialize(serializer)
    }
}

impl Print for Flags<'_> {
    fn print(&self, output: &mut Output) -> Result<()> {
        let path = self.place.path().as_os_str().as_bytes();
        let name = format::name(path, output.is_terminal());
        if !self.long {
            let letters = self.letters();
            return output.line([letters.as_bytes(), b" ", &name].concat());
        }
        let names: Vec<&str> = self.set().map(|flag| flag.name).collect();
        let names = if names.is_empty() {
            "---".to_owned()
        } else {
            names.join(", ")
        };
        let padding = " ".repeat(28usize.saturating_sub(name.len()));
        output.line([name.as_slice(), format!("{padding} {names}").as_bytes()].concat())
    }
}

struct Listing<'a> {
    options: &'a LsattrArgs,
    interrupt: Interrupt,
    output: &'a mut Output,
    failures: Failures,
}

impl Listing<'_> {
    fn operand(&mut self, tree: &Tree, id: TreeId, place: Place) -> Result<()> {
        let found = look(tree, id, place, false)?;
        if found.kind() != libc::S_IFDIR || self.options.directory {
            return self.line(&found);
        }
        self.directory(&found)
    }

    fn directory(&mut self, top: &VisitedFile) -> Result<()> {
        let below = Below::new(top);
        let mut walk = below.walk(&self.interrupt)?;
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) if entry.depth > 0 => {
                    let shown = self.show(&below, &entry);
                    if self.failures.take(shown)? != Some(true) {
                        walk.skip();
                    }
                }
                Step::Opened(OpenDirectory { entry, names, .. }) => {
                    self.dots(top, &below.place_of(&entry))?;
                    names.retain(|name, _| self.options.all || !is_hidden(name));
                    names.sort();
                }
                Step::Left(entry) if entry.depth > 0 => self.gap()?,
                Step::Found(_) | Step::Left(_) => {}
                Step::Failed(entry, error) => self.failures.tell(entry.failure("list", &error)),
            }
        }
        self.interrupt.check()
    }

    /// Shows a directory itself and the one above, if names that begin with a dot are wanted.
    fn dots(&mut self, top: &VisitedFile, place: &Place) -> Result<()> {
        if !self.options.all {
            return Ok(());
        }
        for name in [b".".as_slice(), b".."] {
            let found = look(top.tree, top.id, place.below(name), false);
            let line = found.and_then(|found| self.line(&found));
            self.failures.take(line)?;
        }
        Ok(())
    }

    /// Shows a file. Returns whether to go into it.
    fn show(&mut self, below: &Below, entry: &Entry) -> Result<bool> {
        let found = below.open(entry)?;
        let directory = found.kind() == libc::S_IFDIR;
        if !directory && found.kind() != libc::S_IFREG {
            return Ok(false);
        }
        let line = self.line(&found);
        self.failures.take(line)?;
        let enter = directory && self.options.recursive;
        if enter {
            self.header(&found.place)?;
        }
        Ok(enter)
    }

    /// An empty line after a directory. JSON has none.
    fn gap(&mut self) -> Result<()> {
        if self.output.is_json() {
            Ok(())
        } else {
            self.output.line("")
        }
    }

    /// The name of a directory, above what it has. JSON has the directory in each path.
    fn header(&mut self, place: &Place) -> Result<()> {
        if self.output.is_json() {
            return Ok(());
        }
        let path = place.path().as_os_str().as_bytes();
        let path = format::name(path, self.output.is_terminal());
        self.output.line([b"\n".as_slice(), &path, b":"].concat())
    }

    fn line(&mut self, found: &VisitedFile) -> Result<()> {
        self.output.item(&Flags {
            place: &found.place,
            flags: flags_of(found)?,
            long: self.options.long,
        })
    }
}
