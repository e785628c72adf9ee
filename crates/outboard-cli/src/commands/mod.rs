// SPDX-License-Identifier: GPL-2.0-only
//! The commands. Each has a file that holds its part of the command line and what it does.
//! All run in a session: one kernel, in which images stay mounted from one command to the next.

pub mod arguments;
mod cat;
mod chattr;
mod chmod;
mod chown;
mod completions;
mod components;
mod cp;
mod descend;
mod df;
mod diff;
mod du;
mod dump;
mod each;
mod edit;
mod find;
mod fsck;
mod fstrim;
mod getfacl;
mod getfattr;
mod info;
mod line;
mod ln;
mod ls;
mod lsattr;
mod manual;
mod mkdir;
mod mkfs;
pub mod mount;
mod mv;
mod part;
mod progress;
mod resize;
mod rm;
mod rmdir;
mod run_script;
mod setfacl;
mod setfattr;
mod shell;
mod stat;
mod sync;
mod tar_in;
mod tar_out;
mod touch;
mod tree;
mod truncate;

use clap::{Args, Subcommand};
use outboard_sandbox::error::{Error, Result};
use outboard_sandbox::format::escaped;
use outboard_sandbox::HostAccess;
use outboard_volume::address::{ImageName, Place};
use outboard_volume::session::Session;
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// The enum of all commands, and how the command line of one is built without those of the others.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:literal $variant:ident($options:ty),)*) => {
        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$attribute])* #[command(name = $name)] $variant($options),)*
        }

        impl Command {
            /// The command line of the command with this name. `None`: there is no such command.
            pub fn named(name: &str) -> Option<clap::Command> {
                match name {
                    $($name => Some(<$options>::augment_args(clap::Command::new($name))),)*
                    _ => None,
                }
            }
        }
    };
}

commands! {
    "info" Info(info::Info),
    "ls" Ls(ls::Ls),
    "cat" Cat(cat::Cat),
    "stat" Stat(stat::Stat),
    "cp" Cp(cp::Cp),
    "getfattr" Getfattr(getfattr::Getfattr),
    "setfattr" Setfattr(setfattr::Setfattr),
    "getfacl" Getfacl(getfacl::Getfacl),
    "setfacl" Setfacl(setfacl::Setfacl),
    "lsattr" Lsattr(lsattr::Lsattr),
    "chattr" Chattr(chattr::Chattr),
    "diff" Diff(diff::Diff),
    "edit" Edit(edit::Edit),
    "run-script" RunScript(run_script::RunScript),
    "shell" Shell(shell::Shell),
    "mkfs" Mkfs(mkfs::Mkfs),
    "part" Part(part::Part),
    "fsck" Fsck(fsck::Fsck),
    "resize" Resize(resize::Resize),
    "fstrim" Fstrim(fstrim::Fstrim),
    "mv" Mv(mv::Mv),
    "rm" Rm(rm::Rm),
    "mkdir" Mkdir(mkdir::Mkdir),
    "rmdir" Rmdir(rmdir::Rmdir),
    "ln" Ln(ln::Ln),
    "chmod" Chmod(chmod::Chmod),
    "chown" Chown(chown::Chown),
    "touch" Touch(touch::Touch),
    "truncate" Truncate(truncate::Truncate),
    "find" Find(find::Find),
    "tree" Tree(tree::Tree),
    "du" Du(du::Du),
    "df" Df(df::Df),
    "sync" Sync(sync::Sync),
    "tar-in" TarIn(tar_in::TarIn),
    "tar-out" TarOut(tar_out::TarOut),
    "mount" Mount(mount::Mount),
    "umount" Umount(mount::umount::Umount),
    "components" Components(components::Components),
    "completions" Completions(completions::Completions),
    #[command(hide = true)]
    "manual" Manual(manual::Manual),
}

impl Command {
    /// Whether a program that it starts gets open files that this process was given: the key of a mount.
    pub fn hands_files_on(&self) -> bool {
        matches!(self, Command::Mount(mount) if mount.role == mount::Role::Keeper)
    }

    /// What the command uses of the host. All else it gives up before it runs.
    pub fn host_access(&self) -> HostAccess {
        HostAccess {
            is_small: self.is_small(),
            ..self.access()
        }
    }

    /// See [`HostAccess::is_small`].
    fn is_small(&self) -> bool {
        matches!(
            self,
            Command::Info(_)
                | Command::Ls(_)
                | Command::Stat(_)
                | Command::Getfattr(_)
                | Command::Setfattr(_)
                | Command::Getfacl(_)
                | Command::Setfacl(_)
                | Command::Lsattr(_)
                | Command::Chattr(_)
                | Command::Df(_)
                | Command::Mv(_)
                | Command::Rm(_)
                | Command::Mkdir(_)
                | Command::Rmdir(_)
                | Command::Ln(_)
                | Command::Chmod(_)
                | Command::Chown(_)
                | Command::Touch(_)
                | Command::Truncate(_)
                | Command::Sync(_)
        )
    }

    fn access(&self) -> HostAccess {
        match self {
            Command::Info(options) => reads_images([&options.image]),
            Command::Ls(options) => reads_images(&options.places),
            Command::Cat(options) => reads_images(&options.places),
            Command::Stat(options) => reads_images(&options.places),
            Command::Cp(options) => options.host_access(),
            Command::Getfattr(options) => reads_images(&options.places),
            Command::Setfattr(options) => options.host_access(),
            Command::Getfacl(options) => reads_images(&options.places),
            Command::Setfacl(options) => options.host_access(),
            Command::Lsattr(options) => reads_images(&options.places),
            Command::Chattr(options) => writes_images(&options.places),
            Command::Diff(options) => options.host_access(),
            Command::Edit(options) => options.host_access(),
            Command::RunScript(options) => options.host_access(),
            Command::Shell(options) => options.host_access(),
            Command::Mkfs(options) => runs_programs(&options.image),
            Command::Part(options) => options.host_access(),
            Command::Fsck(options) => runs_programs(&options.image),
            Command::Resize(options) => runs_programs(&options.image),
            Command::Fstrim(options) => writes_images(&options.images),
            Command::Mount(options) => options.host_access(),
            Command::TarIn(options) => options.host_access(),
            Command::TarOut(options) => options.host_access(),
            Command::Mv(options) => writes_images(&options.places),
            Command::Rm(options) => writes_images(&options.places),
            Command::Mkdir(options) => writes_images(&options.places),
            Command::Rmdir(options) => writes_images(&options.places),
            Command::Ln(options) => writes_images(&options.operands),
            Command::Chmod(options) => writes_images(&options.places),
            Command::Chown(options) => writes_images(&options.places),
            Command::Touch(options) => {
                writes_images(options.places.iter().chain(&options.reference))
            }
            Command::Truncate(options) => writes_images(&options.places),
            Command::Find(options) => options.host_access(),
            Command::Tree(options) => reads_images(&options.places),
            Command::Du(options) => reads_images(&options.places),
            Command::Df(options) => reads_images(&options.images),
            Command::Sync(options) => writes_images(&options.places),
            Command::Umount(_)
            | Command::Components(_)
            | Command::Completions(_)
            | Command::Manual(_) => HostAccess::default(),
        }
    }

    /// Runs the command. What it wrote is safe after [`Session::finish`].
    pub fn run(&self, session: &mut Session) -> Result<()> {
        let done = self.work(session);
        if done.is_err() {
            session.note_missing_inodes();
            let access = self.access();
            let images = access.images.iter().filter(|(_, write)| *write);
            let images = images.map(|(path, _)| path);
            let paths: Vec<&Path> = images.chain(&access.writes).map(PathBuf::as_path).collect();
            session.note_missing_host_inodes(&paths);
        }
        done
    }

    fn work(&self, session: &mut Session) -> Result<()> {
        match self {
            Command::Info(options) => info::run(options, session),
            Command::Ls(options) => ls::run(options, session),
            Command::Cat(options) => cat::run(options, session),
            Command::Stat(options) => stat::run(options, session),
            Command::Cp(options) => cp::run(options, session),
            Command::Getfattr(options) => getfattr::run(options, session),
            Command::Setfattr(options) => setfattr::run(options, session),
            Command::Getfacl(options) => getfacl::run(options, session),
            Command::Setfacl(options) => setfacl::run(options, session),
            Command::Lsattr(options) => lsattr::run(options, session),
            Command::Chattr(options) => chattr::run(options, session),
            Command::Diff(options) => diff::run(options, session),
            Command::Edit(options) => edit::run(options, session),
            Command::RunScript(options) => run_script::run(options, session),
            Command::Shell(options) => shell::run(options, session),
            Command::Mkfs(options) => mkfs::run(options, session),
            Command::Part(options) => part::run(options, session),
            Command::Fsck(options) => fsck::run(options, session),
            Command::Resize(options) => resize::run(options, session),
            Command::Fstrim(options) => fstrim::run(options, session),
            Command::Mv(options) => mv::run(options, session),
            Command::Rm(options) => rm::run(options, session),
            Command::Mkdir(options) => mkdir::run(options, session),
            Command::Rmdir(options) => rmdir::run(options, session),
            Command::Ln(options) => ln::run(options, session),
            Command::Chmod(options) => chmod::run(options, session),
            Command::Chown(options) => chown::run(options, session),
            Command::Touch(options) => touch::run(options, session),
            Command::Truncate(options) => truncate::run(options, session),
            Command::Find(options) => find::run(options, session),
            Command::Tree(options) => tree::run(options, session),
            Command::Du(options) => du::run(options, session),
            Command::Df(options) => df::run(options, session),
            Command::Sync(options) => sync::run(options, session),
            Command::TarIn(options) => tar_in::run(options, session),
            Command::TarOut(options) => tar_out::run(options, session),
            Command::Mount(options) => mount::run(options, session),
            Command::Umount(options) => mount::umount::run(options),
            Command::Components(options) => components::run(options),
            Command::Completions(options) => completions::run(options),
            Command::Manual(options) => manual::run(options),
        }
    }
}

/// What is needed to use a place.
fn uses(place: &Place, write: bool) -> HostAccess {
    let mut access = HostAccess::default();
    match place {
        Place::Image(name, _) => access.images.push((name.file.clone(), write)),
        Place::Host(path) if write => access.writes.push(path.clone()),
        Place::Host(path) => access.reads.push(path.clone()),
    }
    access
}

/// What is needed to work with an image.
fn uses_image(name: &ImageName, write: bool) -> HostAccess {
    uses(&Place::Image(name.clone(), "/".into()), write)
}

fn uses_images<'a>(operands: impl IntoIterator<Item = &'a OsString>, write: bool) -> HostAccess {
    let mut access = HostAccess::default();
    for operand in operands {
        let name = match Place::find(operand) {
            Place::Image(name, _) => name,
            Place::Host(_) => ImageName::find(operand),
        };
        access.images.push((name.file, write));
    }
    access
}

/// What a command needs that only reads in images. Operands: places in them, or their own names.
fn reads_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, false)
}

/// What a command needs that changes images.
fn writes_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, true)
}

/// What a command needs that has other programs work on an image. It is shut in, but for the work that it does with
/// the kernel: [`apart`](outboard_volume::session::apart).
fn runs_programs(image: &OsString) -> HostAccess {
    HostAccess {
        programs: true,
        ..writes_images([image])
    }
}

/// An operand that must be in an image.
fn image_place(operand: &OsStr) -> Result<Place> {
    match Place::find(operand) {
        Place::Host(path) => {
            check_file_name(&path)?;
            Err(Error::Usage(format!(
                "{} is not a place in an image: write IMAGE:/PATH, as in {}",
                path.display(),
                likely_place(operand)
            )))
        }
        place => Ok(place),
    }
}

/// Refuses the name of a file that is not there if it names a partition of a file that is.
fn check_file_name(path: &Path) -> Result<()> {
    let name = ImageName::find(path.as_os_str());
    let may_be_image = |file: Metadata| file.is_file() || file.file_type().is_block_device();
    let is_there = name.file.metadata().is_ok_and(may_be_image);
    if name.partition.is_none() || name.volume.is_some() || !is_there {
        return Ok(());
    }
    let shown = name.shown();
    Err(Error::Usage(format!(
        "{shown} is a partition, not a place in it: \":/\" is missing, as in {shown}:/"
    )))
}

/// What somebody may have meant who wrote something else than a place: IMAGE, "IMAGE:" or "IMAGE:PATH", or a path inside of some image.
fn likely_place(operand: &OsStr) -> String {
    let bytes = operand.as_bytes();
    let colon = bytes.iter().rposition(|&byte| byte == b':');
    let is_image = |&at: &usize| {
        let name = ImageName::find(OsStr::from_bytes(&bytes[..at]));
        name.file.symlink_metadata().is_ok()
    };
    let is_place = |at: &usize| at + 1 == bytes.len() || is_image(at);
    let (image, path) = match colon.filter(is_place) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None if bytes.starts_with(b"/") && !Path::new(operand).is_file() => {
            return format!("disk.img:{}", escaped(bytes));
        }
        None => (bytes, &bytes[..0]),
    };
    format!("{}:/{}", escaped(image), escaped(path))
}

/// Operands that must be in images.
fn image_places(operands: &[OsString]) -> Result<Vec<Place>> {
    let places = operands.iter().map(|operand| image_place(operand));
    places.collect()
}
