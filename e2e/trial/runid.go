package trial

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// NewRunID returns an owner mark: a letter and 10 to 12 digits and letters, so that it fits a label, a unit name and
// the name of an nftables table. No seed repeats it: two runs of one plan are two runs, and two that begin in one
// millisecond differ with a chance of 1,023 in 1,024.
func NewRunID(now time.Time) string {
	return "r" + strconv.FormatInt(now.UnixMilli(), 36) + strings.ToLower(rand.Text()[:2])
}
