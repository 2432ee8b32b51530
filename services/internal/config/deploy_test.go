package config_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/testkit/docs"
)

// variables returns the settings as environment variables, with those of the command line
// and of tests.
func variables() []string {
	known := append(config.OtherVariables(), "SLIPWAY_TEST_REAL", "SLIPWAY_TEST_RACE")
	for _, f := range config.Fields(&config.Config{}) {
		known = append(known, f.Env())
	}
	return known
}

var variable = regexp.MustCompile(`\bSLIPWAY_[A-Z0-9_]+`)

// TestDeployNamesSettings checks that the settings used in manifests, scripts and pages of
// deploy/ exist.
func TestDeployNamesSettings(t *testing.T) {
	t.Parallel()
	known, found := variables(), 0
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
			isTests := strings.HasPrefix(name, "SLIPWAY_TEST_") && strings.Contains(path, "deploy/python/")
			if !isTests && !slices.Contains(known, name) {
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

// TestDocsNameSettings checks that the settings named in documents exist, and that example
// files can be loaded.
func TestDocsNameSettings(t *testing.T) {
	t.Parallel()
	known, keys := variables(), []string{}
	for _, f := range config.Fields(&config.Config{}) {
		keys = append(keys, f.Key)
	}
	key, found, files := regexp.MustCompile(`^([a-z]+(?:_[a-z0-9]+)+)(: .*)?$`), 0, 0
	for _, p := range docs.Pages(t, docs.Root(3)) {
		for _, name := range variable.FindAllString(p.Text, -1) {
			if found++; !slices.Contains(known, name) {
				t.Errorf("%s: there is no variable %s", p.Path, name)
			}
		}
		// Other names have this form as well: metrics, names in the contract and its
		// implementation, and names of Python.
		if p.IsGenerated() || strings.HasPrefix(p.Path, "gateway/contract/platform") || p.Path == "docs/integrate/python.md" {
			continue
		}
		for _, s := range p.Spans() {
			m := key.FindStringSubmatch(s)
			if m == nil || strings.HasPrefix(s, "slipway_") || slices.Contains(otherNames(), m[1]) {
				continue
			}
			if found++; !slices.Contains(keys, m[1]) {
				t.Errorf("%s: there is no setting %s", p.Path, m[1])
			}
		}
		for _, b := range p.Blocks() {
			if b.Language != "yaml" || !strings.HasPrefix(b.Text, "# slipwayd.yaml\n") {
				continue
			}
			files++
			if _, err := load(t, nil, nil, b.Text); err != nil {
				t.Errorf("%s: %v in\n%s", p.Path, err, b.Text)
			}
		}
	}
	if found < 150 || files < 3 {
		t.Errorf("only %d settings and %d files were found: does the pattern still fit?", found, files)
	}
}

// otherNames lists words that have the form of settings but are none.
func otherNames() []string {
	return []string{
		"not_affected", "under_investigation", // statuses of OpenVEX
		"apparmor_restrict_unprivileged_userns", "build_number", "created_by", "email_verified", "go_sql_wait_duration_seconds_total", "http_proxy", "mem_limit",
		"pg_restore", "request_id", "squashfuse_ll", "xms_edov",
	}
}
