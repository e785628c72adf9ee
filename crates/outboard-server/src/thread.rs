// SPDX-License-Identifier: GPL-2.0-only
//! A host thread that is a thread of a client in the kernel, for life.
//!
//! It takes requests from its slot until the slot is closed or the client's thread ends. After an
//! exec it serves the slot of the next program.

use crate::peer::InsideUser;
use crate::process::{ClientProcess, NextProgram};
use crate::random;
use crate::shared::Shared;
use crate::task_slot::{Taker, TaskSlot};
use crate::waits::Waits;
use outboard::{Instance, NewTask};
use outboard_protocol::client::Ticket;
use outboard_protocol::{CallRequest, Data};
use outboard_slot::layout::{CALL, EXEC, EXIT, FORK, LEAVE, NAME_BYTES, TICKET_BYTES};
use std::ffi::CString;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{channel, sync_channel, Receiver, SyncSender};
use std::sync::Arc;
use std::thread;

/// All that a further thread shares with the others of its process.
const THREAD_FLAGS: i32 = libc::CLONE_VM
    | libc::CLONE_FS
    | libc::CLONE_FILES
    | libc::CLONE_SIGHAND
    | libc::CLONE_THREAD
    | libc::CLONE_SYSVSEM;

/// Calls that change what a new thread gets from the one that makes it.
const INHERITED: &[i64] = &[
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_prctl,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// How the first thread of a connection begins.
pub(crate) struct FirstThread {
    /// The name of the process.
    pub(crate) name: CString,
    /// Of a new process; a copy has the user of the other one.
    pub(crate) user: Option<InsideUser>,
}

/// A thread that begins.
pub(crate) struct NewThread {
    pub(crate) shared: Arc<Shared>,
    pub(crate) process: Arc<ClientProcess>,
    pub(crate) slot: Arc<TaskSlot>,
    /// Its task.
    pub(crate) task: i32,
    /// `None`: a further thread.
    pub(crate) first: Option<FirstThread>,
}

impl NewThread {
    /// Starts it, and waits until it serves its slot. Returns its number. The slot is one of the
    /// process's until the thread has left it.
    pub(crate) fn start(self) -> io::Result<i32> {
        let (ready, begun) = sync_channel(1);
        let (process, slot) = (Arc::clone(&self.process), Arc::clone(&self.slot));
        let (task, most) = (self.task, self.shared.limits.threads);
        let run = move || self.run(&ready);
        let spawn = |()| thread::Builder::new().name("client".to_owned()).spawn(run);
        if let Err(error) = process.add_thread(&slot, most).and_then(spawn) {
            process.remove_thread(&slot);
            // Nobody has claimed it.
            process.put_seed(task);
            return Err(error);
        }
        let begun = begun.recv().map_err(io::Error::other);
        begun
            .and_then(|begun| begun)
            .inspect_err(|_| process.remove_thread(&slot))
    }

    fn run(self, ready: &SyncSender<io::Result<i32>>) {
        let instance = self.shared.instance.clone();
        let begun = self.begin(&instance);
        let is_begun = begun.is_ok();
        let mut client = ClientThread {
            instance,
            shared: self.shared,
            process: self.process,
            slot: self.slot,
        };
        if let Ok(number) = &begun {
            client.slot.begin(*number);
        }
        let _ = ready.send(begun);
        if is_begun {
            client.serve_all();
        }
        // Before anything is dropped: files are closed as an ordinary thread of the server.
        let _ = client.instance.leave_task();
    }

    fn begin(&self, instance: &Instance) -> io::Result<i32> {
        instance.claim_task(self.task)?;
        if let Some(first) = &self.first {
            instance.name_task(&first.name)?;
            let system = self.shared.kernel.system();
            if let Some(inside) = first.user {
                self.shared.root.enter()?;
                system.set_limit(libc::RLIMIT_NOFILE, self.shared.limits.files)?;
                if inside != InsideUser::ROOT {
                    system.become_user(inside.user, inside.group, &[])?;
                }
            }
        }
        let seed = instance.copy_task(THREAD_FLAGS as u64)?;
        self.process.put_seed(seed.number);
        Ok(self.task)
    }
}

/// The thread while it serves.
struct ClientThread {
    instance: Instance,
    shared: Arc<Shared>,
    process: Arc<ClientProcess>,
    slot: Arc<TaskSlot>,
}

/// How the service of a slot ended.
enum SlotEnd {
    /// The client's thread has ended, or the connection.
    Over,
    /// The next program's slot comes here.
    Program(Receiver<Arc<TaskSlot>>),
}

fn error_number(error: &io::Error) -> i64 {
    -i64::from(error.raw_os_error().unwrap_or(libc::EIO))
}

impl ClientThread {
    fn serve_all(&mut self) {
        loop {
            let slot = Arc::clone(&self.slot);
            let end = self.serve(&mut slot.taker());
            self.process.remove_thread(&slot);
            let next = match end {
                SlotEnd::Over => return,
                SlotEnd::Program(slots) => slots.recv(),
            };
            match next {
                Ok(next) => self.slot = next,
                Err(_) => return,
            }
            // It is the only thread now, whose number is that of the process.
            let number = self.process.number;
            self.slot.begin(number);
        }
    }

    fn serve(&mut self, taker: &mut Taker<'_>) -> SlotEnd {
        let mut program = None;
        while let Some(request) = taker.take() {
            let result = match request.operation {
                CALL => Ok(self.call(&request.call)),
                FORK => self.fork(&request.call),
                EXEC => self.exec(&request.call).map(|slots| {
                    program = Some(slots);
                    0
                }),
                EXIT => self.exit(request.call.arguments[0]),
                LEAVE => break,
                _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
            };
            taker.finish(result.unwrap_or_else(|error| error_number(&error)));
        }
        program.map_or(SlotEnd::Over, SlotEnd::Program)
    }

    fn call(&self, call: &CallRequest) -> i64 {
        self.process.calls.fetch_add(1, Ordering::Relaxed);
        let result = self.instance.slot_call(call, &self.slot.memory);
        if result >= 0 && INHERITED.contains(&(call.number as i64)) {
            self.replace_seed();
        }
        result
    }

    /// A further thread shall be made by this one as it is now.
    fn replace_seed(&self) {
        let Ok(seed) = self.instance.copy_task(THREAD_FLAGS as u64) else {
            return;
        };
        if let Some(old) = self.process.put_seed(seed.number) {
            let instance = self.instance.clone();
            // Only its own thread ends a task and not its process.
            let end = move || {
                if instance.claim_task(old).is_ok() {
                    let _ = instance.leave_task();
                }
            };
            let _ = thread::Builder::new().spawn(end);
        }
    }

    /// Whether a place of the client's can take a ticket.
    fn check_room(&self, offset: u64) -> io::Result<()> {
        let end = offset.checked_add(TICKET_BYTES as u64);
        let fits = end.is_some_and(|end| end <= self.slot.memory.size());
        if offset == 0 || !fits {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        Ok(())
    }

    /// Gives the client a ticket, in a place that was checked.
    fn issue(
        &self,
        ticket: Ticket,
        process: &Arc<ClientProcess>,
        waits: Waits,
        offset: u64,
    ) -> io::Result<()> {
        let time = self.shared.limits.attach;
        let tickets = &self.shared.keeper.tickets;
        tickets.add(ticket, process, waits, time)?;
        self.slot.memory.write(offset as usize, &ticket.0);
        Ok(())
    }

    fn fork(&self, call: &CallRequest) -> io::Result<i64> {
        let offset = call.arguments[0];
        self.check_room(offset)?;
        self.shared.check_room()?;
        let ticket = random::ticket()?;
        let NewTask { seen, number } = self.instance.copy_task(libc::SIGCHLD as u64)?;
        let user = self.process.user;
        let copy = self.shared.keeper.add(number, user, number)?;
        copy.set_group(self.process.group());
        self.issue(ticket, &copy, Waits::Copy, offset)?;
        Ok(seen.into())
    }

    fn exec(&self, call: &CallRequest) -> io::Result<Receiver<Arc<TaskSlot>>> {
        let [name, offset, ..] = call.arguments;
        self.check_room(offset)?;
        let name = self.name(name)?;
        let ticket = random::ticket()?;
        self.instance.exec_process(&name)?;
        // The other threads have ended, and the seed with them.
        let seed = self.instance.copy_task(THREAD_FLAGS as u64)?;
        self.process.put_seed(seed.number);
        let (slots, next) = channel();
        let old = Arc::clone(&self.slot);
        self.process.await_program(NextProgram { slots, old });
        self.issue(ticket, &self.process, Waits::Program, offset)?;
        Ok(next)
    }

    fn exit(&self, status: u64) -> io::Result<i64> {
        let exited = self.instance.exit_process(status as i32);
        exited.map(|()| 0)
    }

    /// A name in the slot.
    fn name(&self, offset: u64) -> io::Result<CString> {
        let memory = &self.slot.memory;
        let room = memory.size().saturating_sub(offset);
        if offset == 0 || room == 0 {
            return Err(io::Error::from_raw_os_error(libc::EFAULT));
        }
        let mut bytes = [0; NAME_BYTES];
        let length = (NAME_BYTES - 1).min(room as usize);
        memory.read(offset, &mut bytes[..length]);
        let text: Vec<u8> = bytes.into_iter().take_while(|&byte| byte != 0).collect();
        CString::new(text).map_err(io::Error::other)
    }
}
