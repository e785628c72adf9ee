// SPDX-License-Identifier: GPL-2.0-only
//! Knows all processes of clients, and sees their ends.
//!
//! | thread | does |
//! |---|---|
//! | keeper | opens files of new processes; ends those for which nobody came |
//! | watcher | waits for the ends of processes, and ends their connections |
//!
//! A thread that serves a client opens files for that client, so the keeper does it for the server.

use crate::process::ClientProcess;
use crate::tickets::Tickets;
use outboard::{Epoll, EpollEvent, Instance, System};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Between two looks at tickets.
const INTERVAL: Duration = Duration::from_millis(500);
/// Between two interrupts of a watcher that shall end.
const STOP_INTERVAL: Duration = Duration::from_millis(1);
/// Ends of processes that are taken at a time.
const EVENTS: usize = 64;

/// A process that was just made.
struct NewProcess {
    number: i32,
    user: u32,
    seed: i32,
    answer: SyncSender<io::Result<Arc<ClientProcess>>>,
}

/// See above.
pub(crate) struct Keeper {
    system: System,
    epoll: Epoll,
    processes: Mutex<HashMap<u64, Arc<ClientProcess>>>,
    tokens: AtomicU64,
    pub(crate) tickets: Tickets,
    news: Mutex<Sender<NewProcess>>,
    stopped: AtomicBool,
}

/// The watcher, for who ends it.
pub(crate) struct Watcher {
    keeper: Arc<Keeper>,
    /// Its number in the kernel.
    number: i32,
    thread: JoinHandle<()>,
}

impl Watcher {
    /// Ends it. Blocks for a moment.
    pub(crate) fn stop(self, instance: &Instance) {
        self.keeper.stopped.store(true, Ordering::SeqCst);
        while !self.thread.is_finished() {
            // Of a kernel that has halted, the watcher learns by itself.
            let _ = instance.interrupt(self.number);
            thread::sleep(STOP_INTERVAL);
        }
    }
}

impl Keeper {
    /// Starts both threads. The keeper ends with the last user of what this returns.
    pub(crate) fn start(system: &System) -> io::Result<(Arc<Self>, Watcher)> {
        let (news, to_keep) = channel();
        let keeper = Arc::new(Self {
            system: system.clone(),
            epoll: Epoll::new(system)?,
            processes: Mutex::default(),
            tokens: AtomicU64::new(0),
            tickets: Tickets::default(),
            news: Mutex::new(news),
            stopped: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&keeper);
        let keep = move || loop {
            let next = to_keep.recv_timeout(INTERVAL);
            let Some(keeper) = weak.upgrade() else { return };
            if !keeper.keep(next) {
                return;
            }
        };
        thread::Builder::new()
            .name("keeper".to_owned())
            .spawn(keep)?;
        let shared = Arc::clone(&keeper);
        let (begun, number) = sync_channel(1);
        let watch = move || {
            let _ = begun.send(shared.system.thread());
            shared.watch();
        };
        let thread = thread::Builder::new()
            .name("watcher".to_owned())
            .spawn(watch)?;
        let number = number.recv().map_err(io::Error::other)??;
        let watcher = Watcher {
            keeper: Arc::clone(&keeper),
            number,
            thread,
        };
        Ok((keeper, watcher))
    }

    fn processes(&self) -> MutexGuard<'_, HashMap<u64, Arc<ClientProcess>>> {
        self.processes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// All processes.
    pub(crate) fn all(&self) -> Vec<Arc<ClientProcess>> {
        let mut all: Vec<_> = self.processes().values().cloned().collect();
        all.sort_unstable_by_key(|process| process.number);
        all
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.processes().len()
    }

    /// Adds a process of which `seed` is the only task. Any thread may ask for it, also one that is
    /// another process.
    pub(crate) fn add(&self, number: i32, user: u32, seed: i32) -> io::Result<Arc<ClientProcess>> {
        let gone = || io::Error::from_raw_os_error(libc::ENODEV);
        let (answer, answered) = sync_channel(1);
        let new = NewProcess {
            number,
            user,
            seed,
            answer,
        };
        let news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.send(new).map_err(|_| gone())?;
        drop(news);
        answered.recv().map_err(|_| gone())?
    }

    /// The process has ended, and no thread serves it any more. Not for threads that are another
    /// process.
    pub(crate) fn remove(&self, process: &Arc<ClientProcess>) {
        self.tickets.forget(process);
        if self.processes().remove(&process.token).is_some() {
            // The watcher may have done it.
            let _ = self.epoll.remove(&process.file);
        }
    }

    /// Does one thing. Returns whether there will be others.
    fn keep(&self, next: Result<NewProcess, RecvTimeoutError>) -> bool {
        match next {
            Ok(new) => {
                let made = self.open(&new);
                // Nobody waits any more: the process ends without a thread.
                if let Err(error) = new.answer.send(made) {
                    if let Ok(process) = error.0 {
                        process.kill();
                    }
                }
                true
            }
            Err(RecvTimeoutError::Timeout) => {
                let expired = self.tickets.expired();
                expired
                    .iter()
                    .for_each(|(process, waits)| process.give_up(*waits));
                true
            }
            Err(RecvTimeoutError::Disconnected) => false,
        }
    }

    fn open(&self, new: &NewProcess) -> io::Result<Arc<ClientProcess>> {
        let file = self.system.process_file(new.number).inspect_err(|_| {
            // Nobody has waited for it yet, so the number is its own.
            let _ = self.system.send_signal(new.number, libc::SIGKILL);
        })?;
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        let process = ClientProcess::new(new.number, new.user, token, file, new.seed);
        let process = Arc::new(process);
        self.processes().insert(token, Arc::clone(&process));
        let added = self.epoll.add(&process.file, libc::EPOLLIN as u32, token);
        if let Err(error) = added {
            self.processes().remove(&token);
            process.kill();
            return Err(error);
        }
        Ok(process)
    }

    /// Until it is stopped, or the kernel halts.
    fn watch(&self) {
        let mut events = [EpollEvent { events: 0, u64: 0 }; EVENTS];
        while !self.stopped.load(Ordering::SeqCst) {
            let ended: Vec<u64> = match self.epoll.wait(&mut events) {
                Ok(events) => events.iter().map(|event| event.u64).collect(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            for token in ended {
                let process = self.processes().get(&token).cloned();
                if let Some(process) = process {
                    let _ = self.epoll.remove(&process.file);
                    self.end(&process);
                }
            }
        }
    }

    /// A process has ended.
    fn end(&self, process: &Arc<ClientProcess>) {
        self.tickets.forget(process);
        drop(process.take_next_program());
        if !process.disconnect() {
            self.remove(process);
        }
    }
}
