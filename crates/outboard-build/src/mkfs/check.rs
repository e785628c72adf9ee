// SPDX-License-Identifier: GPL-2.0-only
//! Checks before a tool runs, and before the tool's file becomes the image: the file system must be
//! there, and have the wanted size. Some tools make less, or nothing, and call that success.

use super::makers::{FileSystemMaker, FillMethod};
use super::volume_plan::{VolumePlan, Wish};
use outboard_error::format::size as size_text;
use outboard_error::{warn, Error, Result};
use outboard_image::{probe, Class, FileSource, Probe};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::destination::{Use, UsedFiles};
use outboard_volume::scratch::Scratch;
use outboard_volume::session::{apart, Session};
use std::fs::File;

/// Bytes of a disk that a file system may leave unused: incomplete groups at its end, logs beside
/// it.
const UNUSED: u64 = 16 << 20;
/// The fraction of a disk that it may leave unused: one part of so many.
const UNUSED_PART: u64 = 16;

/// Refuses an image that is also something which this command reads.
pub(super) fn check_inputs(plan: &VolumePlan, session: &Session) -> Result<()> {
    let name = &plan.name;
    let mut used = UsedFiles::default();
    for path in plan.from.iter().chain(&plan.file_contexts) {
        used.add(path, Use::Input);
    }
    let settings = session.options();
    for path in &settings.backing {
        used.add(path, Use::Backing);
    }
    // A disk may be named twice, but not be replaced by a file system.
    if name.partition.is_none() && name.volume.is_none() {
        settings
            .disks
            .iter()
            .for_each(|path| used.add(path, Use::Disk));
    }
    used.check_image(&name.file)
}

/// Checks the file system in a private file.
pub(super) fn check_made(
    session: &mut Session,
    plan: &VolumePlan,
    maker: &FileSystemMaker,
    scratch: &Scratch,
    wish: Wish,
) -> Result<()> {
    let shown = plan.name.shown();
    let Some(found) = look(scratch)? else {
        let made = match scratch.size()? {
            0 => "an empty file: this type cannot be made of these contents".to_owned(),
            // The tool's own options may ask for what is not known here, as sectors of 8192 bytes.
            _ if !plan.options.is_empty() => return Ok(()),
            _ => format!("no file system of type {} that is known", maker.kind),
        };
        return Err(Error::Failed(format!(
            "cannot make {} in {shown}: {} has made {made}",
            maker.kind, maker.tool.name
        )));
    };
    let Wish::Exactly(wanted) = wish else {
        return Ok(());
    };
    // A tool pads an image that it makes of a tree. Swap space ends where the image does.
    if maker.filled == FillMethod::ByTool || found.class != Class::FileSystem {
        return Ok(());
    }
    let size = match found.size {
        Some(size) => size,
        None => match measure(session, scratch) {
            Ok(size) => size,
            // It may be for sectors that a file does not have.
            Err(_) => return Ok(()),
        },
    };
    if size >= wanted - most_unused(wanted) {
        return Ok(());
    }
    let text = format!(
        "{shown}: {} has made a file system of {}, not {}: larger ones it does not make of this \
         type",
        maker.tool.name,
        size_text(size),
        size_text(wanted)
    );
    // The rest of a partition may stay unused, and the tool's own options may ask for that.
    if plan.size.is_some() && plan.options.is_empty() {
        Err(Error::Failed(text))
    } else {
        warn(format!("warning: {text}"));
        Ok(())
    }
}

/// How much of a disk of this size may be unused.
fn most_unused(wanted: u64) -> u64 {
    wanted.min(UNUSED + wanted / UNUSED_PART)
}

fn look(scratch: &Scratch) -> Result<Option<Probe>> {
    let open = || FileSource::new(File::open(scratch.path())?);
    let failed = |error| {
        let text = format!("cannot read {}", scratch.path().display());
        Error::failed(text, &error)
    };
    let source = open().map_err(failed)?;
    probe(&source).map_err(failed)
}

/// The size that Linux finds, for types whose first blocks do not have it.
fn measure(session: &mut Session, scratch: &Scratch) -> Result<u64> {
    let image = ImageName::new(scratch.path(), None);
    apart(session, &uses_image(&image, false), |session| {
        let index = session.mount(&image, false)?;
        let space = session.mounted(index).space();
        space.map(|space| space.size).map_err(|error| {
            let text = format!("cannot measure {}", image.shown());
            Error::failed(text, &error)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_disks_may_be_unused() {
        assert_eq!(most_unused(1 << 20), 1 << 20);
        assert_eq!(most_unused(3 << 40), UNUSED + (3 << 36));
    }
}
