// SPDX-License-Identifier: GPL-2.0-only
//! Going through the files that a command was given, and with -R through all below them.

use super::each::each_place;
use outboard::{PathFd, Tree};
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{Entry, EntryText, Step, Walk};
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
                if self.recursive && first.kind() == libc::S_IFDIR {
                    visit_below(&first, interrupt, &mut visit)
                } else {
                    Ok(())
                }
            },
        )
    }
}

/// A directory whose contents are visited.
pub struct Below<'a> {
    top: &'a VisitedFile<'a>,
    /// Bytes of the image's name in the paths of the walk.
    image: usize,
}

impl<'a> Below<'a> {
    pub fn new(top: &'a VisitedFile<'a>) -> Self {
        let path = top.place.path().as_os_str().len();
        let image = top.place.operand().len() - path;
        Self { top, image }
    }

    /// A walk that begins with the directory itself.
    pub fn walk(&self, interrupt: &Interrupt) -> Result<Walk> {
        let VisitedFile { tree, place, .. } = self.top;
        let named = Named::find(tree, place, true)
            .map_err(|error| self.top.failed("read directory", &error))?;
        Ok(Walk::new(named, place.operand(), interrupt.clone()))
    }

    /// The place of a file of the walk.
    pub fn place_of(&self, entry: &Entry) -> Place {
        let path = PathBuf::from(OsStr::from_bytes(&entry.path[self.image..]));
        self.top.place.with_path(path)
    }

    /// Opens a file of the walk.
    pub fn open(&self, entry: &Entry) -> Result<VisitedFile<'a>> {
        let opened = entry.directory.open_path_at(entry.name);
        VisitedFile::new(self.top.tree, self.top.id, self.place_of(entry), opened)
    }
}

/// Shows `visit` what is below a directory, in the order of names.
fn visit_below(
    top: &VisitedFile,
    interrupt: &Interrupt,
    visit: &mut impl FnMut(&VisitedFile) -> Result<()>,
) -> Result<()> {
    let below = Below::new(top);
    let mut walk = below.walk(interrupt)?;
    let mut failures = Failures::default();
    while let Some(step) = walk.next() {
        match step {
            Step::Found(entry) if entry.depth > 0 => {
                let found = below.open(&entry);
                failures.take(found.and_then(|found| visit(&found)))?;
            }
            Step::Opened(opened) => opened.names.sort(),
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
