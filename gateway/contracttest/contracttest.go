// Package contracttest reads the documented examples of the REST contract in
// testdata/contract, and compares responses with them. The gateway's own test replays them
// with canned services, and the end-to-end test with the whole program.
//
// An example is a txtar file:
//
//	-- request --    method and path; headers; an empty line; the body
//	-- rpc --        the gRPC method; absent if the call reaches no service
//	-- asked --      its request
//	-- answered --   its response; the messages of a stream follow each other
//	-- fault --      its error instead: "kind: text" or "kind (code): text"
//	-- response --   status; headers; an empty line; the body
//
// {{name}} is replaced by a value of the test. In the response, "*" matches any non-empty
// string, and "#" any number. A body whose Content-Type is a text type is compared exactly,
// except for empty lines at its end.
package contracttest

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/tools/txtar"
)

// An Example is one documented call and its response.
type Example struct {
	Name, Comment   string
	Method, Path    string
	Body            string
	RPC, Asked      string
	Answered, Fault string
	Status          string
	Header          map[string]string
	Want            string
}

// Load reads every example in dir, but not in its subfolders, and replaces each {{name}} by
// its value in vars.
func Load(dir string, vars map[string]string) ([]Example, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("no examples in %s", dir)
	}
	var out []Example
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			return nil, err
		}
		e := Example{
			Name: strings.TrimSuffix(filepath.Base(path), ".txtar"), Header: map[string]string{},
			Comment: strings.Join(strings.Fields(string(archive.Comment)), " "),
		}
		for _, f := range archive.Files {
			text := string(f.Data)
			for name, value := range vars {
				text = strings.ReplaceAll(text, "{{"+name+"}}", value)
			}
			if err := e.section(f.Name, text); err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

func (e *Example) section(name, text string) error {
	trimmed := strings.TrimSpace(text)
	switch name {
	case "request":
		head, body, _ := strings.Cut(text, "\n\n")
		method, path, ok := strings.Cut(strings.TrimSpace(head), " ")
		if !ok {
			return fmt.Errorf("the request %q has no path", head)
		}
		e.Method, e.Path, e.Body = method, path, strings.TrimSpace(body)
	case "rpc":
		e.RPC = trimmed
	case "asked":
		e.Asked = trimmed
	case "answered":
		e.Answered = trimmed
	case "fault":
		e.Fault = trimmed
	case "response":
		head, body, _ := strings.Cut(text, "\n\n")
		lines := strings.Split(strings.TrimSpace(head), "\n")
		e.Status, e.Want = lines[0], strings.TrimSpace(body)
		for _, l := range lines[1:] {
			k, v, _ := strings.Cut(l, ": ")
			e.Header[k] = v
		}
	default:
		return fmt.Errorf("there is no section %q", name)
	}
	return nil
}

// Differ returns how a body differs from the example, or "". JSON is compared by value,
// text and an empty body by bytes.
func (e *Example) Differ(body []byte) string {
	if strings.HasPrefix(e.Header["Content-Type"], "text/") {
		if got := strings.TrimRight(string(body), "\r\n"); got != e.Want {
			return fmt.Sprintf("the body is\n%s\nwant\n%s", got, e.Want)
		}
		return ""
	}
	if e.Want == "" {
		if len(body) > 0 {
			return fmt.Sprintf("there should be no body, but it is %s", body)
		}
		return ""
	}
	var want, got any
	if err := json.Unmarshal([]byte(e.Want), &want); err != nil {
		return "the example itself is not JSON: " + err.Error()
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Sprintf("the body is not JSON: %s", body)
	}
	return differ("", want, got)
}

func differ(at string, want, got any) string {
	switch w := want.(type) {
	case string:
		if fits(w, got) {
			return ""
		}
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return differObjects(at, w, g)
		}
	case []any:
		if g, ok := got.([]any); ok && len(g) == len(w) {
			return differLists(at, w, g)
		}
	default:
		if want == got {
			return ""
		}
	}
	return fmt.Sprintf("%s is %v, want %v", at, got, want)
}

// fits reports whether a string or number matches want, which may be a wildcard.
func fits(want string, got any) bool {
	switch g := got.(type) {
	case string:
		return g == want || want == "*" && g != ""
	case float64:
		return want == "#"
	}
	return false
}

func differObjects(at string, want, got map[string]any) string {
	for k, v := range got {
		if _, known := want[k]; !known {
			return fmt.Sprintf("%s.%s should be absent, but is %v", at, k, v)
		}
	}
	for k, v := range want {
		if d := differ(at+"."+k, v, got[k]); d != "" {
			return d
		}
	}
	return ""
}

func differLists(at string, want, got []any) string {
	for i := range want {
		if d := differ(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); d != "" {
			return d
		}
	}
	return ""
}
