package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/upstream"
	"slipway.dev/services/registry/store"
)

// StoreRepository is the top repository of the embedded image store.
const StoreRepository = "builds"

// An imageStore is the embedded image store with the login of this process, which is valid
// as long as the process runs. Builds get logins of their own.
type imageStore struct {
	*store.Store
	login upstream.Login
}

// hasStore reports whether this process stores images itself: it plays all roles, and
// build_repository is not set.
func (e *env) hasStore() bool { return e.isWhole() && e.cfg.BuildRepository == "" }

// openImageStore opens the embedded image store at store_addr.
func (e *env) openImageStore(ctx context.Context) (parts, error) {
	if !e.hasStore() {
		return parts{}, nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", e.cfg.StoreAddr)
	if err != nil {
		return parts{}, fmt.Errorf("store_addr: %w", err)
	}
	login := upstream.Login{Username: "slipway", Password: rand.Text()}
	e.images = &imageStore{store.New(e.cfg.DataDir, login, e.log), login}
	server := newHTTPServer(e.images, e.log)
	e.onClose(server.Close)
	serve := func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the image store: %w", err)
		}
		return nil
	}
	return parts{run: []func(context.Context) error{serve, e.collectImages}}, nil
}

// retention returns what the image store keeps. Creating and renewing a name reads the
// image, so an image that was not used for the lifetime of a name has no valid name.
func (e *env) retention() store.Retention {
	return store.Retention{
		Idle: e.cfg.StoreKeep, Lease: e.cfg.TokenTTL + min(time.Hour, e.cfg.TokenTTL), Size: int64(e.cfg.StoreSize), Kept: StoreRepository + "/" + oci.KeptRepository,
		// A push starts by checking existing blobs, and ends within its build's time limit.
		// But an image on which steps have to run waits in the queue for a worker.
		Unnamed: max(e.cfg.BuildTimeoutUser, e.cfg.BuildTimeoutAnonymous) + waitForSteps,
	}
}

// waitForSteps is how long builds may wait for steps before their image may be deleted.
const waitForSteps = 12 * time.Hour

// collectImages periodically removes unused images from the store. If the store keeps all
// images, it only removes abandoned uploads.
func (e *env) collectImages(ctx context.Context) error {
	k := e.retention()
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
			err = e.images.DropUploads(time.Now().Add(-k.Unnamed))
		} else {
			got, err = e.images.Collect(ctx, k, time.Now())
		}
		if err != nil && ctx.Err() == nil {
			e.log.WarnContext(ctx, "Unused images could not be removed; trying again", "err", err)
		}
		if got.Freed > 0 {
			e.log.InfoContext(ctx, "Unused images were removed", "images", len(got.Images), "freed_bytes", got.Freed, "left_bytes", got.Left)
		}
	}
}

// listImages serves GET /images of the admin port: the content of the image store.
func (e *env) listImages(w http.ResponseWriter, _ *http.Request) {
	if e.images == nil {
		http.Error(w, noStore, http.StatusNotFound)
		return
	}
	images, err := e.images.Images()
	answerJSON(w, images, err)
}

const noStore = "this process has no image store: images are stored in build_repository"

// pruneImages serves POST /images/prune of the admin port. It removes the images that the
// settings do not keep, or those that were not used for the duration unused_for, and
// returns a summary. With dry_run it removes nothing.
func (e *env) pruneImages(w http.ResponseWriter, r *http.Request) {
	if e.images == nil {
		http.Error(w, noStore, http.StatusNotFound)
		return
	}
	k := e.retention()
	if text := r.URL.Query().Get("unused_for"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			http.Error(w, "unused_for must be a duration, e.g. 48h", http.StatusBadRequest)
			return
		}
		k.Idle = d
	}
	if dry, _ := strconv.ParseBool(r.URL.Query().Get("dry_run")); dry {
		images, err := e.images.Expired(k, time.Now())
		answerJSON(w, store.Collected{Images: images}, err)
		return
	}
	got, err := e.images.Collect(r.Context(), k, time.Now())
	answerJSON(w, got, err)
}

func answerJSON(w http.ResponseWriter, what any, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(what) // the client may have disconnected
}
