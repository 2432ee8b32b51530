package artifact

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/services/conda/spec"
	"slipway.dev/services/internal/fault"
	"slipway.dev/services/internal/limits"
)

// A point is an entry point of a wheel: a program that calls a function.
type point struct{ name, module, function string }

// readMetadata reads WHEEL, METADATA, RECORD and entry_points.txt.
func (w *Wheel) readMetadata(ctx context.Context) error {
	for _, one := range []struct {
		name     string
		most     uint64
		optional bool
		read     func(io.Reader) error
	}{
		{"WHEEL", limits.ArtifactInfo, false, w.readVersion},
		{"METADATA", limits.ArtifactInfo, false, w.readIdentity},
		{"RECORD", limits.WheelRecord, false, w.readRecord},
		{"entry_points.txt", limits.ArtifactInfo, true, w.readPoints},
	} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if one.optional && !w.has(one.name) {
			continue
		}
		in, err := w.small(one.name, one.most)
		if err != nil {
			return err
		}
		err = one.read(in)
		if err := errors.Join(err, in.Close()); err != nil {
			return fault.In(one.name, unreadable(err))
		}
	}
	return nil
}

// headers calls f with each header of a metadata file until f returns an error.
// Continuation lines are ignored.
func headers(in io.Reader, f func(key, value string) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, limits.ArtifactInfo)
	for lines.Scan() && strings.TrimSpace(lines.Text()) != "" {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if !ok || strings.ContainsAny(key, " \t") {
			continue
		}
		if err := f(strings.ToLower(key), strings.TrimSpace(value)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// readVersion checks the version of the format.
func (w *Wheel) readVersion(in io.Reader) error {
	version := ""
	err := headers(in, func(key, value string) error {
		if key == "wheel-version" {
			version = value
		}
		return nil
	})
	if major, _, _ := strings.Cut(version, "."); err == nil && major != "1" {
		return invalid("it has the format version %s; only version 1 can be read", clip(version))
	}
	return err
}

// readIdentity compares the name and version in METADATA with those in the file name.
func (w *Wheel) readIdentity(in io.Reader) error {
	var name, version string
	err := headers(in, func(key, value string) error {
		switch {
		case key == "name" && name == "":
			name = value
		case key == "version" && version == "":
			version = value
		}
		return nil
	})
	if err == nil && (spec.NormalName(name) != w.file.Name || !w.file.IsVersion(version)) {
		return invalid("it is that of %s %s", clip(name), clip(version))
	}
	return err
}

// readRecord reads the list of files: path, digest and size, of which the size is not used.
func (w *Wheel) readRecord(in io.Reader) error {
	w.listed = map[string]string{}
	rows := csv.NewReader(in)
	rows.FieldsPerRecord, rows.ReuseRecord = -1, true
	for range limits.ArtifactEntries {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.As(err, new(*csv.ParseError)) || err == nil && len(row) != 3 {
			return fault.Invalid.New("it is malformed", err)
		}
		if err != nil {
			return err
		}
		sum := ""
		if kind, text, ok := strings.Cut(row[1], "="); ok {
			raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
			switch {
			case kind == "md5" || kind == "sha1":
				return invalid("the digest of %s is of the kind %s, which wheels must not use", clip(row[0]), kind)
			case kind != "sha256": // the digest of the whole wheel is verified
			case err != nil || len(raw) != 32:
				return invalid("the digest of %s is malformed", clip(row[0]))
			default:
				sum = hex.EncodeToString(raw)
			}
		}
		if _, twice := w.listed[row[0]]; twice && w.listed[row[0]] != sum {
			return invalid("it lists %s twice", clip(row[0]))
		}
		w.listed[strings.Clone(row[0])] = sum
	}
	return invalid("it has more than %d lines", limits.ArtifactEntries)
}

// pointLine matches an entry point: name = module:function [extras]. An entry point without
// a function, which other groups may have, is not a program.
var pointLine = regexp.MustCompile(`^([^=]*[^=\s])\s*=\s*([\pL_][\pL\pN_]*(?:\.[\pL_][\pL\pN_]*)*)\s*:\s*([\pL_][\pL\pN_]*(?:\.[\pL_][\pL\pN_]*)*)\s*(?:\[[^\]]*\])?$`)

// programName matches the name of a program in bin.
var programName = regexp.MustCompile(`^[\pL\pN_][\pL\pN._+ -]*$`)

// readPoints reads the entry points that become programs.
func (w *Wheel) readPoints(in io.Reader) error {
	group := ""
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, limits.ArtifactInfo)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
			continue
		case line[0] == '[':
			group = strings.Trim(line, "[] \t")
			continue
		case group != "console_scripts" && group != "gui_scripts":
			continue
		}
		m := pointLine.FindStringSubmatch(line)
		if m == nil || !programName.MatchString(m[1]) || len(m[1]) > maxProgram || len(m[2]) > maxModule || len(m[3]) > maxFunction {
			return invalid("the entry point %s is malformed", clip(line))
		}
		if slices.ContainsFunc(w.points, func(p point) bool { return p.name == m[1] }) {
			return invalid("it has two programs %s", clip(m[1]))
		}
		if len(w.points) == limits.WheelPoints {
			return invalid("it has more than %d programs", limits.WheelPoints)
		}
		w.points = append(w.points, point{m[1], m[2], m[3]})
	}
	return lines.Err()
}

// program returns the path and text of the program of an entry point.
func (p point) program(at Place) (name, text string) {
	imported, _, _ := strings.Cut(p.function, ".")
	return path.Join("bin", p.name), "#!" + interpreter(at) + `
import sys

from ` + p.module + ` import ` + imported + `

if __name__ == "__main__":
    sys.argv[0] = sys.argv[0].removesuffix(".exe")
    sys.exit(` + p.function + `())
`
}

// interpreter returns the path of the environment's Python.
func interpreter(at Place) string { return at.Prefix + "/bin/python" + at.Python.Minor }
