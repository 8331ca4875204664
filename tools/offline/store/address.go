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

// Inputs is everything a result is made from, by name, so that the same bytes under another name give another address.
type Inputs map[string]string

// Sum returns the address as 64 hexadecimal digits.
func (all Inputs) Sum() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
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
