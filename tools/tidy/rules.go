package tidy

import "strings"

// Rules returns the house rules.
func Rules() []Rule {
	// tidy:list
	return []Rule{
		bannedWords(),
		chance(),
		checksListed(),
		clockless(),
		comments(),
		droppedErrors(),
		initFunctions(),
		layers(),
		links(),
		linters(),
		listeners(),
		lists(),
		logging(),
		names(),
		owners(),
		packageComments(),
		panics(),
		partsListed(),
		pure(),
		registry(),
		shells(),
		sizes(),
		skips(),
		sleeps(),
		topLevel(),
		unfinished(),
	}
}

func containsFold(s, sub string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(sub))
}
