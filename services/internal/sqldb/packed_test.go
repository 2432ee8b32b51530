package sqldb_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"slipway.dev/services/internal/sqldb"
)

func TestPack(t *testing.T) {
	t.Parallel()
	in := wrapperspb.String(strings.Repeat("numpy ", 10_000))
	packed, err := sqldb.Pack(in)
	if err != nil || len(packed) > 1000 {
		t.Fatalf("%d bytes, %v", len(packed), err)
	}
	if again, err := sqldb.Pack(in); err != nil || !bytes.Equal(again, packed) {
		t.Errorf("the same message is packed differently: %d bytes instead of %d, %v", len(again), len(packed), err)
	}
	out := &wrapperspb.StringValue{}
	if err := sqldb.Unpack(packed, int64(proto.Size(in)), out); err != nil || !proto.Equal(in, out) {
		t.Errorf("Unpack did not restore the message: %v", err)
	}
	if err := sqldb.Unpack(packed, int64(proto.Size(in))-1, out); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("above the limit: %v", err)
	}
	for name, broken := range map[string][]byte{"empty": nil, "not gzip": []byte("x"), "cut": packed[:len(packed)/2]} {
		if err := sqldb.Unpack(broken, 1<<20, out); err == nil {
			t.Errorf("Unpack accepted invalid input: %s", name)
		}
	}
	if got, err := sqldb.Pack((*structpb.Struct)(nil)); got != nil || err != nil {
		t.Errorf("Pack of nil: %v, %v", got, err)
	}
}
