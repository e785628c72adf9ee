// SPDX-License-Identifier: GPL-2.0-only
//! The readiness bridge: one thread sits in the kernel's epoll_wait and calls functions.
//!
//! All files are watched edge-triggered for everything. So the thread sleeps while nothing changes,
//! and an event that nobody handles does not repeat. The thread ends when epoll_wait fails, which
//! is when the kernel halts. It holds no kernel, so the kernel can halt.
//!
//! | step | the function's place in the table | epoll |
//! |---|---|---|
//! | watch | inserted first | then the file is added |
//! | event | cloned under the lock, called without it | |
//! | drop of the watch | removed; numbers are not used again | the file is removed first |
//! | end of the thread | all are taken, then called; later watches fail | |

use crate::Fd;
use outboard_sys::{libc, Epoll, EpollEvent, KernelError, System};
use std::collections::HashMap;
use std::io;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Events that one call of epoll_wait returns at most.
const BATCH: usize = 256;

const READABLE: i32 = libc::EPOLLIN | libc::EPOLLPRI | CLOSED;
const WRITABLE: i32 = libc::EPOLLOUT | libc::EPOLLERR | libc::EPOLLHUP;
const CLOSED: i32 = libc::EPOLLRDHUP | libc::EPOLLHUP | libc::EPOLLERR;
const WATCHED: i32 =
    libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLOUT | libc::EPOLLRDHUP | libc::EPOLLET;

/// The calls that a file is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ready(i32);

impl Ready {
    /// After the kernel's halt: calls fail instead of blocking.
    const END: Self = Self(READABLE | WRITABLE);

    /// A read or an accept returns something: data, the end, an error.
    pub fn is_readable(self) -> bool {
        self.0 & READABLE != 0
    }

    /// A write returns something.
    pub fn is_writable(self) -> bool {
        self.0 & WRITABLE != 0
    }

    /// The peer sends nothing more, or there is an error, or the kernel was halted.
    pub fn is_closed(self) -> bool {
        self.0 & CLOSED != 0
    }

    /// Ready for what one of the two is ready for.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A socket whose readiness can be watched.
pub trait EventSource {
    /// The descriptor.
    #[doc(hidden)]
    fn descriptor(&self) -> &Fd;
}

pub(crate) type Function = Arc<dyn Fn(Ready) + Send + Sync>;

#[derive(Default)]
struct WatchTable {
    next: u64,
    functions: HashMap<u64, Function>,
    has_ended: bool,
}

/// The bridge of one kernel.
pub(crate) struct Bridge {
    epoll: Epoll,
    table: Mutex<WatchTable>,
}

/// A file that is watched, until this is dropped.
pub struct Watch {
    bridge: Arc<Bridge>,
    file: Fd,
    number: u64,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Watch").field(&self.number).finish()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.bridge.epoll.remove(&self.file);
        self.bridge.forget(self.number);
    }
}

impl Bridge {
    fn start(system: &System) -> io::Result<Arc<Self>> {
        let bridge = Arc::new(Self {
            epoll: Epoll::new(system)?,
            table: Mutex::default(),
        });
        let name = "outboard-ready".to_owned();
        let worker = Arc::clone(&bridge);
        thread::Builder::new()
            .name(name)
            .spawn(move || worker.run())?;
        Ok(bridge)
    }

    fn table(&self) -> MutexGuard<'_, WatchTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn watch(self: &Arc<Self>, file: &Fd, function: Function) -> io::Result<Watch> {
        let file = file.duplicate()?;
        let number = {
            let mut table = self.table();
            if table.has_ended {
                return Err(KernelError::Halted.into());
            }
            table.next += 1;
            let number = table.next;
            table.functions.insert(number, function);
            number
        };
        if let Err(error) = self.epoll.add(&file, WATCHED as u32, number) {
            self.forget(number);
            return Err(error);
        }
        Ok(Watch {
            bridge: Arc::clone(self),
            file,
            number,
        })
    }

    fn forget(&self, number: u64) {
        let function = self.table().functions.remove(&number);
        // Without the lock: what the function owns may watch something itself.
        drop(function);
    }

    /// Until the kernel halts.
    fn run(&self) {
        let mut buffer = vec![EpollEvent { events: 0, u64: 0 }; BATCH];
        loop {
            match self.epoll.wait(&mut buffer) {
                Ok(events) => events.iter().for_each(|event| {
                    let (number, bits) = (event.u64, event.events);
                    let function = self.table().functions.get(&number).cloned();
                    function.iter().for_each(|f| call(f, Ready(bits as i32)));
                }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        let functions = {
            let mut table = self.table();
            table.has_ended = true;
            std::mem::take(&mut table.functions)
        };
        functions.values().for_each(|f| call(f, Ready::END));
    }
}

/// A function that panics must not end the thread: others wait for it.
fn call(function: &Function, ready: Ready) {
    let _ = catch_unwind(AssertUnwindSafe(|| function(ready)));
}

/// The place of a kernel's bridge, which starts at its first use.
#[derive(Default)]
pub(crate) struct BridgePlace(Mutex<Option<Arc<Bridge>>>);

impl BridgePlace {
    pub(crate) fn get(&self, system: &System) -> io::Result<Arc<Bridge>> {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bridge) = &*place {
            return Ok(Arc::clone(bridge));
        }
        Ok(Arc::clone(place.insert(Bridge::start(system)?)))
    }
}
