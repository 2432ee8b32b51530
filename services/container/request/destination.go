package request

import (
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// A Destination is the repository of a built image and the callers who may read it.
type Destination struct {
	Registry, Repository string
	// Scope is "" for all callers.
	Scope string
	// Own is set for the service's own repository.
	Own bool
}

// UserDestination returns the repository that the request names.
func (r Resolved) UserDestination() (Destination, error) {
	registry, path, err := oci.ParseRepository(r.Raw.GetBuildRepository())
	return Destination{Registry: registry, Repository: path, Scope: ScopeOf(caller.Of(r.Caller))}, err
}

// Of returns the part of the service's own repository that belongs to one caller.
func (d Destination) Of(who caller.ID) Destination {
	if d.Own && d.Scope == "" {
		d.Scope = ScopeOf(who)
		d.Repository += "/" + d.Scope
	}
	return d
}
