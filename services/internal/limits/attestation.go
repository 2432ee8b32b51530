package limits

import "strconv"

// Limits of signed statements about images.
const (
	// AttestationBundle is the maximum size of a signed statement in bytes. AttestationRecipe is the
	// maximum size of a Dockerfile in it; of a longer one it only has the digest.
	AttestationBundle, AttestationRecipe = 8 << 20, 64 << 10
	// AttestationPackages is the maximum number of packages that provenance lists. Of more packages
	// it only has the digest of the lock.
	AttestationPackages = 10_000
	// AttestationMemory is the approximate memory of the container role for signed statements.
	AttestationMemory = 16 << 20
	// ImageAttachments is the maximum number of documents of signed statements that are cached with
	// an image, and AttestedManifests the maximum number of its manifests that are looked up at once.
	ImageAttachments, AttestedManifests = 200, 32
	// SigningKeys is the maximum number of public keys of a server.
	SigningKeys = 16
	// SigningKeyFile is the maximum size of a file with keys in bytes.
	SigningKeyFile = 64 << 10
)

// attestationRows lists the limits of signed statements.
func attestationRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "signed statement about an image", Bound: size(AttestationBundle), Why: "it is in memory as a whole"},
		{What: "signed provenance: Dockerfile or environment file", Bound: size(AttestationRecipe), Why: "of a longer file, it only has the digest"},
		{What: "signed provenance: packages", Bound: n(AttestationPackages), Why: "of more packages, it only has the digest of the lock"},
		{What: "signed statements: documents that are cached with an image, and its manifests that are looked up", Bound: n(ImageAttachments) + ", " + n(AttestedManifests), Why: "they are in memory with the image"},
		{What: "public keys of a server, and the file with them", Bound: n(SigningKeys) + ", " + size(SigningKeyFile), Why: "each signature is compared with each key"},
	}
}
