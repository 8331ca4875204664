package kind

import (
	"net"
	"strings"
	"testing"
)

// TestProbeObjects holds that the manifest has the names that readiness goes by.
func TestProbeObjects(t *testing.T) {
	config, set, err := probeObjects("dns:1")
	must(t, err)
	pod := set.Spec.Template.Spec
	if config.Name != probeName || set.Name != probeName || set.Spec.Template.Labels["app"] != probeName ||
		pod.Containers[0].Env[0].Name != probeMark || pod.Containers[0].Env[0].Value != probeName ||
		pod.Containers[0].Image != "dns:1" || *pod.TerminationGracePeriodSeconds != 0 {
		t.Errorf("probe objects: %+v and %+v", config, set)
	}
	health := "health " + net.JoinHostPort("", probePort)
	if file := config.Data["Corefile"]; !strings.HasSuffix(file, health+"\n}\n") {
		t.Errorf("Corefile %q, want %q at its end", file, health)
	}
}
