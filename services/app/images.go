package app

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"slipway.dev/services/registry/store"
)

// keep is what the image store keeps. Making a name and renewing it look at the
// image: so what was not used for as long as a name lives has none.
func (a *App) keep() store.Keep {
	return store.Keep{
		Idle: a.cfg.StoreKeep, Lease: a.cfg.TokenTTL + min(time.Hour, a.cfg.TokenTTL), Size: int64(a.cfg.StoreSize),
		// A push looks at what is there, and ends within its build's time; but what steps
		// are to be run on waits in the queue for who runs them.
		Unnamed: max(a.cfg.BuildTimeoutUser, a.cfg.BuildTimeoutAnonymous) + waitForSteps,
	}
}

// waitForSteps is how long the queue for builds in steps may be without a harm to
// images that wait for theirs.
const waitForSteps = 12 * time.Hour

// collectImages removes from the store what nobody needs, from time to time; of a store
// that keeps all, what was begun to be pushed, and not gone on with.
func (a *App) collectImages(ctx context.Context) error {
	k := a.keep()
	every := 10 * time.Minute
	if k.Idle > 0 {
		every = max(time.Second, min(every, k.Idle/4))
	}
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		var got store.Collected
		var err error
		if k.Idle == 0 && k.Size == 0 {
			err = a.images.DropUploads(time.Now().Add(-k.Unnamed))
		} else {
			got, err = a.images.Collect(ctx, k, time.Now())
		}
		if err != nil && ctx.Err() == nil {
			a.log.WarnContext(ctx, "Images that nobody needs were not all removed; it is tried again", "err", err)
		}
		if got.Freed > 0 {
			a.log.InfoContext(ctx, "Images that nobody needs were removed", "images", len(got.Images), "freed_bytes", got.Freed, "left_bytes", got.Left)
		}
	}
}

// listImages answers GET /images of the admin port: what the image store holds.
func (a *App) listImages(w http.ResponseWriter, _ *http.Request) {
	if a.images == nil {
		http.Error(w, noStore, http.StatusNotFound)
		return
	}
	images, err := a.images.Images()
	answerJSON(w, images, err)
}

const noStore = "this process has no image store: build_repository names another place"

// pruneImages answers POST /images/prune of the admin port: it removes what the
// settings do not keep, or what was not used for the duration unused_for, and says
// what that was; with dry_run it only says it.
func (a *App) pruneImages(w http.ResponseWriter, r *http.Request) {
	if a.images == nil {
		http.Error(w, noStore, http.StatusNotFound)
		return
	}
	k := a.keep()
	if text := r.URL.Query().Get("unused_for"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			http.Error(w, "unused_for must be a duration, e.g. 48h", http.StatusBadRequest)
			return
		}
		k.Idle = d
	}
	if dry, _ := strconv.ParseBool(r.URL.Query().Get("dry_run")); dry {
		images, err := a.images.Expired(k, time.Now())
		answerJSON(w, store.Collected{Images: images}, err)
		return
	}
	got, err := a.images.Collect(r.Context(), k, time.Now())
	answerJSON(w, got, err)
}

func answerJSON(w http.ResponseWriter, what any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the client may be gone
}
