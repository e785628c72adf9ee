// SPDX-License-Identifier: GPL-2.0-only
//! The commands. Each has a file that holds its part of the command line and what it does.
//! All run in a session: one kernel, in which images stay mounted from one command to the next.

mod access;
mod background;
mod bind_option;
mod cat;
mod chattr;
mod chmod;
mod chown;
mod columns;
mod completions;
mod components;
mod connected_program;
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
mod image_operands;
mod info;
mod invocation;
mod keeper;
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
mod port_option;
mod program_options;
pub mod progress;
mod resize;
mod rm;
mod rmdir;
mod root_options;
mod run;
mod run_script;
mod server;
mod setfacl;
mod setfattr;
mod settings;
mod shell;
mod socket_activation;
mod stat;
mod sync;
mod tar_in;
mod tar_out;
mod touch;
mod tree;
mod truncate;
mod verbose;

use crate::exit_code::{with_failure_code, CommandStatus};
use crate::output::{JsonLayout, Output};
use crate::process_state::process_state;
use access::{
    outside_of_the_sandbox, reads_images, runs_programs, uses_image_of, uses_images, writes_images,
};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use image_operands::{about, check_file_name, image_place, in_image, is_image_file, likely_place};
use invocation::Invocation;
use line::{CommandSet, LineCommand, LineError};
use outboard::{profile, release, version};
use outboard_build::oci;
use outboard_error::{Error, Result};
use outboard_sandbox::HostAccess;
use outboard_volume::address::check_reserved;
use outboard_volume::container_image::{check_disk_image, is_container_image};
use outboard_volume::control_socket::ControlSocket;
use outboard_volume::new_overlay::NewOverlay;
use outboard_volume::options::Options;
use outboard_volume::server_ends::ServerEnds;
use outboard_volume::session::{with_session, Session};
use run::PreparedRun;
use settings::SettingsGroup::{
    self, Images, Kernel, Network, Sandbox, Servers, Volumes, Wildcards,
};
use settings::{check_used, CommandArgs, Settings};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Open, read and write disk images with Linux's own file systems, without root.
///
/// A place inside an image is written IMAGE:/PATH, IMAGE@N:/PATH for partition N, and
/// IMAGE@NAME:/PATH for a volume that "outboard info" names. PATH may have wildcards: *, ?, [a-z].
/// Everything without ":/" is a path of the host, or an image or volume where a command takes one.
#[derive(Debug, Parser)]
#[command(name = "outboard", version = version_text(), max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The command line for help, manual pages, completions and lines of scripts: a command has
    /// only the shared options that it uses.
    pub fn grammar() -> clap::Command {
        Self::command().mut_args(|argument| argument.global(false))
    }

    /// Parses a command line, as [`Parser::try_parse_from`] does. To build the command lines of all
    /// commands takes longer than to boot the kernel, so those of other commands are left out at
    /// first. Help and errors need all of them.
    pub fn of(words: &[OsString]) -> std::result::Result<Self, clap::Error> {
        let mut grammar = few_commands(words);
        let matches = grammar.try_get_matches_from_mut(words).or_else(|_| {
            grammar = Self::grammar();
            grammar.try_get_matches_from_mut(words)
        })?;
        if let Some(name) = matches.subcommand_name() {
            check_used(&mut grammar, &matches, name, Command::settings_of(name))?;
        }
        Self::from_arg_matches(&matches)
    }
}

/// The command line with the commands that one of the words names. Each takes all shared options:
/// [`check_used`] then knows which of them the command does not use.
fn few_commands(words: &[OsString]) -> clap::Command {
    let mut names: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    names.sort_unstable();
    names.dedup();
    let commands = names.into_iter().filter_map(Command::named);
    Settings::augment_args(clap::Command::new("outboard"))
        .subcommand_required(true)
        .subcommands(commands)
}

fn version_text() -> String {
    format!("{} (Linux {}, profile {})", version(), release(), profile())
}

/// All commands, for those that run or describe others.
const COMMANDS: CommandSet = CommandSet {
    grammar: Arguments::grammar,
    parse: |matches| {
        let parsed = Arguments::from_arg_matches(matches)?;
        Ok((parsed.settings, Box::new(parsed.command)))
    },
};

/// Shared options of a command whose operands may have wildcards.
const WITH_WILDCARDS: &[SettingsGroup] = &[
    Images, Volumes, Wildcards, Network, Servers, Kernel, Sandbox,
];
/// Those of a command that works on volumes, or on files of exactly these names.
const IN_VOLUMES: &[SettingsGroup] = &[Images, Volumes, Network, Servers, Kernel, Sandbox];
/// Those of a command that runs tools on volumes of this machine.
const BY_TOOLS: &[SettingsGroup] = &[Images, Volumes, Kernel, Sandbox];
/// Those of a command that runs programs of a volume of this machine.
const FOR_PROGRAMS: &[SettingsGroup] = &[Images, Volumes, Network, Kernel, Sandbox];
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

            fn work(&self, session: &mut Session, output: &mut Output) -> Result<CommandStatus> {
                match self {
                    $(Command::$variant(invocation) => {
                        let run: work!($needs, $work, $options) = $run;
                        call!($needs, $work, run, &invocation.options, session, output)
                            .map(CommandStatus::from)
                    })*
                }
            }

            /// Does the work of a command that has no image. `None`: it needs a session.
            fn work_on_host(
                &self,
                settings: &Options,
                output: &mut Output,
            ) -> Option<Result<CommandStatus>> {
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
    (host, $work:ident, $options:ty) => { fn(&$options, &Options, &mut Output) -> Result<_> };
    (access, lists, $options:ty) => { work!(access, prints, $options) };
    (access, prints, $options:ty) => { fn(&$options, &mut Session, &mut Output) -> Result<_> };
    (access, $other:ident, $options:ty) => { fn(&$options, &mut Session) -> Result<_> };
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
        Some($run($options, $settings, $output).map(CommandStatus::from))
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
    "run" Run(run::RunArgs) {
        uses: FOR_PROGRAMS,
        access: run::RunArgs::host_access,
        writes: run::run,
    }
    "run-script" RunScript(run_script::RunScriptArgs) {
        uses: WITH_WILDCARDS,
        access: |options| options.host_access(&COMMANDS),
        writes: |options, session| run_script::run(options, session, &COMMANDS),
    }
    "shell" Shell(shell::ShellArgs) {
        uses: WITH_WILDCARDS,
        access: shell::ShellArgs::host_access,
        writes: |options, session| shell::run(options, session, &COMMANDS),
    }
    "mkfs" Mkfs(mkfs::MkfsArgs) {
        uses: BY_TOOLS,
        access: |options| runs_programs(&options.image),
        run: |options, session| mkfs::run(options, session).map_err(about(&options.image)),
    }
    "part" Part(part::PartArgs) {
        uses: ON_DISKS,
        access: part::PartArgs::host_access,
        prints: |options, session, output| {
            part::run(options, session, output).map_err(about(&options.image))
        },
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
    "ps" Ps(background::ps::PsArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        lists: |options, _, output| background::ps::run(options, output),
    }
    "exec" Exec(background::exec::ExecArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| background::exec::run(options),
    }
    "logs" Logs(background::logs::LogsArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| background::logs::run(options),
    }
    "stop" Stop(background::stop::StopArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        run: |options, _, _| background::stop::run(options),
    }
    "server" Server(server::ServerArgs) {
        uses: FOR_PROGRAMS,
        access: server::ServerArgs::host_access,
        run: server::run,
    }
    "status" Status(server::status::StatusArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        prints: |options, _, output| server::status::run(options, output),
    }
    "dmesg" Dmesg(server::dmesg::DmesgArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| server::dmesg::run(options),
    }
    "halt" Halt(server::halt::HaltArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        run: |options, _, _| server::halt::run(options),
    }
    "certificates" Certificates(server::certificates::CertificatesArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        run: |options, _, _| server::certificates::run(options),
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
        writes: |options, _, _| completions::run(options, Arguments::grammar()),
    }
    #[command(hide = true)]
    "manual" Manual(manual::ManualArgs) {
        uses: &[],
        host: |_| HostAccess::default(),
        writes: |options, _, _| manual::run(options, Arguments::grammar()),
    }
}

impl Command {
    /// Whether a program that it starts gets open files that this process was given: the key of a
    /// mount.
    pub fn hands_files_on(&self) -> bool {
        matches!(self, Command::Mount(mount) if mount.options.role == mount::MountRole::Keeper)
    }

    /// Whether this is the process of a run in the background.
    fn is_in_background(&self) -> bool {
        matches!(self, Command::Run(run) if run.options.in_background)
    }

    /// Whether it passes signals on to a program, whose end decides about the exit code.
    pub fn passes_signals_on(&self) -> bool {
        match self {
            Command::Run(run) => !run.options.is_starter(),
            Command::Exec(_) => true,
            _ => false,
        }
    }

    /// The exit code of its failures.
    pub fn failure_code(&self) -> u8 {
        match self {
            Command::Diff(_) => diff::FAILED,
            Command::Fsck(_) => fsck::FAILED,
            Command::Run(_) | Command::Exec(_) => run::FAILED,
            _ => 1,
        }
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
        mut options: Options,
        access: &HostAccess,
        output: &mut Output,
    ) -> Result<CommandStatus> {
        self.check_layout()?;
        options
            .disks
            .iter()
            .try_for_each(|disk| check_reserved(disk))?;
        self.check_images(access)?;
        if let Some(done) = self.work_outside(&mut options) {
            return done;
        }
        let prepared = self.prepare(&mut options)?;
        let new_overlay = prepared.new_overlay.clone();
        let waiting = prepared.server.as_ref().map(ServerEnds::waiting);
        if let Some(worked) = self.work_on_host(&options, output) {
            let status = worked?;
            return output.flush().map(|()| status);
        }
        let done = self.run_in_session(options, access, output, prepared);
        // The image is closed.
        new_overlay.iter().for_each(NewOverlay::remove);
        waiting
            .iter()
            .for_each(|waiting| server::tell(waiting, &done));
        done
    }

    fn run_in_session(
        &self,
        mut options: Options,
        access: &HostAccess,
        output: &mut Output,
        prepared: PreparedRun,
    ) -> Result<CommandStatus> {
        make_ready(&mut options, access)?;
        let mut process = process_state(&options, access);
        process.new_overlay = prepared.new_overlay;
        process.sockets = prepared.sockets;
        process.server = prepared.server;
        if self.is_in_background() {
            process.control = Some(ControlSocket::open()?);
        }
        with_session(options, access, process, |session| {
            self.run(session, output)
        })
    }

    /// Does the work of a process of a server that has no kernel. `None`: another command.
    fn work_outside(&self, options: &mut Options) -> Option<Result<CommandStatus>> {
        match self {
            Command::Server(server) => server.options.work_outside(options),
            _ => None,
        }
    }

    /// Makes the files that the command opens as images, before the sandbox. From then on,
    /// `options` open them.
    fn prepare(&self, options: &mut Options) -> Result<PreparedRun> {
        match self {
            Command::Run(run) => run.options.prepare(options),
            Command::Server(server) => server.options.prepare(options),
            _ => Ok(PreparedRun::default()),
        }
    }

    /// Refuses, in a script, a command that needs a process of its own, or makes its images: the
    /// sandbox is closed.
    fn check_line(&self) -> Result<()> {
        match self {
            Command::Run(run) => run.options.check_line(),
            Command::Server(_) => Err(Error::Usage(
                "server is a command of its own, not a line of a script: run it alone".to_owned(),
            )),
            _ => Ok(()),
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
    fn run(&self, session: &mut Session, output: &mut Output) -> Result<CommandStatus> {
        self.check_layout()?;
        let worked = self.work(session, output);
        let done = worked.and_then(|status| output.flush().map(|()| status));
        if done.is_ok() {
            return done;
        }
        session.note_missing_inodes();
        let access = self.host_access();
        let written = access.images.iter().filter(|(_, write)| *write);
        let written = written.map(|(path, _)| path).chain(&access.writes);
        let written: Vec<&Path> = written.map(PathBuf::as_path).collect();
        session.note_missing_host_inodes(&written);
        done
    }
}

/// Makes the images of containers ready that a command uses.
fn make_ready(options: &mut Options, access: &HostAccess) -> Result<()> {
    let files = access.images.iter().map(|(file, _)| file);
    for file in files.filter(|file| is_container_image(file)) {
        if access.outside {
            check_disk_image(file)?;
        }
        let is_confined = !options.no_sandbox;
        let image = oci::prepare(file, is_confined)?;
        options.container_images.push(image);
    }
    Ok(())
}

impl LineCommand for Command {
    fn host_access(&self) -> HostAccess {
        Command::host_access(self)
    }

    fn run_line(&self, session: &mut Session) -> std::result::Result<(), LineError> {
        with_failure_code(self.failure_code(), || {
            let mut output = self.output()?;
            let checked = self.check_images(&self.host_access());
            let checked = checked.and_then(|()| self.check_line());
            let done = checked.and_then(|()| self.run(session, &mut output));
            let done = session.unless_older(done);
            match output.end(done)? {
                CommandStatus::SUCCESS => Ok(()),
                status => Err(LineError::Status(status)),
            }
        })
    }
}

#[cfg(test)]
mod tests;
