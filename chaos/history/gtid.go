package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// GTIDs is a set of MySQL transactions: by source, a server's UUID with or without a tag, the ranges of their numbers,
// sorted and apart (MySQL Reference Manual, GTID Format and Storage).
type GTIDs map[string][]GTIDRange

// GTIDRange is the transactions From to To of one source, both included; From is 1 or more.
type GTIDRange struct{ From, To int64 }

// ParseGTIDs parses a set as @@gtid_executed has it: "uuid:1-5:7:tag:1-2, uuid:3". The empty text is the empty set.
func ParseGTIDs(text string) (GTIDs, error) {
	set := GTIDs{}
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		source, rest, ok := strings.Cut(strings.ToLower(item), ":")
		if !ok || source == "" {
			return nil, fmt.Errorf("GTID set %q: %q has no source or no numbers", text, item)
		}
		of := source
		for part := range strings.SplitSeq(rest, ":") {
			part = strings.TrimSpace(part)
			if part != "" && (part[0] < '0' || part[0] > '9') {
				of = source + ":" + part // A tag; the numbers behind it are its own.
				continue
			}
			from, to, isRange := strings.Cut(part, "-")
			if !isRange {
				to = from
			}
			a, errA := strconv.ParseInt(from, 10, 64)
			b, errB := strconv.ParseInt(to, 10, 64)
			if errA != nil || errB != nil || a < 1 || b < a {
				return nil, fmt.Errorf("GTID set %q: %q is no range of numbers", text, part)
			}
			set[of] = append(set[of], GTIDRange{a, b})
		}
	}
	for of, ranges := range set {
		set[of] = joinRanges(ranges)
	}
	return set, nil
}

// joinRanges sorts ranges and joins those that meet.
func joinRanges(all []GTIDRange) []GTIDRange {
	slices.SortFunc(all, func(a, b GTIDRange) int { return cmp.Compare(a.From, b.From) })
	var joined []GTIDRange
	for _, r := range all {
		if n := len(joined); n > 0 && r.From-1 <= joined[n-1].To {
			joined[n-1].To = max(joined[n-1].To, r.To)
			continue
		}
		joined = append(joined, r)
	}
	return joined
}

// Without returns the transactions of g that are not in other (GTID_SUBTRACT).
func (g GTIDs) Without(other GTIDs) GTIDs {
	left := GTIDs{}
	for of, ranges := range g {
		for _, r := range ranges {
			for _, taken := range other[of] {
				if taken.To < r.From {
					continue
				}
				if taken.From > r.From {
					left[of] = append(left[of], GTIDRange{r.From, min(r.To, taken.From-1)})
				}
				if r.From = taken.To + 1; taken.To >= r.To {
					break
				}
			}
			if r.From <= r.To {
				left[of] = append(left[of], r)
			}
		}
		left[of] = joinRanges(left[of])
		if len(left[of]) == 0 {
			delete(left, of)
		}
	}
	return left
}

// With returns the transactions of both sets.
func (g GTIDs) With(other GTIDs) GTIDs {
	both := GTIDs{}
	for _, set := range []GTIDs{g, other} {
		for of, ranges := range set {
			both[of] = joinRanges(slices.Concat(both[of], ranges))
		}
	}
	return both
}

// Has reports whether every transaction of other is in g (GTID_SUBSET).
func (g GTIDs) Has(other GTIDs) bool { return len(other.Without(g)) == 0 }

// String renders the set, each source with its tag for itself.
func (g GTIDs) String() string {
	var items []string
	for _, of := range slices.Sorted(maps.Keys(g)) {
		item := of
		for _, r := range g[of] {
			item += ":" + strconv.FormatInt(r.From, 10)
			if r.To > r.From {
				item += "-" + strconv.FormatInt(r.To, 10)
			}
		}
		items = append(items, item)
	}
	return strings.Join(items, ", ")
}
