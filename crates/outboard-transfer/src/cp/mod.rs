// SPDX-License-Identifier: GPL-2.0-only
//! Copies files between any two trees, of images or of the host, as `outboard cp` does.
//!
//! One thread walks the directories (`walk`); others copy what is not a directory (`copy`) and
//! keep attributes and hard links (`attributes`, `links`). Trees of images and of the host are
//! treated alike: the same calls reach both.

mod attributes;
mod changes;
mod copier;
mod copy;
mod data;
mod directory;
mod following;
pub(crate) mod handle_cache;
mod inside;
mod item;
mod links;
mod options;
pub mod queue;
mod source;
mod target;
mod total;
pub(crate) mod trail;
mod walk;

pub use changes::{Changes, OwnerRange};
pub use copy::no_contents;
pub use options::{Copied, CopyRequest, Existing, Keep, Options};
pub(crate) use source::CopySource;
pub(crate) use target::CopyTarget;

use crate::made::MadeNames;
use crate::report::Report;
use copier::Copier;
use outboard::System;
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_volume::address::Place;
use outboard_volume::destination::UsedFiles;
use outboard_volume::session::{Session, TreeId};
use std::ffi::CString;
use std::sync::Arc;
use total::Total;
use walk::{RoundNames, Sources};

/// Copies `sources`, and reports what could not be kept. Other commands than `cp` use it, too.
pub fn copy(
    session: &mut Session,
    request: &CopyRequest,
    sources: &[Place],
    destination: &Place,
    report: &Report,
) -> Result<Copied> {
    let interrupt = session.catch_interrupts();
    // The limit of another program is its own.
    if !session.is_in_library() {
        let _ = System::Host.raise_file_limit(1 << 20);
    }
    let result = copy_places(session, request, &interrupt, sources, destination, report);
    let full = request.options.may_be_full && report.is_full();
    if !full {
        report.print_losses();
    }
    match result {
        Ok(()) | Err(Error::AlreadyReported) if interrupt.asked() => {
            Err(Error::Interrupted(format!(
            "interrupted after {} files, which are written; new copies that were not complete are \
             removed",
            report.files()
        )))
        }
        Ok(()) | Err(Error::AlreadyReported) if full => Ok(Copied::UntilFull),
        Ok(()) | Err(Error::AlreadyReported) if report.is_hopeless() => Err(Error::AlreadyReported),
        Ok(()) | Err(Error::AlreadyReported) if report.failures() > 0 => Ok(Copied::Some),
        other => other.map(|()| Copied::All),
    }
}

fn copy_places(
    session: &mut Session,
    request: &CopyRequest,
    interrupt: &Interrupt,
    sources: &[Place],
    destination: &Place,
    report: &Report,
) -> Result<()> {
    let target_tree = session.open(destination, true)?;
    let _modes = (target_tree == TreeId::Host).then(ExactModes::new);
    let mut trees = Vec::new();
    for source in sources {
        trees.push(session.open(source, false)?);
    }
    let session: &Session = session;
    let source = |(place, id): (_, &TreeId)| CopySource {
        place,
        tree: session.tree(*id),
    };
    let trees = TreeCopy {
        sources: sources.iter().zip(&trees).map(source).collect(),
        target: CopyTarget::find(session.tree(target_tree), destination, sources.len())?,
        used: session.used(),
        threads: session.vcpus(),
    };
    trees.run(request, interrupt, report)
}

/// While it lives, new files of this process get the modes that the copy has computed, whatever the
/// user's umask is.
struct ExactModes {
    umask: u32,
}

impl ExactModes {
    fn new() -> Self {
        Self {
            umask: System::Host.umask(0),
        }
    }
}

impl Drop for ExactModes {
    fn drop(&mut self) {
        System::Host.umask(self.umask);
    }
}

/// A copy from and to open trees.
pub(crate) struct TreeCopy<'a> {
    pub(crate) sources: Vec<CopySource<'a>>,
    pub(crate) target: CopyTarget<'a>,
    /// Files that must not be overwritten.
    pub(crate) used: Arc<UsedFiles>,
    pub(crate) threads: u32,
}

impl TreeCopy<'_> {
    pub(crate) fn run(
        &self,
        request: &CopyRequest,
        interrupt: &Interrupt,
        report: &Report,
    ) -> Result<()> {
        let target = &self.target;
        if !target.directory.system().is_host() {
            let _ = target.directory.system().raise_file_limit(1 << 16);
        }
        let operand = request.operand.unwrap_or(&target.operand).to_owned();
        let base = (Arc::clone(&target.directory), operand);
        let copier = Copier::new(request, interrupt, report, base, Arc::clone(&self.used));
        let mut sources = Sources::new(&copier);
        let made = self.made_names()?;
        for source in &self.sources {
            if let Err(error) = source.add_to(&mut sources, target, &made) {
                report.fail_known(error)?;
            }
        }
        let total = Total::find(&self.sources, request.excluded, interrupt);
        total.beside(report, || sources.copy(self.threads));
        match report.failures() {
            0 => Ok(()),
            _ => Err(Error::AlreadyReported),
        }
    }

    /// The names that the command makes in the destination directory.
    fn made_names(&self) -> Result<Arc<MadeNames>> {
        let names = self
            .sources
            .iter()
            .map(|source| self.target.name_of(source.place));
        let names: Vec<Option<CString>> = names.collect();
        if matches!(names.as_slice(), [Some(_)]) {
            return Ok(MadeNames::of_one_name());
        }
        let mut round = RoundNames::new(&self.target.directory);
        let meet = names.iter().any(|name| round.may_meet(name.as_deref()));
        MadeNames::of_existing(&self.target.directory, meet)
            .map_err(|error| Error::of_file("cannot list", self.target.operand.clone(), &error))
    }
}

#[cfg(test)]
mod tests;
