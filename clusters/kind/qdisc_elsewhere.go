//go:build !linux

package kind

import "errors"

// addQdisc is not called: there is no namespace to enter.
func addQdisc(string) error { return errors.ErrUnsupported }
