package buildkit

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"

	"slipway.dev/services/builder/buildlog"
	"slipway.dev/services/builder/jobs"
	"slipway.dev/services/internal/fault"
)

// solveMarker is printed by a generated Dockerfile if the Conda environment cannot be
// solved.
const solveMarker = "slipway: conda environment could not be solved"

// exporting is the daemon's name of the step that exports and pushes the image.
const exporting = "exporting to image"

// progress converts the daemon's updates to log lines. Its fields may be read when follow
// has returned.
type progress struct {
	out    jobs.Output
	redact func(string) string
	steps  map[digest.Digest]*vertex
	phase  string
	solve  bool // the marker was printed
	failed *vertex
}

// vertex is one step of a build, in BuildKit's terms.
type vertex struct {
	number  int
	name    string
	started time.Time
	begun   bool
	ended   bool
	rest    []byte    // output after the last line end
	until   time.Time // when it ended
	last    []string  // its last lines
}

// How much of a step's output its failure repeats.
const (
	lastLines     = 100
	lastLineBytes = 300
)

func newProgress(out jobs.Output, redact func(string) string) *progress {
	return &progress{out: out, redact: redact, steps: map[digest.Digest]*vertex{}}
}

// follow prints updates until the channel is closed.
func (p *progress) follow(updates <-chan *client.SolveStatus) {
	for u := range updates {
		for _, v := range u.Vertexes {
			p.begin(v)
		}
		for _, l := range u.Logs {
			p.write(l)
		}
		for _, w := range u.Warnings {
			p.print("warning: " + string(w.Short))
		}
		for _, v := range u.Vertexes {
			p.end(v)
		}
	}
	for _, s := range p.steps {
		if s.until.IsZero() {
			s.until = time.Now() // the updates were cut off
		}
		p.flush(s, s.until)
	}
}

func (p *progress) step(d digest.Digest) *vertex {
	s := p.steps[d]
	if s == nil {
		s = &vertex{number: len(p.steps) + 1}
		p.steps[d] = s
	}
	return s
}

func (p *progress) begin(v *client.Vertex) {
	if v.Started == nil {
		return
	}
	s := p.step(v.Digest)
	if s.begun {
		return
	}
	s.begun, s.name, s.started = true, v.Name, *v.Started
	if strings.HasPrefix(v.Name, exporting) && p.phase != "push" {
		p.printStep("push", s, v.Name)
		return
	}
	if p.phase == "" {
		p.printStep("build", s, v.Name)
		return
	}
	p.printStep("", s, v.Name)
}

func (p *progress) end(v *client.Vertex) {
	s := p.steps[v.Digest]
	if s == nil || s.ended || v.Completed == nil || !s.begun {
		return
	}
	s.ended, s.until = true, *v.Completed // more output may follow, so its rest is no complete line yet
	took := v.Completed.Sub(s.started).Seconds()
	switch {
	case v.Error != "" && strings.Contains(v.Error, "context canceled"):
		p.printStep("", s, fmt.Sprintf("CANCELED %.1fs", took))
	case v.Error != "":
		p.failed = s
		p.printStep("", s, fmt.Sprintf("ERROR %.1fs: %s", took, v.Error))
	case v.Cached:
		p.printStep("", s, "CACHED")
	default:
		p.printStep("", s, fmt.Sprintf("DONE %.1fs", took))
	}
}

// write handles a part of a step's output, which may end anywhere.
func (p *progress) write(l *client.VertexLog) {
	s := p.step(l.Vertex)
	s.rest = append(s.rest, l.Data...)
	for {
		i := bytes.IndexByte(s.rest, '\n')
		if i < 0 && len(s.rest) < buildlog.LineBytes {
			return
		}
		line := s.rest
		if i >= 0 {
			line, s.rest = s.rest[:i], s.rest[i+1:]
		} else {
			s.rest = nil
		}
		p.line(s, string(line), l.Timestamp)
	}
}

func (p *progress) flush(s *vertex, at time.Time) {
	if len(s.rest) > 0 {
		p.line(s, string(s.rest), at)
		s.rest = nil
	}
}

// line prints a line of a step's output.
func (p *progress) line(s *vertex, text string, at time.Time) {
	text = afterReturn(text)
	if strings.TrimSpace(text) == solveMarker {
		p.solve = true
	}
	text = p.redact(text)
	s.last = append(s.last, fault.Clip(buildlog.Clean(text), lastLineBytes))
	if len(s.last) > lastLines {
		s.last = s.last[1:]
	}
	since := 0.0
	if !s.started.IsZero() {
		since = max(0, at.Sub(s.started).Seconds())
	}
	p.printStep("", s, fmt.Sprintf("%.3f %s", since, text))
}

// afterReturn returns what a terminal would show of a line with carriage returns, such as a
// progress bar.
func afterReturn(text string) string {
	text = strings.TrimRight(text, "\r")
	return text[strings.LastIndexByte(text, '\r')+1:]
}

// printStep prints a line about a step. If phase is not "", that phase begins with the line.
func (p *progress) printStep(phase string, s *vertex, text string) {
	if phase != "" {
		p.phase = phase
	}
	p.out.Print(phase, fmt.Sprintf("#%d %s", s.number, p.redact(text)))
}

func (p *progress) print(text string) { p.out.Print("", p.redact(text)) }
