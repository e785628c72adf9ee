// SPDX-License-Identifier: GPL-2.0-only
//! ICMP sockets, the packet filter, counters, and neighbours that a program names.

use crate::support::*;
use outboard::net::{ConnectionState, FirewallRule, IpProtocol, Net, Netem, Verdict};
use std::io::{self, ErrorKind};
use std::net::IpAddr;
use std::time::Duration;

/// How long one attempt waits.
const PATIENCE: Duration = Duration::from_millis(300);
/// Attempts before an answer that should come is missed: the machine may be busy.
const ATTEMPTS: usize = 100;

fn one_side(net: &Net, link: &str, addresses: [&str; 2]) -> io::Result<Net> {
    let side = net.new_namespace()?;
    net.move_link(link, &side)?;
    side.rename_link(link, "eth0")?;
    side.set_up("eth0")?;
    for address in addresses {
        side.add_address("eth0", address)?;
    }
    Ok(side)
}

/// Two network namespaces with a veth pair between them.
fn two_sides() -> io::Result<(Net, Net)> {
    let net = boot()?.net();
    net.add_veth("left", "right")?;
    Ok((
        one_side(&net, "left", ["10.0.0.1/24", "fd00::1/64"])?,
        one_side(&net, "right", ["10.0.0.2/24", "fd00::2/64"])?,
    ))
}

/// Whether an echo request is answered.
fn answers(net: &Net, to: &str) -> io::Result<bool> {
    let to: IpAddr = to.parse().unwrap();
    let socket = net.icmp_socket(to.is_ipv6())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let (packet, reply, header) = if to.is_ipv6() {
        ([128, 0, 0, 0, 0, 7, 0, 1], 129, 0)
    } else {
        ([8, 0, 0xf7, 0xf7, 0, 7, 0, 1], 0, 20)
    };
    socket.send_to(&packet, to)?;
    let mut buffer = [0; 256];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((_, sender)) if sender == to && buffer[header] == reply => return Ok(true),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

fn connects(client: &Net, to: &str) -> bool {
    let address = to.parse().unwrap();
    client.tcp_connect_timeout(&address, PATIENCE).is_ok()
}

/// Whether one of many echo requests is answered.
fn answers_in_time(net: &Net, to: &str) -> io::Result<bool> {
    for _ in 0..ATTEMPTS {
        if answers(net, to)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn connects_in_time(client: &Net, to: &str) -> bool {
    (0..ATTEMPTS).any(|_| connects(client, to))
}

#[test]
fn a_firewall_decides_by_the_first_rule() -> io::Result<()> {
    let (client, server) = two_sides()?;
    let _listeners = [
        server.tcp_listen("0.0.0.0:80")?,
        server.tcp_listen("0.0.0.0:81")?,
        server.tcp_listen("[::]:82")?,
    ];
    assert!(answers_in_time(&client, "10.0.0.2")? && answers_in_time(&client, "fd00::2")?);
    assert!(connects_in_time(&client, "10.0.0.2:81"));
    let accept = |protocol, ports| FirewallRule {
        protocol: Some(protocol),
        ports,
        ..FirewallRule::default()
    };
    let rules = [
        FirewallRule {
            state: Some(ConnectionState::Established),
            ..FirewallRule::default()
        },
        FirewallRule {
            source: Some("10.0.0.0/31".parse()?),
            ..accept(IpProtocol::Tcp, Some((79, 80)))
        },
        FirewallRule {
            destination: Some("fd00::2/127".parse()?),
            ..accept(IpProtocol::Tcp, Some((82, 82)))
        },
        accept(IpProtocol::IcmpV6, None),
    ];
    server.set_firewall(Verdict::Drop, &rules)?;
    assert!(connects_in_time(&client, "10.0.0.2:80"));
    assert!(!connects(&client, "10.0.0.2:81"));
    assert!(connects_in_time(&client, "[fd00::2]:82"));
    assert!(!answers(&client, "10.0.0.2")? && answers_in_time(&client, "fd00::2")?);
    // The server itself still reaches the client, whose answers belong to its connection.
    assert!(answers_in_time(&server, "10.0.0.1")?);
    let drop = FirewallRule {
        verdict: Verdict::Drop,
        ..accept(IpProtocol::IcmpV6, None)
    };
    server.set_firewall(Verdict::Accept, &[drop])?;
    assert!(connects_in_time(&client, "10.0.0.2:81") && answers_in_time(&client, "10.0.0.2")?);
    assert!(!answers(&client, "fd00::2")?);
    Ok(())
}

/// Without them, a kernel behind a firewall knows no hardware address of IPv6.
#[test]
fn neighbours_are_found_behind_a_firewall_that_accepts_no_icmp() -> io::Result<()> {
    let (client, server) = two_sides()?;
    let _listener = server.tcp_listen("[::]:80")?;
    let web = FirewallRule {
        protocol: Some(IpProtocol::Tcp),
        ports: Some((80, 80)),
        ..FirewallRule::default()
    };
    server.set_firewall(Verdict::Drop, &[web])?;
    client.set_firewall(
        Verdict::Drop,
        &[FirewallRule {
            state: Some(ConnectionState::Established),
            ..FirewallRule::default()
        }],
    )?;
    assert!(connects_in_time(&client, "[fd00::2]:80"));
    assert!(!answers(&client, "fd00::2")?);
    Ok(())
}

#[test]
fn a_firewall_may_have_many_rules() -> io::Result<()> {
    let (client, server) = two_sides()?;
    let _listener = server.tcp_listen("0.0.0.0:5000")?;
    let rule = |port| FirewallRule {
        protocol: Some(IpProtocol::Tcp),
        ports: Some((port, port)),
        source: "10.0.0.0/24".parse().ok(),
        destination: "10.0.0.0/8".parse().ok(),
        state: Some(ConnectionState::New),
        ..FirewallRule::default()
    };
    let mut rules: Vec<FirewallRule> = (1..5000).map(rule).collect();
    server.set_firewall(Verdict::Drop, &rules)?;
    assert!(!connects(&client, "10.0.0.2:5000"));
    rules.push(rule(5000));
    rules.push(FirewallRule {
        state: Some(ConnectionState::Established),
        ..FirewallRule::default()
    });
    server.set_firewall(Verdict::Drop, &rules)?;
    assert!(connects_in_time(&client, "10.0.0.2:5000"));
    Ok(())
}

#[test]
fn a_rule_that_makes_no_sense_changes_nothing() -> io::Result<()> {
    let (client, server) = two_sides()?;
    let wrong = FirewallRule {
        ports: Some((1, 2)),
        ..FirewallRule::default()
    };
    let error = server.set_firewall(Verdict::Drop, &[wrong]).unwrap_err();
    assert!(error.to_string().contains("needs tcp or udp"), "{error}");
    assert!(answers_in_time(&client, "10.0.0.2")?);
    Ok(())
}

#[test]
fn counters_have_the_packets_that_netem_drops() -> io::Result<()> {
    let (client, server) = two_sides()?;
    client.set_sysctl("net.ipv6.conf.eth0.disable_ipv6", "1")?;
    let all = Netem {
        loss: 1.0,
        rate: Some(1_000_000),
        ..Netem::default()
    };
    client.set_netem("eth0", &all)?;
    let hardware = server.link("eth0")?.hardware_address;
    client.add_neighbour("eth0", "10.0.0.2".parse().unwrap(), &hardware)?;
    let of = |net: &Net| -> io::Result<_> {
        let all = net.counters()?;
        Ok(all.into_iter().find(|one| one.link == "eth0").unwrap())
    };
    let before = of(&client)?;
    let socket = client.udp_bind("0.0.0.0:0")?;
    let to: std::net::SocketAddr = "10.0.0.2:9".parse().unwrap();
    for _ in 0..5 {
        socket.send_to(b"x", to)?;
    }
    let after = of(&client)?;
    // Without a question for the address of the neighbour.
    assert_eq!(after.queue_drops - before.queue_drops, 5);
    assert_eq!(after.sent_packets, before.sent_packets);
    client.remove_netem("eth0")?;
    client.set_merging("eth0", false)?;
    let received = of(&server)?.received_packets;
    socket.send_to(b"x", to)?;
    wait_until("the packet has arrived", || {
        of(&server).is_ok_and(|now| now.received_packets > received)
    });
    Ok(())
}
