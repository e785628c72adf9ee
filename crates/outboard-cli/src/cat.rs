// SPDX-License-Identifier: GPL-2.0-only
//! `outboard cat`.

use crate::address::Place;
use crate::arguments::{Cat, Settings};
use crate::error::{reason, warn, Error, Result};
use crate::interrupt::Interrupt;
use crate::session::{with_session, Session};
use outboard::Fd;
use std::io;

/// Large enough that calls cost nothing, small enough to stay in a processor's cache.
const BUFFER: usize = 256 * 1024;

pub fn run(options: &Cat, settings: Settings) -> Result<()> {
    let mut places = Vec::new();
    for operand in &options.places {
        places.push(image_place(operand)?);
    }
    let output =
        Fd::standard(1).map_err(|error| Error::failed("cannot use standard output", &error))?;
    let interrupt = Interrupt::catch()?;
    with_session(settings, |session| {
        let mut failed = false;
        for place in &places {
            match one(session, place, &output, &interrupt) {
                Ok(()) => {}
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
    })
}

/// An operand that must be in an image.
pub fn image_place(operand: &std::ffi::OsStr) -> Result<Place> {
    match Place::find(operand) {
        Place::Host(path) => Err(Error::Usage(format!(
            "{} is not a place in an image: write IMAGE:/PATH, as in {0}:/",
            path.display()
        ))),
        place => Ok(place),
    }
}

fn one(session: &mut Session, place: &Place, output: &Fd, interrupt: &Interrupt) -> Result<()> {
    let tree = session.open(place, false)?;
    let failed = |error: &io::Error| {
        Error::Failed(format!("cannot read {}: {}", place.shown(), reason(error)))
    };
    let file = session
        .tree(tree)
        .open_fd(place.path(), libc::O_RDONLY | libc::O_NONBLOCK, 0)
        .map_err(|error| failed(&error))?;
    let mut buffer = vec![0; BUFFER];
    loop {
        if interrupt.asked() {
            return Err(Error::Interrupted("interrupted".to_owned()));
        }
        let length = file.read(&mut buffer).map_err(|error| failed(&error))?;
        if length == 0 {
            return Ok(());
        }
        output
            .write_all(&buffer[..length])
            .map_err(|error| match error.kind() {
                io::ErrorKind::BrokenPipe => Error::Told,
                _ => Error::failed("cannot write to standard output", &error),
            })?;
    }
}
