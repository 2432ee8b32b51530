package sink_test

import (
	"strings"
	"testing"

	"slipway.dev/services/internal/sink"
)

// addresses are valid addresses, and invalid ones with a part of their error.
func addresses() map[string]string {
	return map[string]string{
		"/var/log/audit.jsonl": "", "/a:b": "", "syslog:": "", "syslog:/run/log": "", "syslog://logs.example.org:601": "", "syslog://[::1]:601": "",
		"syslog+tls://192.0.2.1:6514": "", "syslog+tls://192.0.2.1:6514?close=any": "",
		"": "must be an absolute path", "audit.jsonl": "must be an absolute path", "./audit.jsonl": "must be an absolute path", "/var/log/": "must be an absolute path", "/.": "must be an absolute path", "/a/..": "must be an absolute path",
		"/a\x00b": "must be an absolute path", "syslog": "must be an absolute path", "syslog:run/log": "must be an absolute path", "SYSLOG:": "must be an absolute path",
		"http://logs.example.org:601": "must be an absolute path", "syslog+tls:": "must be an absolute path",
		"syslog://": "must be syslog://HOST:PORT", "syslog://logs.example.org": "missing port", "syslog://:601": "the host is invalid",
		"syslog://me@logs.example.org:601": "the host is invalid", "syslog://logs.example.org:0": "the port", "syslog://logs.example.org:65536": "the port",
		"syslog://logs.example.org:601?close=any": "the port", "syslog://logs.example.org:601/": "the port", "syslog+tls://logs.example.org:ssl": "the port",
	}
}

// TestParse checks that valid addresses are returned by String, and that others are explained.
func TestParse(t *testing.T) {
	t.Parallel()
	for address, want := range addresses() {
		target, err := sink.Parse(address)
		switch {
		case want == "" && (err != nil || target.String() != address):
			t.Errorf("%q: %v, %v", address, target, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v; want %q", address, err, want)
		}
	}
}

// FuzzParse checks that the address of a target is that of an equal target.
func FuzzParse(f *testing.F) {
	for address := range addresses() {
		f.Add(address)
	}
	f.Fuzz(func(t *testing.T, address string) {
		target, err := sink.Parse(address)
		if err != nil {
			return
		}
		again, err := sink.Parse(target.String())
		if err != nil || again.String() != target.String() {
			t.Errorf("%q became %q, then %v: %v", address, target, again, err)
		}
	})
}
