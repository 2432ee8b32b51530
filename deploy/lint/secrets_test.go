package main

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// aCluster is a fake kubectl, whose Secrets are the files of a folder.
const aCluster = `#!/bin/sh
case "$*" in
"get namespaces") ;;
*--ignore-not-found*) [ ! -e "$SECRETS/$5-$3" ] || echo "secret/$3" ;;
*go-template*) echo kept ;;
*) exit 2 ;;
esac
`

var printedSecret = regexp.MustCompile(`metadata: \{name: ([a-z-]+), namespace: ([a-z-]+)\}`)

// TestSecretsAreKept runs secrets.sh on clusters that have none, some, and all of the Secrets.
// It must print the missing Secrets and never a new master key.
func TestSecretsAreKept(t *testing.T) {
	t.Parallel()
	bin, cluster := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte(aCluster), 0o755); err != nil {
		t.Fatal(err)
	}
	run := func(secrets string, args ...string) (printed map[string]string, err error) {
		t.Helper()
		cmd := exec.Command("../k8s/secrets.sh", args...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SECRETS="+secrets)
		out, err := cmd.Output()
		printed = map[string]string{}
		for document := range strings.SplitSeq(string(out), "---") {
			if m := printedSecret.FindStringSubmatch(document); m != nil {
				printed[m[2]+"-"+m[1]] = document
			}
		}
		return printed, err
	}
	all, err := run(cluster, "--dev")
	if err != nil || len(all) != 15 {
		t.Fatalf("for an empty cluster it prints %d Secrets, %v", len(all), err)
	}
	if offline, err := run("", "--dev", "--offline"); err != nil || len(offline) != len(all) {
		t.Errorf("without a cluster it prints %d Secrets, %v", len(offline), err)
	}
	for _, name := range slices.Collect(maps.Keys(all)) {
		if err := os.WriteFile(filepath.Join(cluster, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := run(cluster, "--dev"); err != nil || len(again) != 0 {
		t.Errorf("for a cluster that has all it prints %v, %v", again, err)
	}
	if again, err := run(cluster, "--dev", "--certificates"); err != nil || len(again) != 11 || again["slipway-slipway-platform"] != "" {
		t.Errorf("with --certificates it prints %v, %v", slices.Sorted(maps.Keys(again)), err)
	}
	if err := os.Remove(filepath.Join(cluster, "slipway-slipway-stores")); err != nil {
		t.Fatal(err)
	}
	lost, err := run(cluster, "--dev")
	if err != nil || len(lost) != 2 || !strings.Contains(lost["slipway-slipway-dev-stores"], "a2VwdA") {
		t.Errorf("without the addresses of the stores it prints %v, %v", lost, err)
	}
	if err := os.WriteFile(filepath.Join(bin, "kubectl"), []byte("#!/bin/sh\n[ \"$2\" = namespaces ]\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if none, err := run(cluster, "--dev"); err == nil || len(none) != 0 {
		t.Errorf("without a connection to the cluster it prints %v, %v", none, err)
	}
}
