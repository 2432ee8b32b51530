package artifact

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"io"
	"path"
	"time"

	"slipway.dev/services/internal/conda"
)

// Entry is one file, folder or link of an installed package.
type Entry struct {
	// Path is below the prefix.
	Path string
	// Type is tar.TypeReg, TypeDir, TypeSymlink, or TypeLink for a file that is
	// another one of the same package, which came before.
	Type byte
	// Target is of a link: as written, or the other file's Path.
	Target string
	// Mode is the permission bits.
	Mode int64
	// ModTime is the packed file's, in whole seconds: what Python compiled is checked
	// against it.
	ModTime time.Time
	// Size is of a file, in bytes.
	Size int64
}

// Sink takes what is installed, in the order of the archive.
type Sink interface {
	// Put takes one entry; content is that of a file, to be read before Put returns.
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
	// from is where each installed path comes from; files the file that a name in the
	// archive stands for, through hard links.
	from  map[string]int
	files map[string]string
	// copies are hard links that must be files of their own, by the file they are of.
	copies map[string][]int
}

// Install gives out everything that the package installs at a place, and says what
// it was. A package that cannot be installed is fault.Invalid; by then out may have
// got a part of it. It is called once.
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
	if i.python && i.at.Python == (conda.Python{}) {
		return bad("it is for Python, and there is none in the environment")
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

// claim is where a listed path goes, which nothing else may.
func (i *installer) claim(n int, kind string) (string, error) {
	p := &i.paths.list[n]
	to, err := i.installed(p.Path)
	if err != nil {
		return "", err
	}
	if _, twice := i.from[to]; twice {
		return "", bad("%s comes twice", clip(to))
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
	e := Entry{Path: to, Type: tar.TypeReg, Mode: h.Mode & 0o777, ModTime: whole(h.ModTime), Size: h.Size}
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

// text rewrites a text into the scratch: its length is known only then.
func (i *installer) text(r io.Reader) error {
	if err := i.scratch.reset(); err != nil {
		return err
	}
	return shortShebang(&i.scratch, r)
}

// put hands a file on, and keeps what has to be known of its content. What is installed
// is bounded as what is unpacked: a hard link that becomes a file, and a short placeholder,
// make more of it.
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
	i.paths.list[n].target = path.Join(path.Dir(i.paths.list[n].Path), h.Linkname) //nolint:gosec // it is looked up in a list
	return i.out.Put(Entry{Path: to, Type: tar.TypeSymlink, Target: h.Linkname, Mode: 0o777, ModTime: whole(h.ModTime)}, nil)
}

func (i *installer) directory(n int) error {
	to, err := i.claim(n, kindDirectory)
	if err != nil {
		return err
	}
	return i.out.Put(Entry{Path: to, Type: tar.TypeDir, Mode: 0o755}, nil)
}

// whole cuts a time down to seconds: rounded up, it would not be what Python
// remembers of a source.
func whole(t time.Time) time.Time { return time.Unix(t.Unix(), 0).UTC() }
