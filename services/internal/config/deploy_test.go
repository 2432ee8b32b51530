package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"slipway.dev/services/internal/config"
)

// TestDeployNamesSettings: what manifests, scripts and pages of deploy/ set, there
// is.
func TestDeployNamesSettings(t *testing.T) {
	t.Parallel()
	known := []string{
		"SLIPWAY_CONFIG",                  // the file
		"SLIPWAY_TOKEN", "SLIPWAY_SERVER", // of the command line
	}
	for _, f := range config.Fields(&config.Config{}) {
		known = append(known, f.Env())
	}
	variable := regexp.MustCompile(`\bSLIPWAY_[A-Z0-9_]+`)
	found := 0
	err := filepath.WalkDir("../../../deploy", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) == ".go" {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range variable.FindAllString(string(raw), -1) {
			found++
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no setting %s", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 50 {
		t.Errorf("only %d settings were found: does the pattern still fit?", found)
	}
}
