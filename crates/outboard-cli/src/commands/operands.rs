// SPDX-License-Identifier: GPL-2.0-only
//! Operands of commands: places with wildcards, images that stand for their root, and volumes.

use super::{image_place, in_image, is_image_file};
use outboard::Tree;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::made::MadeNames;
use outboard_transfer::wildcards::{expand, has_wildcards, Unresolved};
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::Session;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The image or volume that an operand names without a path in it, as in disk.img or disk.img@2. A
/// number after the `@` is that of a partition also where the image is missing.
pub fn image_operand(operand: &OsStr) -> Option<ImageName> {
    TreeOperand::parse(operand).image
}

/// The names that a command makes in its destination, which is a directory if there are several
/// sources.
pub fn made_names(tree: &Tree, destination: &Place, sources: usize) -> Result<Arc<MadeNames>> {
    if sources == 1 {
        return Ok(MadeNames::of_one_name());
    }
    let directory = tree.open_fd(destination.path(), libc::O_PATH | libc::O_DIRECTORY, 0);
    directory
        .and_then(|directory| MadeNames::of_existing(&directory, false))
        .map_err(|error| Error::of_file("cannot list", destination.operand(), &error))
}

/// The volume that an operand names without a path in it, as in disk.img@2.
pub fn volume_operand(operand: &OsStr) -> Option<ImageName> {
    let is_volume = |name: &ImageName| name.partition.is_some() || name.volume.is_some();
    image_operand(operand).filter(is_volume)
}

/// The image of an operand, if all of it is one encrypted volume: then its bytes are the volume's
/// contents. An error without a key: the encrypted bytes are those of the file.
pub fn encrypted_image(session: &mut Session, name: ImageName) -> Result<Option<ImageName>> {
    if name.partition.is_some() || !is_image_file(&name.file) {
        return Ok(None);
    }
    let Ok(image) = session.image(&name.file) else {
        // The caller's error, that it is no place, is the nearer one.
        return Ok(None);
    };
    if image.partitions().is_some() || !image.is_encrypted(&name) {
        return Ok(None);
    }
    if session.is_inside_layers(&image, &name) {
        return Ok(Some(name));
    }
    let shown = name.shown();
    let text = format!(
        "{shown} is an encrypted volume: its contents as bytes need --key-file FILE (a place in \
         its file system is {shown}:/PATH)"
    );
    Err(Error::known(ErrorKind::KeyNeeded, text).about(name.operand()))
}

/// An operand that must be in an image, or an image: that means its root.
pub fn tree_place(operand: &OsStr) -> Result<Place> {
    TreeOperand::parse(operand).place()
}

/// An operand of a command that works on a tree. It is parsed once: a file that appears later does
/// not change its meaning.
#[derive(Clone, Debug)]
pub struct TreeOperand {
    place: Place,
    /// The image of the place; of a path of the host, the image that it may name.
    used: ImageName,
    /// An image or volume without a path in it.
    image: Option<ImageName>,
}

impl TreeOperand {
    pub fn parse(operand: &OsStr) -> Self {
        let place = Place::find(operand);
        let (used, image) = match &place {
            Place::Image(name, _) => (name.clone(), None),
            Place::Host(path) => {
                let name = ImageName::find(path.as_os_str());
                let is_meant =
                    is_image_file(&name.file) || name.partition.is_some() && is_missing(&name.file);
                (name.clone(), is_meant.then_some(name))
            }
        };
        Self { place, used, image }
    }

    /// The part of the host that a command uses for it.
    pub fn access(&self, write: bool) -> HostAccess {
        uses_image(&self.used, write)
    }

    /// The place. An image means its root.
    pub fn place(&self) -> Result<Place> {
        if let Some(name) = &self.image {
            return Ok(Place::Image(name.clone(), "/".into()));
        }
        match (in_image(&self.place), &self.place) {
            // With a colon, the user meant IMAGE:/PATH: the other error says what is missing.
            (Err(_), Place::Host(path))
                if is_missing(path) && !path.as_os_str().as_bytes().contains(&b':') =>
            {
                let missing = io::Error::from_raw_os_error(libc::ENOENT);
                let operand = path.as_os_str().as_bytes().to_vec();
                let error = Error::of_file("cannot open image", operand, &missing);
                Err(error.with_note("  a path in an image is written IMAGE:/PATH"))
            }
            (place, _) => place,
        }
    }

    /// The place, unless it is an image that has several file systems: `command` is how the user
    /// asks for one of those.
    pub fn find(&self, session: &mut Session, command: &str, write: bool) -> Result<Place> {
        if let Some(name) = &self.image {
            check_unambiguous(session, name, command, write)?;
        }
        self.place()
    }
}

fn is_missing(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_err()
}

/// The places of a command that works on trees, with their wildcards expanded. See
/// [`TreeOperand::find`].
pub fn find_trees(
    session: &mut Session,
    operands: &[OsString],
    command: &str,
    write: bool,
) -> Result<Vec<Place>> {
    let mut places = Vec::with_capacity(operands.len());
    for operand in operands {
        places.push(TreeOperand::parse(operand).find(session, command, write)?);
    }
    expand_places(session, places, write)
}

/// Refuses an image that has several file systems.
fn check_unambiguous(
    session: &mut Session,
    name: &ImageName,
    command: &str,
    write: bool,
) -> Result<()> {
    let found = session.file_systems(name, write)?;
    if found.len() < 2 {
        return Ok(());
    }
    let lines = found.iter().map(|(name, kind)| {
        let shown = name.shown();
        format!("\n  outboard {command} {shown}:/   ({kind})")
    });
    Err(Error::known(
        ErrorKind::Ambiguous,
        format!(
            "{} has several file systems: name one of them{}",
            name.shown(),
            lines.collect::<String>()
        ),
    ))
}

/// The places that operands mean, which must be in images. `write`: whether the command changes
/// them.
pub fn find_places(
    session: &mut Session,
    operands: &[OsString],
    write: bool,
) -> Result<Vec<Place>> {
    let places = operands.iter().map(|operand| image_place(operand));
    let places = places.collect::<Result<Vec<Place>>>()?;
    expand_places(session, places, write)
}

/// Replaces places with wildcards by those that match. Paths of the host stay as they are: the
/// user's shell has expanded them.
pub fn expand_places(session: &mut Session, places: Vec<Place>, write: bool) -> Result<Vec<Place>> {
    let mut found = Vec::with_capacity(places.len());
    for place in places {
        let is_pattern = matches!(place, Place::Image(..)) && has_wildcards(place.path());
        if session.options().literal || !is_pattern {
            found.push(place);
            continue;
        }
        let id = session.open(&place, write)?;
        let interrupt = session.catch_interrupts();
        let paths = expand(session.tree(id), Path::new("/"), place.path(), &interrupt);
        let paths = paths.map_err(|why| unresolved(&place.shown(), &place, why))?;
        found.extend(paths.into_iter().map(|path| place.with_path(path)));
    }
    Ok(found)
}

/// The paths that patterns mean which are relative to a directory.
pub fn expand_paths(
    session: &mut Session,
    directory: &Place,
    patterns: &[OsString],
) -> Result<Vec<OsString>> {
    let mut found = Vec::with_capacity(patterns.len());
    for text in patterns {
        let bytes = text.as_bytes();
        let start = bytes.iter().position(|&byte| byte != b'/').unwrap_or(0);
        let pattern = Path::new(OsStr::from_bytes(&bytes[start..]));
        if session.options().literal || !has_wildcards(pattern) {
            found.push(text.clone());
            continue;
        }
        let id = session.open(directory, false)?;
        let interrupt = session.catch_interrupts();
        let paths = expand(session.tree(id), directory.path(), pattern, &interrupt);
        let paths = paths.map_err(|why| unresolved(&escaped(bytes), directory, why))?;
        found.extend(paths.into_iter().map(PathBuf::into_os_string));
    }
    Ok(found)
}

/// Why a pattern has no files, and what to do.
fn unresolved(pattern: &str, image: &Place, why: Unresolved) -> Error {
    match why {
        Unresolved::NoMatch => Error::known(
            ErrorKind::NotFound,
            format!("no file matches {pattern} (--no-glob takes names as they are written)"),
        ),
        Unresolved::TooMany => Error::Failed(format!(
            "{pattern} matches too many files, or is compared with too many: name a directory, or \
             use outboard find"
        )),
        Unresolved::Interrupted => Error::Interrupted(format!(
            "interrupted while {pattern} was expanded: nothing was done"
        )),
        Unresolved::Unreadable(path, error) => Error::failed(
            format!(
                "cannot expand {pattern}: cannot read directory {}",
                image.with_path(path).shown()
            ),
            &error,
        ),
    }
}
