#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Two network namespaces with a WireGuard tunnel, rules of nftables with NAT, and shaped traffic.
set -euo pipefail
inside() { ip netns exec "$@"; }
ip netns add a
ip netns add b
ip link add v0 netns a type veth peer name v1 netns b
ip -n a addr add 10.9.0.1/24 dev v0
ip -n b addr add 10.9.0.2/24 dev v1
umask 077
for name in a b; do
	wg genkey >/tmp/$name.key
	wg pubkey </tmp/$name.key >/tmp/$name.public
	ip -n $name link add wg0 type wireguard
	ip -n $name link set lo up
done
inside a wg set wg0 private-key /tmp/a.key listen-port 5555 peer "$(cat /tmp/b.public)" \
	allowed-ips 10.8.0.2/32 endpoint 10.9.0.2:5556
inside b wg set wg0 private-key /tmp/b.key listen-port 5556 peer "$(cat /tmp/a.public)" \
	allowed-ips 10.8.0.1/32
ip -n a addr add 10.8.0.1/24 dev wg0
ip -n b addr add 10.8.0.2/24 dev wg0
ip -n a link set v0 up
ip -n b link set v1 up
ip -n a link set wg0 up
ip -n b link set wg0 up
inside a ping -c 3 -i 0.2 -W 60 10.8.0.2
[ "$(inside b wg show wg0 endpoints | cut -f 2)" = 10.9.0.1:5555 ]

inside b nft -f - <<END
table inet guard {
	set closed { type inet_service; elements = { 7, 9 } }
	counter refused { }
	chain in {
		type filter hook input priority 0; policy accept;
		tcp dport @closed counter name refused reject with tcp reset
	}
}
table ip turned {
	chain first {
		type nat hook prerouting priority -100;
		tcp dport 80 redirect to :8080
	}
}
END
cat >/tmp/server.py <<'END'
import socket
with socket.create_server(("0.0.0.0", 8080)) as server:
    open("/tmp/listens", "w").close()
    connection, _ = server.accept()
    connection.sendall(b"natted" * 100000)
    connection.close()
END
cat >/tmp/client.py <<'END'
import socket
try:
    socket.create_connection(("10.8.0.2", 7), 300)
except ConnectionRefusedError:
    print("refused")
with socket.create_connection(("10.8.0.2", 80), 300) as connection:
    data = b""
    while part := connection.recv(65536):
        data += part
print(data == b"natted" * 100000)
END
inside b python3 /tmp/server.py &
until [ -e /tmp/listens ]; do sleep 0.1; done
# The queue of v0 is a band of HTB that drops nothing, and every packet of the tunnel passes it.
inside a tc qdisc add dev v0 root handle 1: htb default 1
inside a tc class add dev v0 parent 1: classid 1:1 htb rate 8mbit
inside a tc qdisc add dev v0 parent 1:1 fq_codel
[ "$(inside a python3 /tmp/client.py)" = $'refused\nTrue' ]
wait
inside b nft list counter inet guard refused | grep -q 'packets [1-9]'
[ "$(inside a tc -s class show dev v0 | sed -n 's/^ Sent [0-9]* bytes \([0-9]*\) .*/\1/p')" -gt 10 ]
inside a tc qdisc replace dev v0 root netem loss 100%
inside a ping -c 1 -W 1 10.9.0.2 && exit 1
ip netns del a
until [ "$(ip -n b -o link show type veth)" = '' ]; do sleep 0.1; done
