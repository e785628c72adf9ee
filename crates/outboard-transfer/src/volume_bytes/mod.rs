// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of a volume, whatever is on it: copied to and from files of the host, pipes and other
//! volumes.
//!
//! `input` reads in pieces, in order. `output` writes them: zeros become holes of a file, and
//! are discarded in a volume. Everything is opened and checked before the first byte is written.

mod end;
mod input;
mod output;

pub use end::End;

use crate::report::Report;
use end::{both, open_device, Device};
use input::BytesSource;
use outboard_error::{warn, Error, ErrorKind, Hint, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::destination::describe;
use outboard_volume::session::Session;
use output::BytesTarget;

/// Copies all bytes of `source`. A volume that was written is on stable storage when this returns.
/// `force`: what is overwritten may look like something of worth.
pub fn copy(
    session: &mut Session,
    source: &End,
    target: &End,
    force: bool,
    report: &Report,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let volumes = [source, target].into_iter().filter_map(End::volume);
    for name in volumes {
        let image = session.image(&name.file)?;
        // An earlier command may have mounted file systems of it.
        session.release(&image)?;
    }
    // The target comes first: the kernel can also read from a disk that it has for writing.
    let device = match target {
        End::Volume(name) => Some(open_device(session, name, true)?),
        _ => None,
    };
    let opened = BytesSource::open(session, source, &interrupt);
    let mut input = opened.map_err(|error| source.named_by(error))?;
    if let (Some(to), Some(from)) = (&device, input.device()) {
        let below = session.lies_on(&from.device, &to.device);
        check_ends(from, to, below, force).map_err(|error| source.named_by(error))?;
    }
    let output = match (&device, target) {
        (Some(device), _) => BytesTarget::volume(device),
        (None, End::File(path)) => BytesTarget::file(session, path, force, &interrupt),
        (None, _) => BytesTarget::standard(&interrupt),
    };
    let mut output = output.map_err(|error| target.named_by(error))?;
    check_size(&input, &output).map_err(|error| source.named_by(error))?;
    if let (Some(device), false) = (&device, force) {
        let alike = input.is_like_a_volume();
        let alike = alike.map_err(|error| source.named_by(error))?;
        let checked = if alike {
            Ok(())
        } else {
            check_worth(&input, device)
        };
        checked.map_err(|error| target.named_by(error))?;
    }
    report.expect_bytes(input.size().unwrap_or(0));
    let copied = transfer(&mut input, (&mut output, target), &interrupt, report);
    report.print_losses();
    copied.map_err(|error| source.named_by(error))?;
    let finished = output.finish();
    let written = finished.map_err(|error| target.named_by(error))?;
    note_rest(&output, written);
    Ok(())
}

/// Refuses a volume that is copied over itself, and one that is copied over what it lies on: it is
/// overwritten while it is read. Parts that do not lie in order would be lost before they are read.
fn check_ends(from: &Device, to: &Device, below: bool, force: bool) -> Result<()> {
    let is_same = from.device.number() == to.device.number();
    let (from, to) = (&from.shown, &to.shown);
    if is_same {
        let text = format!("cannot copy {from} to {to}: they are the same volume");
        return Err(Error::known(ErrorKind::InUse, text));
    }
    if !below {
        return Ok(());
    }
    if force {
        warn(format!(
            "note: {from} lies in {to}, and is overwritten while it is read"
        ));
        return Ok(());
    }
    Err(Error::hinted(
        ErrorKind::InUse,
        Hint::OverwriteInOrder,
        |force| {
            format!(
            "cannot copy {from} to {to}: it lies in {to}, and would be overwritten while it is \
             read (copy it to another file first{force})"
        )
        },
    ))
}

/// Refuses a source that is larger than its target.
fn check_size(input: &BytesSource, output: &BytesTarget) -> Result<()> {
    match (input.size(), output.limit()) {
        (Some(size), Some(limit)) if size > limit => Err(Error::known(
            ErrorKind::NoSpace,
            format!(
                "{} has {}, but {} has room for {}: nothing was written",
                input.shown(),
                both(size),
                output.shown(),
                both(limit)
            ),
        )),
        _ => Ok(()),
    }
}

/// Refuses to overwrite a volume that holds something with bytes that are not those of a volume:
/// the user may have meant a place in the file system.
fn check_worth(input: &BytesSource, device: &Device) -> Result<()> {
    let found = device.device.source().and_then(|source| describe(&source));
    let failed = |error| Error::failed(format!("cannot read {}", device.shown), &error);
    let Some(found) = found.map_err(failed)? else {
        return Ok(());
    };
    let (to, from) = (&device.shown, input.shown());
    let overwrite = Hint::OverwriteVolume { name: to.clone() };
    Err(Error::hinted(
        ErrorKind::AlreadyExists,
        overwrite,
        |overwrite| {
            format!("{to} holds {found}, but {from} does not look like a volume: {overwrite}")
        },
    ))
}

fn transfer(
    input: &mut BytesSource,
    (output, target): (&mut BytesTarget, &End),
    interrupt: &Interrupt,
    report: &Report,
) -> Result<()> {
    let source = input.shown().to_owned();
    let copied = input.read(|piece| {
        if interrupt.asked() {
            return Err(Error::Interrupted("interrupted".to_owned()));
        }
        if !output.has_room(piece.len()) {
            let text = format!(
                "{source} is too large for {}, which has room for {}",
                output.shown(),
                both(output.limit().unwrap_or(0)),
            );
            return Err(Error::known(ErrorKind::NoSpace, text));
        }
        let written = output.write(piece);
        written.map_err(|error| target.named_by(error))?;
        report.count_bytes(piece.len() as u64);
        Ok(())
    });
    match copied {
        Ok(()) => Ok(()),
        // A read or a write that waits for a pipe has an error of its own then.
        Err(_) if interrupt.asked() => Err(Error::Interrupted(format!(
            "interrupted: {}",
            output.state()
        ))),
        // These have no text.
        Err(error) if error.message().is_none() => Err(error),
        Err(error) => Err(error.with_note(&format!("  {}", output.state()))),
    }
}

/// Reports what is left of a volume that is larger than what was written to it.
fn note_rest(output: &BytesTarget, written: u64) {
    if let Some(limit) = output.limit().filter(|limit| *limit > written) {
        warn(format!(
            "note: {}: the last {} were left as they were",
            output.shown(),
            both(limit - written)
        ));
    }
}
