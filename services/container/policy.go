package container

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	condav1 "slipway.dev/proto/gen/slipway/conda/v1"
	containerv1 "slipway.dev/proto/gen/slipway/container/v1"
	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/container/request"
	"slipway.dev/services/internal/caller"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
	"slipway.dev/services/internal/policy/enforce"
	"slipway.dev/services/internal/upstream"
)

// The operator's rules (docs/operate/policy.md) are applied when an image is requested: to the images
// and channels that a request names (checkPolicy), to each image by the digest that is used
// (checkSigned), to the image of an issued name (checkIssued), and to solved packages (checkPackages).

// checkPolicy applies the rules to the images and channels that a request names. In the recipe, issued
// names are already replaced by the images that they represent; other issued names are checked when
// they are looked up (checkIssued).
func (s *Service) checkPolicy(ctx context.Context, p request.Parsed, recipe request.Recipe) error {
	if s.deps.Policy == nil {
		return nil
	}
	images, err := p.Names(recipe, s.deps.CondaDefaults)
	if err != nil {
		return err
	}
	for _, image := range images {
		if _, own := recipe.Issued[image.Reference]; own || s.deps.tokenIn(image.Reference) != "" {
			continue
		}
		if err := s.deps.Policy.Image(ctx, image.Field, image.Reference); err != nil {
			return err
		}
	}
	// A build reads cached layers from this repository.
	if name := p.Raw.GetCacheRepository(); name != "" {
		host, repository, err := oci.ParseRepository(name)
		if err != nil {
			return fault.In("cacheRepository", err)
		}
		if err := s.deps.Policy.Image(ctx, "cacheRepository", oci.Reference{Registry: host, Repository: repository}); err != nil {
			return err
		}
	}
	if recipe.Packages == nil {
		return nil
	}
	return s.deps.Policy.Channels(ctx, "packages", recipe.Packages.ChannelNames())
}

// checkIssued applies policy_registries to the image of an issued name: a rule may have been set after
// the name was issued. A build has pushed its image itself.
func (s *Service) checkIssued(ctx context.Context, field string, plan *containerv1.Plan) error {
	if s.deps.Policy == nil {
		return nil
	}
	if plan.GetBuildId() == "" {
		if err := s.deps.Policy.Image(ctx, field, oci.ReferenceOf(plan.GetSource())); err != nil {
			return err
		}
	}
	for _, l := range plan.GetConfig().GetLayers() {
		if from := l.GetIncludedFrom(); from != nil && from.GetBuildId() == "" {
			if err := s.deps.Policy.Image(ctx, field, oci.Reference{Registry: from.GetRegistry(), Repository: from.GetRepository()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSigned applies policy_signatures to the digest of an image that is used.
func (s *Service) checkSigned(ctx context.Context, who *platformv1.Identity, field string, image oci.Reference, d digest.Digest, access upstream.Access) error {
	return s.deps.Policy.Signature(ctx, enforce.Image{Field: field, Name: image, Digest: d, Access: access, Client: caller.Of(who).Client(ctx)})
}

// checkPackages applies the rules about packages to the locks of all platforms. isLock reports whether
// they are those of a lock in the request.
func (s *Service) checkPackages(ctx context.Context, who *platformv1.Identity, isLock bool, solved *condav1.SolvePackagesResponse) error {
	if !s.deps.Policy.NeedsPackages(isLock) || solved.GetAnswer().GetConflict() != nil {
		return nil
	}
	return s.withPackages(ctx, who, isLock, solved, func(packages []policy.Package) error { return s.deps.Policy.Packages(ctx, "packages", packages) })
}

// storedPermitted reports whether a stored lock violates no rule. A rule may have been set, or
// policy_mode changed, after it was stored.
func (s *Service) storedPermitted(ctx context.Context, who *platformv1.Identity, stored *condav1.SolvePackagesResponse) (permitted bool, err error) {
	if !s.deps.Policy.NeedsPackages(true) {
		return true, nil
	}
	err = s.withPackages(ctx, who, false, stored, func(packages []policy.Package) error {
		permitted = s.deps.Policy.Permits(packages)
		return nil
	})
	return permitted, err
}

// withPackages calls check with the packages of all platforms when it is its turn.
func (s *Service) withPackages(ctx context.Context, who *platformv1.Identity, isLock bool, solved *condav1.SolvePackagesResponse, check func([]policy.Package) error) error {
	var packages []policy.Package
	size := 0
	for _, raw := range solved.GetRecords() {
		size += len(raw)
	}
	return s.deps.Turns.Do(ctx, caller.Of(who).Client(ctx), size, func() error {
		for _, raw := range solved.GetRecords() {
			var records []spec.Record
			if err := json.Unmarshal([]byte(raw), &records); err != nil {
				return fmt.Errorf("reading the records of a lock: %w", err)
			}
			for i := range records {
				packages = append(packages, packageOf(&records[i], isLock))
			}
		}
		return check(packages)
	})
}

// packageOf returns a package for the rules. isLock reports whether it is of a lock in a request.
func packageOf(r *spec.Record, isLock bool) policy.Package {
	out := policy.Package{Name: r.Name, Version: r.Version, License: r.License, Channel: r.Channel, Locked: isLock}
	if r.Timestamp > 0 {
		out.Created = time.UnixMilli(r.Timestamp)
	}
	switch {
	case r.IsWheel():
		out.Channel = policy.PyPI
	case r.URL != "" && isLock: // it is fetched from there, whatever a lock states as its channel
		out.Channel = parent(parent(r.URL))
	}
	return out
}

// checkSteps applies the rules to packages that are installed in build steps. A conflict is reported
// as such.
func (s *Service) checkSteps(ctx context.Context, known solved) error {
	err := s.deps.Policy.Steps(ctx, "packages", known.packages.ChannelNames(), known.packages.IsLocked())
	if conflict, ok := known.solution.(request.Conflict); ok && err != nil {
		return conflict.Err
	}
	return err
}

// parent returns the URL of the folder that contains a file or folder.
func parent(url string) string {
	at := strings.LastIndexByte(url, '/')
	if at < 0 {
		return url
	}
	return url[:at]
}

// needsChecked reports whether the packages of a request must be known before its image is served.
func (s *Service) needsChecked(of request.Packages) bool {
	return of.Query != nil && s.deps.Policy.NeedsPackages(of.IsLocked())
}

// isLockQuery reports whether a query has a lock in place of packages.
func isLockQuery(q *condav1.LockQuery) bool {
	p := q.GetPackages()
	return p.GetEnvironment() != "" || len(p.GetEntries()) == 1 && strings.Contains(p.GetEntries()[0], "://")
}

// countConflict counts a conflict that the solver attributes to conda_min_age.
func (s *Service) countConflict(ctx context.Context, solved *condav1.SolvePackagesResponse) {
	if text := solved.GetAnswer().GetMessage(); solved.GetAnswer().GetConflict() != nil && strings.Contains(text, "("+string(policy.Age)+")") {
		s.deps.Policy.Conflict(ctx, text)
	}
}
