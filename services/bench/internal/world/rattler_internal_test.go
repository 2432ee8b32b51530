package world

import (
	"os"
	"strings"
	"testing"
)

// TestRattlerPin checks that the bench and the reference programs use one version of py-rattler.
func TestRattlerPin(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../tools/oracle/install.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(script), " "+rattlerPackage+" ") && !strings.Contains(string(script), "\t"+rattlerPackage+" ") {
		t.Errorf("install.sh does not install %s", rattlerPackage)
	}
}
