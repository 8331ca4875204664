// Package agentbin finds the agent's binary on the harness's side, and builds it where there is only its source.
//
// Its promise: the path it returns is an executable file, and its caller is told where it came from. It imports
// clusters/program.
package agentbin
