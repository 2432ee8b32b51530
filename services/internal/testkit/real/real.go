// Package real says whether tests may use what a machine must have installed. It stands
// apart from the test kit, so that tests which need nothing else are linked quickly.
package real

import "os"

// Servers says whether tests may start the servers that Debian packages: it is set by
// `make e2e`, which installs them.
func Servers() bool { return os.Getenv("SLIPWAY_TEST_REAL") != "" }
