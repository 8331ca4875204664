package probe_test

import (
	"context"
	"io"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// TestDNS asks servers that say that there is no such name, that they failed and that they refuse, and one that says
// nothing.
func TestDNS(t *testing.T) {
	const nxdomain, servfail, refused = 3, 2, 5
	var servers []string
	var want []probe.Answer
	for _, says := range []byte{nxdomain, servfail, refused, nothing} {
		s := dnsServer(t, says)
		servers = append(servers, s)
		want = append(want, probe.Answer{Address: s, Network: "udp", Answered: says != nothing},
			probe.Answer{Address: s, Network: "tcp", Answered: says != nothing})
	}
	answers := probe.DNS(t.Context(), "kubernetes.default.svc.cluster.local.", servers, time.Second)
	if len(answers) != len(want) {
		t.Fatalf("got %+v", answers)
	}
	for i, got := range answers {
		if got.Address != want[i].Address || got.Network != want[i].Network || got.Answered != want[i].Answered ||
			(got.Error == "") != want[i].Answered || got.End < got.Begin || got.Begin == 0 {
			t.Errorf("got %+v, want %+v", got, want[i])
		}
	}
}

// nothing is no code of a response.
const nothing = 0xff

// dnsServer serves both protocols at one port, answers with a response code, and returns its address.
func dnsServer(t *testing.T, code byte) string {
	t.Helper()
	var packets net.PacketConn
	var streams net.Listener
	for range 20 { // A port that is free in both.
		var err error
		if streams, err = (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		port := streams.Addr().(*net.TCPAddr).Port
		packets, err = (&net.ListenConfig{}).ListenPacket(context.Background(), "udp",
			net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			break
		}
		_ = streams.Close()
	}
	t.Cleanup(func() { _, _ = packets.Close(), streams.Close() })
	response := func(question []byte) []byte {
		question[2], question[3] = question[2]|0x80, 0x80|code
		return question
	}
	go func() {
		for buffer := make([]byte, 512); ; {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if code != nothing {
				_, _ = packets.WriteTo(response(buffer[:n]), from)
			}
		}
	}()
	go func() {
		for {
			conn, err := streams.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				length := make([]byte, 2)
				for {
					if _, err := io.ReadFull(conn, length); err != nil {
						return
					}
					question := make([]byte, int(length[0])<<8|int(length[1]))
					if _, err := io.ReadFull(conn, question); err != nil {
						return
					}
					if code != nothing {
						_, _ = conn.Write(slices.Concat(length, response(question)))
					}
				}
			}()
		}
	}()
	return streams.Addr().String()
}
