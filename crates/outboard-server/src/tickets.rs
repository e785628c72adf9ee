// SPDX-License-Identifier: GPL-2.0-only
//! Processes that wait for a connection with their ticket.

use crate::process::ClientProcess;
use crate::waits::Waits;
use outboard_protocol::client::Ticket;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tickets of a process at a time.
const MOST: usize = 64;

struct Pending {
    process: Arc<ClientProcess>,
    waits: Waits,
    until: Instant,
}

/// The tickets that are good.
#[derive(Default)]
pub(crate) struct Tickets(Mutex<HashMap<Ticket, Pending>>);

impl Tickets {
    fn all(&self) -> MutexGuard<'_, HashMap<Ticket, Pending>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ticket is good from now on, for so long. `EAGAIN`: the process has too many.
    pub(crate) fn add(
        &self,
        ticket: Ticket,
        process: &Arc<ClientProcess>,
        waits: Waits,
        time: Duration,
    ) -> io::Result<()> {
        let mut all = self.all();
        let of_process = |pending: &&Pending| Arc::ptr_eq(&pending.process, process);
        if all.values().filter(of_process).count() >= MOST {
            return Err(io::Error::from_raw_os_error(libc::EAGAIN));
        }
        let pending = Pending {
            process: Arc::clone(process),
            waits,
            until: Instant::now() + time,
        };
        all.insert(ticket, pending);
        Ok(())
    }

    /// Takes a process by its ticket, for a user of the host.
    pub(crate) fn redeem(&self, ticket: &Ticket, user: u32) -> Option<(Arc<ClientProcess>, Waits)> {
        let mut all = self.all();
        if all.get(ticket)?.process.user != user {
            return None;
        }
        let pending = all.remove(ticket)?;
        Some((pending.process, pending.waits))
    }

    /// Takes those whose time is over.
    pub(crate) fn expired(&self) -> Vec<(Arc<ClientProcess>, Waits)> {
        let now = Instant::now();
        let mut expired = Vec::new();
        self.all().retain(|_, pending| {
            let is_over = pending.until <= now;
            if is_over {
                expired.push((Arc::clone(&pending.process), pending.waits));
            }
            !is_over
        });
        expired
    }

    /// Takes all tickets of a process that has ended.
    pub(crate) fn forget(&self, process: &Arc<ClientProcess>) {
        self.all()
            .retain(|_, pending| !Arc::ptr_eq(&pending.process, process));
    }
}
