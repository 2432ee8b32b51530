package artifact

import (
	"archive/tar"
	"strings"
)

// entryPoints writes the entry points of a noarch Python package.
func (i *installer) entryPoints() error {
	if !i.python {
		return nil
	}
	for _, point := range i.link.Noarch.EntryPoints {
		name, text, err := script(i.at.Python, i.at.Prefix, point)
		if err != nil {
			return err
		}
		if err := i.paths.add(listed{Path: name, Kind: kindEntryPoint}); err != nil {
			return err
		}
		n := len(i.paths.list) - 1
		if _, err := i.claim(n, kindEntryPoint); err != nil {
			return err
		}
		e := Entry{Path: name, Type: tar.TypeReg, Mode: 0o755, ModTime: i.index.buildTime(), Size: int64(len(text))}
		p := &i.paths.list[n]
		if err := i.put(p, e, strings.NewReader(text)); err != nil {
			return err
		}
		p.SHA256 = p.sha256
	}
	return nil
}

// complete rejects a package that lists files which it does not contain. Listed folders
// that are not packed are created.
func (i *installer) complete() error {
	for n := range i.paths.list {
		p := &i.paths.list[n]
		switch {
		case p.path != "":
		case p.Kind == kindDirectory:
			if err := i.directory(n); err != nil {
				return err
			}
		default:
			return invalid("it lists %s and does not have it", clip(p.Path))
		}
	}
	i.resolveLinks()
	i.result.paths = i.paths.list
	return nil
}

// resolveLinks sets the digests of links to the digest of their targets, as far as the package
// contains them.
func (i *installer) resolveLinks() {
	for n := range i.paths.list {
		p := &i.paths.list[n]
		for to, steps := p, 0; p.kind == kindLink && steps < 8; steps++ {
			at, ok := i.paths.at[to.target]
			if !ok {
				break
			}
			if to = &i.paths.list[at]; to.kind != kindLink {
				p.sha256 = to.sha256
				break
			}
		}
	}
}
