package file

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// TestReplace replaces new and existing files, and links but not their targets.
func TestReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for n, step := range []struct {
		text       string
		perm, want fs.FileMode
	}{{"one", 0o600, 0o600}, {"two", 0o644, 0o600}, {"three", 0o644, 0o600}} {
		if err := Replace(path, []byte(step.text), step.perm); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile(path)
		info, bad := os.Lstat(path)
		if err != nil || bad != nil || string(raw) != step.text || info.Mode() != step.want {
			t.Errorf("step %d: %q, %v, %v, %v", n, raw, info, err, bad)
		}
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, []byte("three"), 0o600); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same content was written again, %v", err)
	}
	if err := CheckReplaceable(path); err != nil {
		t.Error(err)
	}
	missing := filepath.Join(dir, "missing", "file")
	if err := Replace(missing, nil, 0o600); err == nil {
		t.Error("a file in a missing folder was written")
	}
	if err := CheckReplaceable(missing); err == nil {
		t.Error("a file in a missing folder can be replaced")
	}
	if got, err := Resolve(link); err != nil || got != path {
		t.Errorf("the link names %s, %v", got, err)
	}
	if got, err := Resolve(missing); err != nil || got != missing {
		t.Errorf("the missing file is %s, %v", got, err)
	}
	if err := Replace(link, []byte("four"), 0o600); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	info, bad := os.Lstat(link)
	if err != nil || bad != nil || string(raw) != "three" || !info.Mode().IsRegular() {
		t.Errorf("the target of the link is %q, %v; the link is %v, %v", raw, err, info, bad)
	}
	dangling := filepath.Join(t.TempDir(), "dangling")
	if err := os.Symlink(missing, dangling); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(dangling); err == nil {
		t.Error("a link to a missing file was resolved")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

// TestList checks the bounds of lists and objects.
func TestList(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]int{`[]`: {}, `[1,2]`: {1, 2}, `null`: nil, `[1,2,3]`: nil, `{"a":1}`: nil, `[1,`: nil, `["a"]`: nil, `7`: nil, ``: nil} {
		got, err := List[int]([]byte(in), 2)
		if !reflect.DeepEqual(got, want) || err == nil && want == nil && in != `null` {
			t.Errorf("%s is %v, %v, want %v", in, got, err, want)
		}
	}
	for in, want := range map[string]map[string]int{`{}`: {}, `{"a":1,"b":2}`: {"a": 1, "b": 2}, `null`: nil, `{"a":1,"b":2,"c":3}`: nil, `{"a":1,"a":1,"a":3}`: nil, `[1]`: nil, `{"a"`: nil} {
		got, err := Map[int]([]byte(in), 2)
		if !reflect.DeepEqual(got, want) || err == nil && want == nil && in != `null` {
			t.Errorf("%s is %v, %v, want %v", in, got, err, want)
		}
	}
}

// FuzzList checks that lists and objects are decoded like those of encoding/json.
func FuzzList(f *testing.F) {
	for _, s := range []string{`[]`, `["a","b"]`, `{"a":"b"}`, `null`, ` [ "a" ] `, `["a"`, `{"a":"b","a":"c"}`, `{"a":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			_, _ = List[string](raw, 4)
			return
		}
		var list []string
		if err := json.Unmarshal(raw, &list); err == nil && len(list) <= 4 {
			if got, err := List[string](raw, 4); err != nil || len(got) != len(list) {
				t.Errorf("%s is %v, %v", raw, got, err)
			}
		}
		if got, err := Map[string](raw, 4); err == nil && len(got) > 4 {
			t.Errorf("%s is %v", raw, got)
		}
	})
}
