// SPDX-License-Identifier: GPL-2.0-only
//! Going through the files that a command was given, and with -R through all below them.

use super::each::each_place;
use outboard::{PathFd, Tree};
use outboard_sandbox::error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{EntryText, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// How files are gone through.
pub struct Descend {
    /// Whether the images are opened for writing.
    pub write: bool,
    /// Also what is below directories. Symbolic links found there are not followed.
    pub recursive: bool,
    /// Whether an operand that is a symbolic link is followed.
    pub follow: bool,
}

/// A file that a command shall look at.
pub struct VisitedFile<'a> {
    pub tree: &'a Tree,
    pub id: TreeId,
    pub place: Place,
    pub file: PathFd,
    pub stat: libc::stat,
}

impl<'a> VisitedFile<'a> {
    fn new(tree: &'a Tree, id: TreeId, place: Place, opened: io::Result<PathFd>) -> Result<Self> {
        match opened.and_then(|file| Ok((file.stat()?, file))) {
            Ok((stat, file)) => Ok(Self {
                tree,
                id,
                place,
                file,
                stat,
            }),
            Err(error) => Err(Error::of_file("cannot open", place.operand(), &error)),
        }
    }

    pub fn kind(&self) -> u32 {
        self.stat.st_mode & libc::S_IFMT
    }

    /// The path in the image; without its leading slash unless it is to be `absolute`.
    pub fn path(&self, absolute: bool) -> &[u8] {
        let path = self.place.path().as_os_str().as_bytes();
        if absolute {
            return path;
        }
        let start = path.iter().position(|&byte| byte != b'/');
        start.map_or(b".", |start| &path[start..])
    }

    pub fn failed(&self, what: &str, error: &io::Error) -> Error {
        Error::of_file(&format!("cannot {what}"), self.place.operand(), error)
    }
}

impl Descend {
    /// Shows `visit` each file. Reports each failure and goes on with the next file.
    pub fn run(
        &self,
        session: &mut Session,
        operands: &[OsString],
        mut visit: impl FnMut(&VisitedFile) -> Result<()>,
    ) -> Result<()> {
        each_place(
            session,
            operands,
            self.write,
            |session, place, interrupt| {
                let id = session.open(place, self.write)?;
                let tree = session.tree(id);
                let first = look(tree, id, place.clone(), self.follow)?;
                visit(&first)?;
                match self.recursive && first.kind() == libc::S_IFDIR {
                    true => below(&first, interrupt, &mut visit),
                    false => Ok(()),
                }
            },
        )
    }
}

/// Shows `visit` what is below a directory, in the order of names.
fn below(
    top: &VisitedFile,
    interrupt: &Interrupt,
    visit: &mut impl FnMut(&VisitedFile) -> Result<()>,
) -> Result<()> {
    let named = Named::find(top.tree, &top.place, true)
        .map_err(|error| top.failed("read directory", &error))?;
    let operand = top.place.operand();
    let image = operand.len() - top.place.path().as_os_str().len();
    let mut walk = Walk::new(named, operand, interrupt.clone()).sorted(|_, _| true);
    let mut failures = Failures::default();
    while let Some(step) = walk.next() {
        match step {
            Step::Found(entry) if entry.depth > 0 => {
                let path = PathBuf::from(OsStr::from_bytes(&entry.path[image..]));
                let opened = entry.directory.open_path_at(entry.name);
                let found = VisitedFile::new(top.tree, top.id, top.place.with_path(path), opened);
                failures.take(found.and_then(|found| visit(&found)))?;
            }
            Step::Found(_) | Step::Left(_) => {}
            Step::Failed(entry, error) => failures.tell(entry.failure("read directory", &error)),
        }
    }
    failures.finish()
}

/// Opens what a place means.
pub fn look(tree: &Tree, id: TreeId, place: Place, follow: bool) -> Result<VisitedFile<'_>> {
    let opened = tree.open_path(place.path(), follow);
    VisitedFile::new(tree, id, place, opened)
}

/// The names in a directory, sorted.
pub fn children(tree: &Tree, place: &Place) -> Result<Vec<Place>> {
    let names = tree.read_dir(place.path()).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
            .collect::<io::Result<Vec<Vec<u8>>>>()
    });
    let mut names =
        names.map_err(|error| Error::of_file("cannot list", place.operand(), &error))?;
    names.sort();
    Ok(names.iter().map(|name| place.below(name)).collect())
}
