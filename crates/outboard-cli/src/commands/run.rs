// SPDX-License-Identifier: GPL-2.0-only
//! `outboard run`.

use super::access::outside_of_the_sandbox;
use super::background::{named::parse_name, start};
use super::connected_program;
use super::program_options::ProgramOptions;
use super::root_options::{defaults, RootOptions};
use super::server::url::{connect, parse_url, ServerUrl};
use super::socket_activation;
use crate::exit_code::{set_failure_code, CommandStatus};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::Args;
use outboard_error::{Error, ErrorKind, Failure, Result};
use outboard_sandbox::{HostAccess, PassedSocket};
use outboard_transfer::login;
use outboard_volume::container_image::RunDefaults;
use outboard_volume::new_overlay::NewOverlay;
use outboard_volume::options::Options;
pub use outboard_volume::program::FAILED;
use outboard_volume::program::{IdleExit, ProgramCommand, RootSource};
use outboard_volume::server_ends::ServerEnds;
use outboard_volume::session::Session;
use std::ffi::OsString;
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
                  \n  outboard run --overlay changes.qcow2 debian.img -- apt-get install nginx\
                  \n  outboard run --on unix:/run/lab/kernel -- ip addr"
)]
pub struct RunArgs {
    /// The image, and a volume of it: IMAGE, IMAGE@N or IMAGE@NAME; or the image of a container:
    /// oci:DIR[:TAG] or docker-archive:FILE[:TAG]
    #[arg(value_name = "IMAGE", required_unless_present_any = ["root", "on"],
          conflicts_with = "root")]
    pub image: Option<OsString>,
    #[command(flatten)]
    pub root: RootOptions,
    /// Run the program on a server (outboard server), with the server's kernel and root
    #[arg(long, value_name = "URL", value_parser = OsStringValueParser::new().try_map(parse_url),
          conflicts_with_all = ["image", "root", "bind", "publish", "rw", "overlay", "detach",
                                "exit_idle_time", "entrypoint"])]
    pub on: Option<ServerUrl>,
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
    /// All that a server has of its keeper.
    pub server: Option<ServerEnds>,
}

impl RunArgs {
    fn source(&self) -> RootSource {
        let source = self.root.source(self.image.as_ref());
        source.expect("clap requires one")
    }

    /// The server that runs the program, and none of its options are of a kernel here.
    fn check_on(&self, options: &Options) -> Result<()> {
        let of_this_process = Options {
            inherited: options.inherited.clone(),
            verbose: options.verbose,
            ..Options::default()
        };
        if self.on.is_none() || *options == of_this_process {
            return Ok(());
        }
        Err(Error::Usage(
            "run --on uses the server's kernel, which has its options from outboard server: leave \
             out those of the kernel and of images"
                .to_owned(),
        ))
    }

    /// Before the sandbox: takes sockets that were passed, and makes the overlay, which `options`
    /// open then.
    pub fn prepare(&self, options: &mut Options) -> Result<PreparedRun> {
        self.check_on(options)?;
        if self.exit_idle_time.is_some() && self.root.publish.is_empty() && !self.detach {
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
        let image = self.image.as_ref().filter(|_| !self.is_starter());
        Ok(PreparedRun {
            sockets: socket_activation::take(&self.root.publish, &mut options.inherited)?,
            new_overlay: self.root.prepare_overlay(image, options)?,
            server: None,
        })
    }

    /// Refuses what no line of a script can do.
    pub fn check_line(&self) -> Result<()> {
        let option = match &self.root.overlay {
            Some(_) => "--overlay",
            None if self.on.is_some() => "--on",
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
        if self.root.overlay.is_none() || error.kind() != ErrorKind::ReadOnly {
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
        let tcp = self.root.publish.iter().filter(|port| !port.udp);
        Some(IdleExit {
            time: Duration::from_secs(seconds.into()),
            ports: tcp.map(|port| port.port).collect(),
            has_udp: self.root.publish.iter().any(|port| port.udp),
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
        if self.on.is_some() {
            return HostAccess::default();
        }
        self.root.host_access(self.image.as_ref())
    }
}

pub fn run(options: &RunArgs, session: &mut Session) -> Result<CommandStatus> {
    if let Some(url) = &options.on {
        return connected_program::run(connect(url)?, &options.how, &options.program);
    }
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
        binds: options.root.bind.clone(),
        idle_exit: options.idle_exit(),
    };
    let ended = session.run_program(&source, command.clone(), options.root.writes());
    ended
        .map(CommandStatus::from)
        .map_err(|error| options.advised(error))
        .inspect_err(|error| set_failure_code(command.failure_code(error)))
}

fn no_program(source: &RootSource) -> Error {
    let text = "there is no program to run: write -- PROGRAM at the end";
    Error::Usage(format!("{}: {text}", source.shown()))
}
