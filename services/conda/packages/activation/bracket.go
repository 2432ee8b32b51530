package activation

import (
	"path"
	"regexp"
	expr "regexp/syntax"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"slipway.dev/services/internal/limits"
)

// test runs [ … ].
func (r *run) test(name string, args []string) error {
	if name == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			return unsupported("a [ without ]")
		}
		args = args[:len(args)-1]
	}
	t := tester{run: r, args: args}
	ok, err := t.all()
	if err == nil && len(t.args) > 0 {
		err = unsupported("unsupported test")
	}
	r.status = status(ok)
	return err
}

// A tester parses and evaluates the arguments of a test.
type tester struct {
	*run
	args []string
}

func (t *tester) all() (bool, error) {
	switch {
	case len(t.args) == 0:
		return false, nil
	case len(t.args) == 1:
		ok := t.args[0] != ""
		t.args = nil
		return ok, nil
	}
	return t.or()
}

func (t *tester) or() (bool, error) {
	ok, err := t.and()
	for err == nil && len(t.args) > 0 && t.args[0] == "-o" {
		t.args = t.args[1:]
		var more bool
		more, err = t.and()
		ok = ok || more
	}
	return ok, err
}

func (t *tester) and() (bool, error) {
	ok, err := t.one()
	for err == nil && len(t.args) > 0 && t.args[0] == "-a" {
		t.args = t.args[1:]
		var more bool
		more, err = t.one()
		ok = ok && more
	}
	return ok, err
}

func (t *tester) one() (bool, error) {
	if err := t.charge(0); err != nil {
		return false, err
	}
	a := t.args
	switch {
	case len(a) == 0:
		return false, unsupported("unsupported test")
	case len(a) >= 3 && isBinary(a[1]):
		t.args = a[3:]
		return t.compare(a[0], a[1], a[2])
	case a[0] == "!" && len(a) > 1:
		t.args = a[1:]
		ok, err := t.one()
		return !ok, err
	case len(a) >= 2 && len(a[0]) == 2 && a[0][0] == '-' && a[1] != "-a" && a[1] != "-o":
		t.args = a[2:]
		return t.unary(a[0], a[1])
	case a[0] == "(" || a[0] == "-a" || a[0] == "-o":
		return false, unsupported("unsupported test")
	}
	t.args = a[1:]
	return a[0] != "", nil
}

func isBinary(op string) bool {
	switch op {
	case "=", "==", "!=", "-eq", "-ne", "-lt", "-le", "-gt", "-ge":
		return true
	}
	return false
}

// compare compares strings or numbers.
func (r *run) compare(a, op, b string) (bool, error) {
	switch op {
	case "=", "==":
		return a == b, nil
	case "!=":
		return a != b, nil
	}
	x, err1 := strconv.Atoi(strings.TrimSpace(a))
	y, err2 := strconv.Atoi(strings.TrimSpace(b))
	if err1 != nil || err2 != nil {
		return false, unsupported("it compares %.20q with %.20q as numbers", a, b)
	}
	switch op {
	case "-eq":
		return x == y, nil
	case "-ne":
		return x != y, nil
	case "-lt":
		return x < y, nil
	case "-le":
		return x <= y, nil
	case "-gt":
		return x > y, nil
	case "-ge":
		return x >= y, nil
	}
	return false, unsupported("unsupported comparison %s", op)
}

// unary tests a string, a variable or a file.
func (r *run) unary(op, arg string) (bool, error) {
	switch op {
	case "-n":
		return arg != "", nil
	case "-z":
		return arg == "", nil
	case "-v":
		if !isName(arg) {
			return false, unsupported("it tests whether %.40q is set", arg)
		}
		_, set, err := r.get(arg)
		return set, err
	case "-t":
		return false, nil // no file descriptor is a terminal
	case "-e", "-f", "-d", "-r", "-x", "-s":
	default:
		return false, unsupported("unsupported test %s", op)
	}
	if arg == "" {
		return false, nil
	}
	kind, err := r.kind(arg)
	switch {
	case err != nil:
		return false, err
	case op == "-f":
		return kind == File, nil
	case op == "-s" && kind == File:
		return false, unsupported("%.80q may be empty", arg)
	case op == "-d" && kind == File:
		return false, unsupported("%.80q may be a link to a folder", arg)
	case op == "-d":
		return kind == Folder, nil
	case op == "-x" && kind == File && !r.isProgram(arg):
		return false, unsupported("it tests whether %.80q is executable", arg)
	}
	return kind != None, nil
}

// isProgram reports whether a file is directly in the environment's bin folder.
func (r *run) isProgram(name string) bool {
	at, ok := r.within(name)
	return ok && path.Dir(at) == "bin"
}

// testExpr evaluates [[ … ]].
func (r *run) testExpr(x syntax.TestExpr) (bool, error) {
	if err := r.enter(); err != nil {
		return false, err
	}
	defer r.leave()
	switch x := x.(type) {
	case *syntax.Word:
		text, err := r.text(x)
		return text != "", err
	case *syntax.ParenTest:
		return r.testExpr(x.X)
	case *syntax.UnaryTest:
		if x.Op == syntax.TsNot {
			ok, err := r.testExpr(x.X)
			return !ok, err
		}
		w, ok := x.X.(*syntax.Word)
		if !ok {
			return false, unsupported("unsupported test")
		}
		text, err := r.text(w)
		if err != nil {
			return false, err
		}
		return r.unary(x.Op.String(), text)
	case *syntax.BinaryTest:
		return r.binaryTest(x)
	}
	return false, unsupported("unsupported test")
}

func (r *run) binaryTest(x *syntax.BinaryTest) (bool, error) {
	if x.Op == syntax.AndTest || x.Op == syntax.OrTest {
		ok, err := r.testExpr(x.X)
		if err != nil || ok == (x.Op == syntax.OrTest) {
			return ok, err
		}
		return r.testExpr(x.Y)
	}
	a, ok1 := x.X.(*syntax.Word)
	b, ok2 := x.Y.(*syntax.Word)
	if !ok1 || !ok2 {
		return false, unsupported("unsupported test")
	}
	text, err := r.text(a)
	if err != nil {
		return false, err
	}
	switch x.Op {
	case syntax.TsMatch, syntax.TsMatchShort:
		return r.matches(text, b)
	case syntax.TsNoMatch:
		ok, err := r.matches(text, b)
		return !ok, err
	case syntax.TsReMatch:
		return r.matchesExpression(text, b)
	default:
	}
	other, err := r.text(b)
	if err != nil {
		return false, err
	}
	return r.compare(text, x.Op.String(), other)
}

// matchesExpression reports whether a string matches an extended regular expression.
func (r *run) matchesExpression(text string, w *syntax.Word) (bool, error) {
	all, err := r.pieces(w)
	if err != nil {
		return false, err
	}
	var b strings.Builder
	for _, p := range all {
		if p.quoted {
			b.WriteString(regexp.QuoteMeta(p.text))
		} else {
			b.WriteString(p.text)
		}
	}
	if b.Len() > limits.ActivationPattern {
		return false, unsupported("a pattern is longer than %d bytes", limits.ActivationPattern)
	}
	re, err := r.expression(b.String(), expr.POSIX, regexp.CompilePOSIX)
	if err != nil {
		return false, err
	}
	at, err := re.find(text)
	return at != nil, err
}
