// SPDX-License-Identifier: GPL-2.0-only
//! Going through the files that a command was given, and with -R through all below them.

use super::image_place;
use crate::address::Place;
use crate::error::{reason, warn, Error, Result};
use crate::interrupt::Interrupt;
use crate::session::{Session, TreeId};
use outboard::{PathFd, Tree};
use std::collections::HashSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;

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
pub struct Found<'a> {
    pub tree: &'a Tree,
    pub id: TreeId,
    pub place: Place,
    pub file: PathFd,
    pub stat: libc::stat,
}

impl Found<'_> {
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
        Error::failed(format!("cannot {what} {}", self.place.shown()), error)
    }
}

impl Descend {
    /// Shows `visit` each file. What fails is told, and the others are done.
    pub fn run(
        &self,
        session: &mut Session,
        operands: &[OsString],
        mut visit: impl FnMut(&Found) -> Result<()>,
    ) -> Result<()> {
        let interrupt = session.catch_interrupts()?;
        let mut places = Vec::new();
        for operand in operands {
            places.push(image_place(operand)?);
        }
        let mut failed = false;
        for place in places {
            let visited = match session.open(&place, self.write) {
                Ok(id) => self.operand(session.tree(id), id, place, &interrupt, &mut visit),
                Err(error) => Err(error),
            };
            match visited {
                Ok(well) => failed |= !well,
                Err(Error::Failed(message)) => {
                    warn(message);
                    failed = true;
                }
                Err(other) => return Err(other),
            }
        }
        if failed {
            return Err(Error::Told);
        }
        Ok(())
    }

    /// Whether all was well. Not recursive: a deep tree must not overflow the stack. In a broken image
    /// a directory may have several names: the first one counts.
    fn operand(
        &self,
        tree: &Tree,
        id: TreeId,
        place: Place,
        interrupt: &Interrupt,
        visit: &mut impl FnMut(&Found) -> Result<()>,
    ) -> Result<bool> {
        let mut well = true;
        let mut follow = self.follow;
        let mut waiting = vec![place];
        let mut entered = HashSet::new();
        while let Some(place) = waiting.pop() {
            if interrupt.asked() {
                let text = format!("interrupted before {}", place.shown());
                return Err(Error::Interrupted(text));
            }
            let below = look(tree, id, place, follow).and_then(|found| {
                visit(&found)?;
                let directory = self.recursive && found.kind() == libc::S_IFDIR;
                match directory && !entered.insert((found.stat.st_dev, found.stat.st_ino)) {
                    true => Err(found.failed("go through", &io::Error::other("it has two names"))),
                    false if directory => children(tree, &found.place),
                    false => Ok(Vec::new()),
                }
            });
            match below {
                Ok(below) => waiting.extend(below.into_iter().rev()),
                Err(Error::Failed(message)) => {
                    warn(message);
                    well = false;
                }
                Err(other) => return Err(other),
            }
            follow = false;
        }
        Ok(well)
    }
}

/// Opens what a place means.
pub fn look(tree: &Tree, id: TreeId, place: Place, follow: bool) -> Result<Found<'_>> {
    let opened = tree
        .open_path(place.path(), follow)
        .and_then(|file| Ok((file.stat()?, file)));
    match opened {
        Ok((stat, file)) => Ok(Found {
            tree,
            id,
            place,
            file,
            stat,
        }),
        Err(error) => Err(Error::Failed(format!(
            "cannot open {}: {}",
            place.shown(),
            reason(&error)
        ))),
    }
}

/// What is in a directory, sorted.
pub fn children(tree: &Tree, place: &Place) -> Result<Vec<Place>> {
    let names = tree.read_dir(place.path()).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().as_bytes().to_vec()))
            .collect::<io::Result<Vec<Vec<u8>>>>()
    });
    let mut names =
        names.map_err(|error| Error::failed(format!("cannot list {}", place.shown()), &error))?;
    names.sort();
    Ok(names.iter().map(|name| place.below(name)).collect())
}
