// Package cases holds reported bugs as data, one file each, and the one list of them: what was reported, how it comes
// about, and the finding that shows it.
//
// It is pure: it imports the standard library, chaos/plan and chaos/plan/draft.
package cases
