package explain

import (
	"fmt"
	"strings"
	"time"
)

// Action is the next thing that the controller of a StatefulSet has to do.
type Action string

// The actions.
const (
	ActionNone    Action = "none"    // Everything is as it was asked for.
	ActionCreate  Action = "create"  // A pod is missing.
	ActionDelete  Action = "delete"  // A pod is one too many.
	ActionUpdate  Action = "update"  // A pod is of a revision that it is not to be of.
	ActionReplace Action = "replace" // A pod has failed or succeeded, and is to be made anew.
	ActionSettle  Action = "settle"  // All pods are there and at their revision; one is not available yet.
	ActionUnknown Action = "unknown" // The facts do not say.
)

// Outlook is whether the wait looks as if it would end by itself.
type Outlook string

// The outlooks. Permanent means that it stays until somebody does something about it.
const (
	Transient Outlook = "transient"
	Permanent Outlook = "permanent"
	NotKnown  Outlook = "not known"
)

// Evidence is where a sentence comes from: an event of the history where there is one, an API object ("pods
// trial/web-1") and the field of it that says so.
type Evidence struct {
	Event  int64  `json:"event,omitempty"`
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
}

// String is the field, and the number of the event that shows it or, where there is none, the object.
func (e Evidence) String() string {
	of := e.Object
	if e.Event != 0 {
		of = fmt.Sprintf("#%d", e.Event)
	}
	return strings.TrimSpace(of + " " + e.Field)
}

// Cause is one link of the chain that explains why a pod blocks it: the link after it explains it further.
type Cause struct {
	Sentence string     `json:"sentence"`
	Evidence []Evidence `json:"evidence,omitempty"`
}

// Blocker is a pod that the controller waits for.
type Blocker struct {
	Pod   string        `json:"pod"`
	State string        `json:"state"`           // "not Ready", "terminating".
	Since string        `json:"since,omitempty"` // For people; empty when it is not known.
	For   time.Duration `json:"forNanoseconds,omitempty"`
	// After is the pod that has to be out of the way before the controller comes to this one; empty for those that it
	// waits for now.
	After   string  `json:"after,omitempty"`
	Causes  []Cause `json:"causes,omitempty"`
	Outlook Outlook `json:"outlook"` // Of this pod; that of the Diagnosis is the worst of all.
	Reason  string  `json:"reason"`
}

// Diagnosis is what is to be said of one StatefulSet at one moment. Times are told as people read them: "+31.2 s" is
// since the begin of the trial, and UTC where there is no trial.
type Diagnosis struct {
	StatefulSet string `json:"statefulSet"` // "namespace/name".
	At          string `json:"at"`
	Action      Action `json:"action"`
	Ordinal     int    `json:"ordinal"`        // Of the pod that the action is about; -1 where it is about none.
	Wants       string `json:"wants"`          // The action as a sentence.
	Rule        string `json:"rule,omitempty"` // Why the controller waits, when it does.
	// Blockers are the pods that are in its way, those that it waits for now before those that it would wait for next;
	// none when none is.
	Blockers []Blocker `json:"blockers"`
	Causes   []Cause   `json:"causes"`            // Why the first of them is.
	Outlook  Outlook   `json:"outlook,omitempty"` // Empty when there is nothing to do.
	Reason   string    `json:"reason,omitempty"`  // Why the outlook is so, and what would end it.
	// Since is since when nothing has moved; empty when only the present is known. For is how long, in nanoseconds.
	Since string        `json:"since,omitempty"`
	For   time.Duration `json:"forNanoseconds,omitempty"`
	// Stuck says that the controller has something to do and did not come any nearer to it for as long as the bound.
	Stuck bool `json:"stuck"`
}

// Spell is a time in which the controller had something to do and nothing moved.
type Spell struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	For  time.Duration `json:"forNanoseconds"`
	// Open says that it lasted to the end of what is known.
	Open bool `json:"open,omitempty"`
	// Diagnosis is the one for the middle of the spell, and for its end where it is open.
	Diagnosis Diagnosis `json:"diagnosis"`
}
