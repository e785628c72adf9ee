// SPDX-License-Identifier: GPL-2.0-only
//! The end of a session: what was written is on stable storage, and errors are reported.

use super::host_part::ProcessState;
use super::mounted::{LeftMount, MountedDevice};
use super::open_disk::OpenDisk;
use super::open_stack::OpenStack;
use super::whole::Session;
use crate::options::Options;
use outboard_error::{report, Error, Failure, Result};
use outboard_sandbox::HostAccess;
use std::mem::{forget, take};

impl Session {
    /// Writes everything to stable storage, unmounts and stops the kernel. An error
    /// means that something may be missing in an image.
    pub fn finish(mut self) -> Result<()> {
        let position = self.machine.position();
        let mut problems = Vec::new();
        // A command that has failed before may have left its start behind.
        let _ = self.host.finish_program_network();
        if let Some(network) = self.host.network() {
            network.finish();
        }
        let mut left = Vec::new();
        while let Some(mounted) = self.slots.take_last_mount() {
            let (problem, of_server) = mounted.end();
            problems.extend(problem);
            left.extend(of_server);
        }
        if let Some(network) = self.host.network_mut() {
            network.end_watch();
        }
        problems.extend(self.slots.stacks().flat_map(OpenStack::lost_snapshots));
        self.slots.close_stacks();
        // A halt removes all disks; removing them one by one takes longer.
        if let Some(kernel) = self.machine.take_kernel() {
            // A layer may have tried to write to a disk that can only be read.
            let written = self.slots.has_written_disk();
            let halted = if left.is_empty() || self.host.is_in_library() {
                left.iter().for_each(LeftMount::give_up);
                let halted = kernel.halt();
                drop(left);
                halted
            } else {
                // A halt would wait for the server of a mount that was left.
                forget((kernel, left));
                Ok(())
            };
            if let Some(error) = halted.err().filter(|_| written) {
                problems.push(Failure::of(&error).after("the kernel did not stop well"));
            }
        }
        problems.extend(self.slots.flush_disks());
        if self.host.is_in_library() {
            let taken = |open: &OpenDisk| open.taken(self.host.held());
            problems.extend(self.slots.disks().filter_map(taken));
        }
        self.told(problems, position)
    }

    /// The result of a command, which ends: a failure if it used a file system in an older state.
    pub fn unless_older<T>(&mut self, done: Result<T>) -> Result<T> {
        let used = !take(&mut self.older).is_empty();
        match done {
            Ok(_) if used => Err(Error::AlreadyReported),
            done => done,
        }
    }

    /// As [`Session::finish`], for a process that ends next. If no disk is writable, the kernel is
    /// not halted, and ends with the process: a halt takes longer than a short command.
    fn finish_last(mut self) -> Result<()> {
        let _ = self.host.finish_program_network();
        let written =
            self.slots.has_written_disk() || self.slots.mounts().any(MountedDevice::is_written);
        let written = self.host.writes_images(written);
        if written || self.slots.has_stacks() || !self.options().components.is_empty() {
            return self.finish();
        }
        // Dropping the last of these would halt the kernel. Everything else is dropped, such as
        // temporary files.
        forget(self.machine.take_kernel());
        // To remove an interface takes longer than all else, and the NAT ends with this process.
        self.host.forget_program_network();
        self.slots.forget_kernel();
        Ok(())
    }
}

/// Runs `work` in a session, and finishes the session even after an error. The error of `work`
/// comes first. The process must end next.
pub fn with_session<T>(
    options: Options,
    access: &HostAccess,
    process: ProcessState,
    work: impl FnOnce(&mut Session) -> Result<T>,
) -> Result<T> {
    let session = Session::new(options, access, process)?;
    finished(session, work, Session::finish_last)
}

/// The same, in this session, while the process goes on.
pub fn in_session<T>(session: Session, work: impl FnOnce(&mut Session) -> Result<T>) -> Result<T> {
    finished(session, work, Session::finish)
}

fn finished<T>(
    mut session: Session,
    work: impl FnOnce(&mut Session) -> Result<T>,
    finish: impl FnOnce(Session) -> Result<()>,
) -> Result<T> {
    let done = work(&mut session);
    let done = session.unless_older(done);
    if done.is_err() {
        session.note_missing_inodes();
        session.report_silent_servers();
    }
    let finished = finish(session);
    match (done, finished) {
        (Ok(value), finished) => finished.map(|()| value),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(second)) => {
            if let Some(text) = second.message() {
                report(text.to_owned());
            }
            Err(error)
        }
    }
}
