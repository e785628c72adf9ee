// SPDX-License-Identifier: GPL-2.0-only
//! The network of a kernel in this process: sockets, configuration, names, readiness. Needs the
//! real library of a profile that has the network.

mod cancel;
mod config;
mod examples;
mod filter;
mod impaired;
mod readiness;
mod resolve;
mod sockets;
mod support;
