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

// TestDNS asks a server that says that there is no such name, and one that says nothing.
func TestDNS(t *testing.T) {
	answering, silent := dnsServer(t, true), dnsServer(t, false)
	answers := probe.DNS(t.Context(), "kubernetes.default.svc.cluster.local.", []string{answering, silent}, time.Second)
	want := []probe.Answer{
		{Address: answering, Network: "udp", Answered: true}, {Address: answering, Network: "tcp", Answered: true},
		{Address: silent, Network: "udp"}, {Address: silent, Network: "tcp"},
	}
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

// dnsServer serves both protocols at one port, and returns its address.
func dnsServer(t *testing.T, answers bool) string {
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
	noSuchName := func(question []byte) []byte {
		question[2], question[3] = question[2]|0x80, 0x83 // It is a response: NXDOMAIN.
		return question
	}
	go func() {
		for buffer := make([]byte, 512); ; {
			n, from, err := packets.ReadFrom(buffer)
			if err != nil {
				return
			}
			if answers {
				_, _ = packets.WriteTo(noSuchName(buffer[:n]), from)
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
					if answers {
						_, _ = conn.Write(slices.Concat(length, noSuchName(question)))
					}
				}
			}()
		}
	}()
	return streams.Addr().String()
}
