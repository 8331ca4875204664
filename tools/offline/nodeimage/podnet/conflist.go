package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// The parts of a CNI network configuration list that are used here.
type conflist struct {
	CNIVersion string `json:"cniVersion"`
	Name       string `json:"name"`
	Plugins    []any  `json:"plugins"`
}

type ptp struct {
	Type   string `json:"type"`
	IPMasq bool   `json:"ipMasq"`
	MTU    int    `json:"mtu,omitempty"`
	IPAM   ipam   `json:"ipam"`
}

type ipam struct {
	Type string `json:"type"`
	// DataDir is where the addresses in use are kept. It has to be gone after a reboot, as the pods are.
	DataDir string    `json:"dataDir"`
	Routes  []dst     `json:"routes"`
	Ranges  [][]inNet `json:"ranges"`
}

type dst struct {
	Dst string `json:"dst"`
}

type inNet struct {
	Subnet netip.Prefix `json:"subnet"`
}

type portmap struct {
	Type         string          `json:"type"`
	Capabilities map[string]bool `json:"capabilities"`
}

// renderConflist writes the network configuration of a node with those pod ranges, one or two families.
func renderConflist(podCIDRs []netip.Prefix, mtu int) ([]byte, error) {
	addresses := ipam{Type: "host-local", DataDir: "/run/podnet/ipam"}
	for _, cidr := range podCIDRs {
		everywhere := "0.0.0.0/0"
		if cidr.Addr().Is6() {
			everywhere = "::/0"
		}
		addresses.Routes = append(addresses.Routes, dst{everywhere})
		addresses.Ranges = append(addresses.Ranges, []inNet{{cidr}})
	}
	out, err := json.MarshalIndent(conflist{
		CNIVersion: "1.0.0",
		Name:       "podnet",
		Plugins: []any{
			ptp{Type: "ptp", MTU: mtu, IPAM: addresses},
			portmap{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render network configuration: %w", err)
	}
	return append(out, '\n'), nil
}
