package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"sigs.k8s.io/yaml"
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

// Decode reads one plan in JSON or YAML, strictly: an unknown field or one that is there twice, a value of another
// type, anything after the plan, and a newer schema are errors; what is wrong with fields is FieldErrors. It does not
// judge the plan; Validate does.
func Decode(r io.Reader) (Plan, error) {
	data, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err != nil {
		return Plan{}, fmt.Errorf("read plan: %w", err)
	}
	if len(data) > maxBytes {
		return Plan{}, fmt.Errorf("decode plan: it is longer than %d bytes", maxBytes)
	}
	if data, err = asJSON(data); err != nil {
		return Plan{}, err
	}
	var head struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err == nil && head.Schema > SchemaVersion {
		return Plan{}, fmt.Errorf("decode plan: schema %d, want at most %d: %w", head.Schema, SchemaVersion, ErrSchema)
	}
	if err := shape(data, "plan", reflect.TypeFor[Plan]()).Err(); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	var p Plan
	if err := json.Unmarshal(data, &p); err != nil {
		return Plan{}, fmt.Errorf("decode plan: %w", err)
	}
	return p, nil
}

// asJSON turns YAML into JSON; what begins with a brace is taken for JSON.
func asJSON(data []byte) ([]byte, error) {
	if text := bytes.TrimSpace(data); len(text) == 0 || text[0] == '{' {
		return data, nil
	}
	converted, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		var errs FieldErrors
		errs.Add("plan", "write YAML or JSON", "cannot be read: %s", oneLine(err.Error()))
		return nil, fmt.Errorf("decode plan: %w", errs.Err())
	}
	return converted, nil
}
