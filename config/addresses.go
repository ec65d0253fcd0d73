package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"drawbridge/internal/httpx"
)

// Operator is the address that only you should reach.
type Operator struct {
	// Listen is host:port, and has its own port; "" means that Bridge.Listen serves the operator, too.
	Listen string `yaml:"listen"`
	// URL is where a proxy shows this address, without a slash at the end; "" without one.
	URL string `yaml:"url"`
}

// Split reports whether the operator has an address of its own.
func (b *Bridge) Split() bool { return b.Operator.Listen != "" }

// OperatorAddr returns the host:port that serves the operator's API.
func (b *Bridge) OperatorAddr() string {
	if b.Split() {
		return b.Operator.Listen
	}
	return b.Listen
}

// OperatorURL returns where programs on this machine reach the operator's API.
func (b *Bridge) OperatorURL() string { return localURL(b.OperatorAddr()) }

// DoorURL returns where programs on this machine reach the MCP door, the webhook receiver and the relays' door.
func (b *Bridge) DoorURL() string { return localURL(b.Listen) }

// localURL is the URL of an address for programs on this machine; an address for every interface is asked on loopback.
func localURL(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	if wildcard(host) {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// wildcard reports whether a host stands for every interface.
func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// sampleOperator is the operator's address that init writes.
const sampleOperator = "127.0.0.1:7400"

func (c *checker) operator(b *Bridge) {
	o := &b.Operator
	o.URL = c.url("operator.url", o.URL)
	if o.Listen == "" {
		switch {
		case c.file.Has("operator.listen"): // a variable that is not set must not open the API to everyone
			c.problem("operator.listen", "", "is empty", "write host:port, such as "+sampleOperator)
		case o.URL != "":
			c.problem("operator.url", o.URL, "needs operator.listen", "write operator.listen, such as "+sampleOperator)
		}
		return
	}
	host, port, err := net.SplitHostPort(o.Listen)
	if err == nil && host == "" {
		o.Listen = net.JoinHostPort("127.0.0.1", port)
	}
	c.listen("operator.listen", o.Listen)
	c.ownPort("operator.listen", o.Listen, "your commands must find it")
	c.ownPort("listen", b.Listen, "relays and agents on this machine must find it")
	if overlap(b.Listen, o.Listen) {
		c.problem("operator.listen", o.Listen, "has the same port as listen ("+b.Listen+")", "choose another port")
	}
}

// ownPort refuses port 0, which is another one at each start.
func (c *checker) ownPort(key, addr, why string) {
	_, port, err := net.SplitHostPort(addr)
	if n, wrong := strconv.ParseUint(port, 10, 16); err == nil && wrong == nil && n == 0 {
		c.problem(key, addr, "has port 0, which is a new port at each start, and "+why, "choose a port from 1 to 65535")
	}
}

// number returns a port; 0 for what is not one.
func number(port string) uint64 {
	n, _ := strconv.ParseUint(port, 10, 16)
	return n
}

// overlap reports whether one connection could be meant for either of two addresses. Names other than localhost are compared
// as text; which machine each stands for, the start finds out.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || number(portA) != number(portB) || number(portA) == 0 {
		return false
	}
	x, okX := address(hostA)
	y, okY := address(hostB)
	switch {
	case !okX || !okY:
		return strings.EqualFold(hostA, hostB) || wildcard(hostA) || wildcard(hostB)
	case x.Is6() && x.IsUnspecified(), y.Is6() && y.IsUnspecified(): // on Linux it takes IPv4, too
		return true
	case x.IsUnspecified() || y.IsUnspecified():
		return x.Is4() == y.Is4()
	}
	return x == y
}

// address returns the IP that a host stands for, as net.Listen would take it; not ok for a name other than localhost.
func address(host string) (ip netip.Addr, ok bool) {
	switch {
	case host == "":
		return netip.IPv6Unspecified(), true
	case strings.EqualFold(host, "localhost"):
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap(), err == nil
}

// Warnings lists settings that work and that an operator may not have meant.
func (b *Bridge) Warnings() (out []Problem) {
	if !b.Split() {
		write := sampleOperator
		if overlap(write, b.Listen) {
			write = "127.0.0.1:7401"
		}
		out = append(out, b.file.Problem("operator.listen", "", "is missing, so listen ("+b.Listen+") serves your API (/v1, /chat, /metrics) together with agents' tools, webhooks and relays",
			"write `operator: { listen: "+write+" }` into the file, and give your own clients that address"))
	}
	host, _, err := net.SplitHostPort(b.OperatorAddr())
	if err == nil && !httpx.Loopback(host) && !strings.HasPrefix(b.Operator.URL, "https://") {
		key := "listen"
		if b.Split() {
			key = "operator.listen"
		}
		out = append(out, b.file.Problem(key, b.OperatorAddr(), "takes your token from other machines without TLS",
			"use 127.0.0.1, or put a proxy with TLS in front and name it in operator.url"))
	}
	if _, wanted := b.CloudNotice(); wanted {
		out = append(out, b.file.Problem("cursor.key", "", "is missing, so "+cloudOff, "write key: ${CURSOR_API_KEY} below cursor, or give the orchestrators a runtime of their own"))
	}
	return out
}
