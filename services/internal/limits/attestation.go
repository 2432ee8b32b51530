package limits

import (
	"strconv"
	"time"
)

// Limits of signed statements about images.
const (
	// AttestationBundle is the maximum size of a signed statement in bytes. AttestationRecipe is the
	// maximum size of a Dockerfile in it; of a longer one it only has the digest.
	AttestationBundle, AttestationRecipe = 8 << 20, 64 << 10
	// AttestationPackages is the maximum number of packages that provenance lists. Of more packages
	// it only has the digest of the lock.
	AttestationPackages = 10_000
	// AttestationPlatforms is the maximum number of platforms that the provenance of a mirror lists.
	AttestationPlatforms = 100
	// AttestationSBOM is the maximum size in bytes of an SBOM that is signed. Of a larger one, the
	// provenance states that it is omitted.
	AttestationSBOM = 5 << 20
	// AttestationMemory is the approximate memory of the container role for signed statements.
	AttestationMemory = 16 << 20
	// AttestationAge is how long the container role caches signed statements, and how old the list of
	// statements of a registry role must be before an unknown digest makes it read the list again.
	AttestationAge = 10 * time.Second
	// ImageAttachments is the maximum number of documents of signed statements that are cached with
	// an image, and AttestedManifests the maximum number of its manifests that are looked up at once.
	ImageAttachments, AttestedManifests = 200, 32
	// AttachTries is the maximum number of tries to push the statements about an image, in some seven
	// hours. Attaching is the number of images whose statements are pushed concurrently, and
	// AttachingClient that of one client; AttachingWaiting is how many more are read ahead.
	AttachTries                                  = 24
	Attaching, AttachingClient, AttachingWaiting = 8, 3, 64
	// SIFMetadata is the maximum size in bytes of what the signature in a Singularity image covers.
	SIFMetadata = 64 << 10
	// SigningWait is how long an SSH agent may take to sign a statement, and to start. It has at most
	// SigningConnections connections from a process.
	SigningWait, SigningConnections = 20 * time.Second, 4
	// SignatureTimestamps is the maximum number of timestamps of a signature, and Timestamp the
	// maximum size of one in bytes.
	SignatureTimestamps, Timestamp = 4, 64 << 10
	// TrustedRoot is the maximum size of a trusted root in bytes. It has at most TrustedAuthorities
	// authorities of each kind, each with at most TrustedChain certificates.
	TrustedRoot, TrustedAuthorities, TrustedChain = 1 << 20, 32, 8
	// CertificateWait is how long Fulcio may take to issue a certificate, and TimestampWait how long a
	// timestamp authority may take. CertificateAnswer is the maximum size of their responses in bytes.
	CertificateWait, TimestampWait, CertificateAnswer = 15 * time.Second, 10 * time.Second, 64 << 10
	// CertificateRest is how long a certificate must still be valid to be used.
	CertificateRest = time.Minute
	// IdentityToken is the maximum size of the file signing_identity_token_file in bytes.
	IdentityToken = 32 << 10
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
		{What: "signed provenance: platforms of a mirrored image", Bound: n(AttestationPlatforms), Why: "of more, it states that they are omitted"},
		{What: "signed statements: documents that are cached with an image, and its manifests that are looked up", Bound: n(ImageAttachments) + ", " + n(AttestedManifests), Why: "they are in memory with the image"},
		{What: "signed statements: tries to push them to the registry of the image", Bound: n(AttachTries), Why: "some seven hours; later they are only served under issued names"},
		{What: "signed statements: images whose statements are pushed concurrently; those of one client", Bound: n(Attaching) + "; " + n(AttachingClient), Why: "one client's slow registry does not delay the others"},
		{What: "signed statements in the memory of the container role", Bound: AttestationAge.String(), Why: "there is another one when an image was built again; registries list it within five minutes"},
		{What: "signed statement: SBOM", Bound: size(AttestationSBOM), Why: "it must fit in a statement; the provenance states that it is omitted"},
		{What: "signed Singularity image: digests that a worker may have signed", Bound: size(SIFMetadata), Why: "a file has one object, and they have some 400 bytes"},
		{What: "SSH agent that signs: time for a signature, connections of a process", Bound: SigningWait.String() + ", " + n(SigningConnections), Why: "it signs one statement after the other"},
		{What: "signing_fulcio: time for a certificate and for a timestamp, size of a response, connections of a process", Bound: CertificateWait.String() + ", " + TimestampWait.String() + ", " + size(CertificateAnswer) + ", " + n(SigningConnections), Why: "a list of new statements waits for them; a certificate is used for many statements, until " + CertificateRest.String() + " before its end"},
		{What: "signing_identity_token_file", Bound: size(IdentityToken), Why: "Fulcio limits tokens, too"},
		{What: "signature with a certificate: timestamps, size of a timestamp", Bound: n(SignatureTimestamps) + ", " + size(Timestamp), Why: "each is compared with each authority"},
		{What: "trusted root: size, authorities of a kind, certificates of an authority", Bound: size(TrustedRoot) + ", " + n(TrustedAuthorities) + ", " + n(TrustedChain), Why: "each certificate is compared with each authority"},
		{What: "public keys of a server, and the file with them", Bound: n(SigningKeys) + ", " + size(SigningKeyFile), Why: "each signature is compared with each key"},
	}
}
