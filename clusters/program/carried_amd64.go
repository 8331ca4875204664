//go:build release

package program

import _ "embed"

// carried is the tar.gz of the programs for Linux nodes that `make release` has built for this architecture.
//
//go:embed programs-linux-amd64.tar.gz
var carried string
