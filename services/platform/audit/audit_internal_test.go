package audit

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"slipway.dev/services/internal/limits"
)

// TestBounded checks that every string can be stored, and that long ones are cut between characters.
func TestBounded(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "ada": "ada", "a\x00da": "ada", "a\xffda": "ada", strings.Repeat("ü", limits.AuditText/2): strings.Repeat("ü", limits.AuditText/2),
		strings.Repeat("x", limits.AuditText+1): strings.Repeat("x", limits.AuditText/4), strings.Repeat("😀", limits.AuditText): strings.Repeat("😀", limits.AuditText/4),
	} {
		if got := bounded(in); got != want || len(got) > limits.AuditText || !utf8.ValidString(got) {
			t.Errorf("%.20q of %d bytes became %.20q of %d bytes", in, len(in), got, len(got))
		}
	}
}

// TestEncode checks the values that are stored.
func TestEncode(t *testing.T) {
	t.Parallel()
	for want, values := range map[string]any{
		"": nil, `{"role":"admin"}`: map[string]string{"role": "admin"}, `{"tooLong":true}`: map[string]string{"name": strings.Repeat("x", limits.AuditValues)},
	} {
		if got, err := encode(values); err != nil || got != want {
			t.Errorf("encoded as %q, %v; want %q", got, err, want)
		}
	}
	if _, err := encode(make(chan int)); err == nil {
		t.Error("a value that is not JSON was encoded")
	}
}

// TestPositions checks that a position is read as it is printed, and that malformed ones are rejected.
func TestPositions(t *testing.T) {
	t.Parallel()
	for _, p := range []Position{{}, {Sequence: 7, Hash: []byte{1, 0xfe}}} {
		got, err := ParsePosition(p.String())
		if err != nil || got.Sequence != p.Sequence || !bytes.Equal(got.Hash, p.Hash) {
			t.Errorf("%s was read as %v: %v", p, got, err)
		}
	}
	for _, text := range []string{"", ":", "x:00", "-1:00", "7:0", "7:xy", "7 :00", "99999999999999999999:00"} {
		if p, err := ParsePosition(text); err == nil || !strings.Contains(err.Error(), "NUMBER:HASH") {
			t.Errorf("%q was read as %v: %v", text, p, err)
		}
	}
}

// TestSum checks that the hash of a record depends on the previous hash and on each of its members,
// so that none can be changed or moved to another member.
func TestSum(t *testing.T) {
	t.Parallel()
	base := Record{
		Sequence: 1, At: time.Unix(1, 0), UserID: 2, Actor: "ada", Client: "192.0.2.1", OrgID: 3, WorkspaceID: 4, Action: "token.create", Subject: "ci",
		Reason: "no", Before: "{}", After: `{"a":1}`, RequestID: "r",
	}
	seen := map[string]string{}
	add := func(what string, r Record, previous []byte) {
		t.Helper()
		sum, err := r.sum(previous)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[string(sum)]; ok {
			t.Errorf("the hash with %s is that with %s", what, other)
		}
		seen[string(sum)] = what
	}
	add("the values", base, []byte("previous"))
	add("another previous hash", base, []byte("other"))
	for i := range reflect.TypeFor[Record]().NumField() {
		r := base
		name, field := reflect.TypeFor[Record]().Field(i).Name, reflect.ValueOf(&r).Elem().Field(i)
		switch v := field.Interface().(type) {
		case string:
			field.SetString(v + "x")
		case int64:
			field.SetInt(v + 1)
		case bool:
			field.SetBool(!v)
		case time.Time:
			field.Set(reflect.ValueOf(v.Add(time.Microsecond)))
		case []byte:
			continue // the hash itself
		default:
			t.Fatalf("%s has the type %T", name, v)
		}
		add("another "+name, r, []byte("previous"))
	}
	moved := base
	moved.Actor, moved.Client = base.Actor+base.Client, ""
	add("a moved string", moved, []byte("previous"))
}
