package agentbin

import (
	"context"
	"log/slog"

	"github.com/seatrial/seatrial/clusters/program"
)

// Variable names the environment variable that says where the agent is.
const Variable = "SEATRIAL_AGENT"

// Find returns the path of the agent, as program.Program.Find finds it.
func Find(ctx context.Context, log *slog.Logger) (string, error) {
	agent := program.Program{
		Name: "seatrial-agent", Source: "github.com/seatrial/seatrial/tools/agent", Variable: Variable,
	}
	return agent.Find(ctx, log)
}
