// SPDX-License-Identifier: GPL-2.0-only
//! Interfaces, addresses, routes, network namespaces, netem, settings.

use crate::support::*;
use outboard::net::{Net, Netem, Route, TcpStream};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const BULK: usize = 8 << 20;
/// Datagrams that the receiver's buffer can hold.
const COUNT: u8 = 200;

/// Two network namespaces of one kernel with a veth pair between them: 10.0.0.1 and 10.0.0.2.
fn two_nodes() -> io::Result<(Net, Net)> {
    let net = boot()?.net();
    let (one, other) = (net.new_namespace()?, net.new_namespace()?);
    net.add_veth("left", "right")?;
    for (node, link, address) in [
        (&one, "left", "10.0.0.1/24"),
        (&other, "right", "10.0.0.2/24"),
    ] {
        net.move_link(link, node)?;
        node.rename_link(link, "eth0")?;
        node.add_address("eth0", address)?;
        node.set_up("eth0")?;
    }
    Ok((one, other))
}

fn connect(client: &Net, server: &Net, address: &str) -> io::Result<(TcpStream, TcpStream)> {
    let listener = server.tcp_listen(address)?;
    let stream = client.tcp_connect(listener.local_addr()?)?;
    let (accepted, _) = listener.accept()?;
    Ok((stream, accepted))
}

#[test]
fn a_new_kernel_has_lo_which_is_down() -> io::Result<()> {
    let net = boot()?.net();
    let lo = net.link("lo")?;
    assert!(!lo.is_up && !lo.is_running && lo.kind.is_none());
    assert_eq!((lo.mtu, lo.index), (65536, 1));
    assert!(net.tcp_connect("127.0.0.1:1").is_err());
    net.set_up("lo")?;
    let lo = net.link("lo")?;
    assert!(lo.is_up && lo.is_running);
    let addresses: Vec<String> = net
        .addresses()?
        .iter()
        .map(|address| format!("{} {}", address.link, address.prefix))
        .collect();
    assert_eq!(addresses, ["lo 127.0.0.1/8", "lo ::1/128"]);
    net.set_down("lo")?;
    assert!(!net.link("lo")?.is_up);
    Ok(())
}

#[test]
fn links_come_change_and_go() -> io::Result<()> {
    let net = net()?;
    net.add_veth("a", "b")?;
    net.add_dummy("d")?;
    net.add_bridge("br0")?;
    let kind = |name: &str| net.link(name).map(|link| link.kind.unwrap_or_default());
    assert_eq!(kind("a")?, "veth");
    assert_eq!(kind("d")?, "dummy");
    assert_eq!(kind("br0")?, "bridge");
    net.set_mtu("a", 9000)?;
    net.set_hardware_address("a", &[2, 0, 0, 0, 0, 7])?;
    let a = net.link("a")?;
    assert_eq!((a.mtu, a.hardware_address), (9000, vec![2, 0, 0, 0, 0, 7]));
    net.set_up("a")?;
    assert!(!net.link("a")?.is_running, "the other end is down");
    net.set_up("b")?;
    wait_until("the pair runs", || {
        net.link("a").is_ok_and(|a| a.is_running)
    });
    net.set_controller("b", Some("br0"))?;
    assert_eq!(net.link("b")?.controller, Some(net.link("br0")?.index));
    net.set_controller("b", None)?;
    assert_eq!(net.link("b")?.controller, None);
    net.rename_link("d", "dummy7")?;
    net.delete_link("a")?;
    let names: Vec<String> = net.links()?.into_iter().map(|link| link.name).collect();
    assert_eq!(names, ["lo", "dummy7", "br0"]);
    Ok(())
}

/// Each of 201 links is listed: more than one message of the kernel can hold.
#[test]
fn long_lists_are_whole() -> io::Result<()> {
    let net = net()?;
    for number in 0..200 {
        net.add_dummy(&format!("d{number}"))?;
        net.add_address(&format!("d{number}"), &*format!("10.1.{number}.1/24"))?;
    }
    assert_eq!(net.links()?.len(), 201);
    let addresses = net.addresses()?;
    let of_dummies = addresses.iter().filter(|a| a.link.starts_with('d'));
    assert_eq!(of_dummies.count(), 200);
    Ok(())
}

#[test]
fn errors_name_the_link_and_the_kernels_reason() -> io::Result<()> {
    let net = net()?;
    let message = |result: io::Result<()>| result.expect_err("it fails").to_string();
    let absent = net.set_up("eth9");
    let error = absent.expect_err("it fails");
    assert_eq!(outboard::errno(&error), Some(ENODEV));
    assert!(
        error.to_string().starts_with("cannot set up eth9: "),
        "{error}"
    );
    let twice = net.add_address("lo", "127.0.0.1/8");
    assert_eq!(number(twice), Some(EEXIST));
    let twice = message(net.add_address("lo", "127.0.0.1/8"));
    assert!(
        twice.contains("127.0.0.1/8") && twice.contains("lo"),
        "{twice}"
    );
    // The kernel's own words follow the errno's.
    net.add_veth("a", "b")?;
    let small = message(net.set_mtu("a", 1));
    assert!(small.starts_with("cannot set the MTU 1 of a: "), "{small}");
    assert!(small.ends_with("mtu less than device minimum"), "{small}");
    let route = Route::default_via("10.77.0.1".parse().unwrap());
    let lost = message(net.add_route(&route));
    assert!(lost.contains("0.0.0.0/0 via 10.77.0.1"), "{lost}");
    assert!(lost.ends_with("Nexthop has invalid gateway"), "{lost}");
    for bad in ["", "much-too-long-a-name"] {
        assert_eq!(kind(net.add_dummy(bad)), Some(ErrorKind::InvalidInput));
    }
    let bad = net.add_address("lo", "10.0.0.1/40");
    assert_eq!(kind(bad), Some(ErrorKind::InvalidInput));
    assert_eq!(number(net.add_dummy("lo")), Some(EEXIST));
    Ok(())
}

#[test]
fn routes_and_addresses_are_what_was_set() -> io::Result<()> {
    let (one, _other) = two_nodes()?;
    let gateway: IpAddr = "10.0.0.2".parse().unwrap();
    let default = Route::default_via(gateway);
    let special = Route::to("10.8.0.0/16")?.via(gateway).metric(7);
    one.add_route(&default)?;
    one.add_route(&special)?;
    one.add_address("eth0", "fd00::1/64")?;
    let six = Route::to("fd01::/32")?.via("fd00::2".parse().unwrap());
    one.add_route(&six)?;
    let routes = one.routes()?;
    for route in [&default, &special] {
        assert!(routes.contains(&route.clone().link("eth0")), "{routes:?}");
    }
    let is_six = |route: &Route| route.destination == six.destination;
    let found = routes
        .iter()
        .find(|route| is_six(route))
        .expect("it is there");
    assert_eq!(found.gateway, six.gateway);
    one.delete_route(&special)?;
    assert!(!one.routes()?.contains(&special.clone().link("eth0")));
    assert!(number(one.delete_route(&special)).is_some());
    one.delete_address("eth0", "fd00::1/64")?;
    let has = |text: &str| {
        let addresses = one.addresses().expect("they can be listed");
        addresses.iter().any(|a| a.prefix.to_string() == text)
    };
    assert!(has("10.0.0.1/24") && !has("fd00::1/64"));
    Ok(())
}

#[test]
fn namespaces_are_networks_of_their_own() -> io::Result<()> {
    let (one, other) = two_nodes()?;
    let names = |net: &Net| -> io::Result<Vec<String>> {
        Ok(net.links()?.into_iter().map(|link| link.name).collect())
    };
    assert_eq!(names(&one)?, ["lo", "eth0"]);
    assert_eq!(
        names(&one.kernel().net())?,
        ["lo"],
        "this thread is in the first one"
    );
    let (client, server) = connect(&one, &other, "10.0.0.2:80")?;
    assert_eq!(
        client.local_addr()?.ip(),
        "10.0.0.1".parse::<IpAddr>().unwrap()
    );
    exchange(client, server, BULK)?;
    let neighbours = one.neighbours()?;
    let peer = neighbours
        .iter()
        .find(|n| n.address == "10.0.0.2".parse::<IpAddr>().unwrap());
    let peer = peer.expect("they have talked");
    assert_eq!((peer.link.as_str(), peer.has_failed), ("eth0", false));
    assert_eq!(
        peer.hardware_address,
        Some(other.link("eth0")?.hardware_address)
    );
    one.set_sysctl("net.ipv4.ip_forward", "1")?;
    assert_eq!(one.sysctl("net.ipv4.ip_forward")?, "1");
    assert_eq!(other.sysctl("net/ipv4/ip_forward")?, "0");
    // The namespace is gone with its last user, and with it the veth pair.
    drop(one);
    wait_until("the peer goes", || other.link("eth0").is_err());
    Ok(())
}

#[test]
fn settings_are_files_of_proc_sys() -> io::Result<()> {
    let kernel = boot()?;
    kernel.set_sysctl("kernel.hostname", "node7")?;
    assert_eq!(kernel.sysctl("kernel.hostname")?, "node7");
    let absent = kernel.sysctl("net.ipv4.nonsense").expect_err("it fails");
    assert!(absent.to_string().contains("net.ipv4.nonsense"), "{absent}");
    assert_eq!(absent.kind(), ErrorKind::NotFound);
    let refused = kernel.set_sysctl("net.ipv4.ip_default_ttl", "0");
    assert_eq!(number(refused), Some(EINVAL));
    assert_eq!(
        kind(kernel.sysctl("../mounts")),
        Some(ErrorKind::InvalidInput)
    );
    Ok(())
}

/// Numbers that arrive of 0 to 199, sent as datagrams over a bad network.
fn arriving(bad: &Netem) -> io::Result<Vec<u8>> {
    let (one, other) = two_nodes()?;
    let receiver = other.udp_bind("10.0.0.2:9")?;
    let sender = one.udp_bind("10.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    sender.send(&[0])?;
    receiver.recv(&mut [0])?;
    // Packets of its own would take part in the choices of netem.
    one.set_sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")?;
    one.set_netem("eth0", bad)?;
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..COUNT {
                sender.send(&[number]).expect("it is sent");
            }
            // Until an end arrives: it may be lost, too.
            while !is_over.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
                sender.send(&[COUNT]).expect("it is sent");
            }
        });
        let mut numbers = Vec::new();
        loop {
            let mut number = [0];
            receiver.recv(&mut number)?;
            if number == [COUNT] {
                is_over.store(true, Ordering::SeqCst);
                return Ok(numbers);
            }
            numbers.extend(number);
        }
    })
}

#[test]
fn a_bad_network_is_bad_in_the_way_that_was_asked_for() -> io::Result<()> {
    let seed = Some(7);
    let good = Netem {
        seed,
        ..Netem::default()
    };
    let whole: Vec<u8> = (0..COUNT).collect();
    assert_eq!(arriving(&good)?, whole);
    let lossy = arriving(&Netem { loss: 0.3, ..good })?;
    assert!(lossy.len() < whole.len() && lossy.is_sorted(), "{lossy:?}");
    let same = arriving(&Netem { loss: 0.3, ..good })?;
    assert_eq!(lossy, same, "the seed decides");
    let double = arriving(&Netem {
        duplicate: 0.3,
        ..good
    })?;
    assert!(
        double.len() > whole.len() && double.is_sorted(),
        "{double:?}"
    );
    let mixed = arriving(&Netem {
        delay: Duration::from_millis(2),
        reorder: 0.3,
        ..good
    })?;
    assert!(!mixed.is_sorted(), "{mixed:?}");
    let late = Netem {
        reorder: 0.5,
        ..good
    };
    let refused = boot()?.net().set_netem("lo", &late);
    assert_eq!(kind(refused), Some(ErrorKind::InvalidInput));
    Ok(())
}

#[test]
fn bytes_survive_a_bad_network() -> io::Result<()> {
    let bad = Netem {
        delay: Duration::from_millis(1),
        jitter: Duration::from_micros(200),
        loss: 0.01,
        duplicate: 0.01,
        reorder: 0.05,
        ..Netem::default()
    };
    let (one, other) = two_nodes()?;
    one.set_netem("eth0", &bad)?;
    other.set_netem("eth0", &bad)?;
    let (client, server) = connect(&one, &other, "10.0.0.2:80")?;
    exchange(client, server, 1 << 20)?;
    one.remove_netem("eth0")?;
    assert!(one.remove_netem("eth0").is_err(), "it is gone");
    Ok(())
}
