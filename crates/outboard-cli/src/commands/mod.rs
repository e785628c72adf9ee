// SPDX-License-Identifier: GPL-2.0-only
//! The commands. Each has a file that holds its part of the command line and what it does.
//! All run in a session: one kernel, in which images stay mounted from one command to the next.

pub mod arguments;
mod cat;
mod chattr;
mod chmod;
mod chown;
mod columns;
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
mod hub;
mod info;
mod invocation;
mod lab;
pub mod line;
mod ln;
mod ls;
mod lsattr;
mod manual;
mod mkdir;
mod mkfs;
pub mod mount;
mod mv;
mod operands;
mod owner_names;
mod part;
pub mod progress;
mod resize;
mod rm;
mod rmdir;
mod run_script;
mod setfacl;
mod setfattr;
mod settings;
mod shell;
mod stat;
mod sync;
mod tar_in;
mod tar_out;
mod touch;
mod tree;
mod truncate;
mod verbose;

use crate::exit_code::{code_of, with_failure_code};
use crate::output::{JsonLayout, Output};
use clap::{Args, Subcommand};
use invocation::Invocation;
use outboard_error::format::escaped;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_volume::access::uses_image;
use outboard_volume::address::{check_reserved, ImageName, Place};
use outboard_volume::options::Options;
use outboard_volume::session::{with_session, Session};
use settings::CommandArgs;
use settings::SettingsGroup::{self, Images, Kernel, Sandbox, Servers, Volumes, Wildcards};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Shared options of a command whose operands may have wildcards.
const WITH_WILDCARDS: &[SettingsGroup] = &[Images, Volumes, Wildcards, Servers, Kernel, Sandbox];
/// Those of a command that works on volumes, or on files of exactly these names.
const IN_VOLUMES: &[SettingsGroup] = &[Images, Volumes, Servers, Kernel, Sandbox];
/// Those of a command that runs tools on volumes of this machine.
const BY_TOOLS: &[SettingsGroup] = &[Images, Volumes, Kernel, Sandbox];
/// Those of a command that works on whole disks of this machine.
const ON_DISKS: &[SettingsGroup] = &[Images, Kernel, Sandbox];

/// The enum of all commands, and all that differs from one to the other. `small` commands use names
/// and attributes of files alone ([`HostAccess::is_small`]).
///
/// - `uses`: the shared options of the command.
/// - `access`, or `host`: the part of the host that the command uses. A command with `access` runs
///   in a session; one with `host` has no image, needs none, and gets the options instead.
/// - The word before the function decides what `--json` means: `run` prints nothing, `prints` a
///   document, `lists` items; `writes` writes data of another form to standard output.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:literal $variant:ident($options:ty) $($small:ident)? {
        uses: $uses:expr,
        $needs:ident: $access:expr,
        $work:ident: $run:expr,
    })*) => {
        $(impl CommandArgs for $options {
            const SETTINGS: &'static [SettingsGroup] = $uses;
            const HAS_JSON: bool = !matches!(layout!($work), JsonLayout::Refused);
        })*

        #[derive(Debug, Subcommand)]
        pub enum Command {
            $($(#[$attribute])* #[command(name = $name)] $variant(Invocation<$options>),)*
        }

        impl Command {
            /// The command line of the command with this name. `None`: there is no such command.
            pub fn named(name: &str) -> Option<clap::Command> {
                match name {
                    $($name => {
                        let command = clap::Command::new($name);
                        Some(Invocation::<$options>::augment_args(command))
                    })*
                    _ => None,
                }
            }

            /// The name of the command that a word of a command line names.
            pub fn name_of(word: &str) -> Option<&'static str> {
                match word {
                    $($name => Some($name),)*
                    _ => None,
                }
            }

            /// The shared options that the command with this name uses.
            pub fn settings_of(name: &str) -> &'static [SettingsGroup] {
                match name {
                    $($name => <$options as CommandArgs>::SETTINGS,)*
                    _ => &[],
                }
            }

            /// Its name, how it prints JSON, and whether it shall.
            fn form(&self) -> (&'static str, JsonLayout, bool) {
                match self {
                    $(Command::$variant(invocation) => ($name, layout!($work), invocation.json),)*
                }
            }

            /// The host's files and rights that the command uses. It gives up all others before it
            /// runs.
            pub fn host_access(&self) -> HostAccess {
                match self {
                    $(Command::$variant(invocation) => {
                        let access: fn(&$options) -> HostAccess = $access;
                        HostAccess {
                            is_small: is_small!($($small)?),
                            ..access(&invocation.options)
                        }
                    })*
                }
            }

            fn work(&self, session: &mut Session, output: &mut Output) -> Result<()> {
                match self {
                    $(Command::$variant(invocation) => {
                        let run: work!($needs, $work, $options) = $run;
                        call!($needs, $work, run, &invocation.options, session, output)
                    })*
                }
            }

            /// Does the work of a command that has no image. `None`: it needs a session.
            fn work_on_host(&self, settings: &Options, output: &mut Output) -> Option<Result<()>> {
                match self {
                    $(Command::$variant(invocation) => {
                        let run: work!($needs, $work, $options) = $run;
                        on_host!($needs, run, &invocation.options, settings, output)
                    })*
                }
            }
        }
    };
}

macro_rules! is_small {
    () => {
        false
    };
    (small) => {
        true
    };
}

macro_rules! layout {
    (lists) => {
        JsonLayout::Items
    };
    (writes) => {
        JsonLayout::Refused
    };
    ($other:ident) => {
        JsonLayout::Document
    };
}

/// The type of the function that does a command's work.
macro_rules! work {
    (host, $work:ident, $options:ty) => { fn(&$options, &Options, &mut Output) -> Result<()> };
    (access, lists, $options:ty) => { work!(access, prints, $options) };
    (access, prints, $options:ty) => { fn(&$options, &mut Session, &mut Output) -> Result<()> };
    (access, $other:ident, $options:ty) => { fn(&$options, &mut Session) -> Result<()> };
}

macro_rules! call {
    (host, $work:ident, $run:ident, $options:expr, $session:ident, $output:ident) => {
        $run($options, $session.options(), $output)
    };
    (access, lists, $run:ident, $options:expr, $session:ident, $output:ident) => {
        $run($options, $session, $output)
    };
    (access, prints, $run:ident, $options:expr, $session:ident, $output:ident) => {
        $run($options, $session, $output)
    };
    (access, $other:ident, $run:ident, $options:expr, $session:ident, $output:ident) => {
        $run($options, $session)
    };
}

macro_rules! on_host {
    (host, $run:ident, $options:expr, $settings:ident, $output:ident) => {
        Some($run($options, $settings, $output))
    };
    (access, $run:ident, $options:expr, $settings:ident, $output:ident) => {{
        let _ = ($run, $options);
        None
    }};
}

commands! {
    "info" Info(info::InfoArgs) small {
        uses: IN_VOLUMES,
        access: |options| reads_images([&options.image]),
        prints: info::run,
    }
    "ls" Ls(ls::LsArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: ls::run,
    }
    "cat" Cat(cat::CatArgs) {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        writes: cat::run,
    }
    "stat" Stat(stat::StatArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: stat::run,
    }
    "cp" Cp(cp::CpArgs) {
        uses: WITH_WILDCARDS,
        access: cp::CpArgs::host_access,
        lists: cp::run,
    }
    "getfattr" Getfattr(getfattr::GetfattrArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: getfattr::run,
    }
    "setfattr" Setfattr(setfattr::SetfattrArgs) small {
        uses: WITH_WILDCARDS,
        access: setfattr::SetfattrArgs::host_access,
        run: setfattr::run,
    }
    "getfacl" Getfacl(getfacl::GetfaclArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: getfacl::run,
    }
    "setfacl" Setfacl(setfacl::SetfaclArgs) small {
        uses: WITH_WILDCARDS,
        access: setfacl::SetfaclArgs::host_access,
        run: setfacl::run,
    }
    "lsattr" Lsattr(lsattr::LsattrArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: lsattr::run,
    }
    "chattr" Chattr(chattr::ChattrArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: chattr::run,
    }
    "diff" Diff(diff::DiffArgs) {
        uses: IN_VOLUMES,
        access: diff::DiffArgs::host_access,
        lists: diff::run,
    }
    "edit" Edit(edit::EditArgs) {
        uses: IN_VOLUMES,
        access: edit::EditArgs::host_access,
        writes: edit::run,
    }
    "run-script" RunScript(run_script::RunScriptArgs) {
        uses: WITH_WILDCARDS,
        access: run_script::RunScriptArgs::host_access,
        writes: run_script::run,
    }
    "shell" Shell(shell::ShellArgs) {
        uses: WITH_WILDCARDS,
        access: shell::ShellArgs::host_access,
        writes: shell::run,
    }
    "mkfs" Mkfs(mkfs::MkfsArgs) {
        uses: BY_TOOLS,
        access: |options| runs_programs(&options.image),
        run: mkfs::run,
    }
    "part" Part(part::PartArgs) {
        uses: ON_DISKS,
        access: part::PartArgs::host_access,
        prints: part::run,
    }
    "fsck" Fsck(fsck::FsckArgs) {
        uses: BY_TOOLS,
        access: |options| runs_programs(&options.image),
        prints: fsck::run,
    }
    "resize" Resize(resize::ResizeArgs) {
        uses: BY_TOOLS,
        access: |options| runs_programs(&options.image),
        prints: resize::run,
    }
    "fstrim" Fstrim(fstrim::FstrimArgs) {
        uses: IN_VOLUMES,
        access: |options| writes_images(&options.images),
        lists: fstrim::run,
    }
    "mv" Mv(mv::MvArgs) small {
        uses: WITH_WILDCARDS,
        access: mv::MvArgs::host_access,
        run: mv::run,
    }
    "rm" Rm(rm::RmArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: rm::run,
    }
    "mkdir" Mkdir(mkdir::MkdirArgs) small {
        uses: IN_VOLUMES,
        access: |options| writes_images(&options.places),
        run: mkdir::run,
    }
    "rmdir" Rmdir(rmdir::RmdirArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: rmdir::run,
    }
    "ln" Ln(ln::LnArgs) small {
        uses: IN_VOLUMES,
        access: |options| writes_images(&options.operands),
        run: ln::run,
    }
    "chmod" Chmod(chmod::ChmodArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: chmod::run,
    }
    "chown" Chown(chown::ChownArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: chown::run,
    }
    "touch" Touch(touch::TouchArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(options.places.iter().chain(&options.reference)),
        run: touch::run,
    }
    "truncate" Truncate(truncate::TruncateArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: truncate::run,
    }
    "find" Find(find::FindArgs) {
        uses: WITH_WILDCARDS,
        access: find::FindArgs::host_access,
        lists: find::run,
    }
    "tree" Tree(tree::TreeArgs) {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: tree::run,
    }
    "du" Du(du::DuArgs) {
        uses: WITH_WILDCARDS,
        access: |options| reads_images(&options.places),
        lists: du::run,
    }
    "df" Df(df::DfArgs) small {
        uses: IN_VOLUMES,
        access: |options| reads_images(&options.images),
        prints: df::run,
    }
    "sync" Sync(sync::SyncArgs) small {
        uses: WITH_WILDCARDS,
        access: |options| writes_images(&options.places),
        run: sync::run,
    }
    "tar-in" TarIn(tar_in::TarInArgs) {
        uses: IN_VOLUMES,
        access: tar_in::TarInArgs::host_access,
        run: tar_in::run,
    }
    "tar-out" TarOut(tar_out::TarOutArgs) {
        uses: WITH_WILDCARDS,
        access: tar_out::TarOutArgs::host_access,
        prints: tar_out::run,
    }
    "mount" Mount(mount::MountArgs) {
        uses: IN_VOLUMES,
        access: mount::MountArgs::host_access,
        run: mount::run,
    }
    "umount" Umount(mount::umount::UmountArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        run: |options, _, _| mount::umount::run(options),
    }
    "lab" Lab(lab::LabArgs) {
        uses: &[],
        host: |_| outside_of_the_sandbox(),
        prints: |options, _, output| lab::run(options, output),
    }
    "hub" Hub(hub::HubArgs) {
        uses: &[Sandbox],
        host: |_| outside_of_the_sandbox(),
        run: |options, settings, _| hub::run(options, settings),
    }
    "components" Components(components::ComponentsArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        prints: |_, _, output| components::run(output),
    }
    "completions" Completions(completions::CompletionsArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| completions::run(options),
    }
    #[command(hide = true)]
    "manual" Manual(manual::ManualArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| manual::run(options),
    }
}

impl Command {
    /// Whether a program that it starts gets open files that this process was given: the key of a
    /// mount.
    pub fn hands_files_on(&self) -> bool {
        matches!(self, Command::Mount(mount) if mount.options.role == mount::MountRole::Keeper)
    }

    /// The exit code of its failures.
    pub fn failure_code(&self) -> u8 {
        match self {
            Command::Diff(_) => diff::FAILED,
            Command::Fsck(_) => fsck::FAILED,
            _ => 1,
        }
    }

    /// Runs the command as a line of others.
    pub fn run_line(&self, session: &mut Session) -> Result<()> {
        with_failure_code(self.failure_code(), || {
            let mut output = self.output()?;
            let checked = self.check_images(&self.host_access());
            let done = checked.and_then(|()| self.run(session, &mut output));
            let done = session.unless_older(done);
            let ended = output.end(done);
            ended.map_err(|error| match error {
                Error::Told => Error::Status(code_of(&error)),
                other => other,
            })
        })
    }

    /// Its output, before it begins.
    pub fn output(&self) -> Result<Output> {
        match self.form() {
            (name, layout, true) => Output::json(Some(name), layout),
            (_, _, false) => Output::new(),
        }
    }

    /// Runs the command, the only one of the process, in a session if it needs one. The process
    /// must end next.
    pub fn run_alone(
        &self,
        options: Options,
        access: &HostAccess,
        output: &mut Output,
    ) -> Result<()> {
        self.check_layout()?;
        options
            .disks
            .iter()
            .try_for_each(|disk| check_reserved(disk))?;
        self.check_images(access)?;
        match self.work_on_host(&options, output) {
            Some(worked) => worked.and_then(|()| output.flush()),
            None => with_session(options, access, |session| self.run(session, output)),
        }
    }

    /// Refuses images whose names are reserved. The lines of a script do that, one by one.
    fn check_images(&self, access: &HostAccess) -> Result<()> {
        let mut images = access.images.iter();
        match self {
            Command::RunScript(_) => Ok(()),
            _ => images.try_for_each(|(file, _)| check_reserved(file)),
        }
    }

    /// Refuses --json for a command that prints data of another form.
    fn check_layout(&self) -> Result<()> {
        match self.form() {
            (name, JsonLayout::Refused, true) => Err(Error::Usage(format!(
                "{name} has no --json: its standard output is data of another form"
            ))),
            _ => Ok(()),
        }
    }

    /// Runs the command in a session. Its changes to images are durable after [`Session::finish`].
    fn run(&self, session: &mut Session, output: &mut Output) -> Result<()> {
        self.check_layout()?;
        let worked = self.work(session, output);
        let done = worked.and_then(|()| output.flush());
        let Err(error) = done else {
            return Ok(());
        };
        session.note_missing_inodes();
        let access = self.host_access();
        let written = access.images.iter().filter(|(_, write)| *write);
        let written = written.map(|(path, _)| path).chain(&access.writes);
        let written: Vec<&Path> = written.map(PathBuf::as_path).collect();
        session.note_missing_host_inodes(&written);
        let images = access.images.iter().map(|(path, _)| path);
        let files = images.chain(&access.reads).chain(&access.writes);
        Err(error.about_named(files.map(|path| path.as_os_str().as_bytes().to_vec())))
    }
}

fn uses_images<'a>(operands: impl IntoIterator<Item = &'a OsString>, write: bool) -> HostAccess {
    let mut access = HostAccess::default();
    for operand in operands {
        access.add(uses_image_of(&Place::find(operand), write));
    }
    access
}

/// The access of a command that takes a place in an image, or an image by its own name.
fn uses_image_of(place: &Place, write: bool) -> HostAccess {
    match place {
        Place::Image(name, _) => uses_image(name, write),
        Place::Host(path) => uses_image(&ImageName::find(path.as_os_str()), write),
    }
}

/// The access of a command that only reads in images. Operands: places in them, or their own names.
fn reads_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, false)
}

/// The access of a command that changes images.
fn writes_images<'a>(operands: impl IntoIterator<Item = &'a OsString>) -> HostAccess {
    uses_images(operands, true)
}

/// The access of a command that runs other programs on an image. It is sandboxed only for the work
/// that it does with the kernel: [`apart`](outboard_volume::session::apart).
fn runs_programs(image: &OsString) -> HostAccess {
    HostAccess {
        outside: true,
        ..writes_images([image])
    }
}

/// The access of a command without an image whose child processes do the work, each in a sandbox
/// or without an image.
fn outside_of_the_sandbox() -> HostAccess {
    HostAccess {
        outside: true,
        ..HostAccess::default()
    }
}

/// An operand that must be in an image.
fn image_place(operand: &OsStr) -> Result<Place> {
    in_image(&Place::find(operand))
}

/// Refuses a path of the host.
fn in_image(place: &Place) -> Result<Place> {
    match place {
        Place::Host(path) => {
            check_file_name(path)?;
            Err(Error::Usage(format!(
                "{} is not a place in an image: write IMAGE:/PATH, as in {}",
                path.display(),
                likely_place(path.as_os_str())
            )))
        }
        place => Ok(place.clone()),
    }
}

/// Refuses the name of a file that is not there if it names a partition of a file that is.
fn check_file_name(path: &Path) -> Result<()> {
    let name = ImageName::find(path.as_os_str());
    if name.partition.is_none() || name.volume.is_some() || !is_image_file(&name.file) {
        return Ok(());
    }
    let shown = name.shown();
    Err(Error::Usage(format!(
        "{shown} is a partition, not a place in it: \":/\" is missing, as in {shown}:/"
    )))
}

/// The place that a user may have meant with another text: IMAGE, "IMAGE:" or "IMAGE:PATH", or a
/// path inside of some image.
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

/// Whether a path leads to a file that can be an image.
fn is_image_file(path: &Path) -> bool {
    let may_be_image = |file: Metadata| file.is_file() || file.file_type().is_block_device();
    path.metadata().is_ok_and(may_be_image)
}
