package citation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// An entity is an object of the graph of an RO-Crate.
type entity map[string]any

func reference(id string) entity { return entity{"@id": id} }

// terms are the terms that the context of RO-Crate lacks: those of the profile Workflow Run Crate.
var terms = entity{ //nolint:gochecknoglobals // constant
	"ContainerImage": "https://w3id.org/ro/terms/workflow-run#ContainerImage",
	"registry":       "https://w3id.org/ro/terms/workflow-run#registry",
	"tag":            "https://w3id.org/ro/terms/workflow-run#tag",
	"sha256":         "https://w3id.org/ro/terms/workflow-run#sha256",
}

// roCrate returns the ro-crate-metadata.json of RO-Crate 1.1. Its data are on the web: the lock and the image.
func (i Image) roCrate() (string, error) {
	const imageID = "#image"
	image := entity{
		"@id": imageID, "@type": "ContainerImage", "name": i.Repository, "registry": i.Host, "tag": i.Tag, "url": i.URL,
	}
	switch {
	case i.IsSIF:
		image["additionalType"] = reference("https://w3id.org/ro/terms/workflow-run#SIFImage")
	case !i.IsEnvironment: // for which there is no term
		image["additionalType"] = reference("https://w3id.org/ro/terms/workflow-run#DockerImage")
	}
	if i.Digest != "" {
		image["sha256"] = strings.TrimPrefix(i.Digest, "sha256:")
	}
	graph := []entity{
		{"@id": "ro-crate-metadata.json", "@type": "CreativeWork", "conformsTo": reference("https://w3id.org/ro/crate/1.1"), "about": reference("./")},
		{
			"@id": "./", "@type": "Dataset", "name": i.title(), "identifier": i.URL, "datePublished": i.Kept.UTC().Format(time.RFC3339),
			"description": fmt.Sprintf("%s for %s: %s", i.title(), i.Platforms, i.pullName()), "license": reference("#licences"),
			"hasPart": []entity{reference(i.Lock.URL)}, "mentions": []entity{reference(imageID)},
		},
		{"@id": "#licences", "@type": "CreativeWork", "name": "The licences of the packages", "description": "Each package in the image has its own licence."},
		{"@id": i.Lock.URL, "@type": "File", "name": "Lock with the digests of all packages", "encodingFormat": "application/yaml", "contentSize": fmt.Sprint(i.Lock.Size), "sha256": i.Lock.SHA256},
		image,
	}
	software, seen := []entity{}, map[string]bool{}
	for _, p := range i.Packages {
		id := p.URL
		if id == "" {
			id = "#" + p.Name + "-" + p.Version
		}
		if seen[id] {
			continue
		}
		seen[id] = true
		e := entity{"@id": id, "@type": "SoftwareApplication", "name": p.Name, "softwareVersion": p.Version}
		if p.License != "" {
			e["license"] = p.License
		}
		if p.SHA256 != "" {
			e["sha256"] = p.SHA256
		}
		graph, software = append(graph, e), append(software, reference(id))
	}
	image["softwareRequirements"] = software
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(entity{"@context": []any{"https://w3id.org/ro/crate/1.1/context", terms}, "@graph": graph})
	return out.String(), err
}
