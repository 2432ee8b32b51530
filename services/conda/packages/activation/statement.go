package activation

import (
	"errors"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// stmts runs statements in order.
func (r *run) stmts(all []*syntax.Stmt) error {
	for _, s := range all {
		if err := r.stmt(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) stmt(s *syntax.Stmt) error {
	if err := errors.Join(r.charge(0), r.enter()); err != nil {
		return err
	}
	defer r.leave()
	if s.Background || s.Coprocess {
		return unsupported("it starts a process in the background")
	}
	out, in := r.out, r.in
	defer func() { r.out, r.in = out, in }()
	for _, d := range s.Redirs {
		if err := r.redirect(d); err != nil {
			return err
		}
	}
	if s.Cmd == nil {
		r.status = 0
		return nil
	}
	if err := r.command(s.Cmd); err != nil {
		return err
	}
	if s.Negated {
		r.status = status(r.status != 0)
	}
	return nil
}

func status(ok bool) int {
	if ok {
		return 0
	}
	return 1
}

// redirect discards output, or sets the input to a here-document or here-string.
func (r *run) redirect(d *syntax.Redirect) error {
	fd := ""
	if d.N != nil {
		fd = d.N.Value
	}
	to := d.Word.Lit()
	switch d.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		if fd != "" {
			break
		}
		text, err := r.text(d.Hdoc)
		r.in = &text
		return err
	case syntax.RdrOut, syntax.AppOut, syntax.RdrAll, syntax.AppAll:
		if to != "/dev/null" {
			break
		}
		if fd != "2" {
			r.out = nil
		}
		return nil
	case syntax.DplOut:
		switch {
		case fd == "2" && to == "1" && r.out == nil:
			return nil
		case (fd == "" || fd == "1") && to == "2":
			r.out = nil
			return nil
		}
	default:
	}
	return unsupported("unsupported redirection %s", d.Op)
}

func (r *run) command(c syntax.Command) error {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return r.call(c)
	case *syntax.DeclClause:
		return r.declare(c)
	case *syntax.IfClause:
		return r.branch(c)
	case *syntax.WhileClause:
		return r.while(c)
	case *syntax.ForClause:
		return r.each(c)
	case *syntax.CaseClause:
		return r.choose(c)
	case *syntax.Block:
		return r.stmts(c.Stmts)
	case *syntax.Subshell:
		return r.inSubshell(func(sub *run) error { return sub.stmts(c.Stmts) })
	case *syntax.BinaryCmd:
		return r.binary(c)
	case *syntax.FuncDecl:
		r.funcs[c.Name.Value] = c.Body
		r.status = 0
		return nil
	case *syntax.TestClause:
		ok, err := r.testExpr(c.X)
		r.status = status(ok)
		return err
	}
	return unsupported("unsupported syntax: %T", c)
}

func (r *run) inSubshell(f func(*run) error) error {
	sub, err := r.subshell()
	if err != nil {
		return err
	}
	err = f(sub)
	r.status = sub.status
	return ended(err)
}

func (r *run) binary(c *syntax.BinaryCmd) error {
	switch c.Op {
	case syntax.AndStmt, syntax.OrStmt:
		if err := r.stmt(c.X); err != nil || (r.status == 0) != (c.Op == syntax.AndStmt) {
			return err
		}
		return r.stmt(c.Y)
	case syntax.Pipe:
		var printed strings.Builder
		before := r.status
		err := r.inSubshell(func(sub *run) error { sub.out = &printed; return sub.stmt(c.X) })
		if err != nil {
			return err
		}
		text := printed.String()
		r.status = before // both commands start with the status before the pipe
		return r.inSubshell(func(sub *run) error { sub.in = &text; return sub.stmt(c.Y) })
	default:
		return unsupported("unsupported operator %s", c.Op)
	}
}

func (r *run) branch(c *syntax.IfClause) error {
	for ; c != nil; c = c.Else {
		if len(c.Cond) == 0 { // else
			return r.stmts(c.Then)
		}
		if err := r.stmts(c.Cond); err != nil {
			return err
		}
		if r.status == 0 {
			return r.stmts(c.Then)
		}
	}
	r.status = 0
	return nil
}

// loop runs the body of a loop once and reports whether the loop continues.
func (r *run) loop(body []*syntax.Stmt) (more bool, err error) {
	err = r.stmts(body)
	var f flow
	if !errors.As(err, &f) || f.kind == flowReturn {
		return err == nil, err
	}
	if f.level > 1 {
		return false, flow{f.kind, f.level - 1}
	}
	return f.kind == flowContinue, nil
}

func (r *run) while(c *syntax.WhileClause) error {
	last := 0
	for {
		err := r.stmts(c.Cond)
		var f flow
		if errors.As(err, &f) && f.kind != flowReturn {
			return unsupported("break or continue in the condition of a loop")
		}
		if err != nil {
			return err
		}
		if (r.status == 0) == c.Until {
			r.status = last
			return nil
		}
		more, err := r.loop(c.Do)
		if last = r.status; err != nil || !more {
			return err
		}
	}
}

func (r *run) each(c *syntax.ForClause) error {
	it, ok := c.Loop.(*syntax.WordIter)
	if !ok || c.Select {
		return unsupported("it uses a loop with a counter")
	}
	items := r.args
	if it.InPos.IsValid() {
		var err error
		if items, err = r.fields(it.Items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		r.status = 0
	}
	for _, item := range items {
		if err := errors.Join(r.charge(len(item)), r.set(it.Name.Value, item)); err != nil {
			return err
		}
		if more, err := r.loop(c.Do); err != nil || !more {
			return err
		}
	}
	return nil
}

func (r *run) choose(c *syntax.CaseClause) error {
	word, err := r.text(c.Word)
	if err != nil {
		return err
	}
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			match, err := r.matches(word, p)
			if err != nil {
				return err
			}
			if !match {
				continue
			}
			if item.Op != syntax.Break {
				return unsupported("a case falls through to the next")
			}
			if len(item.Stmts) == 0 {
				r.status = 0
			}
			return r.stmts(item.Stmts)
		}
	}
	r.status = 0
	return nil
}

// call runs a simple command.
func (r *run) call(c *syntax.CallExpr) error {
	if len(c.Args) == 0 {
		return r.assignAll(c.Assigns)
	}
	if len(c.Assigns) > 0 {
		return unsupported("it sets variables for a single command")
	}
	r.substituted = false
	args, err := r.fields(c.Args)
	if err != nil {
		return err
	}
	if len(args) == 0 {
		if !r.substituted {
			r.status = 0
		}
		return nil
	}
	return r.invoke(args)
}

// assignAll runs a command that consists of assignments. Its status is that of its last
// command substitution.
func (r *run) assignAll(all []*syntax.Assign) error {
	last := 0
	for _, a := range all {
		r.substituted = false
		if err := r.assign(a); err != nil {
			return err
		}
		if r.substituted {
			last = r.status
		}
	}
	r.status = last
	return nil
}

// assign runs NAME=VALUE or NAME+=VALUE.
func (r *run) assign(a *syntax.Assign) error {
	if a.Array != nil || a.Index != nil || a.Name == nil || a.Naked {
		return unsupported("it uses an array")
	}
	value, err := r.text(a.Value)
	if err != nil {
		return err
	}
	if a.Append {
		old, _, err := r.get(a.Name.Value)
		if err != nil {
			return err
		}
		value = old + value
	}
	return r.set(a.Name.Value, value)
}

// function runs the body of a function with arguments.
func (r *run) function(body *syntax.Stmt, args []string) error {
	old := r.args
	r.args, r.locals = args, append(r.locals, map[string]*variable{})
	err := r.stmt(body)
	last := len(r.locals) - 1
	for name, v := range r.locals[last] {
		if v == nil {
			delete(r.vars, name)
		} else {
			r.vars[name] = *v
		}
	}
	r.args, r.locals = old, r.locals[:last]
	return ended(err)
}
