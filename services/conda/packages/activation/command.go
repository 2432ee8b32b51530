package activation

import (
	"path"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// invoke runs a function or a command.
func (r *run) invoke(args []string) error {
	name, rest := args[0], args[1:]
	if body, ok := r.funcs[name]; ok {
		return r.function(body, rest)
	}
	last := r.status
	r.status = 0
	switch name {
	case ":", "true", "alias", "unalias", "complete", "hash":
		return nil
	case "false":
		r.status = 1
		return nil
	case "test", "[":
		return r.test(name, rest)
	case "unset":
		return r.unset(rest)
	case "eval":
		r.status = last
		return r.eval(strings.Join(rest, " "))
	case "set":
		return r.options(rest)
	case "shift", "return", "break", "continue":
		return r.jump(name, rest, last)
	case "export", "declare", "typeset", "local", "readonly": // written so that the parser finds no keyword, for example \export
		return unsupported("unsupported use of %s", name)
	case "command", "type", "which":
		return r.which(name, rest)
	}
	if f, ok := tools()[name]; ok {
		return f(r, rest)
	}
	return unsupported("it runs %.60q", name)
}

// declare runs export, local and declare.
func (r *run) declare(c *syntax.DeclClause) error {
	variant, export, isLocal := c.Variant.Value, false, false
	switch variant {
	case "export":
		export = true
	case "local":
		isLocal = true
	case "declare", "typeset":
		isLocal = len(r.locals) > 0
	default:
		return unsupported("it uses %s", variant)
	}
	for _, a := range c.Args {
		if a.Naked && a.Name == nil {
			var err error
			if export, err = r.declareWords(variant, a.Value, export, isLocal); err != nil {
				return err
			}
			continue
		}
		if a.Array != nil || a.Index != nil || a.Append {
			return unsupported("it uses an array")
		}
		value, err := r.text(a.Value)
		if err != nil {
			return err
		}
		if err := r.define(a.Name.Value, value, !a.Naked, export, isLocal); err != nil {
			return err
		}
	}
	r.status = 0 // even if a command substitution failed
	return nil
}

// declareWords handles an argument of export, local or declare that must be expanded before
// it is known to be an option or NAME=VALUE. It reports whether later arguments are exported.
func (r *run) declareWords(variant string, word *syntax.Word, export, isLocal bool) (bool, error) {
	words, err := r.fields([]*syntax.Word{word})
	if err != nil {
		return export, err
	}
	for _, w := range words {
		switch {
		case w == "--":
		case w == "-x" && variant != "export":
			export = true
		case strings.HasPrefix(w, "-"):
			return export, unsupported("unsupported use of %s %.40q", variant, w)
		default:
			name, value, has := strings.Cut(w, "=")
			if err := r.define(name, value, has, export, isLocal); err != nil {
				return export, err
			}
		}
	}
	return export, nil
}

// define declares a variable, and sets its value if has is true.
func (r *run) define(name, value string, has, export, isLocal bool) error {
	if !isName(name) {
		return unsupported("%.40q is not a valid variable name", name)
	}
	if isLocal {
		if err := r.local(name); err != nil {
			return err
		}
	}
	if has {
		if err := r.set(name, value); err != nil {
			return err
		}
	}
	v, ok := r.vars[name]
	if export {
		if !ok {
			return unsupported("it exports %s, which is not set", name)
		}
		v.exported = true
		r.vars[name] = v
	}
	return nil
}

func (r *run) unset(args []string) error {
	functions := false
	for _, name := range args {
		switch {
		case name == "-v":
		case name == "-f":
			functions = true
		case functions:
			delete(r.funcs, name)
		case !isName(name) || unknown(name):
			return unsupported("it unsets %.40q", name)
		default:
			if _, ok := r.vars[name]; !ok {
				delete(r.funcs, name)
			}
			delete(r.vars, name)
		}
	}
	return nil
}

// eval runs a string as commands.
func (r *run) eval(text string) error {
	if err := r.charge(len(text) * 64); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	defer r.leave()
	file, err := parse(text)
	if err != nil {
		return err
	}
	if len(file.Stmts) == 0 {
		r.status = 0
	}
	return r.stmts(file.Stmts)
}

// options runs set. It accepts only options that do not change the result of the script.
func (r *run) options(args []string) error {
	for i, a := range args {
		switch a {
		case "--":
			r.args = args[i+1:]
			return nil
		case "+e", "+u", "+x", "-x", "+eu", "+ex", "+eux", "+ux", "+v":
		case "+o":
			if i+1 == len(args) {
				return unsupported("it lists all options")
			}
		case "pipefail", "nounset":
			if i == 0 || args[i-1] != "+o" {
				return unsupported("it runs set with %s", a)
			}
		default:
			return unsupported("it runs set %.20q", a)
		}
	}
	if len(args) == 0 {
		return unsupported("it lists all variables")
	}
	return nil
}

// jump runs return, break, continue or shift. last is the status before the command.
func (r *run) jump(name string, args []string, last int) error {
	n := 1
	if name == "return" {
		n = last
	}
	if len(args) > 0 {
		var err error
		if n, err = strconv.Atoi(args[0]); err != nil || n < 0 {
			return unsupported("unsupported use of %s %.20q", name, args[0])
		}
	}
	switch name {
	case "return":
		r.status = n & 255
		return flow{kind: flowReturn}
	case "break":
		return flow{flowBreak, max(n, 1)}
	case "continue":
		return flow{flowContinue, max(n, 1)}
	}
	if n > len(r.args) {
		r.status = 1
		return nil
	}
	r.args = r.args[n:]
	return nil
}

// which prints the path of a program of the environment. Programs of the base image are
// unknown.
func (r *run) which(name string, args []string) error {
	if len(args) > 0 && (args[0] == "-v" && name == "command" || (args[0] == "-p" || args[0] == "-P") && name == "type") {
		args = args[1:]
	} else if name != "which" {
		return unsupported("it runs %s", name)
	}
	if len(args) != 1 || strings.ContainsAny(args[0], "/-") && strings.HasPrefix(args[0], "-") {
		return unsupported("unsupported use of %s", name)
	}
	search, _, err := r.get("PATH")
	if err != nil {
		return err
	}
	if _, ok := r.funcs[args[0]]; ok {
		return unsupported("it looks up a function")
	}
	first, _, _ := strings.Cut(search, ":")
	at, err := r.kind(path.Join(first, args[0]))
	if err != nil {
		return err
	}
	if at != File {
		return unsupported("it looks up the program %.60q, which is not in the environment", args[0])
	}
	return r.print(path.Join(first, args[0]) + "\n")
}
