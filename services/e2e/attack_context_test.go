package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestImageOfTheFolderWhereItRuns packs the folder in which slipwayd stores its ./data while it
// runs. The keys must not get into the image.
func TestImageOfTheFolderWhereItRuns(t *testing.T) {
	t.Parallel()
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:v1", testkit.Image(t, "amd64", true))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "app.py"), []byte("print()"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := common(t, []string{up.Host}, settings{"data_dir": filepath.Join(dir, "data")})
	delete(s, "admin_token_file") // slipwayd creates it in its data folder
	p := oneProcess(t, s)
	for _, secret := range []string{"admin-token", "master-key", "slipway.db"} {
		if _, err := os.Stat(filepath.Join(dir, "data", secret)); err != nil {
			t.Errorf("the key does not exist: %v", err)
		}
	}
	token, err := os.ReadFile(filepath.Join(dir, "data", "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	p.token = strings.TrimSpace(string(token))
	target, errs, err := p.slipway("image", image, "--layer", dir)
	if err != nil || !strings.Contains(errs, "Left out data: it is the data folder") {
		t.Fatalf("%v: %s", err, errs)
	}
	packed := files(t, pull(t, target, "amd64"))
	if packed["app.py"] != "print()" {
		t.Error("the other files are not in the image")
	}
	for name := range packed {
		if strings.HasPrefix(name, "data/") {
			t.Errorf("%s is in the image", name)
		}
	}
	if _, errs, err := p.slipway("image", image, "--layer", filepath.Join(dir, "data")); err == nil || !strings.Contains(errs, "data folder of a slipwayd") {
		t.Errorf("the data folder itself: %v, %s", err, errs)
	}
}
