package deps

import _ "go.uber.org/goleak"
