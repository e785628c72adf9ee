// SPDX-License-Identifier: GPL-2.0-only
//! The options of commands that make a root for programs: what it shows, and what stays of it.

use super::bind_option::parse_bind;
use super::port_option::parse_port;
use crate::process_state::umask;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::Result;
use outboard_sandbox::{HostAccess, HostPort};
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::container_image::{check_disk_image, RunDefaults};
use outboard_volume::host_bind::HostBind;
use outboard_volume::new_overlay::NewOverlay;
use outboard_volume::options::Options;
use outboard_volume::overlay_file;
use outboard_volume::program::RootSource;
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct RootOptions {
    /// Take a directory of the host as the root of programs, instead of an image
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Show a directory or a file of the host to programs at PATH; :ro: for reading only; may be
    /// repeated
    #[arg(long, value_name = "HOST:/PATH[:ro]",
          value_parser = OsStringValueParser::new().try_map(parse_bind))]
    pub bind: Vec<HostBind>,
    /// Lead a port of the host, of 127.0.0.1 unless ADDRESS is given, to a port of the programs;
    /// HOSTPORT 0: a free one; may be repeated
    #[arg(short, long, value_name = "[ADDRESS:]HOSTPORT:PORT[/udp]", value_parser = parse_port)]
    pub publish: Vec<HostPort>,
    /// Write changes to the image, which nobody else may use meanwhile, or to the directory of
    /// --root
    #[arg(long, conflicts_with = "read_only")]
    pub rw: bool,
    /// Keep changes in FILE, a qcow2 image over IMAGE, which stays as it is: FILE is made if there
    /// is none
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rw", "read_only", "disks", "root"])]
    pub overlay: Option<PathBuf>,
}

impl RootOptions {
    /// The source of the root; `None`: nobody has named one.
    pub fn source(&self, image: Option<&OsString>) -> Option<RootSource> {
        match &self.root {
            Some(path) => Some(RootSource::Directory(path.clone())),
            None => image.map(|image| RootSource::Volume(self.opened(ImageName::find(image)))),
        }
    }

    /// The volume of the image, or of the overlay over it.
    fn opened(&self, image: ImageName) -> ImageName {
        match &self.overlay {
            Some(overlay) => ImageName {
                file: overlay.clone(),
                ..image
            },
            None => image,
        }
    }

    /// Whether changes stay.
    pub fn writes(&self) -> bool {
        self.rw || self.overlay.is_some()
    }

    /// Before the sandbox: makes the overlay, which `options` open then.
    pub fn prepare_overlay(
        &self,
        image: Option<&OsString>,
        options: &mut Options,
    ) -> Result<Option<NewOverlay>> {
        let (Some(overlay), Some(image)) = (&self.overlay, image) else {
            return Ok(None);
        };
        let image = ImageName::find(image);
        check_disk_image(&image.file)?;
        overlay_file::prepare(overlay, &image.file, options, umask())
    }

    /// The access that the root needs, and what it shows.
    pub fn host_access(&self, image: Option<&OsString>) -> HostAccess {
        let mut access = match self.source(image) {
            Some(RootSource::Volume(name)) => uses_image(&name, self.writes()),
            Some(RootSource::Directory(path)) => uses_directory(path, self.rw),
            None => HostAccess::default(),
        };
        access.runs_programs = true;
        access.ports.clone_from(&self.publish);
        self.bind
            .iter()
            .for_each(|bind| bind.add_access(&mut access));
        access
    }
}

/// How the image of a container says that its program is run.
pub fn defaults(source: &RootSource, session: &Session) -> RunDefaults {
    let mut images = session.options().container_images.iter();
    let found = match source {
        RootSource::Volume(name) => images.find(|image| image.name == name.file),
        RootSource::Directory(_) => None,
    };
    found.map_or_else(RunDefaults::default, |image| image.defaults.clone())
}

/// The access that a root directory needs. One that is not there needs none: the directory above
/// it would be changed.
fn uses_directory(path: PathBuf, write: bool) -> HostAccess {
    let mut access = HostAccess::default();
    match (path.is_dir(), write) {
        (true, true) => access.writes.push(path),
        (true, false) => access.reads.push(path),
        (false, _) => {}
    }
    access
}
