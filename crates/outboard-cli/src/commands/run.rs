// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run`.

use super::access::outside_of_the_sandbox;
use super::background::{named::parse_name, start};
use super::bind_option::parse_bind;
use super::port_option::parse_port;
use super::program_options::ProgramOptions;
use super::socket_activation;
use crate::exit_code::{set_failure_code, CommandStatus};
use crate::process_state::umask;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::{Error, ErrorKind, Failure, Result};
use outboard_sandbox::{HostAccess, HostPort, PassedSocket};
use outboard_transfer::login;
use outboard_volume::access::uses_image;
use outboard_volume::address::ImageName;
use outboard_volume::container_image::{check_disk_image, RunDefaults};
use outboard_volume::host_bind::HostBind;
use outboard_volume::new_overlay::NewOverlay;
use outboard_volume::options::Options;
use outboard_volume::overlay_file;
pub use outboard_volume::program::FAILED;
use outboard_volume::program::{IdleExit, ProgramCommand, RootSource};
use outboard_volume::session::Session;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

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
    #[command(flatten)]
    pub how: ProgramOptions,
    /// Leave the program running in the background, and print the name of the run
    #[arg(short, long)]
    pub detach: bool,
    /// End the run when nobody has used it for a time: no connection to a port of -p, and no exec
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub exit_idle_time: Option<u32>,
    /// The name of the run, for exec, logs and stop [default: the program's]
    #[arg(long, requires = "detach", value_parser = parse_name)]
    pub name: Option<String>,
    /// This is the process in the background
    #[arg(long, hide = true)]
    pub in_background: bool,
    /// Of the image of a container: run PROGRAM with the arguments behind --, instead of the entry
    /// point of the image; empty: no entry point
    #[arg(long, value_name = "PROGRAM")]
    pub entrypoint: Option<OsString>,
    /// The program, a path in the image or a name, and its arguments; the image of a container has
    /// an entry point, and a default
    #[arg(last = true, value_name = "PROGRAM")]
    pub program: Vec<OsString>,
}

/// Parts of a run that come from before the sandbox.
#[derive(Default)]
pub struct PreparedRun {
    /// The overlay, if it was made.
    pub new_overlay: Option<NewOverlay>,
    /// In the place of ports.
    pub sockets: Vec<PassedSocket>,
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

    /// Before the sandbox: takes sockets that were passed, and makes the overlay, which `options`
    /// open then.
    pub fn prepare(&self, options: &mut Options) -> Result<PreparedRun> {
        if self.exit_idle_time.is_some() && self.publish.is_empty() && !self.detach {
            return Err(Error::Usage(
                "--exit-idle-time is for runs that others use: add -d, or -p for a server"
                    .to_owned(),
            ));
        }
        if self.is_starter() && !socket_activation::numbers()?.is_empty() {
            return Err(Error::Usage(
                "systemd passes sockets to a run in the foreground: leave out -d".to_owned(),
            ));
        }
        let mut prepared = PreparedRun {
            sockets: socket_activation::take(&self.publish, &mut options.inherited)?,
            new_overlay: None,
        };
        let image = self.image.as_ref().filter(|_| !self.is_starter());
        if let (Some(overlay), Some(image)) = (&self.overlay, image) {
            let image = ImageName::find(image);
            check_disk_image(&image.file)?;
            prepared.new_overlay = overlay_file::prepare(overlay, &image.file, options, umask())?;
        }
        Ok(prepared)
    }

    /// Refuses what no line of a script can do.
    pub fn check_line(&self) -> Result<()> {
        let option = match &self.overlay {
            Some(_) => "--overlay",
            None if self.detach => "--detach",
            None if self.exit_idle_time.is_some() => "--exit-idle-time",
            None => return Ok(()),
        };
        Err(Error::Usage(format!(
            "run {option} is a command of its own, not a line of a script: run it alone"
        )))
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

    fn idle_exit(&self) -> Option<IdleExit> {
        let seconds = self.exit_idle_time?;
        let tcp = self.publish.iter().filter(|port| !port.udp);
        Some(IdleExit {
            time: Duration::from_secs(seconds.into()),
            ports: tcp.map(|port| port.port).collect(),
            has_udp: self.publish.iter().any(|port| port.udp),
        })
    }

    /// Whether the command starts another process that does the work.
    pub fn is_starter(&self) -> bool {
        self.detach && !self.in_background
    }

    pub fn host_access(&self) -> HostAccess {
        if self.is_starter() {
            return outside_of_the_sandbox();
        }
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
    if options.is_starter() {
        let name = options.name.as_deref();
        return start::run(name, source.shown().as_ref(), &options.program);
    }
    let defaults = defaults(&source, session);
    let mut words = options.words(&defaults).into_iter();
    let program = words.next().ok_or_else(|| no_program(&source))?;
    let given = options.how.variables();
    let command = ProgramCommand {
        program,
        arguments: words.collect(),
        environment: defaults.environment.into_iter().chain(given).collect(),
        directory: options.how.workdir.clone().or(defaults.directory),
        stop_signal: defaults.stop_signal,
        user: options.how.user.clone().or(defaults.user),
        find_login: login::find,
        wants_terminal: options.how.tty,
        binds: options.bind.clone(),
        idle_exit: options.idle_exit(),
    };
    let ended = session.run_program(&source, command.clone(), options.writes());
    ended
        .map(CommandStatus::from)
        .map_err(|error| options.advised(error))
        .inspect_err(|error| set_failure_code(command.failure_code(error)))
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
