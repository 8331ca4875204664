package trial

import (
	"crypto/rand"
	"strconv"
	"strings"
	"time"
)

// NewRunID returns an owner mark: a letter and 10 to 12 lower-case letters and digits, valid in labels, unit names and
// names of nftables tables. It does not depend on the seed. Two IDs of one millisecond differ with a probability of
// 1023/1024.
func NewRunID(now time.Time) string {
	return "r" + strconv.FormatInt(now.UnixMilli(), 36) + strings.ToLower(rand.Text()[:2])
}
