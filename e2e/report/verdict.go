package report

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/seatrial/seatrial/e2e/check"
)

// WriteVerdict writes the report as indented JSON, the content of verdict.json. The same report gives the same bytes:
// it holds no map, no time of judgement, and nothing else that differs from one judgement to the next.
func WriteVerdict(w io.Writer, r check.Report) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode verdict: %w", err)
	}
	if _, err := w.Write(append(data, '\n')); err != nil {
		return fmt.Errorf("write verdict: %w", err)
	}
	return nil
}
