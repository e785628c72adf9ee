// SPDX-License-Identifier: GPL-2.0-only
//! `outboard cp`: copies files between any two trees, of images or of the host.

use crate::commands::operands::{encrypted_image, expand_places, volume_operand};
use crate::commands::verbose::StdoutNamePrinter;
use crate::commands::{check_file_name, likely_place, progress};
use crate::output::Output;
use clap::Args;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{copy, Changes, Copied, CopyRequest, Existing, Keep, Options};
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::hidden::HiddenFinder;
use outboard_transfer::owner::Owner;
use outboard_transfer::report::NamePrinter;
use outboard_transfer::volume_bytes::{self, End};
use outboard_volume::access::{uses, uses_image};
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::Session;
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Copy files into, out of and between images, and the bytes of volumes
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard cp [OPTIONS] <SRC>... <DST>",
    after_help = "Examples:\
                  \n  outboard cp disk.img:/etc/hostname .\
                  \n  outboard cp -a rootfs/. disk.img@1:/\
                  \n  outboard cp -a old.img:/home new.img:/\
                  \n  outboard cp notes.txt stick.img@1:/docs/\
                  \n  outboard cp 'disk.img:/etc/*.conf' confs/\
                  \n  outboard cp disk.img@2 part.img\
                  \n  outboard cp -av --chown=root:root --exclude=.git tree/. disk.img:/srv"
)]
pub struct CpArgs {
    /// The sources, and last the destination: host paths, IMAGE:/PATH, IMAGE@N:/PATH. Of a volume,
    /// IMAGE@N or IMAGE@NAME, the bytes are copied; "-" is then standard input or output
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub places: Vec<OsString>,
    /// Copy directories with their contents, and keep owners, modes, times, links, holes,
    /// attributes, devices
    #[arg(short)]
    pub archive: bool,
    /// Copy directories with their contents
    #[arg(short, short_alias = 'R')]
    pub recursive: bool,
    /// Keep mode with access control list, owner and times
    #[arg(short)]
    pub preserve: bool,
    /// Do not replace files that exist
    #[arg(short)]
    pub no_clobber: bool,
    /// Replace a file that exists only if it is older than the source
    #[arg(short)]
    pub update: bool,
    /// Copy symbolic links as links [default with -r and -a]
    #[arg(short = 'P', overrides_with = "dereference")]
    pub no_dereference: bool,
    /// Copy the targets of symbolic links, also with -r and -a [default without them]
    #[arg(short = 'L', overrides_with = "no_dereference")]
    pub dereference: bool,
    /// Print the name of each file and of its copy
    #[arg(short)]
    pub verbose: bool,
    /// The owner of the copies: USER, USER:GROUP, :GROUP, or USER: for the user's login group;
    /// numbers, or names of the destination
    #[arg(long, value_name = "OWNER")]
    pub chown: Option<OsString>,
    /// Leave out files that match this pattern of the shell, as tar does; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// Overwrite files of the host that look like disk images, and copy between paths of the host
    /// alone
    #[arg(long)]
    pub force: bool,
    #[arg(skip)]
    request: OnceCell<CpRequest>,
}

/// The meaning of the operands. They are parsed once: a file that appears later does not change it.
#[derive(Debug, PartialEq, Eq)]
enum CpRequest {
    /// The bytes of a volume.
    Bytes([End; 2]),
    Files {
        /// The sources, and last the destination.
        places: Vec<Place>,
        /// Two paths of the host, which cp refuses unless the first one is an encrypted image.
        host_pair: Option<(ImageName, End)>,
    },
}

impl CpArgs {
    fn request(&self) -> &CpRequest {
        self.request.get_or_init(|| match self.ends() {
            Some(ends) => CpRequest::Bytes(ends),
            None => {
                let operands = self.places.iter();
                let places: Vec<Place> = operands.map(|operand| Place::find(operand)).collect();
                let host_pair = self.host_pair(&places);
                CpRequest::Files { places, host_pair }
            }
        })
    }

    pub fn host_access(&self) -> HostAccess {
        let (places, host_pair) = match self.request() {
            CpRequest::Bytes(ends) => return access_to(ends),
            CpRequest::Files { places, host_pair } => (places, host_pair),
        };
        let mut access = HostAccess::default();
        if let Some((name, _)) = host_pair {
            access.add(uses_image(name, false));
        }
        for (index, place) in places.iter().enumerate() {
            let last = index + 1 == places.len();
            access.add(uses(place, last));
        }
        access.keeps_attributes = self.archive || self.preserve || self.chown.is_some();
        access.makes_nodes = (self.recursive || self.archive) && !access.writes.is_empty();
        if self.chown.is_some() && !access.writes.is_empty() {
            access.reads.extend(ACCOUNTS.map(PathBuf::from));
        }
        access
    }

    /// The two ends of a copy of bytes: at least one is a volume, and neither has a path in it.
    fn ends(&self) -> Option<[End; 2]> {
        let [source, target] = self.places.as_slice() else {
            return None;
        };
        // Between paths of the host alone, a name may look like that of a volume.
        let is_meant = |name: &ImageName| !self.force || name.file.symlink_metadata().is_ok();
        let end = |operand: &OsString| match volume_operand(operand).filter(is_meant) {
            Some(name) => Some(End::Volume(name)),
            None if matches!(Place::find(operand), Place::Image(..)) => None,
            None => Some(End::of_host(operand)),
        };
        let ends = [end(source)?, end(target)?];
        let is_volume = |end: &End| matches!(end, End::Volume(_));
        ends.iter().any(is_volume).then_some(ends)
    }

    fn host_pair(&self, places: &[Place]) -> Option<(ImageName, End)> {
        match places {
            [Place::Host(source), Place::Host(target)] if !self.force => Some((
                ImageName::find(source.as_os_str()),
                End::of_host(target.as_os_str()),
            )),
            _ => None,
        }
    }

    /// Whether there are options that are about files.
    fn is_about_files(&self) -> bool {
        let attributes = self.archive || self.preserve || self.chown.is_some();
        let existing = self.no_clobber || self.update;
        let links = self.no_dereference || self.dereference;
        attributes || existing || links || self.recursive || !self.exclude.is_empty()
    }

    fn options(&self, umask: u32) -> Options {
        let recursive = self.recursive || self.archive;
        Options {
            keep: match (self.archive, self.preserve) {
                (true, _) => Keep::Everything,
                (_, true) => Keep::Basics,
                _ => Keep::Nothing,
            },
            recursive,
            follow: self.dereference || !recursive && !self.no_dereference,
            existing: match (self.no_clobber, self.update) {
                (true, _) => Existing::Stay,
                (_, true) => Existing::Update,
                _ => Existing::Overwrite,
            },
            umask,
            force: self.force,
            ..Options::default()
        }
    }
}

/// The files with a host's names of owners.
const ACCOUNTS: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The access to the host that a copy of the bytes of volumes needs.
fn access_to([source, target]: &[End; 2]) -> HostAccess {
    let mut access = HostAccess::default();
    for (end, write) in [(source, false), (target, true)] {
        match end {
            End::Volume(name) => access.add(uses_image(name, write)),
            End::File(path) => access.add(uses(&Place::Host(path.clone()), write)),
            End::Standard => {}
        }
    }
    access
}

/// Copies the bytes of a volume.
fn copy_volume(
    options: &CpArgs,
    session: &mut Session,
    [source, target]: &[End; 2],
    output: &mut Output,
) -> Result<()> {
    if options.is_about_files() {
        let shown = [source, target].into_iter().find_map(|end| match end {
            End::Volume(name) => Some(name.shown()),
            _ => None,
        });
        let shown = shown.unwrap_or_default();
        return Err(Error::Usage(format!(
            "{shown} is a volume, of which cp copies the bytes: only -v and --force go with that \
             (a place in its file system is {shown}:/PATH)"
        )));
    }
    if output.is_json() && *target == End::Standard {
        let text = "cp of a volume to standard output has no --json: the output is the data";
        return Err(Error::Usage(text.to_owned()));
    }
    let report = progress::report();
    volume_bytes::copy(session, source, target, options.force, &report)?;
    if options.verbose {
        let names = StdoutNamePrinter::new(output);
        names.copied(&report, &source.operand(), &target.operand());
        names.finish()?;
    }
    Ok(())
}

pub fn run(options: &CpArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let (places, host_pair) = match options.request() {
        CpRequest::Bytes(ends) => return copy_volume(options, session, ends, output),
        CpRequest::Files { places, host_pair } => (places, host_pair),
    };
    if let Some((source, target)) = host_pair {
        if let Some(name) = encrypted_image(session, source.clone())? {
            let ends = [End::Volume(name), target.clone()];
            return copy_volume(options, session, &ends, output);
        }
    }
    let mut places = places.clone();
    let destination = places
        .pop()
        .ok_or_else(|| Error::Usage("cp needs a source and a destination".to_owned()))?;
    if !options.force {
        check_operands(&places, &destination)?;
    }
    // The kernel can also read from an image that it has for writing.
    session.open(&destination, true)?;
    let places = expand_places(session, places, false)?;
    let excluded = Exclusion::parse(&options.exclude)?;
    let owner = match &options.chown {
        Some(text) => Some(find_owner(session, text, &destination)?),
        None => None,
    };
    let changes = Changes {
        owner,
        ..Changes::default()
    };
    let names = options.verbose.then(|| StdoutNamePrinter::new(output));
    let order = CopyRequest {
        options: options.options(session.umask()),
        changes: &changes,
        excluded: &excluded,
        names: names.as_ref().map(|names| names as &dyn NamePrinter),
        hidden: &HiddenFinder::default(),
        operand: None,
    };
    let report = progress::report();
    let result = copy(session, &order, &places, &destination, &report);
    names.map_or(Ok(()), |names| names.finish())?;
    match result? {
        Copied::All => Ok(()),
        _ => Err(Error::AlreadyReported),
    }
}

/// The owner that copies get.
fn find_owner(session: &mut Session, text: &OsStr, destination: &Place) -> Result<Owner> {
    let id = session.open(destination, true)?;
    Owner::find(text.as_bytes(), session.tree(id), destination)
}

/// Refuses operands that are all paths of the host, and partitions without a path: somebody forgot
/// to write which one is an image.
fn check_operands(sources: &[Place], destination: &Place) -> Result<()> {
    let is_host = |place: &Place| matches!(place, Place::Host(_));
    for place in sources
        .iter()
        .chain([destination])
        .filter(|place| is_host(place))
    {
        check_file_name(place.path())?;
    }
    if !sources.iter().chain([destination]).all(is_host) {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "no operand is a place in an image: write IMAGE:/PATH, as in {} (--force copies from the \
         host to the host)",
        likely_place(destination.path().as_os_str())
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;
    use std::fs;

    #[test]
    fn operands_keep_their_meaning() {
        let directory = tempfile::tempdir().unwrap();
        let top = directory.path().display();
        let source = format!("{top}/a:/x");
        let words = ["cp", &source, &format!("{top}/b.img:/")];
        let grammar = CpArgs::augment_args(clap::Command::new("cp"));
        let matches = grammar.try_get_matches_from(words).unwrap();
        let options = CpArgs::from_arg_matches(&matches).unwrap();
        let access = options.host_access();
        fs::create_dir(format!("{top}/a:")).unwrap();
        fs::write(&source, "").unwrap();
        let found = Place::find(OsStr::new(&source));
        assert!(matches!(found, Place::Host(_)), "{found:?}");
        let CpRequest::Files { places, .. } = options.request() else {
            panic!("no operand is a volume");
        };
        assert!(matches!(places[0], Place::Image(..)), "{places:?}");
        assert_eq!(options.host_access(), access);
    }
}
