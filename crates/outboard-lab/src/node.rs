// SPDX-License-Identifier: GPL-2.0-only
//! A node: a process with one kernel. It boots, configures its network, then serves requests.

use crate::echo::ping;
use crate::protocol::{Answer, InterfaceCounters, NodeParent, NodeRequest};
use crate::routes::{routes_of, NodeRoute};
use crate::settings::LabSettings;
use crate::topology::{Echo, Port, Topology};
use crate::transfer::{self, Receiver};
use crate::tunnel;
use outboard::net::{Net, Netem};
use outboard::{errno, Interface, Kernel};
use outboard_worker::WorkerError;
use std::ffi::CString;
use std::io;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Most bytes of a kernel's memory. It starts with less and grows.
const MEMORY: u64 = 256 << 20;
/// Words of the kernel's command line. They are part of the snapshot, so they cost no time later.
const WORDS: [&str; 10] = [
    // Hash tables of the size that a node needs, not of the size that the memory allows.
    "dhash_entries=1024",
    "ihash_entries=1024",
    "thash_entries=1024",
    "uhash_entries=256",
    // Slabs of single pages, where objects fit: larger ones have room that a node never needs.
    "slab_max_order=0",
    // RCU needs no pages in advance.
    "rcutree.rcu_min_cached_objs=0",
    // Work that would wake an idle node again and again: exact counters in /proc/vmstat, and probes
    // of neighbours that a program manages.
    "sysctl.vm.stat_interval=3600",
    "sysctl.net.ipv4.neigh.default.interval_probe_time_ms=3600000",
    // Interfaces inherit the interval of questions for a neighbour's address. USUAL comes later.
    "sysctl.net.ipv4.neigh.default.retrans_time_ms=20",
    // Datagrams wait in the socket while a busy host does not run the node.
    "sysctl.net.core.rmem_default=4000000",
];
/// Words for labs with IPv6, and without it.
const WITH_V6: [&str; 4] = [
    "sysctl.net.ipv6.neigh.default.interval_probe_time_ms=3600000",
    "sysctl.net.ipv6.neigh.default.retrans_time_ms=20",
    // The lab knows that addresses are unique. An address that waits for the proof cannot ask for
    // neighbours.
    "sysctl.net.ipv6.conf.default.accept_dad=0",
    "sysctl.net.ipv6.conf.default.accept_ra=0",
];
const WITHOUT_V6: &str = "ipv6.disable=1";
/// Most interfaces that a snapshot can have in advance.
const SPARE_INTERFACES_MOST: usize = 32;
/// How long the ports of a link may take to see each other.
const MEETING: Duration = Duration::from_secs(20);
const MEETING_TRY: Duration = Duration::from_millis(20);
/// Linux's own interval of questions for a neighbour's address, in milliseconds.
const USUAL: &str = "1000";
/// Twice the interval at which a node looks for old neighbours, in milliseconds.
const RARE: &str = "3600000";

struct Node<'a> {
    topology: &'a Topology,
    settings: &'a LabSettings,
    index: usize,
    net: Net,
    interfaces: Vec<Interface>,
    routes: Vec<NodeRoute>,
    receiver: Option<Receiver>,
}

/// Runs a node until the lab ends, in a process of its own.
pub fn run(
    topology: &Topology,
    settings: &LabSettings,
    index: usize,
    lab: &mut NodeParent,
) -> Result<(), WorkerError> {
    match Node::start(topology, settings, index) {
        Ok(mut node) => {
            let served = lab.send(&Answer::Done).and_then(|()| node.serve(lab));
            // Their files get the last frames when interfaces are removed. Else nobody needs that:
            // the process ends.
            if settings.captures.is_some() {
                node.interfaces.clear();
            }
            std::mem::forget(node);
            served
        }
        Err(error) => lab.send(&Answer::Failed(error.to_string())),
    }
}

/// The components that the nodes of a topology use. They are part of the snapshot, and loaded once.
fn components(topology: &Topology) -> String {
    let mut names = vec!["virtio_net"];
    if topology.links.iter().any(|link| link.netem.is_some()) {
        names.push("sch_netem");
    }
    if topology.nodes.iter().any(|node| node.firewall.is_some()) {
        names.extend(["nf_tables", "nft_ct"]);
    }
    if topology.nodes.iter().any(|node| node.tunnel.is_some()) {
        names.extend(tunnel::COMPONENTS);
    }
    names.join(" ")
}

fn command_line(topology: &Topology) -> String {
    let mut words = WORDS.to_vec();
    if topology.has_v6() {
        words.extend(WITH_V6);
    } else {
        words.push(WITHOUT_V6);
    }
    words.join(" ")
}

/// Interfaces that a node's snapshot has. A link with an MTU of its own needs another device.
fn spare_interfaces(topology: &Topology, index: usize) -> u32 {
    let ports: Vec<_> = topology.ports_of(index).collect();
    let has_mtu = |(link, _, _): &(usize, _, _)| topology.links[*link].mtu.is_some();
    if ports.len() <= SPARE_INTERFACES_MOST && !ports.iter().any(has_mtu) {
        ports.len() as u32
    } else {
        0
    }
}

fn boot(topology: &Topology, settings: &LabSettings, index: usize) -> io::Result<Kernel> {
    let mut builder = Kernel::builder()
        .vcpus(topology.nodes[index].vcpus)
        .memory(MEMORY)
        .command_line(CString::new(command_line(topology))?)
        .components(CString::new(components(topology))?)
        .spare_interfaces(spare_interfaces(topology, index));
    if let Some(directory) = &settings.snapshots {
        builder = builder.snapshots(CString::new(directory.as_os_str().as_bytes())?);
    }
    builder.boot()
}

/// A path as a description of an interface has it.
fn quoted(path: &Path) -> io::Result<String> {
    let text = path.to_str().ok_or(io::ErrorKind::InvalidInput)?;
    Ok(text.replace('\\', "\\\\").replace(',', "\\,"))
}

/// Each port makes choices of its own, the same in each run with one seed. `None`: other choices in
/// each run.
fn port_seed(given: Option<u64>, is_deterministic: bool, link: usize, port: usize) -> Option<u64> {
    let seed = given.or(is_deterministic.then_some(1))?;
    let own = (link as u64) << 32 | (port as u64) << 16;
    Some(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(own))
}

impl<'a> Node<'a> {
    fn start(topology: &'a Topology, settings: &'a LabSettings, index: usize) -> io::Result<Self> {
        let kernel = boot(topology, settings, index)?;
        let mut node = Self {
            topology,
            settings,
            index,
            net: kernel.net(),
            interfaces: Vec::new(),
            routes: Vec::new(),
            receiver: None,
        };
        node.prepare()?;
        for (link, port, found) in topology.ports_of(index) {
            let description = node.description(link, port, found)?;
            node.interfaces.push(kernel.add_interface(&description)?);
            if let Some(remote) = topology.nodes[index].tunnel {
                let mtu = topology.links[link].mtu;
                let outside = tunnel::open(&kernel, &found.interface(), mtu, remote)?;
                node.interfaces.push(outside);
            }
        }
        node.configure()?;
        Ok(node)
    }

    fn ports(&self) -> Vec<(usize, usize, &'a Port)> {
        self.topology.ports_of(self.index).collect()
    }

    fn has_v6(&self) -> bool {
        self.topology.address_of(self.index, Some(true)).is_some()
    }

    /// Settings that interfaces inherit.
    fn prepare(&self) -> io::Result<()> {
        let net = &self.net;
        if !self.topology.has_v6() {
            return Ok(());
        }
        if !self.has_v6() {
            net.set_sysctl("net.ipv6.conf.all.disable_ipv6", "1")?;
            return net.set_sysctl("net.ipv6.conf.default.disable_ipv6", "1");
        }
        net.set_sysctl("net.ipv6.conf.all.keep_addr_on_down", "1")
    }

    fn description(&self, link: usize, port: usize, found: &Port) -> io::Result<String> {
        let segment = &self.topology.links[link];
        let hub = quoted(&self.settings.directory.join(format!("{link}")))?;
        let mac = segment
            .hardware_address(link, port)
            .map(|byte| format!("{byte:02x}"))
            .join(":");
        // The kernel counts interfaces as the topology does.
        let mut text = format!("hub:{hub},mac={mac}");
        for address in &found.addresses {
            text.push_str(&format!(",ip={address}"));
        }
        if let Some(mtu) = segment.mtu {
            text.push_str(&format!(",mtu={mtu}"));
        }
        if let Some(directory) = self
            .settings
            .captures
            .as_ref()
            .filter(|_| self.captures(link))
        {
            let name = self.topology.capture_name(link, self.index);
            text.push_str(&format!(",pcap={}", quoted(&directory.join(name))?));
        }
        Ok(text)
    }

    /// All links are captured, unless some of them ask for it.
    fn captures(&self, link: usize) -> bool {
        let links = &self.topology.links;
        links[link].captures || !links.iter().any(|link| link.captures)
    }

    fn configure(&mut self) -> io::Result<()> {
        let node = &self.topology.nodes[self.index];
        if self.ports().is_empty() {
            self.net.set_up("lo")?;
        }
        for address in &node.loopbacks {
            self.net.add_address("lo", *address)?;
        }
        if node.forwards {
            self.net.set_sysctl("net.ipv4.ip_forward", "1")?;
            if self.has_v6() {
                self.net.set_sysctl("net.ipv6.conf.all.forwarding", "1")?;
            }
        }
        for (name, value) in &node.sysctls {
            self.net.set_sysctl(name, value)?;
        }
        let up = vec![true; self.topology.links.len()];
        self.set_routes(routes_of(self.topology, &up, self.index))
    }

    /// Replaces the routes. The kernel has removed those over interfaces that went down.
    fn set_routes(&mut self, wanted: Vec<NodeRoute>) -> io::Result<()> {
        for old in &self.routes {
            if let Some(route) = old.route().filter(|_| !wanted.contains(old)) {
                match self.net.delete_route(&route) {
                    Err(error) if errno(&error) == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        for new in &wanted {
            let is_old = self.routes.contains(new);
            let Some(route) = new.route() else {
                continue;
            };
            match self.net.add_route(&route) {
                Err(error) if is_old && errno(&error) == Some(libc::EEXIST) => {}
                other => other?,
            }
        }
        self.routes = wanted;
        Ok(())
    }

    fn serve(&mut self, lab: &mut NodeParent) -> Result<(), WorkerError> {
        while let Some(request) = lab.receive()? {
            let answer = self.answer(request);
            lab.send(&answer.unwrap_or_else(|error| Answer::Failed(error.to_string())))?;
        }
        Ok(())
    }

    fn answer(&mut self, request: NodeRequest) -> io::Result<Answer> {
        match request {
            NodeRequest::Meet => {
                self.meet()?;
                self.settle()?;
            }
            NodeRequest::Worsen => self.worsen()?,
            NodeRequest::Ping(echo) => return ping(&self.net, &echo).map(Answer::Ping),
            NodeRequest::Listen { is_tcp, transfer } => {
                self.receiver = Some(transfer::listen(&self.net, is_tcp, &transfer)?);
            }
            NodeRequest::Receive { transfer, .. } => {
                let receiver = self.receiver.take().ok_or(io::ErrorKind::NotConnected)?;
                return Ok(Answer::TransferStep(receiver.receive(&transfer)));
            }
            NodeRequest::Send { is_tcp, transfer } => {
                let result = transfer::send(&self.net, is_tcp, &transfer);
                return Ok(Answer::TransferStep(result));
            }
            NodeRequest::TopologyLink { interface, is_up } => self.set_link(interface, is_up)?,
            NodeRequest::Routes(routes) => self.set_routes(routes)?,
            NodeRequest::Sysctl { name, value } => self.net.set_sysctl(&name, &value)?,
            NodeRequest::Counters => return self.counters().map(Answer::Counters),
        }
        Ok(Answer::Done)
    }

    /// Waits for the ports that were added after this node's: a frame to a port that is not there
    /// yet would be lost, and the question for its address repeated only later.
    fn meet(&self) -> io::Result<()> {
        if self.settings.is_deterministic {
            self.add_neighbours()?;
        }
        for (link, port, found) in self.ports() {
            for other in &self.topology.links[link].ports[port + 1..] {
                self.meet_one(link, found, other)?;
            }
        }
        Ok(())
    }

    /// Both families: each has neighbours of its own. Another port may have none of a family, or
    /// be behind a router of the link.
    fn meet_one(&self, link: usize, own: &Port, other: &Port) -> io::Result<()> {
        for is_v6 in [false, true] {
            let mut addresses = own.neighbour_addresses(other);
            if let Some(address) = addresses.find(|address| address.is_ipv6() == is_v6) {
                self.meet_at(link, other, address)?;
            }
        }
        Ok(())
    }

    fn meet_at(&self, link: usize, other: &Port, address: IpAddr) -> io::Result<()> {
        let echo = Echo {
            from: self.index,
            to: address,
            count: 1,
            interval: Duration::ZERO,
            timeout: MEETING_TRY,
            size: 8,
        };
        let end = Instant::now() + MEETING;
        while ping(&self.net, &echo)?.received == 0 {
            if Instant::now() > end {
                let link = &self.topology.links[link].name;
                let other = &self.topology.nodes[other.node].name;
                let text = format!("link {link}: node {other} does not answer at {address}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
        }
        Ok(())
    }

    /// Neighbours whose addresses are known send no questions that netem could drop.
    fn add_neighbours(&self) -> io::Result<()> {
        for (link, own, found) in self.ports() {
            for (port, other) in self.topology.links[link].ports.iter().enumerate() {
                for address in other.addresses.iter().filter(|_| port != own) {
                    let hardware = self.topology.links[link].hardware_address(link, port);
                    let address = address.address();
                    self.net
                        .add_neighbour(&found.interface(), address, &hardware)?;
                }
            }
        }
        Ok(())
    }

    /// Ends what only the start needs.
    fn settle(&self) -> io::Result<()> {
        let set = |setting: String, value| self.net.set_sysctl(&setting, value);
        for (_, _, port) in self.ports() {
            let name = port.interface();
            let mut addresses = port.addresses.iter().map(|prefix| prefix.address());
            set(format!("net.ipv4.neigh.{name}.retrans_time_ms"), USUAL)?;
            if addresses.any(|address| address.is_ipv6()) {
                set(format!("net.ipv6.neigh.{name}.retrans_time_ms"), USUAL)?;
            }
        }
        // The value for interfaces to come also sets how often an idle node wakes.
        let families = if self.topology.has_v6() {
            &["ipv4", "ipv6"][..]
        } else {
            &["ipv4"]
        };
        families.iter().try_for_each(|family| {
            let setting = format!("net.{family}.neigh.default.base_reachable_time_ms");
            set(setting, RARE)
        })
    }

    fn worsen(&self) -> io::Result<()> {
        for (link, port, found) in self.ports() {
            let name = found.interface();
            // Frames from the other machine have passed the netem of their sender.
            let is_tunnel = self.topology.nodes[self.index].tunnel.is_some();
            if let Some(netem) = self.topology.links[link].netem.filter(|_| !is_tunnel) {
                self.net.set_merging(&name, false)?;
                self.net.set_netem(&name, &self.seeded(netem, link, port))?;
            }
        }
        match &self.topology.nodes[self.index].firewall {
            Some(firewall) => self.net.set_firewall(firewall.policy, &firewall.rules),
            None => Ok(()),
        }
    }

    /// A link's netem at one of its ports.
    fn seeded(&self, netem: Netem, link: usize, port: usize) -> Netem {
        let seed = netem.seed.or(self.topology.seed);
        Netem {
            seed: port_seed(seed, self.settings.is_deterministic, link, port),
            ..netem
        }
    }

    fn set_link(&self, interface: usize, is_up: bool) -> io::Result<()> {
        let name = format!("eth{interface}");
        if !is_up {
            return self.net.set_down(&name);
        }
        self.net.set_up(&name)?;
        if self.settings.is_deterministic {
            self.add_neighbours()?;
        }
        Ok(())
    }

    fn counters(&self) -> io::Result<Vec<InterfaceCounters>> {
        let all = self.net.counters()?.into_iter();
        let devices = all.filter(|counters| counters.link != "lo");
        let counters = devices.map(|counters| InterfaceCounters {
            interface: counters.link,
            received_packets: counters.received_packets,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            sent_bytes: counters.sent_bytes,
            dropped: counters.queue_drops + counters.sent_drops + counters.received_drops,
        });
        Ok(counters.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deterministic_choices_need_no_seed_in_the_file() {
        assert_eq!(port_seed(None, false, 0, 0), None);
        let own = port_seed(None, true, 0, 0);
        assert!(own.is_some());
        assert_ne!(own, port_seed(None, true, 0, 1));
        assert_ne!(own, port_seed(None, true, 1, 0));
        // The seed of the file comes first.
        assert_ne!(own, port_seed(Some(7), true, 0, 0));
        assert_eq!(
            port_seed(Some(7), true, 2, 1),
            port_seed(Some(7), false, 2, 1)
        );
    }
}
