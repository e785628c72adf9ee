// SPDX-License-Identifier: GPL-2.0-only
//! `outboard diff`: compares two trees, of images or of the host.
//!
//! One thread goes through both trees side by side and compares what is known of each pair of files
//! ([`walk`]); others compare contents ([`contents`]). Differences are collected, and printed in
//! the order of paths.

mod comparison;
mod contents;
mod difference;
mod side;
mod walk;

use crate::exit_code::CommandStatus;
use crate::output::Output;
pub use comparison::DiffArgs;
use comparison::{Comparison, Findings};
use difference::Line;
use outboard::System;
use outboard_error::{report, Error, Result};
use outboard_transfer::hidden::HiddenFinder;
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use side::Side;

/// Exit codes of diff(1).
const DIFFERENT: u8 = 1;
pub const FAILED: u8 = 2;

pub fn run(
    options: &DiffArgs,
    session: &mut Session,
    output: &mut Output,
) -> Result<CommandStatus> {
    let interrupt = session.catch_interrupts();
    let _ = System::Host.raise_file_limit(1 << 20);
    let [first, second] = options.places().clone();
    let left = session.open(&first, false)?;
    let right = session.open(&second, false)?;
    let comparison = Comparison {
        options,
        sides: [side(session, left, first)?, side(session, right, second)?],
        findings: Findings::default(),
        hidden: HiddenFinder::default(),
        interrupt,
    };
    walk::run(&comparison, session.vcpus());
    if comparison.interrupt.asked() {
        return Err(Error::Interrupted(
            "interrupted: not all was compared".to_owned(),
        ));
    }
    tell(comparison, output)
}

fn side(session: &Session, id: TreeId, place: Place) -> Result<Side> {
    let opened = session.tree(id).open_fd(place.path(), libc::O_PATH, 0);
    let root = opened.map_err(|error| Error::of_file("cannot open", place.operand(), &error))?;
    Ok(Side { place, root })
}

fn tell(comparison: Comparison, output: &mut Output) -> Result<CommandStatus> {
    let Comparison {
        sides, findings, ..
    } = comparison;
    let mut differences = findings.differences.into_inner().expect("no thread panics");
    let mut troubles = findings.troubles.into_inner().expect("no thread panics");
    differences.sort_by(|a, b| {
        let paths = a.path.cmp(&b.path);
        paths.then_with(|| a.words().cmp(&b.words()))
    });
    troubles.sort_by(|a, b| a.message.cmp(&b.message));
    let same = differences.is_empty();
    for difference in &differences {
        let sides = &sides;
        output.item(&Line { difference, sides })?;
    }
    output.flush()?;
    match (troubles.is_empty(), same) {
        (false, _) => {
            troubles.into_iter().for_each(report);
            Err(Error::AlreadyReported)
        }
        (true, false) => Ok(CommandStatus(DIFFERENT)),
        (true, true) => Ok(CommandStatus::SUCCESS),
    }
}
