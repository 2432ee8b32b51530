package attest

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Build types of provenance. Each is the address of the page that describes its parameters.
const (
	// BuildTypeImage is the type of images that a build has made.
	BuildTypeImage = "https://slipway.dev/docs/guide/verify#image"
	// BuildTypeAugmented is the type of images that are assembled when they are pulled.
	BuildTypeAugmented = "https://slipway.dev/docs/guide/verify#augmented"
	// BuildTypeMirrored is the type of images that were copied from another registry. Their provenance
	// states where they are from, and nothing about how they were made.
	BuildTypeMirrored = "https://slipway.dev/docs/guide/verify#mirrored"
)

// Provenance is the predicate of SLSA provenance v1.
type Provenance struct {
	BuildDefinition BuildDefinition `json:"buildDefinition"`
	RunDetails      RunDetails      `json:"runDetails"`
}

// A BuildDefinition is what an image was made from.
type BuildDefinition struct {
	BuildType            string     `json:"buildType"`
	ExternalParameters   Parameters `json:"externalParameters"`
	ResolvedDependencies []Resource `json:"resolvedDependencies,omitempty"`
}

// Parameters are the parameters of a build. All are optional.
type Parameters struct {
	// Engine is what made the image, e.g. "conda".
	Engine string `json:"engine,omitempty"`
	Format string `json:"format,omitempty"`
	// ContentDigest identifies all inputs of the build.
	ContentDigest string   `json:"contentDigest,omitempty"`
	Platforms     []string `json:"platforms,omitempty"`
	// ContainerFile is the Dockerfile or Singularity definition of a build whose inputs are
	// public. If it is too long, only its digest is present.
	ContainerFile       string `json:"containerFile,omitempty"`
	ContainerFileDigest string `json:"containerFileDigest,omitempty"`
	// LockDigests are those of the Conda packages of each platform.
	LockDigests []string `json:"lockDigests,omitempty"`
	// Config is the configuration that an augmented image adds, without its layers.
	Config *Config `json:"config,omitempty"`
	// Source and Target are the names of a mirrored image and of its copy, if each can be read without a
	// login.
	Source string `json:"source,omitempty"`
	Target string `json:"target,omitempty"`
	// Omitted lists what is incomplete or left out because of its size: "packages", "images" for the
	// images and layers that were read, "platforms", or "sbom" for the statement with the SBOM.
	Omitted []string `json:"omitted,omitempty"`
}

// Config is the added configuration of an augmented image, without values, which may be secret.
type Config struct {
	// Replaced lists the replaced parts: "cmd", "entrypoint", "workingDir".
	Replaced []string `json:"replaced,omitempty"`
	// Env lists the names of variables.
	Env []string `json:"env,omitempty"`
}

// RunDetails are the server and the build that made an image.
type RunDetails struct {
	Builder  Builder   `json:"builder"`
	Metadata *Metadata `json:"metadata,omitempty"`
}

// A Builder is a server, by its public address.
type Builder struct {
	ID string `json:"id"`
}

// Metadata describes a build.
type Metadata struct {
	InvocationID string `json:"invocationId,omitempty"`
	StartedOn    string `json:"startedOn,omitempty"`
	FinishedOn   string `json:"finishedOn,omitempty"`
}

// Timestamp returns a time in the format of provenance; "" for a time that is unknown.
func Timestamp(t time.Time) string {
	if t.IsZero() || t.Unix() <= 0 {
		return ""
	}
	return t.UTC().Truncate(time.Second).Format(time.RFC3339)
}

// Provenance returns the predicate of a statement with provenance.
func (s *Statement) Provenance() (*Provenance, error) {
	if s.PredicateType != ProvenancePredicate {
		return nil, fmt.Errorf("the predicate type is %.100q instead of %q", s.PredicateType, ProvenancePredicate)
	}
	p := &Provenance{}
	if err := json.Unmarshal(s.Predicate, p); err != nil {
		return nil, fmt.Errorf("the provenance is malformed: %w", err)
	}
	if p.BuildDefinition.BuildType == "" || p.RunDetails.Builder.ID == "" {
		return nil, errors.New("the provenance names no build type, or no builder")
	}
	return p, nil
}
