package backup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckEmpty(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{
		"": false, ".slipway-data": false, "lost+found": false, imagesDir: false, ".copy-1": false,
		"slipway.db": true, "slipway.db-wal": true, "moved": true, "other": true,
	} {
		dir := t.TempDir()
		if name != "" {
			if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := checkEmpty(dir)
		if (err != nil) != refused {
			t.Errorf("a folder with %q: %v", name, err)
		}
		if refused && !strings.Contains(err.Error(), "move the folder away") {
			t.Errorf("the message for %q does not name the remedy: %v", name, err)
		}
	}
}
