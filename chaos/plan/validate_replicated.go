package plan

// replicated holds the rules of a workload whose databases are copies of the first one.
func (v *validator) replicated(w Workload) {
	const at = "workload.replicated"
	switch {
	case !w.Replicated:
	case w.Light:
		v.errs.add(at, "leave it out", "a light workload has no data to copy")
	case w.Replicas < 2:
		v.errs.add(at, "leave it out, or use workload.replicas: 2", "%d replicas: there is no copy", w.Replicas)
	}
}

// recovery holds the rules of a step that recovers an instance: it takes the data of the first one.
func (v *validator) recovery(at string, ordinal int) {
	if !v.work.Replicated {
		v.errs.add(at+".do", "leave the step out, or set workload.replicated", "no instance has the data of another")
		return
	}
	if ordinal == v.set.start {
		v.errs.add(at+".ordinal", "use a higher one", "%d is the first, which the others are copies of", ordinal)
		return
	}
	v.victim(at)
	v.ordinal(at+".ordinal", ordinal)
}
