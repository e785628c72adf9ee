// SPDX-License-Identifier: GPL-2.0-only
//! `outboard tar-in`.

use crate::commands::{check_file_name, image_place, progress, writes_images};
use clap::Args;
use outboard_sandbox::error::Result;
use outboard_sandbox::HostAccess;
use outboard_transfer::tar::input::{unpack, Input, NAMES};
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Unpack a tar archive into a directory of an image
///
/// Archives of v7, ustar, GNU and PAX format, also compressed with gzip, zstd or xz. Everything that they
/// have is kept: numeric owners, modes, times, extended attributes, ACLs, labels, hard links, devices, holes.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  outboard tar-in disk.img@1:/ < root.tar\n  outboard tar-in disk.img:/srv site.tar.zst\n  tar -c -C tree . | outboard tar-in disk.img:/"
)]
pub struct TarIn {
    /// The directory: IMAGE:/DIR or IMAGE@N:/DIR
    #[arg(value_name = "IMAGE:/DIR")]
    pub place: OsString,
    /// The archive [default: standard input]
    #[arg(value_name = "ARCHIVE")]
    pub archive: Option<OsString>,
    /// The archive, as for tar
    #[arg(
        short,
        long = "file",
        value_name = "ARCHIVE",
        conflicts_with = "archive"
    )]
    pub file: Option<OsString>,
    /// Do not replace a symbolic link to a directory by a directory of the archive
    #[arg(long)]
    pub keep_directory_symlink: bool,
}

impl TarIn {
    pub fn host_access(&self) -> HostAccess {
        let mut access = writes_images([&self.place]);
        let archives = self.archive.iter().chain(&self.file);
        let files = archives.filter(|archive| *archive != "-");
        access.reads.extend(files.map(PathBuf::from));
        access.reads.extend(NAMES.map(PathBuf::from));
        access
    }
}

pub fn run(options: &TarIn, session: &mut Session) -> Result<()> {
    let place = image_place(&options.place)?;
    let archive = options.file.as_deref().or(options.archive.as_deref());
    archive.map_or(Ok(()), |path| check_file_name(Path::new(path)))?;
    let input = Input::open(archive)?;
    session
        .used()
        .check_source(input.metadata.as_ref(), &input.name)?;
    unpack(
        session,
        input,
        &place,
        &place.shown(),
        options.keep_directory_symlink,
        progress::report,
    )
}
