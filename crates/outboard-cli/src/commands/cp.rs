// SPDX-License-Identifier: GPL-2.0-only
//! `outboard cp`: copies files between any two trees, of images or of the host.

use crate::commands::{check_file_name, likely_place, progress, uses};
use clap::Args;
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_transfer::cp::{copy, Changes, Copied, Options};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::ffi::OsString;

/// Copy files into, out of and between images
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard cp [OPTIONS] <SRC>... <DST>",
    after_help = "Examples:\n  outboard cp disk.img:/etc/hostname .\n  outboard cp -a rootfs/. disk.img@1:/\n  outboard cp -a old.img:/home new.img:/\n  outboard cp notes.txt stick.img@1:/docs/"
)]
pub struct Cp {
    /// What to copy, and last where to: host paths, IMAGE:/PATH, IMAGE@N:/PATH
    #[arg(required = true, num_args = 2.., value_names = ["SRC", "DST"])]
    pub places: Vec<OsString>,
    /// Copy directories with all that is in them, and keep owners, modes, times, links, holes, attributes, devices
    #[arg(short)]
    pub archive: bool,
    /// Copy directories with all that is in them
    #[arg(short, short_alias = 'R')]
    pub recursive: bool,
    /// Overwrite files of the host that look like disk images, and copy between paths of the host alone
    #[arg(long)]
    pub force: bool,
}

impl Cp {
    pub fn host_access(&self) -> HostAccess {
        let mut access = HostAccess::default();
        for (index, operand) in self.places.iter().enumerate() {
            let last = index + 1 == self.places.len();
            access.add(uses(&Place::find(operand), last));
        }
        access.keeps_attributes = self.archive;
        access.makes_nodes = (self.recursive || self.archive) && !access.writes.is_empty();
        access
    }
}

pub fn run(options: &Cp, session: &mut Session) -> Result<()> {
    let mut places: Vec<Place> = options
        .places
        .iter()
        .map(|operand| Place::find(operand))
        .collect();
    let destination = places
        .pop()
        .ok_or_else(|| Error::Usage("cp needs a source and a destination".to_owned()))?;
    if !options.force {
        check_operands(&places, &destination)?;
    }
    let how = Options {
        archive: options.archive,
        recursive: options.recursive || options.archive,
        umask: session.umask(),
        sorted: false,
        may_be_full: false,
        force: options.force,
    };
    let unchanged = Changes::default();
    match copy(
        session,
        how,
        &unchanged,
        &places,
        &destination,
        None,
        progress::report,
    )? {
        Copied::All => Ok(()),
        _ => Err(Error::Told),
    }
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
        "no operand is a place in an image: write IMAGE:/PATH, as in {} (--force copies from the host to the host)",
        likely_place(destination.path().as_os_str())
    )))
}
