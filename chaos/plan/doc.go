// Package plan turns a scenario and a seed into a plan: numbered steps, complete before anything is touched, and
// legal on paper. The same scenario and seed give the same bytes.
//
// Each kind of step is one entry of kinds: its field, its rules and its words. The package is pure; all randomness of a
// trial is spent here.
package plan
