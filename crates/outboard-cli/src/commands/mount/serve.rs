// SPDX-License-Identifier: GPL-2.0-only
//! The server: the process that runs the kernel and answers the host's requests.
//!
//! Its standard output is a socket to the keeper ([`protocol`](super::protocol)). When all that it
//! needs of the host is open it asks for the FUSE device: an image may be below the directory that
//! is mounted on, where nobody finds it by its name any more.

use super::options::Options;
use super::plan::Plan;
use super::protocol::{ServerParent, ServerStep};
use fuser::{Config, SessionACL};
use outboard::{receive_fd, signals, System};
use outboard_error::{Error, Result};
use outboard_fuse::owners::Owners;
use outboard_fuse::server::{
    granularity, Gate, HostCache, ServedVolume, ServerOptions, VolumeServer,
};
use outboard_volume::session::{Session, Style};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::thread;

/// Why the server stops.
enum ServerEnd {
    /// The host has unmounted.
    Unmounted(io::Result<()>),
    /// The keeper wants it, or is gone.
    Asked,
}

/// Has the keeper mount. The error: it did not, and has reported why.
fn ask_for_device(keeper: &mut ServerParent) -> Result<OwnedFd> {
    let sent = keeper.send(&ServerStep::Prepared);
    // The sandbox allows this call with standard output alone.
    let device = sent.ok().and_then(|()| receive_fd(io::stdout()).ok());
    device.ok_or(Error::AlreadyReported)
}

pub fn run(plan: &Plan, session: &mut Session) -> Result<()> {
    let failed = |error| Error::failed("cannot serve the mount", &error);
    let mut keeper = ServerParent::of_program().map_err(failed)?;
    // The keeper decides what a signal means.
    signals::ignore().map_err(failed)?;
    let options = &plan.options;
    let write = !options.read_only;
    // This closes the sandbox. The kernel has not seen a byte of the image yet.
    session.remember_more();
    session.prepare(&plan.image, write)?;
    let device = ask_for_device(&mut keeper)?;
    session.set_style(style(options));
    let index = session.mount(&plan.image, write)?;
    let owners = Owners {
        users: options.users.clone(),
        groups: options.groups.clone(),
        user: options.user,
        group: options.group,
    };
    let host = Arc::new(HostCache::default());
    let volume =
        ServedVolume::new(session.mounted(index), owners, Arc::clone(&host)).map_err(failed)?;
    let gate = Arc::new(Gate::new(volume));
    let watched = Arc::clone(&gate);
    session.watch_servers_while(move || watched.is_busy());
    let server_options = ServerOptions {
        checks: options.default_permissions,
        synchronous: options.sync,
        granularity: granularity(session.mounted(index)),
    };
    let server =
        VolumeServer::new(Arc::clone(&gate), Arc::clone(&host), server_options).map_err(failed)?;
    let (ended, ends) = channel();
    let threads = session.vcpus() as usize;
    start(server, &host, device, threads, ended.clone()).map_err(failed)?;
    listen(keeper, ended).map_err(failed)?;
    let end = ends.recv();
    gate.close();
    match end {
        Ok(ServerEnd::Unmounted(Err(error))) => {
            Err(Error::failed("requests cannot be read", &error))
        }
        _ => Ok(()),
    }
}

/// Nobody but the owner writes what has no permissions of its own.
const FOR_OTHERS: u32 = 0o022;

/// Files without an owner are an ordinary user's own, as he expects it of his stick, unless he says
/// otherwise.
fn style(options: &Options) -> Style {
    let (user, group) = (
        System::Host.effective_user(),
        System::Host.effective_group(),
    );
    let own = user != 0 && !options.is_mapped();
    Style {
        user: options.user.or(own.then_some(user)),
        group: options.group.or(own.then_some(group)),
        mask: Some(FOR_OTHERS),
        synchronous: options.sync,
        synchronous_directories: options.dirsync,
    }
}

/// Answers requests on threads of their own, as many as there are virtual CPUs.
fn start(
    server: VolumeServer,
    host: &HostCache,
    device: OwnedFd,
    threads: usize,
    ended: Sender<ServerEnd>,
) -> io::Result<()> {
    let mut config = Config::default();
    config.n_threads = Some(threads.max(1));
    // The host has checked who may come. Its own requests, as for writing behind, come from root.
    let fuse = fuser::Session::from_fd(server, device, SessionACL::All, config)?;
    host.connect(fuse.notifier());
    thread::Builder::new().spawn(move || {
        let _ = ended.send(ServerEnd::Unmounted(fuse.run()));
    })?;
    Ok(())
}

/// Reports to the keeper that requests are answered, and waits until it is to stop.
fn listen(mut keeper: ServerParent, ended: Sender<ServerEnd>) -> io::Result<()> {
    keeper
        .send(&ServerStep::Serving)
        .map_err(io::Error::other)?;
    thread::Builder::new().spawn(move || {
        // There is no request: this is the end of the channel.
        let _ = keeper.receive();
        let _ = ended.send(ServerEnd::Asked);
    })?;
    Ok(())
}
