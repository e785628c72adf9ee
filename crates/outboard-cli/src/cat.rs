// SPDX-License-Identifier: GPL-2.0-only
//! `outboard cat`.

use crate::address::Place;
use crate::arguments::{Cat, Settings};
use crate::error::{reason, warn, Error, Result};
use crate::interrupt::Interrupt;
use crate::session::{with_session, Session};
use crate::stream::{read_in_order, ReadError, LARGE};
use outboard::Fd;
use std::ffi::OsStr;
use std::io;

/// Large enough that calls cost nothing, small enough to stay in a processor's cache.
const BUFFER: usize = 128 * 1024;

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
pub fn image_place(operand: &OsStr) -> Result<Place> {
    match Place::find(operand) {
        Place::Host(path) => Err(Error::Usage(format!(
            "{} is not a place in an image: write IMAGE:/PATH, as in {0}:/",
            path.display()
        ))),
        place => Ok(place),
    }
}

/// Why a file's bytes did not arrive.
enum Problem {
    Reading(io::Error),
    Writing(Error),
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Self {
        Problem::Reading(error.0)
    }
}

fn one(session: &mut Session, place: &Place, output: &Fd, interrupt: &Interrupt) -> Result<()> {
    let id = session.open(place, false)?;
    let threads = session.vcpus();
    let tree = session.tree(id);
    let open = || tree.open_fd(place.path(), libc::O_RDONLY | libc::O_NONBLOCK, 0);
    let write = |bytes: &[u8]| put(output, bytes, interrupt).map_err(Problem::Writing);
    let result = open()
        .and_then(|file| Ok((file.stat()?.st_size, file)))
        .map_err(Problem::Reading)
        .and_then(|(size, file)| {
            if size < LARGE as i64 {
                return read_small(&file, write);
            }
            let mut files = vec![file];
            while files.len() < threads as usize {
                files.push(open().map_err(Problem::Reading)?);
            }
            read_in_order(&files, write)
        });
    match result {
        Ok(()) => Ok(()),
        Err(Problem::Writing(error)) => Err(error),
        Err(Problem::Reading(error)) => Err(Error::Failed(format!(
            "cannot read {}: {}",
            place.shown(),
            reason(&error)
        ))),
    }
}

fn read_small(
    file: &Fd,
    mut write: impl FnMut(&[u8]) -> std::result::Result<(), Problem>,
) -> std::result::Result<(), Problem> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer).map_err(Problem::Reading)? {
            0 => return Ok(()),
            length => write(&buffer[..length])?,
        }
    }
}

fn put(output: &Fd, bytes: &[u8], interrupt: &Interrupt) -> Result<()> {
    if interrupt.asked() {
        return Err(Error::Interrupted("interrupted".to_owned()));
    }
    output.write_all(bytes).map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Error::Told,
        _ => Error::failed("cannot write to standard output", &error),
    })
}
