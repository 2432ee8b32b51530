package attest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"

	"slipway.dev/services/internal/limits"
)

// sifType is the payload type of a signature in a SIF file.
const sifType = "application/vnd.sylabs.sif-metadata+json"

// SIFMetadata is what a signature in a SIF file covers. `apptainer verify` computes it again from
// the file (sylabs/sif, package integrity).
type SIFMetadata struct {
	Version int         `json:"version"` // always 1
	Header  SIFHeader   `json:"header"`
	Objects []SIFObject `json:"objects"`
}

// SIFHeader has the digest of the file's header, in the form "sha256:<hex>" like all digests here.
type SIFHeader struct {
	Digest string `json:"digest"`
}

// SIFObject describes one object of the signed group.
type SIFObject struct {
	// RelativeID is the object's id minus the least one of its group.
	RelativeID       uint32 `json:"relativeId"`
	DescriptorDigest string `json:"descriptorDigest"`
	ObjectDigest     string `json:"objectDigest"`
}

// SignSIF returns the content of the signature object of a SIF file: a DSSE envelope. It rejects a
// payload that is not exactly the encoding of a SIFMetadata, so that nothing else can be signed.
func (s *Signer) SignSIF(ctx context.Context, payload []byte) ([]byte, error) {
	if err := checkSIF(payload); err != nil {
		return nil, err
	}
	signature, err := s.sign(ctx, pae(sifType, payload))
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{Payload: payload, PayloadType: sifType, Signatures: []signatureOf{{Sig: signature}}})
}

func checkSIF(payload []byte) error {
	if len(payload) > limits.SIFMetadata {
		return fmt.Errorf("the metadata of the SIF file have %d bytes, and the limit is %d", len(payload), limits.SIFMetadata)
	}
	m := SIFMetadata{}
	if err := json.Unmarshal(payload, &m); err != nil {
		return fmt.Errorf("the metadata of the SIF file are malformed: %w", err)
	}
	if again, err := json.Marshal(m); err != nil || !bytes.Equal(again, payload) {
		return errors.New("the metadata of the SIF file have an unexpected form")
	}
	if m.Version != 1 || len(m.Objects) == 0 {
		return errors.New("the metadata of the SIF file have an unknown version, or no object")
	}
	sums := []string{m.Header.Digest}
	for _, o := range m.Objects {
		sums = append(sums, o.DescriptorDigest, o.ObjectDigest)
	}
	for _, sum := range sums {
		if d, err := digest.Parse(sum); err != nil || d.Algorithm() != digest.SHA256 {
			return errors.New("the metadata of the SIF file have a malformed digest")
		}
	}
	return nil
}
