package layering

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

	"slipway.dev/services/conda/packages/artifact"
	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/ztoc"
)

// WriteLayer writes the layer of a package to out: its files and its conda-meta record. The
// artifact must have been verified with the record's digest.
func WriteLayer(ctx context.Context, a *artifact.Artifact, rec spec.Record, at artifact.Place, c Compression, out io.Writer) (Package, error) {
	p, _, err := writeLayer(ctx, a, rec, at, c.encoding(false, at.Scratch), out)
	return p, err
}

func writeLayer(ctx context.Context, a *artifact.Artifact, rec spec.Record, at artifact.Place, c encoding, out io.Writer) (Package, *ztoc.Ztoc, error) {
	if a.Name() != rec.Name || a.Version() != rec.Version || a.Build() != rec.Build {
		return Package{}, nil, fault.Invalid.Newf("The artifact %.200s is %.100s %.100s %.100s, and not what the channel lists it as", rec.FileName, a.Name(), a.Version(), a.Build())
	}
	t, err := newTarball(out, at.Prefix, c)
	if err != nil {
		return Package{}, nil, err
	}
	in, err := a.Install(ctx, at, t)
	if err != nil {
		return Package{}, nil, err
	}
	if err := t.record(in, rec, at.Scratch); err != nil {
		return Package{}, nil, err
	}
	t.Installed, t.LinkScripts, t.Activation = in.Bytes, in.LinkScripts, in.Activation
	t.About = a.About()
	p, err := t.close()
	p.By = rec.History()
	return p, t.toc, err
}

// writeWheel is writeLayer for a wheel, which has no conda-meta record.
func writeWheel(ctx context.Context, in io.ReaderAt, size int64, rec spec.Record, at artifact.Place, c encoding, out io.Writer) (Package, *ztoc.Ztoc, error) {
	w, err := artifact.OpenWheel(ctx, in, size, rec.FileName)
	if err != nil {
		return Package{}, nil, err
	}
	if w.Name() != rec.Name || !w.IsVersion(rec.Version) {
		return Package{}, nil, fault.Invalid.Newf("The wheel %.200s is not %.100s %.100s, which the lock lists", rec.FileName, rec.Name, rec.Version)
	}
	t, err := newTarball(out, at.Prefix, c)
	if err != nil {
		return Package{}, nil, err
	}
	installed, err := w.Install(ctx, at, t)
	if err != nil {
		return Package{}, nil, err
	}
	t.Installed, t.Activation = installed.Bytes, installed.Activation
	p, err := t.close()
	p.By = rec.History()
	return p, t.toc, err
}

// recordMemory limits a record that is buffered in memory, in bytes. A longer one goes to
// disk first, since a tar header needs the length.
const recordMemory = 4 << 20

// record writes a package's record, with the package's time.
func (t *tarball) record(in *artifact.Installed, rec spec.Record, scratch string) error {
	var size counter
	size.out = io.Discard
	if err := in.WriteRecord(&size, rec); err != nil {
		return err
	}
	e := artifact.Entry{Path: in.RecordName(), Type: tar.TypeReg, Mode: 0o644, ModTime: buildTime(rec), Size: size.n}
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

// buildTime returns when a package was built according to its channel, or the epoch.
func buildTime(rec spec.Record) time.Time {
	const latest = 253402300799 // the end of the year 9999
	return time.Unix(min(max(rec.Timestamp/1000, 0), latest), 0).UTC()
}
