package sbom

import (
	cdx "github.com/CycloneDX/cyclonedx-go"
)

// cycloneDX returns the document as CycloneDX 1.6 JSON.
func (d *document) cycloneDX() ([]byte, error) {
	out := cdx.NewBOM()
	out.SpecVersion, out.JSONSchema = cdx.SpecVersion1_6, "http://cyclonedx.org/schema/bom-1.6.schema.json"
	out.SerialNumber = "urn:uuid:" + d.id.String()
	out.Metadata = &cdx.Metadata{
		Timestamp: d.created(),
		Tools:     &cdx.ToolsChoice{Components: &[]cdx.Component{{Type: cdx.ComponentTypeApplication, Name: toolName}}},
		Component: d.cdxImage(),
	}
	if d.image.Note != "" {
		out.Metadata.Properties = &[]cdx.Property{{Name: "slipway:note", Value: d.image.Note}}
	}
	components := []cdx.Component{}
	contents := []string{}
	dependencies := []cdx.Dependency{{Ref: imageID, Dependencies: &contents}}
	for i := range d.items {
		it := &d.items[i]
		components = append(components, it.cycloneDX())
		contents = append(contents, it.id)
		if len(it.requires) > 0 {
			dependencies = append(dependencies, cdx.Dependency{Ref: it.id, Dependencies: &it.requires})
		}
	}
	out.Components, out.Dependencies = &components, &dependencies
	return encode(out)
}

func (d *document) cdxImage() *cdx.Component {
	c := &cdx.Component{
		BOMRef: imageID, Type: cdx.ComponentTypeContainer, Name: d.imageName(), Version: d.image.Digest, PackageURL: d.purl(),
		Properties: &[]cdx.Property{{Name: "slipway:platform", Value: d.image.Platform}},
	}
	if h := d.digestHex(); h != "" {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: h}}
	}
	return c
}

func (i *item) cycloneDX() cdx.Component {
	c := cdx.Component{BOMRef: i.id, Type: cdx.ComponentTypeLibrary, Name: i.Name, Version: i.Version, PackageURL: i.PURL}
	var hashes []cdx.Hash
	if i.MD5 != "" {
		hashes = append(hashes, cdx.Hash{Algorithm: cdx.HashAlgoMD5, Value: i.MD5})
	}
	if i.SHA256 != "" {
		hashes = append(hashes, cdx.Hash{Algorithm: cdx.HashAlgoSHA256, Value: i.SHA256})
	}
	if hashes != nil {
		c.Hashes = &hashes
	}
	switch {
	case i.license.text != "":
		c.Licenses = &cdx.Licenses{{License: &cdx.License{Name: i.license.text}}}
	case i.license.expression != "":
		c.Licenses = &cdx.Licenses{{Expression: i.license.expression}}
	}
	if i.URL != "" {
		c.ExternalReferences = &[]cdx.ExternalReference{{Type: cdx.ERTypeDistribution, URL: i.URL}}
	}
	var properties []cdx.Property
	if i.Layer != "" {
		properties = append(properties, cdx.Property{Name: "slipway:layer", Value: i.Layer})
	}
	if i.Path != "" {
		properties = append(properties, cdx.Property{Name: "slipway:path", Value: i.Path})
	}
	if properties != nil {
		c.Properties = &properties
	}
	return c
}
