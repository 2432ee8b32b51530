package build

import (
	"context"
	"encoding/json"
	"time"

	"slipway.dev/services/build/store"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/sqldb"
)

// Rebuilds reads the results of rebuilds for the command line, which accesses the database directly
// while a server may be running.
type Rebuilds struct {
	store store.Store
	key   *rebuildKey
}

// NewRebuilds returns the rebuilds in a database that has the build service's tables.
func NewRebuilds(db *sqldb.DB) Rebuilds {
	s := store.New(db)
	return Rebuilds{s, &rebuildKey{store: s}}
}

// A Rebuild is an image that another worker built again, or is to build again.
type Rebuild struct {
	BuildID, Image string
	// State is "WAITING", "RUNNING", "SAME", "DIFFERENT", "UNAVAILABLE" or "ABANDONED".
	State string
	// Created is when the first build ended. The others are zero until the event.
	Created, Taken, Ended, Acknowledged time.Time
	Attempts                            int
	// FirstWorker pushed the image with FirstDigest, and SecondWorker made SecondDigest. The ids are
	// those of signed statements.
	FirstWorker, FirstWorkerID, FirstDigest    string
	SecondWorker, SecondWorkerID, SecondDigest string
	// Message states why nothing was compared, or why the layers were not.
	Message string
	// Layers and Settings are those that differ.
	Layers   []RebuildLayer
	Settings []RebuildSetting
}

// List returns the newest rebuilds, at most limit: all, or only those that have not ended and
// differences that are not acknowledged.
func (r Rebuilds) List(ctx context.Context, all bool, limit int) ([]Rebuild, error) {
	list, err := r.store.Rebuilds(ctx, all, limit)
	if err != nil {
		return nil, r.store.Fault("listing rebuilds", err)
	}
	out := make([]Rebuild, len(list))
	for i, one := range list {
		if out[i], err = r.describe(ctx, one); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Get returns the rebuild of a build, or fault.NotFound.
func (r Rebuilds) Get(ctx context.Context, id string) (Rebuild, error) {
	one, err := r.store.Rebuild(ctx, id)
	if err != nil {
		return Rebuild{}, r.fault(id, err)
	}
	return r.describe(ctx, one)
}

// Acknowledge records that an operator has handled a difference, so that the alert ends. The record
// remains.
func (r Rebuilds) Acknowledge(ctx context.Context, id string, now time.Time) error {
	done, err := r.store.AcknowledgeRebuild(ctx, id, now)
	if err != nil {
		return r.store.Fault("acknowledging a difference", err)
	}
	if !done {
		return fault.NotFound.Newf("No difference was found for the build %s; `slipwayd rebuilds list` shows all", fault.Quote(id))
	}
	return nil
}

func (r Rebuilds) fault(id string, err error) error {
	if _, ok := fault.As(err); ok {
		return fault.NotFound.New("There is no rebuild of "+fault.Quote(id)+"; `slipwayd rebuilds list --all` shows all", err)
	}
	return r.store.Fault("reading a rebuild", err)
}

func (r Rebuilds) describe(ctx context.Context, one store.Rebuild) (out Rebuild, err error) {
	out = Rebuild{
		BuildID: one.BuildID, Image: one.Image, State: one.State, Created: one.Created, Taken: one.Taken, Ended: one.Ended, Acknowledged: one.Acknowledged,
		Attempts: one.Attempts, FirstWorker: one.FirstWorker, FirstDigest: one.FirstDigest, SecondWorker: one.Worker, SecondDigest: one.Digest, Message: one.Message,
	}
	if one.Records != "" {
		var records rebuildRecords
		if err := json.Unmarshal([]byte(one.Records), &records); err != nil {
			return out, err
		}
		out.Layers, out.Settings = records.Layers, records.Settings
		if records.Note != "" {
			out.Message = records.Note
		}
	}
	if out.FirstWorkerID, err = r.key.opaque(ctx, one.FirstWorker); err != nil || one.Worker == "" {
		return out, err
	}
	out.SecondWorkerID, err = r.key.opaque(ctx, one.Worker)
	return out, err
}
