package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
)

const (
	runtimeName  = "seatrial-runc" // Our runtime wrapper.
	stockRuntime = "runc"          // Docker's own default.
)

// Previous is what docker's configuration said about runtimes before ours was registered.
type Previous struct {
	Existed        bool    `json:"existed"`                  // There was a file.
	DefaultRuntime *string `json:"defaultRuntime,omitempty"` // Nil when it did not say.
	HadRuntimes    bool    `json:"hadRuntimes"`              // It had a list of runtimes.
}

// daemonConfig is docker's configuration, daemon.json.
type daemonConfig struct {
	existed        bool
	settings       map[string]json.RawMessage // All but the two below, as they are written.
	runtimes       map[string]json.RawMessage // Nil when it has no list of runtimes.
	defaultRuntime *string                    // Nil when it does not say.
}

// readDaemon reads docker's configuration. A file that does not exist is an empty configuration.
func readDaemon(path string) (daemonConfig, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return daemonConfig{}, nil
	}
	if err != nil {
		return daemonConfig{}, fmt.Errorf("read docker's configuration: %w", err)
	}
	return parseDaemon(text)
}

func parseDaemon(text []byte) (daemonConfig, error) {
	c := daemonConfig{existed: true}
	if len(bytes.TrimSpace(text)) == 0 {
		return c, nil
	}
	if err := json.Unmarshal(text, &c.settings); err != nil {
		return c, fmt.Errorf("read docker's configuration: %w", err)
	}
	if c.settings == nil {
		return c, fmt.Errorf("read docker's configuration: it is null, need an object")
	}
	for name, into := range map[string]any{"runtimes": &c.runtimes, "default-runtime": &c.defaultRuntime} {
		if raw, ok := c.settings[name]; ok {
			if err := json.Unmarshal(raw, into); err != nil {
				return c, fmt.Errorf("read docker's configuration: %s: %w", name, err)
			}
			delete(c.settings, name)
		}
	}
	return c, nil
}

func (c daemonConfig) format() ([]byte, error) {
	all := make(map[string]any)
	for name, value := range c.settings {
		all[name] = value
	}
	if c.runtimes != nil {
		all["runtimes"] = c.runtimes
	}
	if c.defaultRuntime != nil {
		all["default-runtime"] = *c.defaultRuntime
	}
	// An encoder that leaves <, > and & as they are, since they may be in somebody's setting.
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(all)
	return out.Bytes(), err
}

func (c daemonConfig) write(path string) error {
	text, err := c.format()
	if err != nil {
		return err
	}
	return writeFile(path, text)
}

// previous returns what register changes.
func (c daemonConfig) previous() Previous {
	return Previous{Existed: c.existed, DefaultRuntime: c.defaultRuntime, HadRuntimes: c.runtimes != nil}
}

// isDefault reports whether our runtime is the default one.
func (c daemonConfig) isDefault() bool {
	return c.defaultRuntime != nil && *c.defaultRuntime == runtimeName
}

// isRegistered reports whether the configuration names our runtime.
func (c daemonConfig) isRegistered() bool { return c.isDefault() || c.runtimes[runtimeName] != nil }

// register returns the configuration with our runtime, at path, as the default one. Every other setting stays.
func (c daemonConfig) register(path string) (daemonConfig, error) {
	runtime, err := json.Marshal(map[string]string{"path": path})
	if err != nil {
		return c, err
	}
	runtimes := map[string]json.RawMessage{runtimeName: runtime}
	for name, other := range c.runtimes {
		if name != runtimeName {
			runtimes[name] = other
		}
	}
	c.runtimes, c.defaultRuntime = runtimes, new(runtimeName)
	return c, nil
}

// unregister returns the configuration without our runtime and with the previous default; a default that somebody
// changed since stays. With explicit, the default and the list of runtimes are written although they were not before:
// a running docker reverts a setting only if the file has it.
func (c daemonConfig) unregister(previous Previous, explicit bool) daemonConfig {
	c.existed = previous.Existed
	c.runtimes = maps.Clone(c.runtimes)
	delete(c.runtimes, runtimeName)
	if c.isDefault() {
		c.defaultRuntime = previous.DefaultRuntime
	}
	switch {
	case explicit:
		if c.defaultRuntime == nil {
			c.defaultRuntime = new(stockRuntime)
		}
		if c.runtimes == nil {
			c.runtimes = map[string]json.RawMessage{}
		}
	case len(c.runtimes) == 0 && !previous.HadRuntimes:
		c.runtimes = nil
	}
	return c
}

// isVoid reports whether there was no file, and nothing to write into one.
func (c daemonConfig) isVoid() bool {
	return !c.existed && len(c.settings) == 0 && c.runtimes == nil && c.defaultRuntime == nil
}

// realRuntime returns the program of the default runtime, which our wrapper executes. If ours is the default already,
// that is the runtime named before, or docker's own.
func (c daemonConfig) realRuntime(before *string) (string, error) {
	name := c.defaultRuntime
	if c.isDefault() {
		name = before
	}
	if name == nil {
		name = new(stockRuntime)
	}
	raw, ok := c.runtimes[*name]
	if !ok {
		return stockRuntime, nil
	}
	var runtime struct {
		Path        string   `json:"path"`
		RuntimeArgs []string `json:"runtimeArgs"`
	}
	if err := json.Unmarshal(raw, &runtime); err != nil {
		return "", fmt.Errorf("read docker's configuration: runtimes: %s: %w", *name, err)
	}
	if runtime.Path == "" || len(runtime.RuntimeArgs) > 0 {
		return "", fmt.Errorf("put a wrapper before docker's default runtime %q: only a runtime that is given as a "+
			"path without arguments can have one", *name)
	}
	return runtime.Path, nil
}
