// SPDX-License-Identifier: GPL-2.0-only
//! A server: a kernel that runs until it is asked to end.
//!
//! | thread | does |
//! |---|---|
//! | of the keeper | waits for the end of the channel to the keeper: the server has to end |
//! | of each socket, of each connection | those of `outboard-server` |
//! | the caller | waits for a reason to end, and ends all |

use super::children::Children;
use super::command::ProgramCommand;
use super::control::FurtherPrograms;
use super::ends::ProgramEnds;
use super::patience::PATIENCE;
use super::root_source::RootSource;
use super::server_programs::{EndAsked, KernelPrograms};
use super::start::ProgramRun;
use crate::address::ImageName;
use crate::new_overlay::NewOverlay;
use crate::port_gates::PortGates;
use crate::server_ends::{ServerEnds, ServerReady};
use crate::session::Session;
use outboard::{Mount, MountPlace};
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_server::{ClientLimits, ClientServer, Connections, KernelService};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::Arc;
use std::thread;

/// A volume at a place of the programs' root, or of the kernel's own tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePlace {
    /// The volume.
    pub volume: ImageName,
    /// An absolute path.
    pub path: PathBuf,
}

/// A server to start.
pub struct ServerRequest {
    /// The root of programs; `None`: there are none.
    pub source: Option<RootSource>,
    /// Settings of all programs, unless their connections say otherwise.
    pub command: ProgramCommand,
    /// Changes stay, also in further volumes.
    pub write: bool,
    /// Further volumes.
    pub volumes: Vec<VolumePlace>,
    /// Most bytes of the kernel's memory for a client; `None`: the usual part.
    pub client_memory: Option<u64>,
}

impl Session {
    /// Serves connections until the server is asked to end. Then all processes of the kernel have
    /// ended. Blocks. The process must be a server ([`ServerEnds`]).
    pub fn serve(&mut self, request: ServerRequest) -> Result<()> {
        let ends = self.take_server();
        let ends = ends.expect("the process of a server has its ends");
        let new_overlay = self.take_new_overlay();
        let gates = self.take_gates();
        let volumes = self.mount_volumes(&request)?;
        let ready = match &request.source {
            Some(source) => self.make_root(source, request.command, request.write)?,
            None => self.without_root(request.command)?,
        };
        let places = self.show_volumes(&ready.run, &request.volumes, &volumes)?;
        let problems = ProgramEnds::new(self.log().0);
        let interrupt = self.catch_interrupts();
        let limits = ClientLimits {
            memory: request.client_memory,
            ..ClientLimits::default()
        };
        let server = Server::start(&ready.run, ends, limits)?;
        new_overlay.iter().for_each(NewOverlay::keep);
        server.attend(problems, gates, &interrupt);
        server.end();
        drop(places);
        ready.run.close();
        Ok(())
    }

    /// Mounts the further volumes.
    fn mount_volumes(&mut self, request: &ServerRequest) -> Result<Vec<usize>> {
        if !request.write {
            self.keep_changes_in_memory();
        }
        let volumes = request.volumes.iter();
        volumes
            .map(|place| self.mount_for_programs(&place.volume))
            .collect()
    }

    /// Shows the volumes at their places, as long as the result lives.
    fn show_volumes(
        &self,
        run: &ProgramRun,
        places: &[VolumePlace],
        mounted: &[usize],
    ) -> Result<Vec<MountPlace>> {
        let mut shown = Vec::new();
        for (place, &index) in places.iter().zip(mounted) {
            let place_of = show(run, self.mounted(index), place).map_err(|error| {
                let name = place.volume.shown();
                Error::failed(format!("cannot show {name} to programs"), &error)
            })?;
            shown.extend(place_of);
        }
        Ok(shown)
    }
}

/// A place in the root of programs goes with that.
fn show(run: &ProgramRun, mount: &Mount, place: &VolumePlace) -> io::Result<Option<MountPlace>> {
    match &*run.root() {
        Some(root) => root.show_mount(mount, &place.path).map(|()| None),
        None => mount.show_at(&place.path).map(Some),
    }
}

/// Connections are served.
struct Server {
    run: Arc<ProgramRun>,
    connections: Arc<Connections<KernelService<KernelPrograms>>>,
    asked: Receiver<EndAsked>,
}

impl Server {
    fn start(run: &Arc<ProgramRun>, ends: ServerEnds, limits: ClientLimits) -> Result<Self> {
        let failed = |error| Error::failed("cannot serve connections", &error);
        let (end, asked) = channel();
        let clients = ClientServer::start_in(&run.kernel, run.root().as_ref(), limits);
        let clients = clients.map_err(failed)?;
        let children = Arc::new(Children::new(run.kernel.system()));
        let further = FurtherPrograms::new(run, &children);
        let programs = KernelPrograms::new(further, ends.waiting, end.clone());
        let connections = Connections::new(KernelService::new(&run.kernel, clients, programs));
        for listener in ends.listeners {
            let started = connections.start(move || listener.accept());
            started.map_err(failed)?;
        }
        let mut keeper = ends.keeper;
        keeper.send(&ServerReady).map_err(Error::from)?;
        let watch = move || watch(|| drop(keeper.receive()), &end);
        let watching = thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(watch);
        watching.map_err(failed)?;
        Ok(Self {
            run: Arc::clone(run),
            connections,
            asked,
        })
    }

    /// Waits until somebody asks for the end.
    fn attend(
        &self,
        mut problems: ProgramEnds,
        mut gates: Option<PortGates>,
        interrupt: &Interrupt,
    ) {
        while !interrupt.asked() {
            problems.report();
            if let Some(gates) = &mut gates {
                gates.poll(&self.run.kernel);
            }
            match self.asked.recv_timeout(PATIENCE) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(EndAsked) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        problems.report();
    }

    /// Ends programs and clients.
    fn end(self) {
        let service = &self.connections.service;
        service.clients.end();
        service.programs.end_all();
    }
}

/// There is no request of the keeper: its next message is the end of the channel.
fn watch(wait: impl FnOnce(), end: &Sender<EndAsked>) {
    wait();
    let _ = end.send(EndAsked);
}
