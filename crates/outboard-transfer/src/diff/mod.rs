// SPDX-License-Identifier: GPL-2.0-only
//! Compares two trees, of images or of the host.
//!
//! One thread goes through both trees side by side and compares what is known of each pair of files
//! (`walk`); others compare contents (`contents`). Differences are collected, and returned in
//! the order of paths.

mod comparison;
mod contents;
mod difference;
mod side;
mod walk;

use crate::hidden::HiddenFinder;
pub use comparison::DiffOptions;
use comparison::{Comparison, Findings};
pub use difference::{ComparedValue, Difference, What};
use outboard_error::{Error, Reported, Result};
use outboard_sandbox::interrupt::Interrupt;
pub use side::Side;

/// The differences of two trees, and why some files could not be compared.
pub type Differences = (Vec<Difference>, Vec<Reported>);

/// Compares two trees, contents with so many threads.
pub fn compare(
    sides: &[Side; 2],
    options: &DiffOptions,
    interrupt: Interrupt,
    threads: u32,
) -> Result<Differences> {
    let comparison = Comparison {
        options,
        sides,
        findings: Findings::default(),
        hidden: HiddenFinder::default(),
        interrupt,
    };
    walk::run(&comparison, threads);
    if comparison.interrupt.asked() {
        return Err(Error::Interrupted(
            "interrupted: not all was compared".to_owned(),
        ));
    }
    Ok(comparison.findings.sorted())
}
