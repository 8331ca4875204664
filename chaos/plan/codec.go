package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxBytes bounds what Decode reads: a plan of MaxSteps steps is well below 1 MiB.
const maxBytes = 4 << 20

// Encode writes p as indented JSON with a newline at the end. The same plan gives the same bytes.
func (p Plan) Encode(w io.Writer) error {
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write plan: %w", err)
	}
	return nil
}

// Decode reads one plan, strictly: an unknown field, anything after the plan and a newer schema are errors. It does
// not judge the plan; Validate does.
func Decode(r io.Reader) (Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return Plan{}, fmt.Errorf("read plan: %w", err)
	}
	if len(data) > maxBytes {
		return Plan{}, fmt.Errorf("decode plan: it is longer than %d bytes", maxBytes)
	}
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	if head.Schema > SchemaVersion {
		return Plan{}, fmt.Errorf("decode plan: schema %d, want at most %d: %w", head.Schema, SchemaVersion, ErrSchema)
	}
	var p Plan
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("decode plan: there is more after the plan; remove it")
	}
	return p, nil
}
