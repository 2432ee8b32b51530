package artifact

import (
	"archive/tar"
	"strings"
)

// entryPoints writes the programs of a package that is for any Python.
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
		e := Entry{Path: name, Type: tar.TypeReg, Mode: 0o755, ModTime: i.index.made(), Size: int64(len(text))}
		p := &i.paths.list[n]
		if err := i.put(p, e, strings.NewReader(text)); err != nil {
			return err
		}
		p.SHA256 = p.sha256
	}
	return nil
}

// complete refuses a package that lists what it does not have. Folders that are
// listed and not packed are made.
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
			return bad("it lists %s and does not have it", clip(p.Path))
		}
	}
	i.follow()
	i.result.paths = i.paths.list
	return nil
}

// follow gives links the digest of the file that they lead to, as far as the
// package has it.
func (i *installer) follow() {
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
