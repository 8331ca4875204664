package plan

// Describe says in one line what a step of the plan does.
func (p Plan) Describe(s Step) string { return p.describe(s) }
