// SPDX-License-Identifier: GPL-2.0-only
//! `outboard cat`.

use crate::commands::image_place;
use crate::commands::operands::{encrypted_image, expand_places, image_operand, volume_operand};
use crate::output::check_open;
use clap::Args;
use outboard::Fd;
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::claimed_size;
use outboard_transfer::cp::no_contents;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::report::Report;
use outboard_transfer::stream::{read_in_order, ReadError, LARGE};
use outboard_transfer::volume_bytes::{self, End};
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::Session;
use outboard_volume::stream_output::StreamOutput;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};

/// Large enough that calls cost nothing, small enough to stay in a processor's cache.
const BUFFER: usize = 128 * 1024;

/// Write files of an image, or the bytes of a volume, to standard output
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard cat disk.img@1:/etc/fstab\
                        \n  outboard cat disk.img@1 | zstd > part.img.zst")]
pub struct CatArgs {
    /// The files: IMAGE:/PATH or IMAGE@N:/PATH; the bytes of a volume: IMAGE@N or IMAGE@NAME
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
}

pub fn run(options: &CatArgs, session: &mut Session) -> Result<()> {
    check_open()?;
    let sources = find_sources(options, session)?;
    let interrupt = session.catch_interrupts();
    let mut output = StreamOutput::standard(&interrupt)?;
    let hidden = HiddenFinder::default();
    let mut failures = Failures::default();
    for source in &sources {
        let part = match source {
            CatSource::Place(place) => one(session, place, &hidden, &mut output, &interrupt),
            CatSource::Volume(name) => volume(session, name),
        };
        failures.take(part)?;
        interrupt.check()?;
    }
    let flushed = output.flush();
    flushed.map_err(|error| Error::of_output("standard output", &error))?;
    failures.finish()
}

/// The source of the bytes that cat writes.
enum CatSource {
    Place(Place),
    Volume(ImageName),
}

fn find_sources(options: &CatArgs, session: &mut Session) -> Result<Vec<CatSource>> {
    let mut understand = |operand: &OsStr| match volume_operand(operand) {
        Some(name) => Ok(CatSource::Volume(name)),
        None => match image_operand(operand) {
            Some(name) => encrypted(session, operand, name),
            None => image_place(operand).map(CatSource::Place),
        },
    };
    let understood = options.places.iter().map(|operand| understand(operand));
    let understood = understood.collect::<Result<Vec<CatSource>>>()?;
    let mut sources = Vec::new();
    for source in understood {
        match source {
            CatSource::Place(place) => {
                let places = expand_places(session, vec![place], false)?;
                sources.extend(places.into_iter().map(CatSource::Place));
            }
            volume => sources.push(volume),
        }
    }
    Ok(sources)
}

/// The bytes of an image that is one encrypted volume. Of another image there are none without a
/// path.
fn encrypted(session: &mut Session, operand: &OsStr, name: ImageName) -> Result<CatSource> {
    match encrypted_image(session, name)? {
        Some(name) => Ok(CatSource::Volume(name)),
        None => image_place(operand).map(CatSource::Place),
    }
}

fn volume(session: &mut Session, name: &ImageName) -> Result<()> {
    let source = End::Volume(name.clone());
    volume_bytes::copy(session, &source, &End::Standard, false, &Report::default())
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

fn one(
    session: &mut Session,
    place: &Place,
    hidden: &HiddenFinder,
    output: &mut StreamOutput,
    interrupt: &Interrupt,
) -> Result<()> {
    let id = session.open(place, false)?;
    let threads = session.vcpus();
    let tree = session.tree(id);
    let open = || tree.open_fd(place.path(), libc::O_RDONLY | libc::O_NONBLOCK, 0);
    let mut write = |bytes: &[u8]| put(output, bytes, interrupt).map_err(Problem::Writing);
    let result = open()
        .and_then(|file| match file.stat()? {
            stat if matches!(stat.st_mode & libc::S_IFMT, libc::S_IFREG | libc::S_IFDIR) => {
                claimed_size::check(&file, stat.st_size.max(0) as u64)?;
                hidden.find(&file, &stat)?;
                Ok((stat.st_size, file))
            }
            stat => Err(io::Error::other(no_contents(stat.st_mode & libc::S_IFMT))),
        })
        .map_err(Problem::Reading)
        .and_then(|(size, file)| {
            if size < LARGE as i64 {
                return read_small(&file, &mut write);
            }
            let mut files = vec![file];
            while files.len() < threads as usize {
                files.push(open().map_err(Problem::Reading)?);
            }
            read_in_order(&files, &mut write)
        });
    match result {
        Ok(()) => Ok(()),
        Err(Problem::Writing(error)) => Err(error),
        Err(Problem::Reading(error)) => Err(Error::of_file("cannot read", place.operand(), &error)),
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

fn put(output: &mut StreamOutput, bytes: &[u8], interrupt: &Interrupt) -> Result<()> {
    let written = if interrupt.asked() {
        Ok(())
    } else {
        output.write_all(bytes)
    };
    // A write that waits for the reader has an error of its own then.
    if interrupt.asked() {
        return Err(Error::Interrupted("interrupted".to_owned()));
    }
    written.map_err(|error| Error::of_output("standard output", &error))
}
