package plan

import "fmt"

// describeAwait says what is awaited, the how manieth time, and for how long beyond it.
func (p Plan) describeAwait(a Await) string {
	what := p.describeFact(a)
	if what == "" {
		what = p.describeMoment(a)
	}
	if a.Count > 1 {
		what += fmt.Sprintf(", time %d", a.Count)
	}
	switch {
	case a.Since == "" || a.For == AwaitTime:
	case a.Since == SinceStep:
		what += ", from now on"
	default:
		what += ", since " + sinceNote(a.Since)
	}
	if a.Delay > 0 {
		what += fmt.Sprintf(", and %s more", a.Delay)
	}
	return what
}

// describeFact says what is awaited of the trial's facts, empty for a moment in the life of a pod or a claim.
func (p Plan) describeFact(a Await) string {
	switch {
	case a.For == AwaitCommits:
		return count(a.Commits, "acknowledged insert")
	case a.For == AwaitFault:
		stage := a.Stage
		if stage == "" {
			stage = StageConfirmed
		}
		return fmt.Sprintf("the fault of step %d is %s", a.Step, stageNote(stage))
	case a.For == AwaitMount:
		return fmt.Sprintf("the volume of %s is mounted%s", p.pod(a.Ordinal), placeNote(a.Place))
	case a.For == AwaitUnmount:
		return fmt.Sprintf("the volume of %s is unmounted%s", p.pod(a.Ordinal), placeNote(a.Place))
	case a.For == AwaitTime:
		return fmt.Sprintf("%s after %s", a.After, sinceNote(a.Since))
	case a.For == AwaitObject && a.Object != nil:
		return a.Object.String()
	case a.For == AwaitObject:
		return "no object"
	}
	return ""
}

func sinceNote(since string) string {
	switch since {
	case "":
		return "the step around it began"
	case SinceStep:
		return "this one began"
	case SinceSteps:
		return "the first step began"
	case SinceTrial:
		return "the trial began"
	}
	return since
}

func stageNote(stage string) string {
	switch stage {
	case StageConfirmed:
		return "shown to have taken effect"
	case StageGone:
		return "shown to be gone"
	}
	return stage
}

func placeNote(place string) string {
	switch place {
	case PlacePod:
		return " for a pod"
	case PlaceGlobal:
		return " for all pods of a node"
	}
	return ""
}

// describeMoment says which moment in the life of a pod, a claim or the StatefulSet is awaited.
func (p Plan) describeMoment(a Await) string {
	pod := p.pod(a.Ordinal)
	switch a.For {
	case AwaitCSIBegin:
		return fmt.Sprintf("%s of the volume of %s begins", a.RPC, pod)
	case AwaitCSIEnd:
		return fmt.Sprintf("%s of the volume of %s ends with OK", a.RPC, pod)
	case AwaitNotReady:
		return fmt.Sprintf("the node of %s is not Ready", pod)
	case AwaitMoved:
		return fmt.Sprintf("%s came up on another node", pod)
	case AwaitClaimGone:
		return fmt.Sprintf("the claim of %s is deleted", pod)
	case AwaitCreated:
		return fmt.Sprintf("%s is made", pod)
	case AwaitGone:
		return fmt.Sprintf("%s is gone from the API", pod)
	case AwaitPending:
		return fmt.Sprintf("the scheduler finds no node for %s", pod)
	case AwaitReady:
		return fmt.Sprintf("%s is Ready", pod)
	case AwaitScheduled:
		return fmt.Sprintf("%s is given a node", pod)
	case AwaitTerminating:
		return fmt.Sprintf("%s gets its deletionTimestamp", pod)
	case AwaitUnready:
		return fmt.Sprintf("%s has been started and is not Ready", pod)
	case AwaitUpdated:
		return fmt.Sprintf("%s is Ready on the revision asked for", pod)
	case AwaitSettled:
		return "the StatefulSet has come to what was asked of it"
	case AwaitStill:
		return fmt.Sprintf("no pod is made, ended or told to end for %s", a.Lasting)
	}
	return fmt.Sprintf("%q of %s", a.For, pod)
}
