package app

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// workerID matches the id in a worker's data_dir.
var workerID = regexp.MustCompile(`^[A-Z2-7]{6}$`)

// workerName returns a name that is unique, also for two workers on one machine, and after a restart.
// All but its last part are those of the host and of its data_dir: an image that the worker has built is
// not built again by the same worker after a restart, to compare the bytes.
func workerName(dir string) (string, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, "worker-id")
	raw, err := os.ReadFile(file)
	id := strings.TrimSpace(string(raw))
	switch {
	case err == nil && workerID.MatchString(id):
	case err != nil && !os.IsNotExist(err):
		return "", fmt.Errorf("reading the worker's id: %w", err)
	default:
		id = rand.Text()[:6]
		if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
			return "", fmt.Errorf("storing the worker's id: %w", err)
		}
	}
	return host + "-" + id + "-" + rand.Text()[:6], nil
}
