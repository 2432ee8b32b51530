package artifact

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"slipway.dev/services/internal/limits"
)

// A wheelInstaller installs one wheel.
type wheelInstaller struct {
	*Wheel
	at     Place
	out    Sink
	result *Installed
	// rows are the lines of the new RECORD by installed path.
	rows map[string][]string
	// builtAt is the time of generated files.
	builtAt time.Time
}

// Install passes all files that the wheel installs to out, as pip does: those of the package,
// the programs of its entry points, and the metadata with a new RECORD. A wheel that cannot be
// installed is fault.Invalid; out may then have received a part of it.
func (w *Wheel) Install(ctx context.Context, at Place, out Sink) (*Installed, error) {
	i := &wheelInstaller{Wheel: w, at: at, out: out, result: &Installed{}, rows: map[string][]string{}}
	if err := i.install(ctx); err != nil {
		return nil, w.refused(err)
	}
	return i.result, nil
}

func (i *wheelInstaller) install(ctx context.Context) error {
	if i.at.Python.Minor == "" {
		return invalid("it requires Python, which the environment lacks")
	}
	i.builtAt = truncateTime(i.files[i.info+"/RECORD"].Modified)
	for _, name := range i.order {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := i.file(name); err != nil {
			return err
		}
	}
	for _, p := range i.points {
		name, text := p.program(i.at)
		if err := i.generate(name, text, 0o755); err != nil {
			return err
		}
	}
	if err := i.generate(i.metadata("INSTALLER"), "slipway\n", 0o644); err != nil {
		return err
	}
	return i.record()
}

// metadata returns the installed path of a file of the metadata.
func (i *wheelInstaller) metadata(name string) string {
	return path.Join(i.at.Python.SitePackages, i.info, name)
}

// isReplaced reports whether a file of the wheel is not installed, because it describes the
// wheel file or because Install writes another one.
func (i *wheelInstaller) isReplaced(name string) bool {
	if path.Dir(name) != i.info {
		return false
	}
	return slices.Contains([]string{"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}, path.Base(name))
}

// file installs a file of the archive.
func (i *wheelInstaller) file(name string) error {
	if i.isReplaced(name) {
		return nil
	}
	to, isScript, err := i.installed(name)
	if err != nil {
		return err
	}
	f := i.files[name]
	e := Entry{Path: to, Type: tar.TypeReg, Mode: 0o644, ModTime: truncateTime(f.Modified), Size: int64(f.UncompressedSize64)}
	if isScript || f.Mode()&0o111 != 0 {
		e.Mode = 0o755
	}
	in, err := i.read(name)
	if err != nil {
		return err
	}
	packed := sha256.New()
	content := io.TeeReader(in, packed)
	if isScript {
		if e, content, err = i.script(e, content); err != nil {
			return errors.Join(err, in.Close())
		}
	}
	if err := errors.Join(i.put(e, content), in.Close()); err != nil {
		return err
	}
	if want, ok := i.listed[name]; ok && want != "" && want != hex.EncodeToString(packed.Sum(nil)) {
		return invalid("%s does not have the digest that the wheel lists", clip(name))
	}
	return nil
}

// installed returns the path of a file of the archive below the prefix, and whether it is a
// script.
func (i *wheelInstaller) installed(name string) (to string, isScript bool, err error) {
	site := i.at.Python.SitePackages
	below, isData := strings.CutPrefix(name, i.data+"/")
	scheme, rest, _ := strings.Cut(below, "/")
	switch {
	case !isData:
		to = path.Join(site, name)
	case rest == "":
		return "", false, invalid("%s is in no folder of %s", clip(name), clip(i.data))
	default:
		root, ok := map[string]string{"purelib": site, "platlib": site, "scripts": "bin", "headers": i.include(), "data": ""}[scheme]
		if !ok {
			return "", false, invalid("%s is an unknown folder; wheels have purelib, platlib, headers, scripts and data", clip(path.Join(i.data, scheme)))
		}
		to, isScript = path.Join(root, rest), scheme == "scripts"
	}
	switch {
	case len(to) > limits.ArtifactPath:
		return "", false, invalid("the path %s is too long", clip(to))
	case to == "conda-meta" || strings.HasPrefix(to, "conda-meta/"):
		return "", false, invalid("%s is in the folder where conda lists the packages of the environment", clip(to))
	}
	return to, isScript, nil
}

// include returns the folder of the wheel's C headers.
func (i *wheelInstaller) include() string {
	version := i.at.Python.Minor
	if i.at.Python.FreeThreaded {
		version += "t"
	}
	pkg, _, _ := strings.Cut(i.info, "-")
	return path.Join("include", "python"+version, pkg)
}

// script replaces a first line that begins with #!python by one with the environment's Python.
func (i *wheelInstaller) script(e Entry, content io.Reader) (Entry, io.Reader, error) {
	line, rest, err := firstLine(content)
	if err != nil {
		return e, nil, err
	}
	if !bytes.HasPrefix(line, []byte("#!python")) {
		return e, io.MultiReader(bytes.NewReader(line), rest), nil
	}
	if line[len(line)-1] != '\n' && int64(len(line)) < e.Size {
		return e, nil, invalid("the first line of %s is too long", clip(e.Path))
	}
	own := "#!" + interpreter(i.at) + "\n"
	e.Size += int64(len(own) - len(line))
	return e, io.MultiReader(strings.NewReader(own), rest), nil
}

// put passes a file on and adds it to the new RECORD.
func (i *wheelInstaller) put(e Entry, content io.Reader) error {
	if _, twice := i.rows[e.Path]; twice {
		return invalid("%s occurs twice", clip(e.Path))
	}
	if err := (&meter{packed: i.size}).tooLong(i.result.Bytes + e.Size); err != nil {
		return err
	}
	sum := sha256.New()
	content = io.TeeReader(content, sum)
	if isActivation(e.Path) {
		var err error
		if content, err = i.result.watch(&Artifact{}, e, content); err != nil {
			return err
		}
	}
	if err := i.out.Put(e, content); err != nil {
		return err
	}
	i.rows[e.Path] = []string{i.relative(e.Path), "sha256=" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)), strconv.FormatInt(e.Size, 10)}
	i.result.Bytes += e.Size
	return nil
}

// relative returns a path as in RECORD: relative to site-packages.
func (i *wheelInstaller) relative(name string) string {
	if rest, ok := strings.CutPrefix(name, i.at.Python.SitePackages+"/"); ok {
		return rest
	}
	return strings.Repeat("../", 1+strings.Count(i.at.Python.SitePackages, "/")) + name
}

// generate installs a file that the wheel does not have.
func (i *wheelInstaller) generate(name, text string, mode int64) error {
	return i.put(Entry{Path: name, Type: tar.TypeReg, Mode: mode, ModTime: i.builtAt, Size: int64(len(text))}, strings.NewReader(text))
}

// record installs the new RECORD, sorted by path.
func (i *wheelInstaller) record() error {
	to := i.metadata("RECORD")
	rows := make([][]string, 0, len(i.rows)+1)
	for _, row := range i.rows {
		rows = append(rows, row)
	}
	rows = append(rows, []string{i.relative(to), "", ""})
	slices.SortFunc(rows, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	var b bytes.Buffer
	if err := csv.NewWriter(&b).WriteAll(rows); err != nil {
		return err
	}
	return i.generate(to, b.String(), 0o644)
}
