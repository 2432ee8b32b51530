package registry

import (
	"context"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/pullthrough"
	"slipway.dev/services/internal/upstream"
)

// TestTagLookupsAreKeptPerLogin checks that a result is used neither for another login, nor
// for another repository, nor after the registry has refused the login.
func TestTagLookupsAreKeptPerLogin(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	a := newTagCache(Deps{Now: func() time.Time { return now }, Settings: Settings{TagFreshness: 10 * time.Second}})
	ada := tagKey{upstream.Access{Scope: "ada", Login: upstream.Login{Username: "ada", Password: "1"}}, upstream.Repository{Host: "h", Name: "n"}, "v1"}
	says := func(s string) func(context.Context) (pullthrough.Tag, error) {
		return func(context.Context) (pullthrough.Tag, error) { return pullthrough.Tag{Digest: digest.Digest(s)}, nil }
	}
	refuses := func(context.Context) (pullthrough.Tag, error) { return pullthrough.Tag{}, fault.Denied.Newf("no") }
	if d, err := a.lookup(t.Context(), ada, false, says("one")); d.Digest != "one" || err != nil {
		t.Fatal(d, err)
	}
	if d, err := a.lookup(t.Context(), ada, false, refuses); d.Digest != "one" || err != nil {
		t.Errorf("told before: %v, %v", d, err)
	}
	for name, augmentation := range map[string]func(*tagKey){
		"scope":      func(k *tagKey) { k.access.Scope = "bob" },
		"password":   func(k *tagKey) { k.access.Login.Password = "2" },
		"anonymous":  func(k *tagKey) { k.access = upstream.Access{} },
		"repository": func(k *tagKey) { k.repo.Name = "m" },
		"registry":   func(k *tagKey) { k.repo.Host = "i" },
		"tag":        func(k *tagKey) { k.tag = "v2" },
	} {
		other := ada
		augmentation(&other)
		if d, err := a.lookup(t.Context(), other, false, refuses); err == nil {
			t.Errorf("another %s gets %v", name, d)
		}
	}
	now = now.Add(10 * time.Second)
	if d, err := a.lookup(t.Context(), ada, false, refuses); err == nil {
		t.Errorf("too old: %v", d)
	}
	now = now.Add(-time.Second) // the clock is set back
	if d, err := a.lookup(t.Context(), ada, false, says("two")); d.Digest != "two" || err != nil {
		t.Errorf("after a refusal: %v, %v", d, err)
	}
}
