package layering

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/conda"
	"slipway.dev/services/internal/fault"
)

// Lay writes the layer of a package to out: its files, and its record in
// conda-meta. The artifact is one that has the digest in its record.
func Lay(ctx context.Context, a *artifact.Artifact, rec conda.Record, at artifact.Place, c Compression, out io.Writer) (Package, error) {
	if a.Name() != rec.Name || a.Version() != rec.Version || a.Build() != rec.Build {
		return Package{}, fault.Invalid.Newf("The artifact %.200s is %.100s %.100s %.100s, and not what the channel lists it as", rec.FileName, a.Name(), a.Version(), a.Build())
	}
	t, err := newTarball(out, at.Prefix, c)
	if err != nil {
		return Package{}, err
	}
	in, err := a.Install(ctx, at, t)
	if err != nil {
		return Package{}, err
	}
	if err := t.record(in, rec, at.Scratch); err != nil {
		return Package{}, err
	}
	t.Installed, t.LinkScripts, t.Activation = in.Bytes, in.LinkScripts, in.Activation
	p, err := t.close()
	p.By = by(rec)
	return p, err
}

// by is what the layer of a package says of itself in the history of images.
func by(rec conda.Record) string { return "conda: " + rec.Name + " " + rec.Version + " " + rec.Build }

// recordMemory is how long a record is that goes to disk first, in bytes: its
// length stands before it.
const recordMemory = 4 << 20

// record writes a package's record. It is as old as the package.
func (t *tarball) record(in *artifact.Installed, rec conda.Record, scratch string) error {
	var size counter
	size.out = io.Discard
	if err := in.WriteRecord(&size, rec); err != nil {
		return err
	}
	e := artifact.Entry{Path: in.RecordName(), Type: tar.TypeReg, Mode: 0o644, ModTime: made(rec), Size: size.n}
	if size.n <= recordMemory {
		var b bytes.Buffer
		err := in.WriteRecord(&b, rec)
		return errors.Join(err, t.Put(e, &b))
	}
	f, err := os.CreateTemp(scratch, "record-")
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if err := errors.Join(os.Remove(f.Name()), in.WriteRecord(f, rec)); err != nil {
		return err
	}
	return t.Put(e, io.NewSectionReader(f, 0, size.n))
}

// made is when a package was made, as far as the channel says; else the epoch.
func made(rec conda.Record) time.Time {
	const latest = 253402300799 // the end of the year 9999
	return time.Unix(min(max(rec.Timestamp/1000, 0), latest), 0).UTC()
}
