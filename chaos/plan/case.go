package plan

// Case is a reported bug as data: the scenario that brings it about and the finding that shows it.
type Case struct {
	Scenario        // Its name is the case's; Expect is the verdict on an affected version.
	Report   string // Where it was reported.
	Affected string // The Kubernetes versions that have it.
	Fixed    string // The first without it; "none" when it is open.
	// Finding is what must be found for the case to count as reproduced: another failure is another matter.
	Finding Sign
	// Volumes is how many volumes a run brings into it, each an attempt of its own; 0 is one.
	Volumes int
	// Race is set where the finding depends on which of two things comes first: it is looked for in several runs, until
	// one of their volumes shows it.
	Race bool
	// Control is set for a case that must not show the finding, as it differs from an affected one in what prevents
	// it. The check of Finding must pass then, and those of Holds, whatever the others say: what prevents a loss need
	// not keep every promise. Expect is the verdict of them all.
	Control bool
	// Holds names more checks that must pass for a control to have held: that the finding is not there would mean
	// little where something else was lost, or nothing happened.
	Holds []string
}

// Sign is how a finding is recognised.
type Sign struct {
	Check string // The check that makes the finding.
	Says  string // A part of its sentence.
}
