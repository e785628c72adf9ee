// SPDX-License-Identifier: GPL-2.0-only
//! A run: a first program, with whose end the kernel ends.

use super::children::Children;
use super::command::ProgramCommand;
use super::control::{FurtherPrograms, RunService};
use super::ends::ProgramEnds;
use super::first_program::FirstProgram;
use super::idle::IdleWatch;
use super::outside::OwnStreams;
use super::patience::PATIENCE;
use super::root_source::RootSource;
use super::start::ProgramRun;
use super::streams::Streams;
use crate::control_socket::ControlSocket;
use crate::new_overlay::NewOverlay;
use crate::port_gates::PortGates;
use crate::session::Session;
use outboard::{signals, Cancel, RunningProgram};
use outboard_error::{Error, Result};
use outboard_protocol::frames::{Frame, RunAnswer};
use outboard_sandbox::interrupt::Interrupt;
use outboard_server::{Connections, NewConnection};
use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a run that has ended waits for commands that read what is left.
const PARTING: Duration = Duration::from_secs(2);
/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(10);

impl Session {
    /// Runs a program of a volume or directory to its end. Changes of these stay in memory, unless
    /// `write`. Blocks.
    pub fn run_program(
        &mut self,
        source: &RootSource,
        command: ProgramCommand,
        write: bool,
    ) -> Result<ExitStatus> {
        let control = self.take_control();
        let new_overlay = self.take_new_overlay();
        let interrupt = self.catch_interrupts();
        let ready = self.make_root(source, command, write)?;
        let ends = ProgramEnds::new(self.log().0);
        let gates = self.take_gates();
        let began = || new_overlay.iter().for_each(NewOverlay::keep);
        let status = to_its_end(&ready.run, control, &interrupt, ends, gates, began);
        ready.run.close();
        status
    }
}

/// Commands are served, by the control socket of a run in the background.
struct ServedRun {
    connections: Arc<Connections<RunService>>,
    record: File,
}

impl ServedRun {
    /// Serves commands from now on: the first program runs.
    fn start(
        socket: ControlSocket,
        run: &Arc<ProgramRun>,
        children: &Arc<Children>,
        first: i32,
    ) -> io::Result<Self> {
        let connections = Connections::new(RunService {
            further: FurtherPrograms::new(run, children),
            first: FirstProgram::new(first),
        });
        // It may have gone.
        let _ = Frame::send(&mut &socket.starter, &RunAnswer::Started);
        connections.start(|| ControlSocket::accept().map(NewConnection::of_owner))?;
        Ok(Self {
            connections,
            record: socket.record,
        })
    }

    /// The first program has ended.
    fn first_ended(&self, status: ExitStatus) {
        self.connections.service.first.has_ended(status);
    }

    /// All programs have ended. Lets commands read the rest, and records the end. Blocks, but not
    /// for long.
    fn finish(mut self, status: ExitStatus) {
        let begin = Instant::now();
        while self.connections.is_used() && begin.elapsed() < PARTING {
            thread::sleep(INTERVAL);
        }
        let signal = || 128 + status.signal().unwrap_or_default();
        let code = status.code().unwrap_or_else(signal);
        // Without room, the end is not known later: the same as after SIGKILL.
        let _ = self.record.rewind();
        let _ = self.record.write_all(format!("{code}\n").as_bytes());
    }
}

/// Runs the first program to its end, and ends the others. `began`: called when it runs.
fn to_its_end(
    run: &Arc<ProgramRun>,
    control: Option<ControlSocket>,
    interrupt: &Interrupt,
    mut ends: ProgramEnds,
    mut gates: Option<PortGates>,
    began: impl FnOnce(),
) -> Result<ExitStatus> {
    let system = run.kernel.system();
    let failed = |error| Error::failed("cannot make the program's streams", &error);
    let own = OwnStreams::new(control.is_some());
    let children = Arc::new(Children::new(system));
    let (program, end, streams) = {
        let root = run.root();
        let root = run.present(&root)?;
        let terminal = own.terminal(run.command.wants_terminal).map_err(failed)?;
        let is_apart = own.has_error_apart(terminal.is_some()).map_err(failed)?;
        let streams = Streams::new(&run.kernel, root, terminal.as_ref(), is_apart);
        let streams = streams.map_err(failed)?;
        let login = run.login(&run.command, root)?;
        let start = || run.start(&run.command, &login, root, streams.files());
        let (program, end) = children.start(start)?;
        (program, end, streams)
    };
    began();
    let number = program.number();
    let given_up = Cancel::new();
    let raw = own.make_raw().map_err(failed)?;
    let outside = own.open(&Interrupt::by(given_up.clone())).map_err(failed)?;
    let streams = streams.start(system, number, outside).map_err(failed)?;
    let serve = |socket| ServedRun::start(socket, run, &children, number);
    let served = control.map(serve).transpose().map_err(failed)?;
    let terminal = streams.terminal();
    let mut idle = IdleWatch::new(run, number);
    let follow = || {
        if let Some(terminal) = &terminal {
            terminal.set_size(own.size());
        }
        // Clients that wait for a server use it.
        let is_awaited = gates.as_mut().is_some_and(|gates| gates.poll(&run.kernel));
        if let Some(idle) = &mut idle {
            let has_commands = served
                .as_ref()
                .is_some_and(|served| served.connections.is_used());
            idle.poll(is_awaited || has_commands);
        }
    };
    let status = wait(
        &run.command,
        &program,
        &end,
        follow,
        interrupt,
        &given_up,
        &mut ends,
    )?;
    let status = idle.map_or(status, |idle| idle.shown(status));
    served.iter().for_each(|served| served.first_ended(status));
    // Processes that the program has left behind have its streams and the volume open.
    children.end_all();
    let finished = streams.finish();
    drop(raw);
    ends.report();
    if let Some(served) = served {
        served.finish(status);
    }
    match finished {
        // A reader that has gone is the program's affair.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::of_output("standard output", &error))
        }
        _ => Ok(status),
    }
}

/// Waits for the program's end, and passes signals on meanwhile. SIGINT may come again and again;
/// one that ends this process comes once. Then outputs that nobody reads are given up. `follow`:
/// called in between.
fn wait(
    command: &ProgramCommand,
    program: &RunningProgram,
    end: &Receiver<ExitStatus>,
    mut follow: impl FnMut(),
    interrupt: &Interrupt,
    outputs: &Cancel,
    ends: &mut ProgramEnds,
) -> Result<ExitStatus> {
    let gone = || io::Error::other("its thread has ended");
    let mut is_ending = false;
    loop {
        ends.report();
        match end.recv_timeout(PATIENCE) {
            Ok(status) => {
                if is_ending {
                    outputs.cancel();
                }
                return Ok(status);
            }
            Err(RecvTimeoutError::Timeout) if !is_ending && interrupt.asked() => {
                let signal = command.signal(signals::first().unwrap_or(libc::SIGTERM));
                let _ = program.system().send_signal(-program.number(), signal);
                is_ending = interrupt.forget().is_err();
            }
            Err(RecvTimeoutError::Timeout) => follow(),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::failed("cannot wait for the program", &gone()))
            }
        }
    }
}
