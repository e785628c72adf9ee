// SPDX-License-Identifier: GPL-2.0-only
//! Makes a file system in a private file, of a given size or of one that fits.

use super::estimate::{round_up, Storing, TreeSize};
use super::makers::{FileSystemMaker, FillMethod, Reproducible};
use super::packed::PackedImage;
use super::source::ContentSource;
use super::target::ImageTarget;
use super::{ext, fat, host_tree, iso, losses, VolumePlan, Wish};
use outboard_error::format::size as size_text;
use outboard_error::{warn, Error, ErrorKind, Failures, Hint, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{self, Changes, Copied, CopyRequest};
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::labels::Labels;
use outboard_transfer::moment::source_date;
use outboard_transfer::owner::Owner;
use outboard_transfer::report::Report;
use outboard_transfer::tar::input::unpack_file;
use outboard_volume::access::uses_image;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::image_file::FILE_SECTOR;
use outboard_volume::scratch::{Range, Scratch};
use outboard_volume::session::{apart, Session};
use outboard_volume::uuid;
use std::cell::RefCell;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How often `--fit` tries a larger size.
const TRIES: u32 = 12;
/// 1980-01-01, the first day that FAT knows: the time of reproducible images without
/// SOURCE_DATE_EPOCH.
const FIRST_DAY: i64 = 315_532_800;

/// All that does not change from one attempt to the next.
pub(super) struct Making<'a> {
    plan: &'a VolumePlan,
    maker: &'static FileSystemMaker,
    new_report: fn() -> Report,
    source: Option<ContentSource>,
    changes: Changes,
    /// The tool's options, besides those of the user.
    words: Vec<OsString>,
    uuid: Option<String>,
    /// The time of everything, in seconds, in a reproducible image.
    time: Option<i64>,
    /// Bytes of a sector of what it is made for.
    sector: u64,
    shown: String,
    /// The image or volume, as the user would write it.
    operand: Vec<u8>,
    /// The descriptor of the image that the new one replaces.
    pub(super) replaced: Option<RawFd>,
    /// What the tool printed on standard error in its last run.
    remarks: RefCell<Vec<String>>,
}

impl<'a> Making<'a> {
    pub(super) fn new(
        plan: &'a VolumePlan,
        maker: &'static FileSystemMaker,
        sector: u64,
        new_report: fn() -> Report,
    ) -> Result<Self> {
        maker.check_sectors(sector)?;
        if plan.reproducible && maker.reproducible == Reproducible::No {
            return Err(Error::known(
                ErrorKind::Unsupported,
                format!(
                    "{} cannot be made reproducible: of the types there are, {} can",
                    maker.kind,
                    FileSystemMaker::reproducible_kinds()
                ),
            ));
        }
        let source = plan.from.as_deref().map(ContentSource::find).transpose()?;
        if let Some(source) = &source {
            source.check(plan)?;
        }
        match (&source, maker.filled) {
            (None, FillMethod::ByTool) => {
                let text = format!(
                    "{} is read-only: name its contents{}",
                    maker.kind,
                    Hint::Contents
                );
                return Err(Error::Usage(text));
            }
            (Some(_), FillMethod::Never) => {
                let text = format!("{} has no files: {}", maker.kind, Hint::NoContents);
                return Err(Error::Usage(text));
            }
            _ => {}
        }
        let time = if plan.reproducible {
            Some(source_date().map_err(Error::Usage)?.unwrap_or(FIRST_DAY))
        } else {
            None
        };
        let owner = match (&plan.owner, &source) {
            (Some(text), Some(source)) => Some(Owner::find_below(text.as_bytes(), source.path())?),
            _ => None,
        };
        let mut making = Self {
            plan,
            maker,
            new_report,
            source,
            changes: Changes {
                owner,
                owners: plan.owner_map.clone(),
                labels: None,
                newest: time,
            },
            words: Vec::new(),
            uuid: plan.uuid.clone(),
            time,
            sector,
            shown: plan.name.shown(),
            operand: plan.name.operand(),
            replaced: None,
            remarks: RefCell::default(),
        };
        making.choose_words()?;
        Ok(making)
    }

    /// Collects the options of the tool.
    fn choose_words(&mut self) -> Result<()> {
        let maker = self.maker;
        self.say(maker.say_sectors(self.sector, &self.plan.options));
        if let Some(label) = &self.plan.label {
            self.say(maker.say_label(label)?);
        }
        if self.time.is_some() && self.uuid.is_none() && maker.has_uuid() {
            self.uuid = Some(self.fixed_uuid());
        }
        if let Some(uuid) = &self.uuid {
            self.say(maker.say_uuid(uuid)?);
        }
        match (maker.reproducible, &self.uuid) {
            (Reproducible::Ext, Some(uuid)) if self.time.is_some() => {
                let seed = format!("hash_seed={uuid},lazy_itable_init=0,lazy_journal_init=0");
                self.say(vec!["-E".to_owned(), seed]);
            }
            (Reproducible::Fat, _) if self.time.is_some() => {
                self.say(vec!["--invariant".to_owned()]);
            }
            (Reproducible::ByTool(words), _) if self.time.is_some() => {
                self.say(words.iter().map(|word| (*word).to_owned()).collect());
            }
            _ => {}
        }
        if maker.filled == FillMethod::ByTool {
            self.choose_changes_of_tool()
        } else {
            let labels = self.plan.file_contexts.as_deref();
            self.changes.labels = labels.map(Labels::read).transpose()?;
            Ok(())
        }
    }

    /// Where the tool is given the tree, it also makes the changes.
    fn choose_changes_of_tool(&mut self) -> Result<()> {
        if !self.plan.owner_map.is_empty() {
            let text = format!(
                "{} cannot map owners in {}: only {}",
                self.maker.tool.name,
                self.maker.kind,
                Hint::OneOwner
            );
            return Err(Error::Usage(text));
        }
        if let Some(owner) = self.changes.owner {
            self.say(self.maker.say_owner(owner)?);
        }
        if let Some(file) = &self.plan.file_contexts {
            let mut word = OsString::from(self.maker.labels_word()?);
            word.push(file);
            self.words.push(word);
        }
        Ok(())
    }

    fn say(&mut self, words: Vec<String>) {
        self.words.extend(words.into_iter().map(OsString::from));
    }

    /// A UUID for images that are to be the same each time: from the type, label and time.
    fn fixed_uuid(&self) -> String {
        let label = self.plan.label.as_deref().unwrap_or_default();
        let text = format!("{}\0{label}\0{:?}", self.maker.kind, self.time);
        let uuid = uuid::from_name(&text);
        match self.maker.reproducible {
            Reproducible::Fat => uuid[..8].to_owned(),
            _ => uuid,
        }
    }

    pub(super) fn wish(&self, target: &ImageTarget, has: Option<u64>) -> Result<Wish> {
        let size = self.plan.size;
        match target {
            ImageTarget::Range {
                range: Range { size: room, .. },
                ..
            }
            | ImageTarget::Device { size: room, .. } => match size {
                _ if self.plan.fit => Err(Error::Usage(format!(
                    "{}: it has its size, so {}",
                    self.shown,
                    Hint::NoFit
                ))),
                Some(size) if size > *room => Err(Error::known(
                    ErrorKind::NoSpace,
                    format!("{} has only {}", self.shown, size_text(*room)),
                )),
                _ => Ok(Wish::Exactly(size.unwrap_or(*room))),
            },
            ImageTarget::File { .. } => match (size, has) {
                (Some(size), _) => Ok(Wish::Exactly(size)),
                (None, Some(size)) if !self.plan.fit && self.source.is_none() => {
                    Ok(Wish::Exactly(size))
                }
                (None, _) if self.source.is_some() => Ok(Wish::Fit),
                _ => Err(Error::Usage(format!(
                    "say how large the image is to be{}",
                    Hint::NewSize
                ))),
            },
        }
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
            match self.maker.skips {
                Some(of_metadata) if !self.maker.tool.prints(of_metadata, &remark) => {
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
        if self.maker.filled == FillMethod::ByTool {
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
        let source = self.source.as_ref().filter(|_| self.maker.is_ext());
        let Some(source) = source.filter(|source| source.can_be_read_again()) else {
            return Ok(String::new());
        };
        let content = source.content(session, Storing::by(self.maker), &self.images(scratch))?;
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
            holes: self.maker.holes && self.time.is_none(),
            ..Storing::by(self.maker)
        };
        let content = match &self.source {
            Some(source) => source.content(session, storing, &self.images(scratch))?,
            None => TreeSize::default(),
        };
        let words = if self.maker.is_ext() {
            ext::words_to_fit(content.files)
        } else {
            Vec::new()
        };
        let mut size = content.room(self.maker.least);
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
        let Some(source) = &self.source else {
            self.call(session, scratch, None, words)?;
            if let (Reproducible::Fat, Some(time)) = (self.maker.reproducible, self.time) {
                fat::settle(scratch.path(), time)?;
            }
            return Ok(Copied::All);
        };
        if let (Reproducible::Ext, Some(time)) = (self.maker.reproducible, self.time) {
            let filled = self.call(session, scratch, Some(source), words)?;
            if filled == Copied::All {
                let tree = source.directory()?;
                losses::tell(
                    tree.as_ref(),
                    self.maker,
                    self.time,
                    session.catch_interrupts(),
                )?;
                ext::settle(
                    session,
                    scratch,
                    source.directory()?.as_ref(),
                    &self.changes,
                    time,
                )?;
            }
            return Ok(filled);
        }
        self.call(session, scratch, None, words)?;
        let filled = self.fill(session, scratch, source)?;
        if let (Reproducible::Fat, Some(time)) = (self.maker.reproducible, self.time) {
            fat::settle(scratch.path(), time)?;
        }
        Ok(filled)
    }

    /// Copies the source into the empty file system.
    fn fill(
        &self,
        session: &mut Session,
        scratch: &Scratch,
        source: &ContentSource,
    ) -> Result<Copied> {
        let image = ImageName::new(scratch.path(), None);
        let access = HostAccess {
            reads: source.reads(),
            keeps_attributes: true,
            ..uses_image(&image, true)
        };
        let place = Place::Image(image, PathBuf::from("/"));
        let options = cp::Options {
            sorted: self.time.is_some(),
            may_be_full: true,
            ..cp::Options::everything(session.umask())
        };
        apart(session, &access, |session| match source {
            ContentSource::Directory(path) => {
                let contents = [Place::Host(path.join("."))];
                let order = CopyRequest {
                    options,
                    changes: &self.changes,
                    excluded: &Exclusion::default(),
                    names: None,
                    hidden: &HiddenFinder::default(),
                    operand: Some(&self.operand),
                };
                let report = (self.new_report)();
                cp::copy(session, &order, &contents, &place, &report)
            }
            ContentSource::Tar(archive) => {
                let input = archive.open()?;
                match unpack_file(session, input, &place, &self.operand, self.new_report) {
                    Ok(()) => Ok(Copied::All),
                    Err(Error::AlreadyReported) => Ok(Copied::Some),
                    Err(error) => Err(error),
                }
            }
        })
    }

    /// Runs the tool on the file; a tree for the ext tools only where they are to fill it.
    fn call(
        &self,
        session: &Session,
        scratch: &Scratch,
        source: Option<&ContentSource>,
        words: &[String],
    ) -> Result<Copied> {
        let call = self.maker.tool.call(session.options().confinement())?;
        let call = call.shown(session.verbose());
        let call = call.writes(scratch.directory());
        let mut call = call.naming(scratch.path(), &self.shown);
        if let Some(time) = self.time {
            call = ext::at_time(call.variable("SOURCE_DATE_EPOCH", time.to_string()), time);
        }
        if let Some(name) = self.maker.sectors_variable(self.sector) {
            call = call.variable(name, self.sector.to_string());
        }
        let packed = match self.maker.filled {
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
        for word in self.maker.words() {
            call = match (*word, &tree) {
                ("{image}", _) => call.argument(scratch.path()),
                ("{tree}", Some(tree)) => call.argument(tree.as_ref()),
                ("{options}", tree) => {
                    call = call.arguments(&self.words).arguments(words);
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
            _ => Err(ended.failure(&self.cannot())),
        }
    }

    /// The failed step, with the sectors if they are unusual: not every tool takes a size of
    /// sectors.
    fn cannot(&self) -> String {
        let what = format!("cannot make {} in {}", self.maker.kind, self.shown);
        match self.sector {
            FILE_SECTOR => what,
            size => format!("{what}, which has sectors of {size} bytes"),
        }
    }

    fn make_by_tool(&self, session: &mut Session, scratch: &Scratch, wish: Wish) -> Result<Copied> {
        let interrupt = session.catch_interrupts();
        if let Some(source) = &self.source {
            let tree = source.directory()?;
            host_tree::check_paths(tree.as_ref(), self.maker.tool.name, interrupt.clone())?;
        }
        scratch.clear(0)?;
        let started = SystemTime::now();
        let mut made = match self.call(session, scratch, None, &[]) {
            Err(error) => {
                if let Some(source) = &self.source {
                    host_tree::report_unreadable(source.path(), interrupt)?;
                }
                return Err(error);
            }
            Ok(made) => made,
        };
        if let (Reproducible::Iso, Some(time)) = (self.maker.reproducible, self.time) {
            iso::settle(scratch.path(), time)?;
        }
        if let Some(source) = &self.source {
            let tree = source.directory()?;
            let kept = losses::tell(tree.as_ref(), self.maker, self.time, interrupt)?;
            let packed = PackedImage {
                top: tree.as_ref(),
                maker: self.maker,
                private: scratch.directory(),
                image: scratch.path(),
                started,
            };
            // The tool's own options may leave out files.
            let compares = self.plan.options.is_empty();
            if !kept || compares && !packed.is_complete(session)? {
                made = Copied::Some;
            }
        }
        let Wish::Exactly(size) = wish else {
            return Ok(made);
        };
        let needed = scratch.size()?;
        if needed > size {
            return Err(Error::known(
                ErrorKind::NoSpace,
                format!(
                    "{}: the file system has {}, which is more than {}",
                    self.shown,
                    size_text(needed),
                    size_text(size)
                ),
            ));
        }
        scratch.set_size(size).map(|()| made)
    }
}
