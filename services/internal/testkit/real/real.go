// Package real reports whether tests may use installed servers. It is separate from the
// test kit, so that tests with few dependencies link quickly.
package real

import "os"

// Servers reports whether tests may start servers from Debian packages. `make e2e` installs
// them and sets SLIPWAY_TEST_REAL.
func Servers() bool { return os.Getenv("SLIPWAY_TEST_REAL") != "" }
