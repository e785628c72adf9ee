// SPDX-License-Identifier: GPL-2.0-only
//! A process of the kernel whose calls come from outside.
//!
//! Linux makes a thread of a process only by one of its threads, and all of them may be blocked
//! when a further one is wanted. So each process has a *seed*: a task that waits for a host thread.
//! The thread that gets it makes the next one at once. A thread that changes what a new thread
//! inherits (credentials, namespaces) replaces the seed.
//!
//! | the process | its connection | its threads |
//! |---|---|---|
//! | waits with a ticket of a fork | none | none; the seed is its first task |
//! | runs | one | serve a slot each |
//! | waits with a ticket of an exec | the old one, or none | one waits for its next slot |
//! | has ended | ends | end |

use crate::groups::ClientGroup;
use crate::task_slot::TaskSlot;
use crate::waits::Waits;
use outboard::Fd;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Between two looks whether threads have left their slots.
const INTERVAL: Duration = Duration::from_millis(1);
const LONGEST_INTERVAL: Duration = Duration::from_millis(100);

/// The thread that has asked for an exec waits for the slot of the new program.
pub(crate) struct NextProgram {
    /// The channel at which it waits.
    pub(crate) slots: Sender<Arc<TaskSlot>>,
    /// The slot that it still has.
    pub(crate) old: Arc<TaskSlot>,
}

/// Which connection a process has.
pub(crate) struct ProcessOwner {
    /// The number of the connection.
    pub(crate) connection: u64,
    /// For who has to end it.
    pub(crate) socket: UnixStream,
}

#[derive(Default)]
struct State {
    owner: Option<ProcessOwner>,
    seed: Option<i32>,
    threads: Vec<Arc<TaskSlot>>,
    next_program: Option<NextProgram>,
    name: String,
    /// The number of the client's process on the host.
    host_process: i32,
    /// Its limits, which its copies share.
    group: Option<Arc<ClientGroup>>,
}

/// A process of the kernel. Its file is closed by whom this is dropped last, in that thread's own
/// process: so a thread that serves a slot leaves its task before.
pub(crate) struct ClientProcess {
    /// Its number.
    pub(crate) number: i32,
    /// The user of the host whom it serves.
    pub(crate) user: u32,
    /// Names it for the keeper.
    pub(crate) token: u64,
    /// Readable when it has ended. Signals reach it, and no other process of that number.
    pub(crate) file: Fd,
    /// Calls that were made.
    pub(crate) calls: AtomicU64,
    /// Held while a thread begins.
    beginning: Mutex<()>,
    state: Mutex<State>,
}

/// The columns of a table of clients.
pub(crate) struct ProcessStatus {
    pub(crate) name: String,
    pub(crate) host_process: i32,
    pub(crate) threads: usize,
    pub(crate) calls: u64,
}

impl ClientProcess {
    /// `seed`: its first task, which waits for a thread.
    pub(crate) fn new(number: i32, user: u32, token: u64, file: Fd, seed: i32) -> Self {
        let state = State {
            seed: Some(seed),
            ..State::default()
        };
        Self {
            number,
            user,
            token,
            file,
            calls: AtomicU64::new(0),
            beginning: Mutex::default(),
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the process, as far as it did not end already. Its threads' calls end.
    pub(crate) fn kill(&self) {
        // It may have ended.
        let _ = self.file.signal_process(libc::SIGKILL);
    }

    /// Whether it has ended, and has no files open any more. Blocks for at most this time.
    pub(crate) fn has_ended(&self, patience: Duration) -> bool {
        let polled = self.file.poll(libc::POLLIN, Some(patience));
        polled.is_ok_and(|events| events & libc::POLLIN != 0)
    }

    /// The connection becomes the process's. One that was it before ends.
    pub(crate) fn own(&self, owner: ProcessOwner, name: &str, host_process: i32) {
        self.disconnect();
        let mut state = self.state();
        state.owner = Some(owner);
        name.clone_into(&mut state.name);
        state.host_process = host_process;
    }

    /// Ends the connection, from outside of it. Returns whether there is one.
    pub(crate) fn disconnect(&self) -> bool {
        let state = self.state();
        if let Some(owner) = &state.owner {
            // It may have ended.
            let _ = owner.socket.shutdown(std::net::Shutdown::Both);
        }
        state.owner.is_some()
    }

    /// By a connection that ends. Returns whether the process ends with it: not if it is another
    /// connection's by now, or waits for its next program.
    pub(crate) fn disown(&self, connection: u64) -> bool {
        let mut state = self.state();
        let owned = |owner: &ProcessOwner| owner.connection == connection;
        if !state.owner.as_ref().is_some_and(owned) {
            return false;
        }
        state.owner = None;
        state.next_program.is_none()
    }

    /// Its limits, for itself and its copies.
    pub(crate) fn group(&self) -> Option<Arc<ClientGroup>> {
        self.state().group.clone()
    }

    /// The kernel's process has these limits.
    pub(crate) fn set_group(&self, group: Option<Arc<ClientGroup>>) {
        self.state().group = group;
    }

    /// Takes the task that waits.
    pub(crate) fn take_seed(&self) -> Option<i32> {
        self.state().seed.take()
    }

    /// Nobody has come with its ticket. It ends, unless the old program goes on, or a thread was
    /// waited for.
    pub(crate) fn give_up(&self, waits: Waits) {
        if waits == Waits::Thread {
            return;
        }
        let mut state = self.state();
        drop(state.next_program.take());
        if state.owner.is_none() {
            drop(state);
            self.kill();
        }
    }

    /// One thread begins after the other, since each needs the seed that the last one leaves.
    /// Blocks while another one begins, on a connection of its own.
    pub(crate) fn begin_thread(&self) -> MutexGuard<'_, ()> {
        let beginning = self.beginning.lock();
        beginning.unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new task there. Returns the one that was there.
    pub(crate) fn put_seed(&self, number: i32) -> Option<i32> {
        self.state().seed.replace(number)
    }

    /// A thread serves this slot. `most`: so many threads may do that.
    pub(crate) fn add_thread(&self, slot: &Arc<TaskSlot>, most: usize) -> io::Result<()> {
        let mut state = self.state();
        if state.threads.len() >= most {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        state.threads.push(Arc::clone(slot));
        Ok(())
    }

    /// The thread has left the slot.
    pub(crate) fn remove_thread(&self, slot: &Arc<TaskSlot>) {
        let mut state = self.state();
        state.threads.retain(|other| !Arc::ptr_eq(other, slot));
    }

    /// The slot of a thread.
    pub(crate) fn thread(&self, number: i32) -> Option<Arc<TaskSlot>> {
        let state = self.state();
        let mut threads = state.threads.iter();
        threads.find(|slot| slot.number() == number).cloned()
    }

    /// Waits until all threads have left the slots of a connection. `interrupt`: called for threads
    /// that may be in a call.
    pub(crate) fn close_slots(&self, connection: u64, interrupt: impl Fn(i32)) {
        let mut interval = INTERVAL;
        loop {
            let mut threads = self.state().threads.clone();
            threads.retain(|slot| slot.connection == connection);
            if threads.is_empty() {
                return;
            }
            for slot in threads {
                slot.close();
                interrupt(slot.number());
            }
            sleep(interval);
            interval = (interval * 2).min(LONGEST_INTERVAL);
        }
    }

    /// The calling thread will wait for the slot of the next program.
    pub(crate) fn await_program(&self, next: NextProgram) {
        self.state().next_program = Some(next);
    }

    /// The next program attaches, or does not come.
    pub(crate) fn take_next_program(&self) -> Option<NextProgram> {
        self.state().next_program.take()
    }

    pub(crate) fn status(&self) -> ProcessStatus {
        let state = self.state();
        ProcessStatus {
            name: state.name.clone(),
            host_process: state.host_process,
            threads: state.threads.len(),
            calls: self.calls.load(Ordering::Relaxed),
        }
    }
}
