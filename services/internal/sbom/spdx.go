package sbom

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

const (
	// noAssertion is the value of SPDX for what is not known.
	noAssertion = "NOASSERTION"
	// imageID is the identifier of the image in both formats.
	imageID = "image"
	// namespace is the prefix of the namespaces of documents. They are names, not addresses.
	namespace = "https://slipway.dev/sbom/"
	toolName  = "slipway"
)

// spdx returns the document as SPDX 2.3 JSON.
func (d *document) spdx() ([]byte, error) {
	out := v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: d.name(),
		DocumentNamespace: namespace + identifierOf(d.image.Digest) + "/" + d.id.String(), DocumentComment: d.image.Note,
		CreationInfo: &v2_3.CreationInfo{Creators: []common.Creator{{CreatorType: "Tool", Creator: toolName}}, Created: d.created()},
		Packages:     []*v2_3.Package{d.spdxImage()},
	}
	relate := func(a, kind, b string) {
		out.Relationships = append(out.Relationships, &v2_3.Relationship{
			RefA: common.MakeDocElementID("", a), Relationship: kind, RefB: common.MakeDocElementID("", b),
		})
	}
	relate("DOCUMENT", common.TypeRelationshipDescribe, imageID)
	for i := range d.items {
		it := &d.items[i]
		out.Packages = append(out.Packages, it.spdx())
		relate(imageID, common.TypeRelationshipContains, it.id)
	}
	for _, it := range d.items {
		for _, id := range it.requires {
			relate(it.id, common.TypeRelationshipDependsOn, id)
		}
	}
	refs := d.licenses.refs()
	for _, ref := range sortedRefs(refs) {
		out.OtherLicenses = append(out.OtherLicenses, &v2_3.OtherLicense{LicenseIdentifier: ref, ExtractedText: refs[ref], LicenseName: licenseName(refs[ref])})
	}
	return encode(out)
}

// licenseName returns the name of a licence: its text if it is a name rather than a whole licence.
func licenseName(text string) string {
	if len(text) > 100 || strings.ContainsAny(text, "\r\n") {
		return noAssertion
	}
	return text
}

func (d *document) spdxImage() *v2_3.Package {
	p := &v2_3.Package{
		PackageName: d.imageName(), PackageSPDXIdentifier: imageID, PackageVersion: d.image.Digest,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PackageSupplier: &common.Supplier{Supplier: noAssertion}, PrimaryPackagePurpose: "CONTAINER", PackageComment: "Platform " + valid(d.image.Platform),
		PackageExternalReferences: packageManager(d.purl()),
	}
	if h := d.digestHex(); h != "" {
		p.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: h}}
	}
	return p
}

func (i *item) spdx() *v2_3.Package {
	p := &v2_3.Package{
		PackageName: i.Name, PackageSPDXIdentifier: common.ElementID(i.id), PackageVersion: i.Version,
		PackageDownloadLocation: cmp.Or(i.URL, noAssertion), PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: cmp.Or(i.license.expression, noAssertion),
		PackageCopyrightText: noAssertion, PackageSupplier: &common.Supplier{Supplier: noAssertion}, PackageSourceInfo: i.source(),
		PackageExternalReferences: packageManager(i.PURL),
	}
	if i.MD5 != "" {
		p.PackageChecksums = append(p.PackageChecksums, common.Checksum{Algorithm: common.MD5, Value: i.MD5})
	}
	if i.SHA256 != "" {
		p.PackageChecksums = append(p.PackageChecksums, common.Checksum{Algorithm: common.SHA256, Value: i.SHA256})
	}
	return p
}

// source describes where in the image a component is, in words.
func (i *item) source() string {
	var out []string
	if i.Path != "" {
		out = append(out, "installed according to "+i.Path)
	}
	if i.Layer != "" {
		out = append(out, "in the layer "+i.Layer)
	}
	return strings.Join(out, " ")
}

func packageManager(purl string) []*v2_3.PackageExternalReference {
	return []*v2_3.PackageExternalReference{{Category: common.CategoryPackageManager, RefType: "purl", Locator: purl}}
}

// encode returns JSON that is equal for equal values.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return out.Bytes(), err
}
