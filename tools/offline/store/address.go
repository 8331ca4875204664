package store

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
)

// Address is the digest of everything a result is made from. Inputs are named, so that the same bytes under
// another name give another address, and their order does not matter.
type Address struct {
	inputs map[string]string
}

// Add puts one named input into the address. Adding a name again replaces its value.
func (a *Address) Add(name string, value []byte) {
	if a.inputs == nil {
		a.inputs = make(map[string]string)
	}
	a.inputs[name] = string(value)
}

// AddString is Add for text.
func (a *Address) AddString(name, value string) { a.Add(name, []byte(value)) }

// Sum returns the address as 64 hexadecimal digits.
func (a *Address) Sum() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(a.inputs)) {
		value := a.inputs[name]
		// The lengths keep two inputs from running into each other.
		fmt.Fprintf(h, "%d:%s=%d:", len(name), name, len(value))
		h.Write([]byte(value))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Digest returns the SHA-256 of a file, as 64 hexadecimal digits.
func Digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("digest file: %w", err)
	}
	h := sha256.New()
	_, err = io.Copy(h, f)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("digest %q: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
