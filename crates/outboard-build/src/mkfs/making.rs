// SPDX-License-Identifier: GPL-2.0-only
//! Makes a file system in a private file, of a given size or of one that fits.

use super::estimate::{Storing, TreeSize};
use super::fill::fill;
use super::makers::{FileSystemMaker, FillMethod, Reproducible};
use super::packed::PackedImage;
use super::recipe::Recipe;
use super::source::ContentSource;
use super::volume_plan::{VolumePlan, Wish};
use super::{ext, fat, host_tree, iso, losses};
use crate::megabytes::round_up;
use outboard_error::format::size as size_text;
use outboard_error::{warn, Error, ErrorKind, Failures, Hint, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::cp::Copied;
use outboard_transfer::report::Report;
use outboard_volume::scratch::Scratch;
use outboard_volume::session::Session;
use std::cell::RefCell;
use std::os::fd::RawFd;
use std::path::Path;
use std::time::SystemTime;

/// How often a larger size is tried for a file system that is to fit its contents.
const TRIES: u32 = 12;

/// All that does not change from one attempt to the next.
pub(super) struct Making<'a> {
    plan: &'a VolumePlan,
    recipe: Recipe,
    new_report: &'a dyn Fn() -> Report,
    source: Option<ContentSource>,
    shown: String,
    /// The descriptor of the image that the new one replaces.
    pub(super) replaced: Option<RawFd>,
    /// The text that the tool printed on standard error in its last run.
    remarks: RefCell<Vec<String>>,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        plan: &'a VolumePlan,
        sector: u64,
        new_report: &'a dyn Fn() -> Report,
    ) -> Result<Self> {
        let mut recipe = Recipe::new(plan, sector)?;
        let source = plan.from.as_deref().map(ContentSource::find).transpose()?;
        if let Some(source) = &source {
            source.check(plan)?;
        }
        recipe.add_changes(plan, source.as_ref())?;
        Ok(Self {
            plan,
            recipe,
            new_report,
            source,
            shown: plan.name.shown(),
            replaced: None,
            remarks: RefCell::default(),
        })
    }

    /// The maker of the type.
    pub(super) fn maker(&self) -> &'static FileSystemMaker {
        self.recipe.maker
    }

    /// Prepares for reading the source more than once, if that is needed.
    pub(super) fn keep_source(&mut self, wish: Wish, interrupt: &Interrupt) -> Result<()> {
        match (&mut self.source, wish) {
            (Some(ContentSource::Tar(archive)), Wish::Fit) => archive.keep(interrupt),
            _ => Ok(()),
        }
    }

    pub(super) fn make(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        wish: Wish,
    ) -> Result<Copied> {
        let made = self.make_as_wished(session, scratch, wish);
        if self.tell_remarks() {
            made
        } else {
            made.map(|_| Copied::Some)
        }
    }

    /// Reports what the tool printed on standard error. Returns whether it packed everything.
    fn tell_remarks(&self) -> bool {
        let mut failures = Failures::default();
        for remark in self.remarks.take() {
            match self.recipe.maker.skips {
                Some(of_metadata) if !self.recipe.maker.tool.prints(of_metadata, &remark) => {
                    failures.tell(remark);
                }
                _ => warn(format!("warning: {remark}")),
            }
        }
        failures.finish().is_ok()
    }

    fn make_as_wished(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        wish: Wish,
    ) -> Result<Copied> {
        if self.recipe.maker.filled == FillMethod::ByTool {
            return self.make_by_tool(session, scratch, wish);
        }
        let size = match wish {
            Wish::Exactly(size) => size,
            Wish::Fit => return self.make_to_fit(session, scratch),
        };
        match self.attempt(session, scratch, size, &[])? {
            made @ (Copied::All | Copied::Some) => Ok(made),
            Copied::UntilFull => Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{}: {} is too small for the contents: {}{}",
                    self.shown,
                    size_text(size),
                    Hint::LargerSize,
                    self.advice_on_inodes(session, scratch, size)?
                ),
            )),
        }
    }

    /// Advice where the bytes would fit: the number of inodes was too small.
    fn advice_on_inodes(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        size: u64,
    ) -> Result<String> {
        let source = self.source.as_ref().filter(|_| self.recipe.maker.is_ext());
        let Some(source) = source.filter(|source| source.can_be_read_again()) else {
            return Ok(String::new());
        };
        let content = source.content(
            session,
            Storing::by(self.recipe.maker),
            &self.images(scratch),
        )?;
        Ok(if content.bytes < size / 2 {
            format!(
                "; its bytes would fit, but it has {} files, which need as many inodes: -- {}",
                content.files,
                ext::words_for_inodes(content.files).join(" ")
            )
        } else {
            String::new()
        })
    }

    /// Descriptors of the new image and of the one that it replaces.
    fn images(&self, scratch: &Scratch) -> Vec<RawFd> {
        let new = [scratch.descriptor()];
        self.replaced.into_iter().chain(new).collect()
    }

    fn make_to_fit(&self, session: &mut Session, scratch: &Scratch) -> Result<Copied> {
        let storing = Storing {
            // How much of a file is holes depends on the host, but the image must not.
            holes: self.recipe.maker.holes && self.recipe.time.is_none(),
            ..Storing::by(self.recipe.maker)
        };
        let content = match &self.source {
            Some(source) => source.content(session, storing, &self.images(scratch))?,
            None => TreeSize::default(),
        };
        let words = if self.recipe.maker.is_ext() {
            ext::words_to_fit(content.files)
        } else {
            Vec::new()
        };
        let mut size = content.room(self.recipe.maker.least);
        for _ in 0..TRIES {
            let made = self.attempt(session, scratch, size, &words)?;
            if made != Copied::UntilFull {
                return Ok(made);
            }
            size = round_up(size.saturating_add(size / 3));
        }
        Err(Error::known(
            ErrorKind::NoSpace,
            format!(
                "{}: the contents do not even fit into {}",
                self.shown,
                size_text(size)
            ),
        ))
    }

    /// Makes the file system in this size, and fills it. `words`: further ones for the tool.
    fn attempt(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        size: u64,
        words: &[String],
    ) -> Result<Copied> {
        scratch.clear(size)?;
        let reproducible = (self.recipe.maker.reproducible, self.recipe.time);
        if let (Some(source), (Reproducible::Ext, Some(time))) = (&self.source, reproducible) {
            return self.attempt_reproducible_ext(session, scratch, source, time, words);
        }
        self.call(session, scratch, None, words)?;
        let operand = self.plan.name.operand();
        let recipe = &self.recipe;
        let filled = match &self.source {
            Some(source) => fill(session, scratch, source, recipe, &operand, self.new_report)?,
            None => Copied::All,
        };
        if let (Reproducible::Fat, Some(time)) = reproducible {
            fat::settle(scratch.path(), time)?;
        }
        Ok(filled)
    }

    /// The tool of ext is given the tree; the rest of the time and the host is settled afterwards.
    fn attempt_reproducible_ext(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        source: &ContentSource,
        time: i64,
        words: &[String],
    ) -> Result<Copied> {
        let filled = self.call(session, scratch, Some(source), words)?;
        if filled == Copied::All {
            let (tree, interrupt) = (source.directory()?, session.catch_interrupts());
            losses::tell(tree.as_ref(), self.recipe.maker, Some(time), interrupt)?;
            ext::settle(session, scratch, tree.as_ref(), &self.recipe.changes, time)?;
        }
        Ok(filled)
    }

    /// Runs the tool on the file; a tree for the ext tools only where they are to fill it.
    fn call(
        &self,
        session: &Session,
        scratch: &Scratch,
        source: Option<&ContentSource>,
        words: &[String],
    ) -> Result<Copied> {
        let call = self
            .recipe
            .maker
            .tool
            .call(session.options().confinement())?;
        let call = call.shown(session.verbose());
        let call = call.writes(scratch.directory());
        let mut call = call.naming(scratch.path(), &self.shown);
        if let Some(time) = self.recipe.time {
            call = ext::at_time(call.variable("SOURCE_DATE_EPOCH", time.to_string()), time);
        }
        if let Some(name) = self.recipe.maker.sectors_variable(self.recipe.sector) {
            call = call.variable(name, self.recipe.sector.to_string());
        }
        let packed = match self.recipe.maker.filled {
            FillMethod::ByTool => self.source.as_ref(),
            _ => source,
        };
        let tree = packed.map(ContentSource::directory).transpose()?;
        if let (Some(packed), Some(tree)) = (packed, &tree) {
            call = call.packs(tree);
            // Each path has the root's in it.
            if tree.as_ref() != Path::new("/") {
                call = call.naming(tree.as_ref(), &packed.shown());
            }
        }
        if let Some(path) = &self.plan.file_contexts {
            call = call.reads(path);
        }
        for word in self.recipe.maker.words() {
            call = match (*word, &tree) {
                ("{image}", _) => call.argument(scratch.path()),
                ("{tree}", Some(tree)) => call.argument(tree.as_ref()),
                ("{options}", tree) => {
                    call = call.arguments(&self.recipe.words).arguments(words);
                    if let (Some(_), Some(tree)) = (source, tree) {
                        call = call.argument("-d").argument(tree.as_ref());
                    }
                    call.arguments(&self.plan.options)
                }
                _ => call.argument(word),
            };
        }
        let ended = call.run()?;
        let remarks = match ended.code() {
            Some(0) => ended.remarks(),
            _ => Vec::new(),
        };
        self.remarks.replace(remarks);
        let full = source.is_some() && ext::was_full(&ended.output);
        match ended.code() {
            Some(0) => Ok(Copied::All),
            Some(_) if full => Ok(Copied::UntilFull),
            _ => Err(ended.failure(&self.recipe.cannot(&self.shown))),
        }
    }

    /// Makes a file system that the tool fills.
    fn make_by_tool(&self, session: &mut Session, scratch: &Scratch, wish: Wish) -> Result<Copied> {
        let interrupt = session.catch_interrupts();
        if let Some(source) = &self.source {
            let tree = source.directory()?;
            host_tree::check_paths(
                tree.as_ref(),
                self.recipe.maker.tool.name,
                interrupt.clone(),
            )?;
        }
        scratch.clear(0)?;
        let started = SystemTime::now();
        let made = match self.call(session, scratch, None, &[]) {
            Err(error) => {
                if let Some(source) = &self.source {
                    host_tree::report_unreadable(source.path(), interrupt)?;
                }
                return Err(error);
            }
            Ok(made) => made,
        };
        if let (Reproducible::Iso, Some(time)) = (self.recipe.maker.reproducible, self.recipe.time)
        {
            iso::settle(scratch.path(), time)?;
        }
        let is_complete = self.verify_packed(session, scratch, started)?;
        if let Wish::Exactly(size) = wish {
            self.pad(scratch, size)?;
        }
        Ok(if is_complete { made } else { Copied::Some })
    }

    /// Reports what the file system lacks of the tree that its tool was given. Returns whether that
    /// is nothing.
    fn verify_packed(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        started: SystemTime,
    ) -> Result<bool> {
        let Some(source) = &self.source else {
            return Ok(true);
        };
        let (tree, maker) = (source.directory()?, self.recipe.maker);
        let interrupt = session.catch_interrupts();
        let kept = losses::tell(tree.as_ref(), maker, self.recipe.time, interrupt)?;
        let packed = PackedImage {
            top: tree.as_ref(),
            maker,
            private: scratch.directory(),
            image: scratch.path(),
            started,
        };
        // The tool's own options may leave out files.
        let compares = self.plan.options.is_empty();
        Ok(kept && (!compares || packed.is_complete(session)?))
    }

    /// Gives a file system that its tool has made as small as it can this size.
    fn pad(&self, scratch: &Scratch, size: u64) -> Result<()> {
        let needed = scratch.size()?;
        if needed <= size {
            return scratch.set_size(size);
        }
        Err(Error::known(
            ErrorKind::NoSpace,
            format!(
                "{}: the file system has {}, which is more than {}",
                self.shown,
                size_text(needed),
                size_text(size)
            ),
        ))
    }
}
