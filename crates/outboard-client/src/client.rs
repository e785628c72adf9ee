// SPDX-License-Identifier: MIT
//! A client: calls of all threads of a program, and a new connection after a lost one.

use crate::connection::{Attachment, ServerConnection};
use crate::error::ClientError;
use crate::marshal::{make_call, CallEnd};
use crate::pointer::OwnMemory;
use crate::session::{from_environment, ServerPlace};
use crate::threads::{leave, with_own_slot, with_slot, AttachedSlot};
use outboard_protocol::client::Ticket;
use outboard_slot::forks::forks;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The answer to a lost connection, and with it all descriptors in the kernel. The calls
/// under way fail with `ENOTCONN` in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reconnect {
    /// All later calls fail with `ENOTCONN`, too.
    #[default]
    Never,
    /// The next call connects again, as a new process, and tries so for this time.
    For(Duration),
    /// The next call connects again, and waits for a server as long as there is none.
    Forever,
    /// This process ends with status 1 at once.
    Die,
}

/// Pauses between two attempts to connect.
const PAUSES: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(500)];

#[derive(Debug)]
struct ClientState {
    connection: Option<Arc<ServerConnection>>,
    reconnect: Reconnect,
}

#[derive(Debug)]
struct ClientShared {
    number: u64,
    /// The client is one of this process only: see [`forks`].
    forks: u64,
    place: ServerPlace,
    state: Mutex<ClientState>,
}

/// This process as a process of a kernel in a server. Any thread may call at any time, and is a
/// thread of the kernel's process from its first call to its end. Clones are the same client; with
/// the last one, the process of the kernel ends. In a child of fork(2) all calls fail with
/// `ENOTCONN`, but after [`Client::fork`].
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<ClientShared>,
}

impl Client {
    /// Connects to a server: `unix:PATH`, `tcp:HOST:PORT,token=FILE` or
    /// `tls:HOST:PORT,certificates=DIR`. Blocks, for 10 s in each step.
    pub fn connect(url: impl AsRef<OsStr>) -> Result<Self, ClientError> {
        Self::open(ServerPlace::parse(url.as_ref())?, None)
    }

    /// Connects to the server that the environment names: as the process that has called
    /// [`Client::exec`], if there is a session (which is removed from the environment), or else as
    /// a new one. Blocks as [`Client::connect`] does.
    pub fn from_environment() -> Result<Self, ClientError> {
        let (place, ticket) = from_environment()?;
        Self::open(place, ticket)
    }

    /// Becomes a new process, or that of a ticket.
    pub(crate) fn open(place: ServerPlace, ticket: Option<Ticket>) -> Result<Self, ClientError> {
        let connection = ServerConnection::open(&place, ticket)?;
        Ok(Self::with(place, Some(connection)))
    }

    /// A client with or without a connection.
    pub(crate) fn with(place: ServerPlace, connection: Option<ServerConnection>) -> Self {
        static CLIENTS: AtomicU64 = AtomicU64::new(0);
        let state = ClientState {
            connection: connection.map(Arc::new),
            reconnect: Reconnect::default(),
        };
        let shared = Arc::new(ClientShared {
            number: CLIENTS.fetch_add(1, Ordering::Relaxed),
            forks: forks(),
            place,
            state: Mutex::new(state),
        });
        Self { shared }
    }

    /// The answer to a lost connection; [`Reconnect::Never`] at first.
    pub fn set_reconnect(&self, reconnect: Reconnect) {
        if let Ok(mut state) = self.state() {
            state.reconnect = reconnect;
        }
    }

    /// The policy that [`Client::set_reconnect`] has set.
    pub fn reconnect(&self) -> Reconnect {
        self.state()
            .map_or(Reconnect::Never, |state| state.reconnect)
    }

    /// The number of this process in the kernel. `None`: the connection was lost, or this is a
    /// child of fork(2).
    pub fn process(&self) -> Option<i32> {
        let state = self.state().ok()?;
        let connection = state.connection.as_ref()?;
        (!connection.is_lost()).then_some(connection.process)
    }

    /// Makes a system call: its number on x86-64, and its arguments as the kernel's ABI has them.
    /// Returns the result as the kernel has it: -4095 to -1 is an error number. Blocks as the call
    /// does. Besides the kernel's errors there are
    ///
    /// | error | why |
    /// |---|---|
    /// | `ENOTCONN` | there is no connection, or it was lost during the call |
    /// | `ESRCH` | the process was killed in the kernel, or the calling thread is about to end |
    /// | `EDEADLK` | a signal handler calls, and has interrupted a call of the same thread |
    /// | `EOPNOTSUPP`, `EINVAL` | the call does not travel, or not with these arguments |
    ///
    /// # Safety
    ///
    /// Pointers lead to memory as the call needs it, which no other thread changes meanwhile.
    pub unsafe fn call(&self, number: u64, arguments: [u64; 6]) -> i64 {
        // SAFETY: the caller has promised it.
        let mut memory = unsafe { OwnMemory::new() };
        let made = self.with_slot(|slot| make_call(&mut memory, slot, number, arguments));
        match made {
            Ok(result) => result,
            Err(end) => -i64::from(self.errno(end)),
        }
    }

    /// The error number for a call that has no result.
    pub(crate) fn errno(&self, end: CallEnd) -> i32 {
        match end {
            CallEnd::Refused(errno) => errno,
            CallEnd::Lost => {
                if self.reconnect() == Reconnect::Die {
                    eprintln!("the connection to {} was lost", self.shared.place.shown());
                    // SAFETY: the call ends this process, and runs nothing of it.
                    unsafe { libc::_exit(1) };
                }
                libc::ENOTCONN
            }
        }
    }

    pub(crate) fn place(&self) -> &ServerPlace {
        &self.shared.place
    }

    /// Does something with the calling thread's slot.
    pub(crate) fn with_slot<T>(
        &self,
        work: impl FnOnce(&mut AttachedSlot) -> Result<T, CallEnd>,
    ) -> Result<T, CallEnd> {
        with_slot(self.shared.number, || self.attach(), work)
    }

    /// Does something with a slot for this alone. No connection is made for it.
    pub(crate) fn with_own_slot<T>(
        &self,
        work: impl FnOnce(&mut AttachedSlot) -> Result<T, CallEnd>,
    ) -> Result<T, CallEnd> {
        if self.process().is_none() {
            return Err(CallEnd::Lost);
        }
        with_own_slot(self.shared.number, || self.attach(), work)
    }

    /// `ENOTCONN`: this is a child, in which another thread may have held the lock at the fork.
    fn state(&self) -> Result<MutexGuard<'_, ClientState>, CallEnd> {
        if self.shared.forks != forks() {
            return Err(CallEnd::Refused(libc::ENOTCONN));
        }
        let state = self.shared.state.lock();
        Ok(state.unwrap_or_else(PoisonError::into_inner))
    }

    /// A slot for the calling thread.
    fn attach(&self) -> Result<(Arc<ServerConnection>, Attachment), CallEnd> {
        let connection = self.connection()?;
        match connection.attach() {
            Ok(attachment) => Ok((connection, attachment)),
            Err(_) if connection.is_lost() => Err(CallEnd::Lost),
            Err(error) => Err(CallEnd::Refused(error.errno())),
        }
    }

    /// The connection, or a new one, as the policy has it. Others can change the policy between two
    /// attempts.
    fn connection(&self) -> Result<Arc<ServerConnection>, CallEnd> {
        let begin = Instant::now();
        let [mut pause, longest] = PAUSES;
        loop {
            let mut state = self.state()?;
            let known = state.connection.as_ref();
            if let Some(connection) = known.filter(|connection| !connection.is_lost()) {
                return Ok(Arc::clone(connection));
            }
            let is_over = match state.reconnect {
                Reconnect::Never | Reconnect::Die => break,
                Reconnect::For(time) => begin.elapsed() + pause > time,
                Reconnect::Forever => false,
            };
            match ServerConnection::open(&self.shared.place, None) {
                Ok(connection) => {
                    let connection = Arc::new(connection);
                    state.connection = Some(Arc::clone(&connection));
                    return Ok(connection);
                }
                Err(error) if error.is_final() || is_over => break,
                Err(_) => drop(state),
            }
            sleep(pause);
            pause = (2 * pause).min(longest);
        }
        Err(CallEnd::Refused(libc::ENOTCONN))
    }

    /// Takes the connection of a new client in the place of its own, which was lost. The error is
    /// the new client: it has another server, or this one belongs to a parent.
    pub(crate) fn take_over(&self, new: Self) -> Result<(), Self> {
        let is_same = self.shared.place == new.shared.place;
        let Some(mut state) = self.state().ok().filter(|_| is_same) else {
            return Err(new);
        };
        let taken = new.state().map(|mut new| new.connection.take());
        *state = ClientState {
            connection: taken.unwrap_or_default(),
            reconnect: Reconnect::default(),
        };
        Ok(())
    }

    /// Ends the process of the kernel. Calls under way, and later ones, fail with `ENOTCONN`.
    pub fn disconnect(&self) {
        leave(self.shared.number);
        if let Ok(mut state) = self.state() {
            state.reconnect = Reconnect::Never;
            if let Some(connection) = state.connection.take() {
                connection.close();
            }
        }
    }
}

impl Drop for ClientShared {
    fn drop(&mut self) {
        if self.forks == forks() {
            leave(self.number);
            let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(connection) = state.connection.take() {
                connection.close();
            }
        }
    }
}
