// SPDX-License-Identifier: GPL-2.0-only
//! Transfers with checked contents between two kernels on a hub, while packets are lost, doubled
//! and late, while the MTU changes, and while interfaces go down and come up.

use crate::support::*;
use outboard::net::{Net, Netem};
use outboard::Kernel;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const BULK: usize = 2 << 20;
const VCPUS: [u32; 3] = [1, 2, 4];
/// Shorter than the time after which TCP repeats a segment.
const PAUSE: Duration = Duration::from_millis(20);

/// The two ends of one connection.
struct Pair {
    kernels: [Kernel; 2],
    /// Removed when they are dropped, before their kernels.
    interfaces: Vec<outboard::Interface>,
    hub: std::path::PathBuf,
}

impl Drop for Pair {
    fn drop(&mut self) {
        self.interfaces.clear();
        // A leftover in the directory of temporary files harms nobody.
        let _ = std::fs::remove_file(&self.hub);
    }
}

impl Pair {
    fn new(name: &str, vcpus: u32) -> io::Result<Self> {
        let file = format!("outboard-{name}-{vcpus}-{}", std::process::id());
        let hub = std::env::temp_dir().join(file);
        let boot = || Kernel::builder().vcpus(vcpus).memory(256 << 20).boot();
        let kernels = [boot()?, boot()?];
        let mut interfaces = Vec::new();
        for (kernel, host) in kernels.iter().zip(1..) {
            let words = format!("hub:{},ip=10.0.0.{host}/24", hub.display());
            interfaces.push(kernel.add_interface(&words)?);
        }
        Ok(Self {
            kernels,
            interfaces,
            hub,
        })
    }

    fn nets(&self) -> [Net; 2] {
        [self.kernels[0].net(), self.kernels[1].net()]
    }

    /// Exchanges bytes while `trouble` runs again and again. It runs once at least.
    fn exchange(&self, trouble: impl Fn(&[Net; 2]) -> io::Result<()> + Sync) -> io::Result<()> {
        let nets = self.nets();
        let listener = nets[1].tcp_listen("10.0.0.2:80")?;
        let client = nets[0].tcp_connect(listener.local_addr()?)?;
        let (server, _) = listener.accept()?;
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let troubles = scope.spawn(|| {
                let mut count = 0;
                while count == 0 || !is_over.load(Ordering::SeqCst) {
                    trouble(&nets)?;
                    count += 1;
                }
                io::Result::Ok(())
            });
            let result = exchange(client, server, BULK);
            is_over.store(true, Ordering::SeqCst);
            troubles.join().expect("no panic")?;
            result
        })
    }
}

/// Packets that the kernel's TCP has sent once more.
fn repeated(kernel: &Kernel) -> io::Result<u64> {
    let text = read_file(kernel, "/proc/net/snmp")?;
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let names = lines.next().expect("the names").split_whitespace();
    let values = lines.next().expect("the values").split_whitespace();
    let (_, value) = names
        .zip(values)
        .find(|(name, _)| *name == "RetransSegs")
        .expect("Linux counts them");
    Ok(value.parse().expect("it is a number"))
}

#[test]
fn bytes_survive_loss_duplicates_and_another_order() -> io::Result<()> {
    let bad = Netem {
        delay: Duration::from_millis(1),
        jitter: Duration::from_micros(300),
        loss: 0.02,
        duplicate: 0.02,
        reorder: 0.1,
        seed: Some(11),
        ..Netem::default()
    };
    for vcpus in VCPUS {
        let pair = Pair::new("bad", vcpus)?;
        for net in pair.nets() {
            net.set_netem("eth0", &bad)?;
        }
        pair.exchange(|_| {
            thread::sleep(PAUSE);
            Ok(())
        })?;
        let count = repeated(&pair.kernels[0])? + repeated(&pair.kernels[1])?;
        assert!(count > 0, "nothing was lost");
    }
    Ok(())
}

#[test]
fn bytes_survive_changes_of_the_mtu() -> io::Result<()> {
    for vcpus in VCPUS {
        let pair = Pair::new("mtu", vcpus)?;
        pair.exchange(|nets| {
            for (mtu, net) in [
                (576, 0),
                (1280, 1),
                (1500, 0),
                (600, 1),
                (1499, 0),
                (1500, 1),
            ] {
                nets[net].set_mtu("eth0", mtu)?;
                thread::sleep(PAUSE);
            }
            Ok(())
        })?;
    }
    Ok(())
}

#[test]
fn bytes_survive_interfaces_that_go_down_and_come_up() -> io::Result<()> {
    for vcpus in VCPUS {
        let pair = Pair::new("down", vcpus)?;
        // Slow enough that the interfaces go down in the middle of it.
        let slow = Netem {
            delay: Duration::from_millis(5),
            rate: Some(2_000_000),
            ..Netem::default()
        };
        for net in pair.nets() {
            net.set_netem("eth0", &slow)?;
        }
        pair.exchange(|nets| {
            for net in nets {
                net.set_down("eth0")?;
                thread::sleep(PAUSE / 4);
                net.set_up("eth0")?;
                // Long enough for a packet that TCP repeats, 0.2 s later: each one that is lost
                // doubles that time, up to two minutes.
                thread::sleep(PAUSE * 25);
            }
            Ok(())
        })?;
        let count = repeated(&pair.kernels[0])? + repeated(&pair.kernels[1])?;
        assert!(count > 0, "no packet met an interface that was down");
    }
    Ok(())
}
