package build_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/opencontainers/go-digest"

	buildv1 "slipway.dev/proto/gen/slipway/build/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
	"slipway.dev/services/internal/testkit"
)

// TestSignSif checks which jobs may have Singularity images signed.
func TestSignSif(t *testing.T) {
	t.Parallel()
	testkit.EachDatabase(t, func(t *testing.T, db *sqldb.DB) {
		p := newDeployment(t, db)
		p.sifSigner = newSigner(t)
		r, w := p.replica(t, 100), newWorker(t, p, 8)
		w.appear(t, 8, &buildv1.Capability{Engine: "sif", Architecture: "any"}, &buildv1.Capability{Engine: "freeze", Architecture: "any"})
		sum := digest.FromString("x").String()
		good, err := json.Marshal(attest.SIFMetadata{Version: 1, Header: attest.SIFHeader{Digest: sum}, Objects: []attest.SIFObject{{DescriptorDigest: sum, ObjectDigest: sum}}})
		if err != nil {
			t.Fatal(err)
		}
		key, other := attest.KeyHint(p.sifSigner.Public()), attest.KeyHint(newSigner(t).Public())
		for name, c := range map[string]struct {
			engine, key string
			metadata    []byte
			want        error
		}{
			"signed":          {"sif", key, good, nil},
			"other metadata":  {"sif", key, []byte(`{}`), fault.Invalid},
			"replaced key":    {"sif", other, good, fault.Conflict},
			"without a key":   {"sif", "", good, fault.Denied},
			"no SIF":          {"freeze", key, good, fault.Denied},
			"unknown ticket":  {"sif", key, good, fault.NotFound},
			"an ended ticket": {"sif", key, good, fault.NotFound},
		} {
			req := p.request(name, "", nil)
			req.Recipe = &buildv1.Recipe{Engine: c.engine, Format: "sif", SifKey: c.key, Platform: "linux/amd64"}
			r.submit(t, req)
			job := w.take(t, r, 1)
			ticket := job.job.GetTicket()
			switch name {
			case "unknown ticket":
				ticket += "x"
			case "an ended ticket":
				job.succeed(t, sum)
				if _, err := r.AwaitBuild(t.Context(), &buildv1.AwaitBuildRequest{BuildId: job.id}); err != nil {
					t.Fatal(err)
				}
			}
			signed, err := r.SignSif(t.Context(), &buildv1.SignSifRequest{Ticket: ticket, Metadata: c.metadata})
			if !errors.Is(err, c.want) || c.want == nil && !json.Valid(signed.GetEnvelope()) {
				t.Errorf("%s: %s, %v", name, signed.GetEnvelope(), err)
			}
			if name != "an ended ticket" {
				job.succeed(t, sum)
			}
		}
	})
}

func newSigner(t *testing.T) *attest.Signer {
	t.Helper()
	raw, err := attest.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParseKey(raw)
	if err != nil {
		t.Fatal(err)
	}
	s, err := attest.NewSigner(key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
