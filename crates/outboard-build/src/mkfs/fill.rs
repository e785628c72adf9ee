// SPDX-License-Identifier: GPL-2.0-only
//! Fills an empty file system: a copy of the process mounts it in our kernel, and writes a tree or
//! an archive into it.

use super::recipe::Recipe;
use super::source::ContentSource;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{self, Copied, CopyRequest};
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::report::Report;
use outboard_transfer::tar::input::unpack_file;
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::scratch::Scratch;
use outboard_volume::session::{apart, Session};
use std::path::PathBuf;

/// Copies the source into the empty file system. `operand`: the image or volume, as the user would
/// write it.
pub(super) fn fill(
    session: &mut Session,
    scratch: &Scratch,
    source: &ContentSource,
    recipe: &Recipe,
    operand: &[u8],
    new_report: &dyn Fn() -> Report,
) -> Result<Copied> {
    let image = ImageName::new(scratch.path(), None);
    let access = HostAccess {
        reads: source.reads(),
        keeps_attributes: true,
        ..uses_image(&image, true)
    };
    let place = Place::Image(image, PathBuf::from("/"));
    let options = cp::Options {
        sorted: recipe.time.is_some(),
        may_be_full: true,
        ..cp::Options::everything(session.umask())
    };
    apart(session, &access, |session| match source {
        ContentSource::Directory(path) => {
            let contents = [Place::Host(path.join("."))];
            let order = CopyRequest {
                options,
                changes: &recipe.changes,
                excluded: &Exclusion::default(),
                names: None,
                hidden: &HiddenFinder::default(),
                operand: Some(operand),
            };
            let report = new_report();
            cp::copy(session, &order, &contents, &place, &report)
        }
        ContentSource::Tar(archive) => {
            let input = archive.open()?;
            match unpack_file(session, input, &place, operand, new_report) {
                Ok(()) => Ok(Copied::All),
                Err(Error::AlreadyReported) => Ok(Copied::Some),
                Err(error) => Err(error),
            }
        }
    })
}
