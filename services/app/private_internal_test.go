package app

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/internal/config"
	"slipway.dev/services/internal/upstream"
)

// TestStepsReachNoneOfOurs checks that a build step that may reach the loopback cannot reach
// any address of this service or of a role in the settings.
func TestStepsReachNoneOfOurs(t *testing.T) {
	t.Parallel()
	loopback, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	fields := reflect.TypeFor[config.Config]()
	tried := 0
	for n := range fields.NumField() {
		field := fields.Field(n)
		key := field.Tag.Get("key")
		if !strings.HasSuffix(key, "_addr") {
			continue
		}
		tried++
		for _, form := range []string{"%s", "dns:///%s", "tcp://%s"} {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var cfg config.Config
			value, set := fmt.Sprintf(form, l.Addr()), reflect.ValueOf(&cfg).Elem().Field(n)
			isRole := slices.ContainsFunc(roles(), func(r role) bool { return r.name+"_addr" == key })
			switch isList := field.Type.Kind() == reflect.Slice; {
			case isList != strings.HasPrefix(form, "tcp"), !isRole && strings.HasPrefix(form, "dns"): // only buildkit_addr is a list, of URLs
				_ = l.Close()
				continue
			case isList:
				set.Set(reflect.ValueOf([]string{value}))
			default:
				set.SetString(value)
			}
			conn, err := loopback.Except(private(cfg)).DialContext(t.Context(), "tcp", l.Addr().String())
			if err == nil {
				_ = conn.Close()
				t.Errorf("a step reaches %s = %s", key, value)
			}
			_ = l.Close()
		}
	}
	if services := len(slices.DeleteFunc(roles(), func(r role) bool { return !r.isService() })); tried < services+5 {
		t.Errorf("%d settings are addresses, and %d roles are services", tried, services)
	}
}

// TestServersOf parses the addresses in the settings of stores.
func TestServersOf(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][]string{
		"postgres://u:p@127.0.0.1:5433/slipway?sslmode=disable": {"127.0.0.1:5433"},
		"postgres://u:p@127.0.0.1,[::1]:5434/slipway":           {"127.0.0.1:5432", "[::1]:5434"},
		"redis://localhost": {"localhost:6379"},
		"redis+sentinel://:p@127.0.0.1:26379,127.0.0.1:26380/main": {"127.0.0.1:26379", "127.0.0.1:26380"},
		"nats://a:4222,nats://u@b:4223":                            {"a:4222", "b:4223"},
		"nats://a,b:4223":                                          {"a:4222", "b:4223"},
		"tcp://127.0.0.1:1234":                                     {"127.0.0.1:1234"},
	} {
		got := serversOf(url)
		if !slices.Equal(got, want) {
			t.Errorf("%s is at %q, want %q", url, got, want)
		}
	}
}

// TestStepsReachNoAuditSink checks that a build step or a webhook cannot send messages to the
// receiver of the audit trail.
func TestStepsReachNoAuditSink(t *testing.T) {
	t.Parallel()
	loopback, err := upstream.NewEgress([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	for format, isPrivate := range map[string]bool{"syslog://%s": true, "syslog+tls://%s": true, "syslog+tls://%s?close=any": true, "/var/log/%s": false, "syslog:": false} {
		sink := strings.ReplaceAll(format, "%s", l.Addr().String())
		conn, err := loopback.Except(private(config.Config{AuditSink: sink})).DialContext(t.Context(), "tcp", l.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		if (err != nil) != isPrivate {
			t.Errorf("with audit_sink %s a step gets: %v", sink, err)
		}
	}
}
