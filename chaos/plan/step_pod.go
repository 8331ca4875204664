package plan

// podKinds are the steps that concern one pod, and are no faults.
func podKinds() []kind {
	ordinal := func(v *validator, at string, s Step, _ depth) { v.ordinal(at+".ordinal", *s.Ordinal) }
	return []kind{
		{do: ActionDeleteClaim, field: "ordinal", check: ordinal,
			says: func(p Plan, s Step) string { return "that of " + p.Workload.pod(*s.Ordinal) }},
		{do: ActionDeletePod, field: "ordinal", check: ordinal,
			says: func(p Plan, s Step) string { return p.Workload.pod(*s.Ordinal) }},
		{do: ActionRecover, field: "ordinal",
			check: func(v *validator, at string, s Step, in depth) {
				switch {
				case !v.work.Replicated:
					v.Add(at+".do", "leave the step out, or set workload.replicated",
						"no instance has the data of another")
				case *s.Ordinal == v.work.Start:
					v.Add(at+".ordinal", "use a higher one", "%d is the first, which the others are copies of",
						*s.Ordinal)
				default:
					v.victim(at)
					ordinal(v, at, s, in)
				}
			},
			says: func(p Plan, s Step) string {
				return p.Workload.pod(*s.Ordinal) + ", cloned from the first instance, and caught up by GTID"
			}},
	}
}
