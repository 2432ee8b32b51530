package enforce

import (
	"context"
	"crypto/ecdsa"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"slipway.dev/services/internal/attest"
	"slipway.dev/services/internal/fairshare"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
	"slipway.dev/services/internal/memo"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/policy"
	"slipway.dev/services/internal/upstream"
)

// Registries reads signatures. *upstream.Client implements it.
type Registries interface {
	Manifest(ctx context.Context, repo upstream.Repository, ref string, a upstream.Access) (oci.Document, error)
	Referrers(ctx context.Context, repo upstream.Repository, d digest.Digest, a upstream.Access) ([]ocispec.Descriptor, error)
	ReadBlob(ctx context.Context, repo upstream.Repository, d digest.Digest, a upstream.Access, from, length int64) (io.ReadCloser, error)
}

// signatures finds the signatures of images, and caches the results by digest, keys and login.
type signatures struct {
	registries Registries
	// pool divides the images that are checked concurrently among clients.
	pool *fairshare.Pool
	// known holds why an image is not signed; "" if it is.
	known *memo.Cache[signatureKey, string]
	// running shares the checks of concurrent callers.
	running memo.Flight[signatureKey, string]
}

// A signatureKey identifies an image, the keys of which one must have signed it, and the login that
// reads the signatures.
type signatureKey struct {
	access upstream.Access
	repo   upstream.Repository
	digest digest.Digest
	keys   string
}

func newSignatures(r Registries) *signatures {
	return &signatures{
		registries: r,
		pool: fairshare.New(fairshare.Config{
			Name: "images whose signatures are read", Capacity: limits.SignatureChecks, PerClient: limits.SignatureChecksClient,
			MaxWaiting: limits.SignatureChecksWaiting, MaxWaitingPerClient: limits.SignatureChecksWaiting / 4, MaxWait: limits.SignatureTime,
		}),
		known: memo.NewCache(memo.Options[signatureKey, string]{
			Most: limits.SignatureResults,
			AgeOf: func(why string) time.Duration {
				if why == "" {
					return limits.SignatureCached
				}
				return limits.SignatureMissing
			},
		}),
	}
}

// An Image is an image whose signature is verified.
type Image struct {
	// Field is the field of the request that names it; "" for none.
	Field string
	// Name is its name, and Digest the digest that is served.
	Name   oci.Reference
	Digest digest.Digest
	// Access reads it.
	Access upstream.Access
	// Client is the client that the check counts for.
	Client fairshare.Client
}

// MustBeSigned reports whether policy_signatures applies to an image.
func (e *Enforcer) MustBeSigned(image oci.Reference) bool {
	if e == nil {
		return false
	}
	_, entry := e.o.Rules.RequiresSignature(image)
	return entry != ""
}

// Signature applies policy_signatures to an image: one of the keys must have signed its digest. It
// returns another fault if the signatures cannot be read.
func (e *Enforcer) Signature(ctx context.Context, image Image) error {
	if e == nil {
		return nil
	}
	keys, entry := e.o.Rules.RequiresSignature(image.Name)
	if entry == "" {
		return nil
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if e.o.Mode == Warn { // the request does not depend on it
		within, cancel = context.WithTimeout(ctx, limits.SignatureTime/5)
	}
	defer cancel()
	why, err := e.signatures.check(within, image, keys)
	if err != nil {
		public := "the registry did not return it in time"
		if f, ok := fault.As(err); ok {
			public = f.Public
		}
		switch {
		case ctx.Err() != nil:
			return err
		case e.o.Mode == Enforce:
			return fault.Unavailable.New(prefixed(image.Field, fmt.Sprintf("The signature of %s, which %s requires, cannot be read now: %s", image.Name, policy.Signatures, public)), err).After(5 * time.Second)
		}
		why = "its signature cannot be read now: " + public
	}
	if why == "" {
		return nil
	}
	return e.Apply(ctx, policy.Unsigned(image.Field, image.Name, entry, why))
}

func prefixed(field, text string) string {
	if field == "" {
		return text
	}
	return field + ": " + text
}

// check returns why an image is not signed by one of the keys; "" if it is.
func (s *signatures) check(ctx context.Context, image Image, keys []*ecdsa.PublicKey) (string, error) {
	var hints strings.Builder
	for _, k := range keys {
		hints.WriteString(attest.KeyHint(k) + " ")
	}
	access := image.Access
	if access.Login == (upstream.Login{}) { // all anonymous callers read the same
		access = upstream.Access{}
	}
	key := signatureKey{access, upstream.Repository{Host: image.Name.Registry, Name: image.Name.Repository}, image.Digest, hints.String()}
	if why, ok := s.known.Get(key); ok {
		return why, nil
	}
	return s.running.Do(ctx, key, func(ctx context.Context) (string, error) {
		place, err := s.pool.Acquire(ctx, fairshare.Request{Client: image.Client, Amount: 1})
		if err != nil {
			return "", err
		}
		defer place.Release()
		ctx, cancel := context.WithTimeout(ctx, limits.SignatureTime)
		defer cancel()
		f := finder{registries: s.registries, access: image.Access, key: key, keys: keys, payloads: map[digest.Digest][]byte{}}
		why, err := f.find(ctx)
		if ctx.Err() != nil && err != nil {
			return "", fault.Timeout.New(fmt.Sprintf("%s did not return the signatures within %s", key.repo.Host, limits.SignatureTime), err)
		}
		if err == nil {
			s.known.Set(key, why)
		}
		return why, err
	})
}

// A finder looks for a valid signature of one image.
type finder struct {
	registries Registries
	access     upstream.Access
	key        signatureKey
	keys       []*ecdsa.PublicKey
	payloads   map[digest.Digest][]byte
	// invalid is why the last signature was not accepted.
	invalid string
}

// find returns why no signature is valid; "" if one is.
func (f *finder) find(ctx context.Context) (string, error) {
	isSigned, errSimple := f.simple(ctx)
	if isSigned {
		return "", nil
	}
	isSigned, errBundles := f.bundles(ctx)
	if isSigned {
		return "", nil
	}
	if err := errors.Join(errSimple, errBundles); err != nil {
		return "", firstFault(errSimple, errBundles)
	}
	if f.invalid == "" {
		return "it has no signature", nil
	}
	return "none of its signatures is valid: " + f.invalid, nil
}

// firstFault returns the first error.
func firstFault(all ...error) error {
	return all[slices.IndexFunc(all, func(err error) bool { return err != nil })]
}

// isAbsent reports whether a registry has no such document for the login, or only an unusable one. Other
// errors are temporary.
func isAbsent(err error) bool {
	return errors.Is(err, fault.NotFound) || errors.Is(err, fault.Denied) || errors.Is(err, fault.Unauthenticated) || errors.Is(err, fault.Invalid)
}

// reject records why a signature is not accepted.
func (f *finder) reject(err error) {
	text := err.Error()
	if e, ok := fault.As(err); ok {
		text = e.Public // its cause is internal
	}
	f.invalid = fault.Quote(text)
}

// simple looks for signatures of cosign before version 3.
func (f *finder) simple(ctx context.Context) (bool, error) {
	doc, err := f.registries.Manifest(ctx, f.key.repo, attest.SimpleSigningTag(f.key.digest), f.access)
	if isAbsent(err) {
		if errors.Is(err, fault.Invalid) {
			f.reject(err)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	m, err := oci.ParseManifest(doc)
	if err != nil {
		f.reject(err)
		return false, nil
	}
	tried := 0
	for _, l := range slices.Backward(m.Layers) { // cosign appends new signatures
		if l.MediaType != attest.SimpleSigningType {
			continue
		}
		if tried++; tried > limits.SignaturesRead {
			f.invalid = fmt.Sprintf("only the last %d are read", limits.SignaturesRead)
			return false, nil
		}
		ok, err := f.layer(ctx, l)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// layer verifies one signature of the older format.
func (f *finder) layer(ctx context.Context, l ocispec.Descriptor) (bool, error) {
	signature, err := base64.StdEncoding.DecodeString(l.Annotations[attest.SimpleSigningAnnotation])
	if err != nil {
		f.reject(fmt.Errorf("the signature is not base64: %w", err))
		return false, nil
	}
	payload, ok := f.payloads[l.Digest]
	if !ok {
		if payload, err = f.blob(ctx, l, limits.SignaturePayload); err != nil {
			if isAbsent(err) {
				f.reject(err)
				return false, nil
			}
			return false, err
		}
		f.payloads[l.Digest] = payload
	}
	if err := attest.VerifySimpleSigning(payload, signature, f.key.digest, f.keys...); err != nil {
		f.reject(err)
		return false, nil
	}
	return true, nil
}

// bundles looks for Sigstore bundles, as cosign since version 3 makes them.
func (f *finder) bundles(ctx context.Context) (bool, error) {
	list, err := f.registries.Referrers(ctx, f.key.repo, f.key.digest, f.access)
	if isAbsent(err) {
		if errors.Is(err, fault.Invalid) {
			f.reject(err)
		}
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var likely, other []ocispec.Descriptor
	for _, d := range list {
		switch {
		case d.ArtifactType != attest.BundleType && d.ArtifactType != "":
		case d.Annotations[attest.AnnotationPredicate] == attest.SignaturePredicate:
			likely = append(likely, d)
		case d.Annotations[attest.AnnotationPredicate] == "":
			other = append(other, d)
		}
	}
	slices.Reverse(likely) // registries list new ones last
	slices.Reverse(other)
	for i, d := range slices.Concat(likely, other) {
		if i == limits.SignaturesRead {
			f.invalid = fmt.Sprintf("only the last %d are read", limits.SignaturesRead)
			return false, nil
		}
		ok, err := f.bundle(ctx, d)
		if ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// bundle verifies one bundle.
func (f *finder) bundle(ctx context.Context, d ocispec.Descriptor) (bool, error) {
	err := f.verifyBundle(ctx, d)
	var isTemporary *temporaryError
	if errors.As(err, &isTemporary) {
		return false, isTemporary.error
	}
	if err != nil {
		f.reject(err)
	}
	return err == nil, nil
}

// A temporaryError is an error of a registry that does not say whether there is a signature.
type temporaryError struct{ error }

func temporary(err error) error {
	if isAbsent(err) {
		return err
	}
	return &temporaryError{err}
}

func (f *finder) verifyBundle(ctx context.Context, d ocispec.Descriptor) error {
	if err := d.Digest.Validate(); err != nil {
		return err
	}
	doc, err := f.registries.Manifest(ctx, f.key.repo, d.Digest.String(), f.access)
	if err != nil {
		return temporary(err)
	}
	layer, err := attest.BundleOf(doc.Bytes, f.key.digest)
	if err != nil {
		return err
	}
	raw, err := f.blob(ctx, layer, limits.SignatureBundle)
	if err != nil {
		return temporary(err)
	}
	statement, err := attest.VerifyArtifact(attest.Artifact{Manifest: doc.Bytes, Bundle: raw}, f.key.digest, f.keys...)
	if err != nil {
		return err
	}
	if statement.PredicateType != attest.SignaturePredicate {
		return fmt.Errorf("the statement is no signature but has the type %.100q", statement.PredicateType)
	}
	return nil
}

// blob reads a small blob and verifies its digest.
func (f *finder) blob(ctx context.Context, d ocispec.Descriptor, most int64) ([]byte, error) {
	if d.Size <= 0 || d.Size > most {
		return nil, fault.Invalid.Newf("a signature has %d bytes, and may have %d", d.Size, most)
	}
	if err := d.Digest.Validate(); err != nil {
		return nil, fault.Invalid.New("the digest of a signature is malformed", err)
	}
	body, err := f.registries.ReadBlob(ctx, f.key.repo, d.Digest, f.access, 0, d.Size)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, d.Size+1))
	if err != nil {
		return nil, fault.Unavailable.New("the registry "+f.key.repo.Host+" did not return all of a signature", err)
	}
	if int64(len(raw)) != d.Size || digest.FromBytes(raw) != d.Digest {
		return nil, fault.Invalid.Newf("a signature does not have the digest that its manifest states")
	}
	return raw, nil
}
