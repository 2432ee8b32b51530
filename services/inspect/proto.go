package inspect

import (
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"google.golang.org/protobuf/proto"

	inspectv1 "slipway.dev/proto/gen/slipway/inspect/v1"

	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/oci"
	"slipway.dev/services/internal/rpc"
	"slipway.dev/services/mount/environment"
)

// An imageConfig holds the members of an image's config that responses contain (OCI image
// specification, and the members that Docker adds).
type imageConfig struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant"`
	Created      string `json:"created"`
	Container    string `json:"container"`
	Config       struct {
		AttachStdin, AttachStdout, AttachStderr, Tty bool
		Env, Cmd, Entrypoint                         []string
		Image, User, WorkingDir, Hostname            string
		Domainname                                   string
		Labels                                       map[string]string
	} `json:"config"`
	RootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
	History []struct {
		Created    string `json:"created"`
		CreatedBy  string `json:"created_by"`
		Author     string `json:"author"`
		Comment    string `json:"comment"`
		EmptyLayer bool   `json:"empty_layer"`
	} `json:"history"`
	// mounted is the config of an environment without an image; nil for that of an image.
	mounted *environment.Config
}

func (c imageConfig) message() *inspectv1.ImageConfig {
	r := c.Config
	out := &inspectv1.ImageConfig{
		Architecture: rpc.Optional(c.Architecture),
		Created:      rpc.Optional(c.Created),
		Container:    rpc.Optional(c.Container),
		Config: &inspectv1.RuntimeConfig{
			AttachStdin:  proto.Bool(r.AttachStdin),
			AttachStdout: proto.Bool(r.AttachStdout),
			AttachStderr: proto.Bool(r.AttachStderr),
			Tty:          proto.Bool(r.Tty),
			Env:          r.Env,
			Cmd:          r.Cmd,
			Image:        rpc.Optional(r.Image),
			Entrypoint:   r.Entrypoint,
			User:         rpc.Optional(r.User),
			WorkingDir:   rpc.Optional(r.WorkingDir),
			Labels:       r.Labels,
			HostName:     rpc.Optional(r.Hostname),
			DomainName:   rpc.Optional(r.Domainname),
		},
		Rootfs: &inspectv1.RootFS{Type: rpc.Optional(c.RootFS.Type), DiffIds: c.RootFS.DiffIDs},
	}
	for _, h := range c.History {
		entry := &inspectv1.HistoryEntry{
			Created: rpc.Optional(h.Created), CreatedBy: rpc.Optional(h.CreatedBy), Author: rpc.Optional(h.Author), Comment: rpc.Optional(h.Comment),
		}
		if h.EmptyLayer {
			entry.EmptyLayer = proto.Bool(true)
		}
		out.History = append(out.History, entry)
	}
	return out
}

func descriptorOf(d ocispec.Descriptor) *inspectv1.Descriptor {
	out := &inspectv1.Descriptor{
		MediaType:   rpc.Optional(d.MediaType),
		Digest:      proto.String(d.Digest.String()),
		Size:        proto.Float64(float64(d.Size)),
		Annotations: d.Annotations,
	}
	if p := d.Platform; p != nil {
		out.Platform = &inspectv1.Platform{
			Architecture: rpc.Optional(p.Architecture), Os: rpc.Optional(p.OS), Variant: rpc.Optional(p.Variant),
			OsVersion: rpc.Optional(p.OSVersion), OsFeatures: p.OSFeatures,
		}
	}
	return out
}

func manifestOf(doc oci.Document, m ocispec.Manifest) *inspectv1.ImageManifest {
	out := &inspectv1.ImageManifest{
		SchemaVersion: proto.Int32(2),
		MediaType:     proto.String(doc.MediaType),
		Config:        descriptorOf(m.Config),
	}
	for _, l := range m.Layers {
		out.Layers = append(out.Layers, descriptorOf(l))
	}
	return out
}

func indexOf(doc oci.Document, x ocispec.Index) *inspectv1.IndexInspection {
	out := &inspectv1.IndexInspection{
		SchemaVersion: proto.Int32(2),
		MediaType:     proto.String(doc.MediaType),
		Digest:        proto.String(doc.Digest.String()),
	}
	for _, m := range x.Manifests {
		out.Manifests = append(out.Manifests, descriptorOf(m))
	}
	return out
}

// fillSchema1 fills in the contents of a Docker schema 1 manifest, which has neither a config
// document nor sizes.
func fillSchema1(out *inspectv1.ContainerInspection, doc oci.Document) error {
	var m struct {
		Architecture string                     `json:"architecture"`
		FSLayers     []struct{ BlobSum string } `json:"fsLayers"`
	}
	if err := oci.Decode(doc.Bytes, &m); err != nil {
		return fault.Invalid.New("The manifest of the image is malformed", err)
	}
	out.Config = &inspectv1.ImageConfig{Architecture: rpc.Optional(m.Architecture)}
	out.Manifest = &inspectv1.ImageManifest{SchemaVersion: proto.Int32(1), MediaType: proto.String(doc.MediaType)}
	for i := len(m.FSLayers) - 1; i >= 0; i-- { // schema 1 lists the newest first
		out.Manifest.Layers = append(out.Manifest.Layers, &inspectv1.Descriptor{Digest: proto.String(m.FSLayers[i].BlobSum)})
	}
	return nil
}
