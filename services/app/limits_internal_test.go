package app

import (
	"os"
	"reflect"
	"regexp"
	"testing"
	"time"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/ratelimit"
)

// TestLimitsOf checks that every kind of limited call gets limits of the settings, and that every
// setting of a limit has an effect.
func TestLimitsOf(t *testing.T) {
	t.Parallel()
	var cfg config.Config
	settings, unused := reflect.ValueOf(&cfg).Elem(), map[int]string{}
	for _, f := range reflect.VisibleFields(settings.Type()) {
		if f.Type == reflect.TypeFor[ratelimit.Limit]() {
			n := len(unused) + 1
			unused[n] = f.Tag.Get("key")
			settings.FieldByIndex(f.Index).Set(reflect.ValueOf(ratelimit.Limit{{Count: n, Window: time.Hour}}))
		}
	}
	source, err := os.ReadFile("../internal/ratelimit/limit.go")
	if err != nil {
		t.Fatal(err)
	}
	kinds := regexp.MustCompile(`\sKind += "([a-z]+)"`).FindAllSubmatch(source, -1)
	if len(kinds) < 5 || len(unused) < 10 {
		t.Fatalf("only %d kinds and %d settings were found", len(kinds), len(unused))
	}
	all := limitsOf(cfg)
	for _, k := range kinds {
		l := all[ratelimit.Kind(k[1])]
		if len(l.User) == 0 || len(l.Anonymous) == 0 {
			t.Errorf("calls of the kind %s have no limits", k[1])
		}
		for _, limit := range []ratelimit.Limit{l.User, l.Anonymous, l.Organization} {
			if len(limit) > 0 {
				delete(unused, limit[0].Count)
			}
		}
	}
	if len(all) != len(kinds) || len(unused) > 0 {
		t.Errorf("%d kinds have limits, want %d; these settings have no effect: %v", len(all), len(kinds), unused)
	}
}
