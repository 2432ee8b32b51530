package layering

import (
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strings"

	"slipway.dev/services/builder/artifact"
	"slipway.dev/services/internal/bounded"
	"slipway.dev/services/internal/conda"
)

// variable is the name of one that an image may set. PATH is not among those that
// packages set: what they put in front of it would be all of it.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)

// variables gathers what shells would set on entering the environment, as far as
// that is the same in every shell. others are the scripts that would have to run
// for the rest. Both are in the order in which conda would use them: first the
// documents of variables, then the scripts, each by name.
func variables(packages []Package) (env []string, others []string) {
	var scripts []artifact.Script
	for _, p := range packages {
		scripts = append(scripts, p.Activation...)
	}
	slices.SortStableFunc(scripts, func(a, b artifact.Script) int {
		if fromA, fromB := path.Ext(a.Path), path.Ext(b.Path); fromA != fromB {
			return strings.Compare(fromA, fromB) // .json before .sh
		}
		return strings.Compare(a.Path, b.Path)
	})
	for _, s := range scripts {
		read := exports
		if path.Ext(s.Path) == ".json" {
			read = document
		}
		if set, ok := read(s.Text); ok {
			env = append(env, set...)
		} else {
			others = append(others, s.Path)
		}
	}
	return env, slices.Compact(others)
}

// document reads a file of env_vars.d: an object of texts.
func document(text string) ([]string, bool) {
	if (bounded.Shape{Depth: 2, Values: 1000}).Check([]byte(text)) != nil {
		return nil, false
	}
	var set map[string]string
	if json.Unmarshal([]byte(text), &set) != nil {
		return nil, false
	}
	var out []string
	for name, value := range set {
		if !settable(name, value) {
			return nil, false
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out, true
}

func settable(name, value string) bool {
	return variable.MatchString(name) && name != "PATH" && !strings.ContainsRune(value, 0)
}

// exports reads a script of activate.d that does nothing but `export NAME=value`.
func exports(text string) ([]string, bool) {
	var out []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		set, ok := strings.CutPrefix(line, "export ")
		name, word, is := strings.Cut(strings.TrimSpace(set), "=")
		value, plain := plainWord(word)
		if !ok || !is || !plain || !settable(name, value) {
			return nil, false
		}
		out = append(out, name+"="+value)
	}
	return out, true
}

// plainWord is the value of a shell word that is the same whatever the shell is and
// has set: the prefix may be in it, and quotes around it.
func plainWord(word string) (string, bool) {
	quote := byte(0)
	if len(word) >= 2 && (word[0] == '"' || word[0] == '\'') && word[len(word)-1] == word[0] {
		quote, word = word[0], word[1:len(word)-1]
	}
	if quote != '\'' {
		word = strings.ReplaceAll(word, "${CONDA_PREFIX}", conda.Prefix)
		if rest, ok := strings.CutPrefix(word, "$CONDA_PREFIX"); ok && (rest == "" || rest[0] == '/') {
			word = conda.Prefix + rest
		}
	}
	special := "$`\\\"'"
	switch quote {
	case '\'':
		special = "'"
	case 0:
		special += " \t;&|<>()*?[]{}~#!\r"
	}
	return word, !strings.ContainsAny(word, special)
}
