package conda

import (
	"strings"
	"testing"

	"slipway.dev/services/conda/spec"
)

// TestWheelHosts checks which addresses the setting conda_pypi_hosts allows.
func TestWheelHosts(t *testing.T) {
	t.Parallel()
	h, err := ParseWheelHosts([]string{"files.pythonhosted.org", "Mirror.example:8443", "http://10.0.0.1:80"})
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{
		"https://files.pythonhosted.org/a.whl":      true,
		"https://files.pythonhosted.org:443/a.whl":  true,
		"https://FILES.pythonhosted.org/a.whl":      true,
		"https://mirror.example:8443/x/a.whl":       true,
		"http://10.0.0.1/a.whl":                     true,
		"http://files.pythonhosted.org/a.whl":       false,
		"https://mirror.example/a.whl":              false,
		"https://files.pythonhosted.org.evil/a.whl": false,
		"https://10.0.0.1/a.whl":                    false,
	} {
		err := h.check(spec.Record{FileName: "a.whl", URL: address})
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (WheelHosts{}).check(spec.Record{FileName: "a.whl", URL: "https://files.pythonhosted.org/a.whl"}); err == nil || !strings.Contains(err.Error(), "accepts none (its operator's setting conda_pypi_hosts)") {
		t.Errorf("without hosts: %v", err)
	}
	for _, bad := range []string{"", "https://u:p@h", "h/path", "ftp://h", "h?x=1", "a b"} {
		if _, err := ParseWheelHosts([]string{bad}); err == nil || !strings.Contains(err.Error(), "conda_pypi_hosts") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
