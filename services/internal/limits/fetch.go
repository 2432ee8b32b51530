package limits

import "strconv"

// Bounds of what is read from registries.
const (
	// Document is the largest manifest, index or image config in bytes. It is what
	// the distribution specification tells registries to accept at least.
	Document = 4 << 20
	// DocumentDepth is how deep a document's JSON may be nested, and DocumentValues
	// how many values it may hold.
	DocumentDepth, DocumentValues = 32, 1 << 15
	// DocumentMembers is how many members an object may have that is changed.
	DocumentMembers = 256
	// IndexEntries is how many entries an index may have.
	IndexEntries = 128
	// ImageLayers is how many layers a manifest may list.
	ImageLayers = 512
	// ImagesChanged is how many entries of an index are changed at most.
	ImagesChanged = 32
	// ImageDocuments bounds, in bytes, the documents of one image that is changed or
	// inspected: an index and all manifests and configs that are read behind it.
	ImageDocuments = 16 << 20
)

// fetchRows bound what is read from registries, layer URLs, platforms and token services.
func fetchRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "manifest, index or image config", Bound: size(Document), Why: "What the distribution specification has registries accept; all of it is in memory."},
		{What: "values and nesting in such a document", Bound: n(DocumentValues) + " values, " + n(DocumentDepth) + " levels", Why: "Two bytes of JSON become a hundred when they are decoded."},
		{What: "members of an object in such a document that is changed", Bound: n(DocumentMembers), Why: "Each is compared with all others, to find those that come twice."},
		{What: "entries of an image index", Bound: n(IndexEntries), Why: "The largest in use have about 50, with an attestation for each image."},
		{What: "layers of an image", Bound: n(ImageLayers), Why: "Engines stop at 128; each layer is remembered for the time of a pull."},
		{What: "images of an index that are changed", Bound: n(ImagesChanged), Why: "Each costs two requests, and memory for two documents."},
		{What: "documents of one image", Bound: size(ImageDocuments), Why: "An index can list many manifests of the largest size."},
	}
}
