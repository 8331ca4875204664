package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// runtimeName is the name our runtime wrapper is registered by.
const runtimeName = "seatrial-runc"

// Previous is what docker's configuration said about runtimes before ours was registered.
type Previous struct {
	Existed        bool    `json:"existed"`                  // There was a file.
	DefaultRuntime *string `json:"defaultRuntime,omitempty"` // Nil when it did not say.
	HadRuntimes    bool    `json:"hadRuntimes"`              // It had a list of runtimes.
}

// mergeDaemon registers our runtime at path as the default one in the text of a daemon.json, which is empty when there
// is no file. Every other setting stays. It may be merged again: then the first merge's Previous holds, not this one's.
func mergeDaemon(text []byte, path string) ([]byte, Previous, error) {
	config, runtimes, err := parseDaemon(text)
	if err != nil {
		return nil, Previous{}, err
	}
	previous := Previous{Existed: text != nil, HadRuntimes: runtimes != nil}
	if raw, ok := config["default-runtime"]; ok {
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, Previous{}, fmt.Errorf("read docker's configuration: default-runtime: %w", err)
		}
		previous.DefaultRuntime = &name
	}
	if runtimes == nil {
		runtimes = map[string]json.RawMessage{}
	}
	if runtimes[runtimeName], err = json.Marshal(map[string]string{"path": path}); err != nil {
		return nil, Previous{}, err
	}
	if config["default-runtime"], err = json.Marshal(runtimeName); err != nil {
		return nil, Previous{}, err
	}
	out, err := formatDaemon(config, runtimes)
	return out, previous, err
}

// unmergeDaemon takes our runtime out again and puts the previous default back; a default that somebody changed since
// is left as it is. Nil text means that the file should go. With explicit set, the default and the list of runtimes
// are spelled out although they were not before: a running docker takes back only what it is told anew.
func unmergeDaemon(text []byte, previous Previous, explicit bool) ([]byte, error) {
	config, runtimes, err := parseDaemon(text)
	if err != nil {
		return nil, err
	}
	delete(runtimes, runtimeName)
	var current string
	if raw, ok := config["default-runtime"]; ok {
		if err := json.Unmarshal(raw, &current); err != nil {
			return nil, fmt.Errorf("read docker's configuration: default-runtime: %w", err)
		}
	}
	if current == runtimeName {
		delete(config, "default-runtime")
		if before := previous.DefaultRuntime; before != nil {
			if config["default-runtime"], err = json.Marshal(*before); err != nil {
				return nil, err
			}
		}
	}
	if _, ok := config["default-runtime"]; explicit && !ok {
		if config["default-runtime"], err = json.Marshal(stockRuntime); err != nil {
			return nil, err
		}
	}
	if explicit && runtimes == nil {
		runtimes = map[string]json.RawMessage{}
	}
	if !explicit && len(runtimes) == 0 && !previous.HadRuntimes {
		runtimes = nil
		delete(config, "runtimes")
	}
	if len(config) == 0 && runtimes == nil && !previous.Existed {
		return nil, nil
	}
	return formatDaemon(config, runtimes)
}

// realRuntime returns the program behind the runtime that is the default one in the text of a daemon.json: the one our
// wrapper must become. When ours is the default already, it is the one that was before.
func realRuntime(text []byte, before *string) (string, error) {
	config, runtimes, err := parseDaemon(text)
	if err != nil {
		return "", err
	}
	name := stockRuntime
	if raw, ok := config["default-runtime"]; ok {
		if err := json.Unmarshal(raw, &name); err != nil {
			return "", fmt.Errorf("read docker's configuration: default-runtime: %w", err)
		}
	}
	if name == runtimeName {
		name = stockRuntime
		if before != nil {
			name = *before
		}
	}
	raw, ok := runtimes[name]
	if !ok {
		return stockRuntime, nil
	}
	var runtime struct {
		Path        string   `json:"path"`
		RuntimeArgs []string `json:"runtimeArgs"`
	}
	if err := json.Unmarshal(raw, &runtime); err != nil {
		return "", fmt.Errorf("read docker's configuration: runtimes: %s: %w", name, err)
	}
	if runtime.Path == "" || len(runtime.RuntimeArgs) > 0 {
		return "", fmt.Errorf("put a wrapper before docker's default runtime %q: only a runtime that is given as a "+
			"path without arguments can have one", name)
	}
	return runtime.Path, nil
}

// stockRuntime is docker's own default.
const stockRuntime = "runc"

// isRegistered tells whether the text of a daemon.json names our runtime; one that cannot be read does not.
func isRegistered(text []byte) bool {
	config, runtimes, err := parseDaemon(text)
	if err != nil {
		return false
	}
	_, listed := runtimes[runtimeName]
	return listed || string(config["default-runtime"]) == strconv.Quote(runtimeName)
}

// parseDaemon splits the text into its settings, as they are, and its runtimes, which are nil when it lists none.
func parseDaemon(text []byte) (config, runtimes map[string]json.RawMessage, err error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return map[string]json.RawMessage{}, nil, nil
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, nil, fmt.Errorf("read docker's configuration: %w", err)
	}
	if config == nil {
		return nil, nil, fmt.Errorf("read docker's configuration: it is null, need an object")
	}
	if raw, ok := config["runtimes"]; ok {
		if err := json.Unmarshal(raw, &runtimes); err != nil {
			return nil, nil, fmt.Errorf("read docker's configuration: runtimes: %w", err)
		}
	}
	return config, runtimes, nil
}

func formatDaemon(config, runtimes map[string]json.RawMessage) ([]byte, error) {
	if runtimes != nil {
		raw, err := json.Marshal(runtimes)
		if err != nil {
			return nil, err
		}
		config["runtimes"] = raw
	}
	// An encoder that leaves <, > and & as they are, since they may be in somebody's setting.
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(config); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// sortedKeys returns a map's keys in order, so that what is made from it is the same each time.
func sortedKeys[V any](of map[string]V) []string {
	return slices.Sorted(maps.Keys(of))
}
