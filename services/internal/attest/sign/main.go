// Sign signs the releases of Slipway, as the server signs the images that it makes. It reads digests
// from standard input in the format of sha256sum, and prints a Sigstore bundle with one statement
// about them:
//
//	sha256sum * | sign -key FILE -version 1.2.0 -commit SHA provenance
//	echo "HEX" | sign -key FILE signature
//	echo "HEX" | sign -key FILE -sbom FILE spdx
//	sign -key FILE public
//
// `sign public` prints the public key instead. The key is a file as in the setting signing_key_file.
package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"slipway.dev/services/internal/attest"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "sign:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("sign", flag.ContinueOnError)
	key := flags.String("key", "", "file with the private key")
	version, commit := flags.String("version", "", "version of the release"), flags.String("commit", "", "commit that it was built from")
	bill := flags.String("sbom", "", "file with the SBOM in SPDX")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("name one statement: signature, provenance, spdx or public")
	}
	raw, err := os.ReadFile(*key)
	if err != nil {
		return err
	}
	private, err := attest.ParseKey(raw)
	if err != nil {
		return fmt.Errorf("the key %s: %w", *key, err)
	}
	signer, err := attest.NewSigner(private)
	if err != nil {
		return err
	}
	var kind string
	var predicate any
	switch statement := flags.Arg(0); statement {
	case "public":
		pem, err := attest.PublicPEM(signer.Public())
		if err == nil {
			_, err = out.Write(pem)
		}
		return err
	case "signature":
		kind, predicate = attest.SignaturePredicate, struct{}{}
	case "provenance":
		if *version == "" || *commit == "" {
			return errors.New("provenance needs -version and -commit")
		}
		kind, predicate = attest.ProvenancePredicate, provenance(*version, *commit)
	case "spdx":
		if *bill == "" {
			return errors.New("spdx needs -sbom")
		}
		doc, err := os.ReadFile(*bill)
		if err != nil {
			return err
		}
		kind, predicate = attest.SPDXPredicate, json.RawMessage(doc)
	default:
		return fmt.Errorf("%q is not a statement: use signature, provenance, spdx or public", statement)
	}
	subjects, err := read(in)
	if err != nil {
		return err
	}
	bundle, err := signer.SignBundle(context.Background(), subjects, kind, predicate)
	if err == nil {
		_, err = out.Write(bundle)
	}
	return err
}

// release is the predicate of SLSA provenance of a release. It has no times, so that equal commits
// give equal bytes.
type release struct {
	BuildDefinition struct {
		BuildType          string `json:"buildType"`
		ExternalParameters struct {
			Version string `json:"version"`
		} `json:"externalParameters"`
		ResolvedDependencies []attest.Resource `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails attest.RunDetails `json:"runDetails"`
}

func provenance(version, commit string) release {
	var r release
	r.BuildDefinition.BuildType = "https://slipway.dev/docs/operate/install#verify-a-release"
	r.BuildDefinition.ExternalParameters.Version = version
	r.BuildDefinition.ResolvedDependencies = []attest.Resource{{Name: "source", Digest: map[string]string{"gitCommit": commit}}}
	r.RunDetails.Builder.ID = "https://slipway.dev/release"
	return r
}

// read returns the digests of the lines "<sha256>" or "<sha256>  <name>".
func read(in io.Reader) (out []attest.Resource, err error) {
	for lines := bufio.NewScanner(in); ; {
		if !lines.Scan() {
			if err = lines.Err(); err == nil && len(out) == 0 {
				err = errors.New("standard input has no digests")
			}
			return out, err
		}
		sum, name, _ := strings.Cut(lines.Text(), " ")
		if b, err := hex.DecodeString(sum); err != nil || len(b) != 32 {
			return nil, fmt.Errorf("the line %.100q does not begin with a SHA-256", lines.Text())
		}
		out = append(out, attest.Resource{Name: strings.TrimLeft(name, " *"), Digest: map[string]string{"sha256": sum}})
	}
}
