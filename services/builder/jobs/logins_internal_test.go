package jobs

import "testing"

func TestSecretsAreRedacted(t *testing.T) {
	t.Parallel()
	l := &Logins{}
	l.addSecret("ada", "correct horse")
	l.addSecret("bob", "x")
	if got := l.Redact("a correct horse, YWRhOmNvcnJlY3QgaG9yc2U=, x"); got != "a [redacted], [redacted], x" {
		t.Errorf("got %q", got)
	}
}
