package plan

import "strings"

// Nearest returns the candidate that name was most likely meant to be, and whether one is near enough to suggest: at
// most a third of its letters have to change.
func Nearest(name string, candidates []string) (string, bool) {
	best, distance := "", -1
	for _, c := range candidates {
		d := editDistance(strings.ToLower(name), strings.ToLower(c))
		if distance < 0 || d < distance {
			best, distance = c, d
		}
	}
	if distance < 0 || distance > max(2, len(best)/3) {
		return "", false
	}
	return best, true
}

// editDistance counts the insertions, deletions and replacements of bytes that turn a into b (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// oneOf writes how to choose from candidates, with the likely one first.
func oneOf(name string, candidates []string) string {
	if len(candidates) == 0 {
		return "there is none to choose from"
	}
	all := "known: " + strings.Join(candidates, ", ")
	if near, ok := Nearest(name, candidates); ok {
		return "did you mean \"" + near + "\"? " + all
	}
	return all
}
