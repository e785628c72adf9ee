// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run`.

use super::bind_option::parse_bind;
use super::port_option::parse_port;
use crate::exit_code::{set_failure_code, CommandStatus};
use crate::process_state::umask;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::{Error, ErrorKind, Failure, Result};
use outboard_sandbox::{HostAccess, HostPort};
use outboard_transfer::login;
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::container_image::{check_disk_image, RunDefaults};
use outboard_volume::host_bind::HostBind;
use outboard_volume::options::Options;
use outboard_volume::overlay_file;
use outboard_volume::program::{ProgramCommand, RootSource};
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

/// The exit code of failures of the command itself, as of env(1) and chroot(1).
pub const FAILED: u8 = 125;
/// The program cannot be run.
const NOT_RUN: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// Run a program of an image or directory, which is its root
#[derive(Args, Debug)]
#[command(
    long_about = "Run a program of an image or directory, which is its root. The image or \
                  directory stays as it is, unless --rw is given: all changes lie in memory, and \
                  go with the program; --overlay keeps them in a file. Ends with the program's \
                  exit code, or with 128 and the number of the signal that ended it; 125: the \
                  command failed; 126: the program cannot be run; 127: there is none.",
    after_help = "Examples:\
                  \n  outboard run debian.img -- cat /etc/debian_version\
                  \n  outboard run disk.img@2 -- sh -c 'ls -l / | wc -l'\
                  \n  outboard run --root ./rootfs -- sh -c 'echo a > /b; ls /'\
                  \n  outboard run oci:./debian:12\
                  \n  outboard run --bind ./site:/srv:ro debian.img -- ls /srv\
                  \n  outboard run --rw --user www-data debian.img -- bash\
                  \n  outboard run --overlay changes.qcow2 debian.img -- apt-get install nginx"
)]
pub struct RunArgs {
    /// The image, and a volume of it: IMAGE, IMAGE@N or IMAGE@NAME; or the image of a container:
    /// oci:DIR[:TAG] or docker-archive:FILE[:TAG]
    #[arg(value_name = "IMAGE", required_unless_present = "root")]
    pub image: Option<OsString>,
    /// Run a program of a directory of the host, with the directory as its root, instead of an
    /// image
    #[arg(long, value_name = "DIR", conflicts_with = "image")]
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
    /// The user that the program runs as: numbers, or names of the image [default: root]
    #[arg(short, long, value_name = "USER[:GROUP]")]
    pub user: Option<OsString>,
    /// The directory in which the program begins, a path in the image [default: /]
    #[arg(short, long, value_name = "DIR")]
    pub workdir: Option<OsString>,
    /// Set a variable of the program's environment; without a value, to that of the caller; may be
    /// repeated
    #[arg(short, long, value_name = "NAME[=VALUE]", value_parser = parse_variable)]
    pub env: Vec<Variable>,
    /// Give the program a terminal, also if standard input and output are none
    #[arg(short, long)]
    pub tty: bool,
    /// Pass standard input on, as always: for those who are used to type -it
    #[arg(short, long)]
    pub interactive: bool,
    /// Of the image of a container: run PROGRAM with the arguments behind --, instead of the entry
    /// point of the image; empty: no entry point
    #[arg(long, value_name = "PROGRAM")]
    pub entrypoint: Option<OsString>,
    /// The program, a path in the image or a name, and its arguments; the image of a container has
    /// an entry point, and a default
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// A variable of the environment. `None`: the caller has none of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable(Option<(OsString, OsString)>);

fn parse_variable(text: &str) -> std::result::Result<Variable, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(OsString::from(value))),
        None => (text, std::env::var_os(text)),
    };
    if name.is_empty() {
        return Err("a variable has a name, as in LANG=C".to_owned());
    }
    Ok(Variable(value.map(|value| (name.into(), value))))
}

impl RunArgs {
    fn source(&self) -> RootSource {
        match (&self.root, &self.image) {
            (Some(path), _) => RootSource::Directory(path.clone()),
            (None, image) => {
                let image = image.as_ref().expect("clap requires one");
                RootSource::Volume(self.opened(ImageName::find(image)))
            }
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
    fn writes(&self) -> bool {
        self.rw || self.overlay.is_some()
    }

    /// Before the sandbox: makes the overlay. Returns how it is opened.
    pub fn prepare(&self, mut options: Options) -> Result<Options> {
        if let (Some(overlay), Some(image)) = (&self.overlay, &self.image) {
            let image = ImageName::find(image);
            check_disk_image(&image.file)?;
            overlay_file::prepare(overlay, &image.file, &mut options, umask())?;
        }
        Ok(options)
    }

    /// An overlay is of no use where nothing can be written.
    fn advised(&self, error: Error) -> Error {
        if self.overlay.is_none() || error.kind() != ErrorKind::ReadOnly {
            return error;
        }
        let advise = |failure: Failure| {
            let advice = "without --overlay, changes lie in memory";
            let text = format!("{}; {advice}", failure.message());
            failure.with_message(text).into()
        };
        error.into_failure().map_or_else(|other| other, advise)
    }

    /// The command line: the entry point, then what is run by it.
    fn words(&self, defaults: &RunDefaults) -> Vec<OsString> {
        let entry_point = match &self.entrypoint {
            Some(given) if given.is_empty() => Vec::new(),
            Some(given) => vec![given.clone()],
            None => defaults.entry_point.clone(),
        };
        let command = match (&self.program[..], &self.entrypoint) {
            ([], None) => &defaults.command[..],
            (given, _) => given,
        };
        [&entry_point, command].concat()
    }

    pub fn host_access(&self) -> HostAccess {
        let mut access = match self.source() {
            RootSource::Volume(name) => uses_image(&name, self.writes()),
            RootSource::Directory(path) => uses_directory(path, self.rw),
        };
        access.runs_programs = true;
        access.ports.clone_from(&self.publish);
        self.bind
            .iter()
            .for_each(|bind| bind.add_access(&mut access));
        access
    }
}

pub fn run(options: &RunArgs, session: &mut Session) -> Result<CommandStatus> {
    let source = options.source();
    let defaults = defaults(&source, session);
    let mut words = options.words(&defaults).into_iter();
    let program = words.next().ok_or_else(|| no_program(&source))?;
    let given = options.env.iter().flat_map(|set| set.0.clone());
    let mut command = ProgramCommand {
        program: program.clone(),
        arguments: words.collect(),
        environment: defaults.environment.into_iter().chain(given).collect(),
        directory: options.workdir.clone().or(defaults.directory),
        stop_signal: defaults.stop_signal,
        login: None,
        wants_terminal: options.tty,
        binds: options.bind.clone(),
    };
    if let Some(user) = options.user.clone().or(defaults.user) {
        let shown = source.shown();
        let find = move |tree: &_| login::find(user.as_bytes(), tree, &shown);
        command.login = Some(Box::new(find));
    }
    let ended = session.run_program(&source, &command, options.writes());
    ended
        .map(status_of)
        .map_err(|error| options.advised(error))
        .inspect_err(|error| note_kind(error, &program))
}

/// How the image says that its program is run.
fn defaults(source: &RootSource, session: &Session) -> RunDefaults {
    let mut images = session.options().container_images.iter();
    let found = match source {
        RootSource::Volume(name) => images.find(|image| image.name == name.file),
        RootSource::Directory(_) => None,
    };
    found.map_or_else(RunDefaults::default, |image| image.defaults.clone())
}

fn no_program(source: &RootSource) -> Error {
    let text = "there is no program to run: write -- PROGRAM at the end";
    Error::Usage(format!("{}: {text}", source.shown()))
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

fn status_of(status: ExitStatus) -> CommandStatus {
    let signal = || 128 + status.signal().unwrap_or_default();
    CommandStatus(status.code().unwrap_or_else(signal) as u8)
}

/// An error about the program itself has a code of its own.
fn note_kind(error: &Error, program: &OsString) {
    if error.path() != Some(program.as_ref()) {
        return;
    }
    set_failure_code(match error.kind() {
        ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUN,
    });
}
