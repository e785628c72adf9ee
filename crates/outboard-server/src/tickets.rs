// SPDX-License-Identifier: GPL-2.0-only
//! Processes that wait for a connection with their ticket.

use crate::process::ClientProcess;
use outboard_protocol::client::Ticket;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Why a process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// It is a copy, and its host process did not attach yet.
    Copy,
    /// Its next program did not attach yet.
    Program,
}

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

    /// The ticket is good from now on, for so long.
    pub(crate) fn add(
        &self,
        ticket: Ticket,
        process: &Arc<ClientProcess>,
        waits: Waits,
        time: Duration,
    ) {
        let pending = Pending {
            process: Arc::clone(process),
            waits,
            until: Instant::now() + time,
        };
        self.all().insert(ticket, pending);
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
    pub(crate) fn expired(&self) -> Vec<Arc<ClientProcess>> {
        let now = Instant::now();
        let mut expired = Vec::new();
        self.all().retain(|_, pending| {
            let is_over = pending.until <= now;
            if is_over {
                expired.push(Arc::clone(&pending.process));
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
