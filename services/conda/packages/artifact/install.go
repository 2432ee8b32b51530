package artifact

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"io"
	"path"
	"strings"
	"time"

	"slipway.dev/services/conda/spec"
)

// An Entry is a file, folder or link of an installed package.
type Entry struct {
	// Path is relative to the prefix.
	Path string
	// Type is tar.TypeReg, TypeDir, TypeSymlink, or TypeLink for a hard link to an earlier
	// file of the same package.
	Type byte
	// Target is a link's target: as written, or the other file's Path.
	Target string
	// Mode is the permission bits.
	Mode int64
	// ModTime is the packed file's time in whole seconds, because compiled Python is
	// checked against it.
	ModTime time.Time
	// Size is a file's size in bytes.
	Size int64
}

// A Sink receives the installed entries in the order of the archive.
type Sink interface {
	// Put receives one entry. For a file, content must be read before Put returns.
	Put(e Entry, content io.Reader) error
}

// installer installs one package.
type installer struct {
	*Artifact
	at      Place
	python  bool
	out     Sink
	result  *Installed
	scratch scratch
	// from maps each installed path to its listed path, and files maps each name in the
	// archive to its file, through hard links.
	from  map[string]int
	files map[string]string
	// copies are hard links that become separate files, by the file that they link to.
	copies map[string][]int
}

// Install passes all files that the package installs to out, and returns a summary. A
// package that cannot be installed is fault.Invalid; out may then have received a part of
// it. Install is called once.
func (a *Artifact) Install(ctx context.Context, at Place, out Sink) (*Installed, error) {
	i := &installer{
		Artifact: a, at: at, python: a.Python(), out: out, scratch: scratch{dir: at.Scratch},
		from: map[string]int{}, files: map[string]string{}, copies: map[string][]int{},
		result: &Installed{index: a.index, paths: a.paths.list},
	}
	err := i.install(ctx)
	if closed := i.scratch.close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, a.refused(err)
	}
	return i.result, nil
}

func (i *installer) install(ctx context.Context) error {
	if i.python && i.at.Python == (spec.Python{}) {
		return invalid("it requires Python, which the environment lacks")
	}
	if i.Artifact.content != nil || i.Artifact.info == nil {
		if err := i.walk(ctx, i.Artifact.content, i.visit); err != nil {
			return err
		}
	}
	if len(i.copies) > 0 {
		if err := i.walk(ctx, i.Artifact.content, i.copy(ctx)); err != nil {
			return err
		}
	}
	if err := i.entryPoints(); err != nil {
		return err
	}
	return i.complete()
}

// visit installs an entry that is listed.
func (i *installer) visit(h *tar.Header, name string, content io.Reader) error {
	n, listed := i.paths.at[name]
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		i.files[name] = name
		if listed {
			return i.file(n, h, content)
		}
	case tar.TypeLink:
		return i.hardLink(n, listed, name, h)
	case tar.TypeSymlink:
		if listed {
			return i.symlink(n, h)
		}
	case tar.TypeDir:
		if listed && i.paths.list[n].Kind == kindDirectory {
			return i.directory(n)
		}
	}
	return nil
}

// claim returns the installed path of a listed path, and reserves it.
func (i *installer) claim(n int, kind string) (string, error) {
	p := &i.paths.list[n]
	to, err := i.installed(p.Path)
	if err != nil {
		return "", err
	}
	if _, twice := i.from[to]; twice {
		return "", invalid("%s occurs twice", clip(to))
	}
	i.from[to] = n
	p.fact = fact{path: to, kind: kind}
	return to, nil
}

func (i *installer) file(n int, h *tar.Header, content io.Reader) error {
	to, err := i.claim(n, kindFile)
	if err != nil {
		return err
	}
	p := &i.paths.list[n]
	e := Entry{Path: to, Type: tar.TypeReg, Mode: h.Mode & 0o777, ModTime: truncateTime(h.ModTime), Size: h.Size}
	if p.Placeholder != "" {
		r, err := newReplacer(content, p.Placeholder, i.at.Prefix, p.Mode)
		if err != nil {
			return err
		}
		content = r
		if p.Mode != modeBinary {
			if err := i.text(&meter{in: r, packed: i.Artifact.size, unpacked: i.result.Bytes}); err != nil {
				return err
			}
			content, e.Size = i.scratch.reader(), i.scratch.size
		}
	}
	return i.put(p, e, content)
}

// text writes a rewritten file to the scratch, to determine its length.
func (i *installer) text(r io.Reader) error {
	if err := i.scratch.reset(); err != nil {
		return err
	}
	return shortShebang(&i.scratch, r)
}

// put passes a file on and records its digests. Installed bytes are limited like unpacked
// bytes, since hard links that become files and short placeholders expand them.
func (i *installer) put(p *listed, e Entry, content io.Reader) error {
	if err := (&meter{packed: i.Artifact.size}).tooLong(i.result.Bytes + e.Size); err != nil {
		return err
	}
	sum := sha256.New()
	content = io.TeeReader(content, sum)
	content, err := i.result.watch(i.Artifact, e, content)
	if err != nil {
		return err
	}
	if err := i.out.Put(e, content); err != nil {
		return err
	}
	sum.Sum(p.sha256[:0])
	if p.Size == 0 {
		p.Size = e.Size
	}
	i.result.Bytes += e.Size
	return nil
}

func (i *installer) symlink(n int, h *tar.Header) error {
	to, err := i.claim(n, kindLink)
	if err != nil {
		return err
	}
	if err := checkLink(to, h.Linkname); err != nil {
		return err
	}
	i.paths.list[n].target = i.inPackage(i.paths.list[n].Path, h.Linkname)
	return i.out.Put(Entry{Path: to, Type: tar.TypeSymlink, Target: h.Linkname, Mode: 0o777, ModTime: truncateTime(h.ModTime)}, nil)
}

// inPackage returns the path in the archive that a link points to, or "" for a target
// outside the prefix. It is only used to look up listed paths.
func (i *installer) inPackage(name, target string) string {
	if !path.IsAbs(target) {
		return path.Join(path.Dir(name), target)
	}
	below, ok := strings.CutPrefix(path.Clean(target), i.at.Prefix+"/")
	if !ok {
		return ""
	}
	return below
}

func (i *installer) directory(n int) error {
	to, err := i.claim(n, kindDirectory)
	if err != nil {
		return err
	}
	return i.out.Put(Entry{Path: to, Type: tar.TypeDir, Mode: 0o755}, nil)
}

// truncateTime truncates a time to seconds. A rounded time would differ from the one that compiled
// Python records.
func truncateTime(t time.Time) time.Time { return time.Unix(t.Unix(), 0).UTC() }
