package mirror

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/builder/remote"
	"slipway.dev/services/internal/bus/buildbus"
	"slipway.dev/services/internal/limits"
)

// loadTimeout is how long NATS may take to return the state of an upload.
const loadTimeout = 5 * time.Second

// uploads stores the states of one job's uploads in NATS. It implements remote.Uploads.
type uploads struct {
	js  jetstream.JetStream
	job jobs.Job
}

// key identifies the upload of a blob to the target of the job.
func (u uploads) key(d digest.Digest) string {
	return digest.FromString(u.job.ID + "\n" + u.job.RepositoryName() + "\n" + d.String()).Encoded()
}

// Load returns the state of a blob's upload; the zero value if NATS has none or does not respond,
// in which case the blob is sent as a whole.
func (u uploads) Load(ctx context.Context, d digest.Digest) (s remote.UploadState) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	bucket, err := u.js.KeyValue(ctx, buildbus.UploadBucket)
	if err != nil {
		return s
	}
	e, err := bucket.Get(ctx, u.key(d))
	if err != nil || len(e.Value()) == 0 || json.Unmarshal(e.Value(), &s) != nil {
		return remote.UploadState{}
	}
	return s
}

// Save replaces the state. A message that NATS does not get is not sent again: the next one
// replaces it.
func (u uploads) Save(d digest.Digest, s remote.UploadState) {
	var raw []byte // an empty value deletes
	if s.Location != "" {
		var err error
		if raw, err = json.Marshal(s); err != nil || len(raw) > limits.UploadRecord {
			return
		}
	}
	_, _ = u.js.PublishAsync(buildbus.Upload(u.key(d)), raw, jetstream.WithStallWait(time.Millisecond))
}
