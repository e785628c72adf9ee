// SPDX-License-Identifier: GPL-2.0-only
//! `outboard server`: a kernel that other processes use, and the commands for its owner.
//!
//! | process | is | does |
//! |---|---|---|
//! | the command | what the user has started | with `--daemon`: waits until the server serves |
//! | the keeper | the command, or in the background | makes and removes sockets, sees signals |
//! | the server | in the sandbox | has the kernel, and all connections |

mod allow_option;
pub mod certificates;
pub mod dmesg;
pub mod halt;
mod keeper;
mod place_option;
pub mod processes;
pub mod status;
pub mod url;

use super::access::outside_of_the_sandbox;
use super::root_options::{defaults, RootOptions};
use super::run::PreparedRun;
use super::socket_activation::for_port;
use crate::exit_code::CommandStatus;
use allow_option::{parse_allow, AllowedUser};
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use keeper::KeptServer;
use outboard::ListeningSocket;
use outboard_error::size::parse_size;
use outboard_error::{Error, Result};
use outboard_protocol::frames::RunAnswer;
use outboard_sandbox::HostAccess;
use outboard_server::PeerRules;
use outboard_transfer::login;
use outboard_volume::access::uses_image;
use outboard_volume::container_image::RunDefaults;
use outboard_volume::options::Options;
use outboard_volume::program::{ProgramCommand, ServerRequest, VolumePlace, FAILED};
use outboard_volume::server_ends::{ServerEnds, WaitingForEnd};
use outboard_volume::session::Session;
use place_option::parse_place;
use std::ffi::OsString;
use url::{is_url, parse_url, ServerUrl};

/// Share one kernel among processes: its programs, mounts and networks
#[derive(Args, Debug)]
#[command(
    long_about = "Share one kernel among processes. Programs run on it by \"outboard run --on \
                  URL\": they have one set of mounts, interfaces and processes. The image or \
                  directory is their root, and stays as it is unless --rw or --overlay is given. \
                  Without one, the kernel runs no programs. The server ends by SIGTERM, SIGINT or \
                  \"outboard halt URL\".",
    after_help = "Examples:\
                  \n  outboard server --daemon debian.img unix:/run/lab/kernel\
                  \n  outboard run --on unix:/run/lab/kernel -- ip addr\
                  \n  outboard halt unix:/run/lab/kernel\
                  \n  outboard server --root ./rootfs --mount data.img:/srv --allow ann=1000 unix:k"
)]
pub struct ServerArgs {
    /// The image with the root of programs, as for run; then the addresses at which the server
    /// listens, such as unix:/run/lab/kernel
    #[arg(value_name = "[IMAGE] URL...", required = true, num_args = 1..)]
    pub operands: Vec<OsString>,
    #[command(flatten)]
    pub root: RootOptions,
    /// Mount a further volume at PATH; may be repeated
    #[arg(long, value_name = "VOLUME:/PATH", conflicts_with = "overlay",
          value_parser = OsStringValueParser::new().try_map(parse_place))]
    pub mount: Vec<VolumePlace>,
    /// Let another user of the host use the server, as the user INSIDE, in numbers: USER or
    /// USER:GROUP [default: 65534]; may be repeated
    #[arg(long, value_name = "USER[=INSIDE]", value_parser = parse_allow)]
    pub allow: Vec<AllowedUser>,
    /// Most memory of the kernel for a client of the library, with its copies [default: a quarter
    /// of the kernel's]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub client_memory: Option<u64>,
    /// Leave the server running in the background; the command ends when the server can be used
    #[arg(long)]
    pub daemon: bool,
    /// Which of the processes this is
    #[arg(
        long,
        hide = true,
        value_enum,
        default_value = "command",
        overrides_with = "role"
    )]
    pub role: ServerRole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ServerRole {
    Command,
    Keeper,
    Server,
}

impl ServerArgs {
    fn is_server(&self) -> bool {
        self.role == ServerRole::Server
    }

    /// The image, if there is one.
    fn image(&self) -> Option<&OsString> {
        self.operands.first().filter(|first| !is_url(first))
    }

    /// The addresses. An error if a word is none, or if a root has two sources.
    fn urls(&self) -> Result<Vec<ServerUrl>> {
        let image = self.image();
        if let (Some(image), Some(_)) = (image, &self.root.root) {
            return Err(Error::Usage(format!(
                "{}: programs have one root: an image or --root",
                image.to_string_lossy()
            )));
        }
        let words = &self.operands[usize::from(image.is_some())..];
        if words.is_empty() {
            return Err(Error::Usage(
                "a server needs an address: add one, such as unix:/run/lab/kernel".to_owned(),
            ));
        }
        let parse = |word: &OsString| {
            let wrong = |text| Error::Usage(format!("{}: {text}", word.to_string_lossy()));
            parse_url(word.clone()).map_err(wrong)
        };
        words.iter().map(parse).collect()
    }

    /// The needs of the server itself.
    pub fn host_access(&self) -> HostAccess {
        if !self.is_server() {
            return outside_of_the_sandbox();
        }
        let mut access = self.root.host_access(self.image());
        for place in &self.mount {
            access.add(uses_image(&place.volume, self.root.rw));
        }
        access.serves_clients = true;
        access
    }

    /// Does the work of a process that is not the server. `None`: it is.
    pub fn work_outside(&self, options: &mut Options) -> Option<Result<CommandStatus>> {
        if self.is_server() {
            return None;
        }
        let mut keep = || {
            let kept = KeptServer {
                urls: self.urls()?,
                is_shared: !self.allow.is_empty(),
                is_in_background: self.daemon,
            };
            match self.role {
                ServerRole::Command if self.daemon => keeper::start(),
                _ => keeper::run(&kept, options),
            }
        };
        Some(keep().map(CommandStatus::from))
    }

    /// Before the sandbox, in the server: takes its sockets from the keeper, finds users, and makes
    /// the overlay.
    pub fn prepare(&self, options: &mut Options) -> Result<PreparedRun> {
        let failed = |error| Error::failed("cannot use a socket of systemd", &error);
        let allowed: Result<_> = self.allow.iter().map(AllowedUser::find).collect();
        let (ends, passed) = ServerEnds::receive(PeerRules::new(allowed?), &self.urls()?)?;
        let mut sockets = Vec::new();
        for socket in passed {
            let socket = ListeningSocket::new(socket).map_err(failed)?;
            sockets.push(for_port(socket, &self.root.publish)?);
        }
        Ok(PreparedRun {
            new_overlay: self.root.prepare_overlay(self.image(), options)?,
            sockets,
            server: Some(ends),
        })
    }
}

/// Serves, in the process of the server.
pub fn run(options: &ServerArgs, session: &mut Session) -> Result<()> {
    let source = options.root.source(options.image());
    let of_image = source.as_ref().map(|source| defaults(source, session));
    let request = ServerRequest {
        source,
        command: command(options, of_image.unwrap_or_default()),
        write: options.root.writes(),
        volumes: options.mount.clone(),
        client_memory: options.client_memory,
    };
    session.serve(request)
}

/// The settings of all programs.
fn command(options: &ServerArgs, of_image: RunDefaults) -> ProgramCommand {
    ProgramCommand {
        program: OsString::new(),
        arguments: Vec::new(),
        environment: of_image.environment,
        binds: options.root.bind.clone(),
        directory: of_image.directory,
        user: of_image.user,
        find_login: login::find,
        stop_signal: None,
        wants_terminal: false,
        idle_exit: None,
    }
}

/// Tells those who have asked for the server's end how it went.
pub fn tell(waiting: &WaitingForEnd, result: &Result<CommandStatus>) {
    let answer = match result {
        Ok(_) => RunAnswer::Ended(0),
        Err(error) => RunAnswer::Failed {
            reason: error.message().unwrap_or("the server failed").to_owned(),
            code: FAILED,
        },
    };
    waiting.tell(&answer);
}
