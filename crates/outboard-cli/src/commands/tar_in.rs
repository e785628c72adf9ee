// SPDX-License-Identifier: GPL-2.0-only
//! `outboard tar-in`.

use crate::commands::{about, check_file_name, in_image, progress, uses_image_of};
use clap::Args;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::exclusion::Exclusion;
use outboard_transfer::tar::input::{unpack, ArchiveInput, NAMES};
use outboard_transfer::tar::{find_owner, Options, Selection};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::cell::OnceCell;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Unpack a tar archive into a directory of an image
///
/// tar-in reads archives of v7, ustar, GNU and PAX format, also compressed with gzip, zstd or xz.
/// It keeps everything in them: numeric owners, modes, times, extended attributes, ACLs, labels,
/// hard links, devices, holes.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard tar-in disk.img@1:/ < root.tar\
                        \n  outboard tar-in disk.img:/srv site.tar.zst\
                        \n  outboard tar-in --strip-components=1 --no-same-owner disk.img:/src -f \
                        linux.tar.xz\
                        \n  outboard tar-in disk.img:/ root.tar etc/fstab etc/ssh\
                        \n  tar -c -C tree . | outboard tar-in disk.img:/")]
pub struct TarInArgs {
    /// The directory: IMAGE:/DIR or IMAGE@N:/DIR
    #[arg(value_name = "IMAGE:/DIR")]
    pub place: OsString,
    /// The archive, unless -f names it ("-", or none: standard input), and then the members to
    /// unpack, with everything below them [default: all]
    #[arg(value_names = ["ARCHIVE", "MEMBER"])]
    pub words: Vec<OsString>,
    /// The archive, as for tar
    #[arg(short, long = "file", value_name = "ARCHIVE")]
    pub file: Option<OsString>,
    /// Unpack into this directory below IMAGE:/DIR, as for tar
    #[arg(short = 'C', long, value_name = "DIR")]
    pub directory: Option<OsString>,
    /// Remove N leading components from the names of members; skip members without a name then
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub strip_components: usize,
    /// Leave out members that match this pattern of the shell, as tar does; may be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<OsString>,
    /// The owner of everything: USER, USER:GROUP, :GROUP, or USER: for the user's login group;
    /// numbers, or names of the image
    #[arg(long, value_name = "OWNER")]
    pub owner: Option<OsString>,
    /// The group of everything: a number, or a name of the image
    #[arg(long, value_name = "GROUP")]
    pub group: Option<OsString>,
    /// Ignore owners and groups of the archive: files get those of new files, and no set-user-ID
    /// and set-group-ID bits
    #[arg(long, conflicts_with_all = ["owner", "group"])]
    pub no_same_owner: bool,
    /// Do not replace a symbolic link to a directory with a directory of the archive
    #[arg(long)]
    pub keep_directory_symlink: bool,
    /// The place, parsed once: a file that appears later does not change its meaning.
    #[arg(skip)]
    parsed: OnceCell<Place>,
}

impl TarInArgs {
    fn parsed(&self) -> &Place {
        self.parsed.get_or_init(|| Place::find(&self.place))
    }

    pub fn host_access(&self) -> HostAccess {
        let mut access = uses_image_of(self.parsed(), true);
        access
            .reads
            .extend(self.file_of_archive().map(PathBuf::from));
        access.reads.extend(NAMES.map(PathBuf::from));
        access
    }

    fn archive(&self) -> Option<&OsString> {
        self.file.as_ref().or(self.words.first())
    }

    /// `None`: the archive comes from standard input.
    fn file_of_archive(&self) -> Option<&OsString> {
        self.archive().filter(|archive| *archive != "-")
    }

    fn members(&self) -> &[OsString] {
        match &self.file {
            Some(_) => &self.words,
            None => self.words.get(1..).unwrap_or_default(),
        }
    }

    /// The selection of members and how to unpack them. Opens the place.
    fn selection(&self, session: &mut Session, place: &Place) -> Result<Selection> {
        let id = session.open(place, true)?;
        let (user, group) = (self.owner.as_deref(), self.group.as_deref());
        let mut selection = Selection::of(self.members())?;
        selection.excluded = Exclusion::parse(&self.exclude)?;
        selection.strip = self.strip_components;
        selection.owner = find_owner(user, group, session.tree(id), place)?;
        selection.no_owner = self.no_same_owner;
        Ok(selection)
    }
}

pub fn run(options: &TarInArgs, session: &mut Session) -> Result<()> {
    let mut place = in_image(options.parsed())?;
    if let Some(directory) = &options.directory {
        place = place.below(directory.as_bytes());
    }
    let archive = options.archive().map(OsString::as_os_str);
    archive.map_or(Ok(()), |path| check_file_name(Path::new(path)))?;
    let input = ArchiveInput::open(archive)?;
    let of_archive = |error: Error| match options.file_of_archive() {
        Some(path) => about(path)(error),
        None => error,
    };
    let used = session.used();
    used.check_source(input.metadata.as_ref(), &input.name)
        .map_err(of_archive)?;
    let selection = options.selection(session, &place)?;
    let how = Options {
        threads: session.vcpus(),
        keep_links: options.keep_directory_symlink,
        selection: &selection,
    };
    unpack(
        session,
        input,
        &place,
        &place.operand(),
        how,
        progress::report,
    )
    .map_err(of_archive)
}
