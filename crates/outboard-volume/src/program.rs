// SPDX-License-Identifier: GPL-2.0-only
//! A program of a volume or of a directory of the host. The kernel that mounts this root runs the
//! program. The program's standard input, output and error are the ones of this process (`streams`,
//! `outside`). A run in the background has a log in their place, and other commands reach it
//! (`control`).
//!
//! | thread | does |
//! |---|---|
//! | of the children (`children`) | waits for all programs without a parent, as init does |
//! | the caller | waits for the first program, and passes on signals that ask this process to end |

mod children;
mod command;
mod connection;
mod control;
mod ends;
mod idle;
mod log_output;
mod network;
mod outside;
mod root_source;
mod start;
mod streams;

use crate::control_socket::ControlSocket;
use crate::new_overlay::NewOverlay;
use crate::port_gates::PortGates;
use crate::session::Session;
use children::{Children, First};
pub use command::{FindLogin, IdleExit, Login, ProgramCommand, FAILED};
use control::{serve, Served};
use ends::ProgramEnds;
use idle::IdleWatch;
use outboard::{signals, Cancel, RunningProgram, System};
use outboard_error::{Error, Result};
use outboard_sandbox::interrupt::Interrupt;
use outside::OwnStreams;
pub use root_source::RootSource;
use start::ProgramRun;
use std::io;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};
use streams::Streams;

/// Until a signal is passed on, and a window has its new size.
const PATIENCE: Duration = Duration::from_millis(20);
/// Until programs that were killed have ended.
const END_PATIENCE: Duration = Duration::from_secs(10);

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
        let index = source.mount(self, write)?;
        let shown = source.shown();
        let root = self
            .mounted(index)
            .program_root()
            .map_err(|error| Error::failed(format!("{shown}: no root for programs"), &error))?;
        self.finish_program_network()?;
        let interrupt = self.catch_interrupts();
        let ends = ProgramEnds::new(self.log().0);
        let mount = self.mounted(index);
        network::prepare(mount.kernel(), &root)?;
        let binds = command.binds.iter();
        let shown_binds: Result<Vec<_>> =
            binds.map(|bind| bind.show(mount.kernel(), &root)).collect();
        let _shown_binds = shown_binds?;
        let run = Arc::new(ProgramRun {
            kernel: mount.kernel().clone(),
            root: RwLock::new(Some(root)),
            command,
            shown,
        });
        let gates = self.take_gates();
        let began = || new_overlay.iter().for_each(NewOverlay::keep);
        let status = to_its_end(&run, control, &interrupt, ends, gates, began);
        run.close();
        status
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
    let (first, streams) = {
        let root = run.root();
        let root = root.as_ref().expect("a run that begins has a root");
        // Not worth an error.
        let _ = system.adopt_orphans();
        let terminal = own.terminal(run.command.wants_terminal).map_err(failed)?;
        let is_apart = own.has_error_apart(terminal.is_some()).map_err(failed)?;
        let streams = Streams::new(&run.kernel, root, terminal.as_ref(), is_apart);
        let streams = streams.map_err(failed)?;
        let program = run.start(&run.command, root, streams.files())?;
        (Children::first(system, program).map_err(failed)?, streams)
    };
    began();
    let number = first.program.number();
    let given_up = Cancel::new();
    let raw = own.make_raw().map_err(failed)?;
    let outside = own.open(&Interrupt::by(given_up.clone())).map_err(failed)?;
    let streams = streams.start(system, number, outside).map_err(failed)?;
    let First {
        program,
        end,
        children,
        all,
    } = first;
    let serve = |socket: ControlSocket| serve(socket, run, children, number);
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
            let has_commands = served.as_ref().is_some_and(Served::is_used);
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
    end_others(system, &all);
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

/// Kills what the program has left behind: processes that have its streams and the volume open.
fn end_others(system: &System, others: &Receiver<()>) {
    let begin = Instant::now();
    while begin.elapsed() < END_PATIENCE {
        // Again: one may have been made meanwhile.
        let _ = system.send_signal(-1, libc::SIGKILL);
        match others.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => return,
            _ => continue,
        }
    }
}
