package request

import (
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/oci"
)

// Destination is where a built image goes, and who may have it.
type Destination struct {
	Registry, Repository string
	// Scope is "" for everybody.
	Scope string
	// Own says that it is the service's own repository.
	Own bool
}

// GivenDestination is the repository that the request names.
func (r Request) GivenDestination(who caller.ID) (Destination, error) {
	registry, path, err := oci.ParseRepository(r.Raw.GetBuildRepository())
	return Destination{Registry: registry, Repository: path, Scope: ScopeOf(who)}, err
}

// Of is the part of the service's own repository that is one caller's alone.
func (d Destination) Of(who caller.ID) Destination {
	if d.Own && d.Scope == "" {
		d.Scope = ScopeOf(who)
		d.Repository += "/" + d.Scope
	}
	return d
}
