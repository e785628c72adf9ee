// SPDX-License-Identifier: GPL-2.0-only
//! Commands with several operands do one after the other. They report each failure and go on.

use super::image_place;
use super::operands::find_places;
use outboard::Tree;
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{Entry, EntryText, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::io;

/// Has `work` done for each place that the operands mean, which must be in images, until the user
/// wants to stop. `write`: whether the command changes them. Nothing is done unless each operand
/// means something.
pub fn each_place(
    session: &mut Session,
    operands: &[OsString],
    write: bool,
    work: impl FnMut(&mut Session, &Place, &Interrupt) -> Result<()>,
) -> Result<()> {
    let places = find_places(session, operands, write)?;
    each(session, &places, work)
}

/// As [`each_place`], for names of new files: they have no wildcards.
pub fn each_new_place(
    session: &mut Session,
    operands: &[OsString],
    work: impl FnMut(&mut Session, &Place, &Interrupt) -> Result<()>,
) -> Result<()> {
    let places = operands.iter().map(|operand| image_place(operand));
    let places = places.collect::<Result<Vec<Place>>>()?;
    each(session, &places, work)
}

fn each(
    session: &mut Session,
    places: &[Place],
    mut work: impl FnMut(&mut Session, &Place, &Interrupt) -> Result<()>,
) -> Result<()> {
    let interrupt = session.catch_interrupts();
    let mut failures = Failures::default();
    for place in places {
        let part = work(session, place, &interrupt);
        failures.take(part.map_err(|error| error.about(place.operand())))?;
        interrupt.check()?;
    }
    failures.finish()
}

/// A change of files that are found by their names.
pub struct FileChange<'a> {
    /// For messages, as in "change owner of".
    pub what: &'a str,
    /// Whether an operand that is a symbolic link is followed.
    pub follow: bool,
    /// Also all that is below directories.
    pub recursive: bool,
}

impl FileChange<'_> {
    /// Has `change` done to what an operand means.
    pub fn run(
        &self,
        tree: &Tree,
        place: &Place,
        interrupt: &Interrupt,
        change: impl Fn(&Entry) -> io::Result<()>,
    ) -> Result<()> {
        let top = Named::find(tree, place, self.follow).map_err(|error| {
            Error::of_file(&format!("cannot {}", self.what), place.operand(), &error)
        })?;
        let mut walk = Walk::new(top, place.operand(), interrupt.clone());
        let mut failures = Failures::default();
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) => {
                    if let Err(error) = change(&entry) {
                        failures.tell(entry.failure(self.what, &error));
                    }
                    if !self.recursive {
                        break;
                    }
                }
                Step::Opened(_) | Step::Left(_) => {}
                Step::Failed(entry, error) => {
                    failures.tell(entry.failure("read directory", &error))
                }
            }
        }
        failures.finish()
    }
}
