// SPDX-License-Identifier: GPL-2.0-only
//! Tickets that nobody can guess.

use outboard::System;
use outboard_protocol::client::{Ticket, TICKET_BYTES};
use std::io;

/// A new one, from the host's random numbers.
pub(crate) fn ticket() -> io::Result<Ticket> {
    let mut bytes = [0; TICKET_BYTES];
    System::Host.random(&mut bytes)?;
    Ok(Ticket(bytes))
}
