// Package activation evaluates the scripts that shells source when they activate a Conda
// environment (etc/conda/activate.d/*.sh), so that an image can set the same variables
// without running anything.
//
// The evaluator always terminates: it runs no program, reads no file, and stops after
// limits.ActivationSteps for one script, or limits.ActivationStepsAll for all of them. For
// each construct it either has the same result as bash or returns an error. It supports the
// subset of bash that such scripts use, and knows the paths of the environment's files but
// not their contents.
package activation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"slipway.dev/services/internal/limits"
)

// A Kind is the type of the file at a path.
type Kind int

// The kinds of files. None means that no file has the path.
const (
	None Kind = iota
	File      // a regular file or a symbolic link
	Folder
)

// Environment describes the environment that the scripts are evaluated in.
type Environment struct {
	// Prefix is the folder of the environment, for example "/opt/conda".
	Prefix string
	// Machine is the output of `uname -m`, for example "x86_64", or "" if unknown.
	Machine string
	// Kind returns the kind of the file at a path relative to Prefix.
	Kind func(path string) Kind
	// Files returns the names of the files in a folder, whose path is relative to Prefix.
	Files func(folder string) []string
}

// A Shell holds the variables of a shell that sources scripts one after another.
type Shell struct {
	env  Environment
	vars map[string]variable
	// preset holds the variables that were set with Set, which do not count as set by a
	// package.
	preset map[string]string
	// steps is the number of steps of all scripts so far.
	steps int
}

type variable struct {
	value    string
	exported bool
}

// New returns a shell in which vars are set and exported.
func New(env Environment, vars map[string]string) *Shell {
	s := &Shell{env: env, vars: map[string]variable{}, preset: map[string]string{}}
	for name, value := range vars {
		s.Set(name, value)
	}
	return s
}

// Exported returns the exported variables.
func (s *Shell) Exported() map[string]string {
	out := map[string]string{}
	for name, v := range s.vars {
		if v.exported {
			out[name] = v.value
		}
	}
	return out
}

// Set sets and exports a variable that does not come from a package.
func (s *Shell) Set(name, value string) {
	s.vars[name], s.preset[name] = variable{value, true}, value
}

// SetAll sets and exports the variables of a package's JSON file in env_vars.d. If all
// variables of packages together would exceed limits.ActivationExported, SetAll returns an
// error and changes nothing.
func (s *Shell) SetAll(set map[string]string) error {
	vars := maps.Clone(s.vars)
	for name, value := range set {
		vars[name] = variable{value, true}
	}
	return s.commit(vars)
}

// commit replaces the variables of the shell, unless those of packages exceed the limits.
func (s *Shell) commit(vars map[string]variable) error {
	total := 0
	for name, v := range vars {
		if value, ok := s.preset[name]; v.exported && (!ok || value != v.value) {
			total += len(name) + len(v.value)
		}
	}
	if total > limits.ActivationExported || len(vars) > len(s.preset)+limits.ActivationVariables {
		return unsupported("the variables that packages set would exceed %d bytes or %d variables", limits.ActivationExported, limits.ActivationVariables)
	}
	s.vars = vars
	return nil
}

// errUnsupported is wrapped by the errors for scripts that cannot be evaluated.
var errUnsupported = errors.New("it cannot be evaluated")

func unsupported(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errUnsupported, fmt.Sprintf(format, args...))
}

// Source evaluates a script, whose path is relative to the prefix. If the script cannot be
// evaluated, Source returns an error and the variables are unchanged. If ctx is done, Source
// returns its error.
func (s *Shell) Source(ctx context.Context, path, text string) error {
	if len(text) > limits.ActivationScript {
		return unsupported("it is longer than %d bytes", limits.ActivationScript)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	b := &budget{all: &s.steps, done: ctx.Err}
	if err := b.charge(parseCost*len(text) + 64*len(s.vars)); err != nil {
		return err
	}
	file, err := parse(text)
	if err != nil {
		return err
	}
	r := &run{
		env: s.env, vars: maps.Clone(s.vars), funcs: map[string]*syntax.Stmt{}, script: s.env.Prefix + "/" + path, budget: b,
	}
	if err := ended(r.stmts(file.Stmts)); err != nil {
		return err
	}
	return s.commit(r.vars)
}

func parse(text string) (*syntax.File, error) {
	if nesting(text) > limits.ActivationDepth {
		return nil, unsupported("it is nested too deeply")
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return nil, unsupported("%v", err)
	}
	return file, nil
}

// nesting returns an upper bound of the nesting depth of a script, so that it can be checked
// before the recursive parser runs.
func nesting(text string) int {
	depth, most := 0, 0
	words := 0
	for i := range len(text) {
		switch text[i] {
		case '(', '{':
			depth++
		case ')', '}':
			depth = max(0, depth-1)
		}
		most = max(most, depth)
	}
	for _, w := range strings.Fields(text) {
		switch strings.Trim(w, ";") {
		case "if", "for", "while", "until", "case", "!":
			words++
			most = max(most, words)
		case "fi", "done", "esac":
			words = max(0, words-1)
		}
	}
	return most
}

// budget limits the work of one script, including its subshells.
type budget struct {
	steps int
	depth int
	// all is the number of steps of all scripts.
	all *int
	// done returns an error if the evaluation is cancelled. It is called every checkInterval
	// steps; unchecked is the number of steps since the last call.
	done      func() error
	unchecked int
}

// checkInterval is the number of steps between calls of budget.done. Parsing a byte is
// charged like handling parseCost bytes.
const (
	checkInterval = 1024
	parseCost     = 8
)

// charge counts a step that handles n bytes.
func (b *budget) charge(n int) error {
	n = 1 + n/64
	b.steps += n
	*b.all += n
	switch {
	case b.steps > limits.ActivationSteps:
		return unsupported("it does not end within %d steps", limits.ActivationSteps)
	case *b.all > limits.ActivationStepsAll:
		return unsupported("the scripts of the environment do not end within %d steps", limits.ActivationStepsAll)
	}
	if b.unchecked += n; b.unchecked < checkInterval {
		return nil
	}
	b.unchecked = 0
	return b.done()
}

// enter counts a level of nesting.
func (b *budget) enter() error {
	if b.depth++; b.depth > limits.ActivationDepth {
		return unsupported("its calls are nested too deeply")
	}
	return nil
}

func (b *budget) leave() { b.depth-- }

// A run is the state of a script that is being evaluated, or of a subshell.
type run struct {
	*budget
	env    Environment
	vars   map[string]variable
	funcs  map[string]*syntax.Stmt
	script string
	args   []string
	// folder is the working directory, or "" if unknown.
	folder string
	status int
	// substituted reports whether a command substitution has set the status.
	substituted bool
	// out receives the standard output, which is discarded if out is nil. in is the standard
	// input, or nil if unknown.
	out *strings.Builder
	in  *string
	// locals holds the variables to restore when each running function returns.
	locals []map[string]*variable
}

// subshell returns a copy of r, so that changes to its variables do not affect r.
func (r *run) subshell() (*run, error) {
	size := len(r.vars) + len(r.funcs)
	for _, saved := range r.locals {
		size += 1 + len(saved)
	}
	if err := r.charge(64 * size); err != nil {
		return nil, err
	}
	c := *r
	c.vars, c.funcs = maps.Clone(r.vars), maps.Clone(r.funcs)
	c.locals = nil
	for _, saved := range r.locals {
		c.locals = append(c.locals, maps.Clone(saved))
	}
	return &c, nil
}

// flow is the error that unwinds to the end of a function, a loop or the script.
type flow struct {
	kind  int
	level int
}

const (
	flowReturn = iota
	flowBreak
	flowContinue
)

func (f flow) Error() string { return "return, break or continue" }

// ended returns the error of a function, a subshell or a script that has ended. A return ends
// it. break and continue do not affect a loop outside of it: bash reports an error and continues.
func ended(err error) error {
	var f flow
	switch {
	case !errors.As(err, &f):
		return err
	case f.kind == flowReturn:
		return nil
	}
	return unsupported("break or continue outside of a loop")
}

// unknown reports whether the value of a variable depends on the container or on bash, so
// that scripts which read it cannot be evaluated.
func unknown(name string) bool {
	return slices.Contains([]string{
		"HOME", "USER", "LOGNAME", "SHELL", "TERM", "HOSTNAME", "PWD", "OLDPWD", "UID", "EUID", "PPID", "RANDOM", "SRANDOM", "SECONDS", "BASHPID", "LINENO", "FUNCNAME",
		"BASH", "BASH_VERSION", "BASH_VERSINFO", "BASH_REMATCH", "BASH_COMMAND", "BASH_SUBSHELL", "BASHOPTS", "SHELLOPTS", "EPOCHSECONDS", "EPOCHREALTIME", "DIRSTACK", "GROUPS", "PIPESTATUS", "MACHTYPE",
		"HOSTTYPE", "OSTYPE", "SHLVL", "OPTIND", "OPTARG", "OPTERR", "_", "COLUMNS", "LINES", "BASH_ARGV", "BASH_ARGC", "BASH_LINENO", "BASH_ENV", "PS4", "HISTCMD", "COMP_WORDBREAKS", "BASH_ALIASES", "BASH_CMDS", "BASH_ARGV0", "BASH_LOADABLES_PATH", "BASH_MONOSECONDS",
	}, name)
}

// get returns the value of a variable.
func (r *run) get(name string) (value string, set bool, err error) {
	if v, ok := r.vars[name]; ok {
		return v.value, true, nil
	}
	switch name {
	case "BASH_SOURCE":
		return r.script, true, nil
	case "IFS":
		return " \t\n", true, nil
	}
	if unknown(name) {
		return "", false, unsupported("it reads %s", name)
	}
	return "", false, nil
}

// set assigns a variable.
func (r *run) set(name, value string) error {
	if unknown(name) || name == "BASH_SOURCE" {
		return unsupported("it assigns %s", name)
	}
	if len(value) > limits.ActivationValue {
		return unsupported("a value is longer than %d bytes", limits.ActivationValue)
	}
	v, ok := r.vars[name]
	if !ok && len(r.vars) >= limits.ActivationVariables { // including those of the base image
		return unsupported("there are more than %d variables", limits.ActivationVariables)
	}
	v.value = value
	r.vars[name] = v
	return r.charge(len(value))
}

// local makes a variable local to the running function.
func (r *run) local(name string) error {
	if len(r.locals) == 0 {
		return unsupported("it uses local outside of a function")
	}
	saved := r.locals[len(r.locals)-1]
	if _, ok := saved[name]; ok {
		return nil
	}
	if len(saved) >= limits.ActivationVariables {
		return unsupported("a function has more than %d variables", limits.ActivationVariables)
	}
	if err := r.charge(64 + len(name)); err != nil {
		return err
	}
	saved[name] = nil
	if v, ok := r.vars[name]; ok {
		saved[name] = &v
	}
	delete(r.vars, name)
	return nil
}

// print writes to the standard output.
func (r *run) print(text string) error {
	if r.out == nil {
		return r.charge(len(text))
	}
	if r.out.Len()+len(text) > limits.ActivationValue {
		return unsupported("it prints more than %d bytes", limits.ActivationValue)
	}
	r.out.WriteString(text)
	return r.charge(len(text))
}

// kind returns the kind of the file at a path. It returns an error if the path is outside of
// the environment.
func (r *run) kind(path string) (Kind, error) {
	at, ok := r.within(path)
	if !ok {
		return None, unsupported("it accesses %.80q, which is outside of the environment", path)
	}
	if at == "" {
		return Folder, r.charge(0)
	}
	return r.env.Kind(at), r.charge(0)
}
