package ztoc

import (
	"time"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Compression algorithms of the format.
const (
	algorithmGzip         = 1
	algorithmUncompressed = 2
)

// Marshal returns the encoded zTOC: a FlatBuffer of the table Ztoc. The tool is the name of
// the program that created it. Equal zTOCs have equal bytes.
func (z *Ztoc) Marshal(tool string) []byte {
	b := flatbuffers.NewBuilder(len(z.checkpoints) + 256*len(z.files) + 4096)
	revision := b.CreateString(version)
	identifier := b.CreateString(tool)
	toc := z.encodeTOC(b)
	info := z.encodeInfo(b)

	b.StartObject(6)
	b.PrependUOffsetTSlot(0, revision, 0)
	b.PrependUOffsetTSlot(1, identifier, 0)
	b.PrependUOffsetTSlot(4, toc, 0)
	b.PrependInt64Slot(2, z.Compressed, 0)
	b.PrependInt64Slot(3, z.Uncompressed, 0)
	b.PrependUOffsetTSlot(5, info, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// encodeTOC encodes the table TOC.
func (z *Ztoc) encodeTOC(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	files := make([]flatbuffers.UOffsetT, len(z.files))
	for i := len(files) - 1; i >= 0; i-- {
		files[i] = z.files[i].encode(b)
	}
	list := vector(b, files)
	b.StartObject(1)
	b.PrependUOffsetTSlot(0, list, 0)
	return b.EndObject()
}

// vector encodes a vector of tables or strings.
func vector(b *flatbuffers.Builder, members []flatbuffers.UOffsetT) flatbuffers.UOffsetT {
	b.StartVector(4, len(members), 4)
	for i := len(members) - 1; i >= 0; i-- {
		b.PrependUOffsetT(members[i])
	}
	return b.EndVector(len(members))
}

// encode encodes the table FileMetadata.
func (f file) encode(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	d := details{}
	if f.details != nil {
		d = *f.details
	}
	word, _ := kind(f.flag)
	name := b.CreateString(f.name)
	kind := b.CreateString(word)
	link := b.CreateString(f.link)
	user := b.CreateString(d.user)
	group := b.CreateString(d.group)
	modified := b.CreateString(f.modified(d))
	var records []flatbuffers.UOffsetT
	for i := 0; i < len(d.records); i += 2 {
		key, value := b.CreateString(d.records[i]), b.CreateString(d.records[i+1])
		b.StartObject(2)
		b.PrependUOffsetTSlot(0, key, 0)
		b.PrependUOffsetTSlot(1, value, 0)
		records = append(records, b.EndObject())
	}
	attributes := vector(b, records)

	b.StartObject(14)
	b.PrependUOffsetTSlot(0, name, 0)
	b.PrependUOffsetTSlot(1, kind, 0)
	b.PrependInt64Slot(2, f.offset, 0)
	b.PrependInt64Slot(3, f.size, 0)
	b.PrependUOffsetTSlot(4, link, 0)
	b.PrependInt64Slot(5, f.mode, 0)
	b.PrependUint32Slot(6, f.uid, 0)
	b.PrependUint32Slot(7, f.gid, 0)
	b.PrependUOffsetTSlot(8, user, 0)
	b.PrependUOffsetTSlot(9, group, 0)
	b.PrependUOffsetTSlot(10, modified, 0)
	b.PrependInt64Slot(11, d.deviceMajor, 0)
	b.PrependInt64Slot(12, d.deviceMinor, 0)
	b.PrependUOffsetTSlot(13, attributes, 0)
	return b.EndObject()
}

// modified returns the time of modification, or "" if it is beyond the year 9999.
func (f file) modified(d details) string {
	at, err := time.Unix(f.seconds, int64(d.nanoseconds)).UTC().MarshalText()
	if err != nil {
		return "" // soci-snapshotter reads it as the zero time
	}
	return string(at)
}

// encodeInfo encodes the table CompressionInfo.
func (z *Ztoc) encodeInfo(b *flatbuffers.Builder) flatbuffers.UOffsetT {
	points := b.CreateByteVector(z.checkpoints)
	digests := make([]flatbuffers.UOffsetT, len(z.spanDigests))
	for i, d := range z.spanDigests {
		digests[i] = b.CreateString(d)
	}
	spans := vector(b, digests)
	algorithm := int8(algorithmUncompressed)
	if z.gzip {
		algorithm = algorithmGzip
	}
	b.StartObject(4)
	b.PrependInt32Slot(1, int32(len(z.spanDigests)-1), 0)
	b.PrependUOffsetTSlot(2, spans, 0)
	b.PrependUOffsetTSlot(3, points, 0)
	b.PrependInt8Slot(0, algorithm, algorithmGzip)
	return b.EndObject()
}

// encodeTarInfo encodes the table TarZinfo, which replaces the checkpoints of a plain tar.
func encodeTarInfo(size int64) []byte {
	b := flatbuffers.NewBuilder(64)
	b.StartObject(3)
	b.PrependInt32Slot(0, 2, 0)
	b.PrependInt64Slot(1, SpanSize, 0)
	b.PrependInt64Slot(2, size, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}
