package steps

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepsAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got bytes.Buffer
		long := Step{
			Name: "compile x", About: 3 * time.Minute, There: func() bool { return false },
			Do: func(context.Context) error { <-time.After(50 * time.Second); return nil },
		}
		if err := Run(t.Context(), &got, "node image", []Step{long}); err != nil {
			t.Fatal(err)
		}
		const want = "node image 1/1: compile x (about 3m on two idle cores)\n" +
			"node image 1/1: compile x: done in 50s\n"
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
