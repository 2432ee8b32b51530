package snakemake

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		// want are the rules as NAME ENVIRONMENT CONTAINER, with ? for an expression and - for none.
		want string
	}{
		"a line each":        {"rule a:\n    conda: \"a.yml\"\n    container: 'docker://x:1'\n", "a a.yml docker://x:1"},
		"indented values":    {"rule a:\n  conda:\n    'a.yml'\n  container:\n    # of Ada\n    \"docker://x:1\",\n", "a a.yml docker://x:1"},
		"checkpoint":         {"checkpoint a:\n\tconda: \"a.yml\"\n", "a a.yml -"},
		"without a name":     {"rule:\n  conda: \"a.yml\"\n", " a.yml -"},
		"derived":            {"use rule a from m as b with:\n  conda: \"a.yml\"\nuse rule a with:\n  conda: 'b.yml'\n", "b a.yml -, a b.yml -"},
		"in an if":           {"if x:\n  rule a:\n    conda: \"a.yml\"\n  rule b:\n    conda: \"b.yml\"\n", "a a.yml -, b b.yml -"},
		"singularity":        {"rule a:\n  singularity: \"docker://x:1\"\n  conda: \"a.yml\"\n", "a a.yml docker://x:1"},
		"comments":           {"rule a: # conda: \"b.yml\"\n  # conda: \"c.yml\"\n\n  conda: \"a.yml\" # container: \"x\"\n", "a a.yml -"},
		"expressions":        {"rule a:\n  conda: f\"{x}.yml\"\nrule b:\n  conda: env(\"b.yml\")\nrule c:\n  conda: \"{x}.yml\"\nrule d:\n  conda: \"a\" + \"b.yml\"\n", "a ? -, b ? -, c ? -, d ? -"},
		"in strings":         {"x = '''\nrule a:\n  conda: \"a.yml\"\n'''\nrule b:\n  shell: \"\"\"\n  conda: \"b.yml\"\n  \"\"\"\n  conda: \"c.yml\"\n", "b c.yml -"},
		"in brackets":        {"x = [\n\"rule a:\",\n]\nrule b:\n  input: f(\n  conda, \"x\")\n  conda: \"b.yml\"\n", "b b.yml -"},
		"backslash":          {"x = 1 + \\\nrule\nrule b:\n  conda: \\\n  \"b.yml\"\n", "b ? -"},
		"values of others":   {"rule a:\n  params:\n    conda: \"x.yml\"\n  conda: \"a.yml\"\n", "a a.yml -"},
		"without conda":      {"rule a:\n  container: \"docker://x:1\"\nconda: \"a.yml\"\n", ""},
		"windows":            {"rule a:\r\n  conda: \"a.yml\"\r\n", "a a.yml -"},
		"unfinished":         {"rule a:\n  conda: \"a.yml\"\n  shell: \"\"\"\n", "a a.yml -"},
		"unbalanced quotes":  {"# it's\nx = \"it's\"\ny = 'a\nrule a:\n  conda: \"a.yml\"\n", "a a.yml -"},
		"no line ending":     {"rule a:\n  conda: \"a.yml\"", "a a.yml -"},
		"body of no line":    {"rule a:\nrule b:\n  conda: \"b.yml\"\n", "b b.yml -"},
		"derived with star":  {"use rule * from m as m_* with:\n  conda: \"a.yml\"\nuse rule a, b from m as m_* with:\n  conda: \"b.yml\"\n", "m_* a.yml -, m_* b.yml -"},
		"similar statements": {"ruler = 1\nrules.a.output\nrule a:\n  conda: \"a.yml\"\n", "a a.yml -"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, r := range parse("Snakefile", c.text).rules {
				container := "-"
				if r.container != nil {
					container = shown(*r.container)
				}
				got = append(got, fmt.Sprintf("%s %s %s", r.name, shown(r.conda), container))
			}
			if s := strings.Join(got, ", "); s != c.want {
				t.Errorf("got %q, want %q", s, c.want)
			}
		})
	}
}

func shown(d directive) string {
	if !d.isText {
		return "?"
	}
	return d.text
}

func TestWritten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"added":       {"rule a:\n    conda: \"a.yml\"\n    shell: \"x\"\n", "rule a:\n    conda: \"a.yml\"\n    container: \"docker://i:a\"\n    shell: \"x\"\n"},
		"below value": {"rule a:\n\tconda:\n\t\t\"a.yml\" # x\n\n\tshell: \"x\"\n", "rule a:\n\tconda:\n\t\t\"a.yml\" # x\n\tcontainer: \"docker://i:a\"\n\n\tshell: \"x\"\n"},
		"replaced":    {"rule a:\n  container:\n    \"docker://i:0\"\n  conda: \"a.yml\"\n# end\n", "rule a:\n  container: \"docker://i:a\"\n  conda: \"a.yml\"\n# end\n"},
		"last line":   {"rule a:\n  conda: \"a.yml\"", "rule a:\n  conda: \"a.yml\"\n  container: \"docker://i:a\"\n"},
		"windows":     {"rule a:\r\n  conda: \"a.yml\"\r\n", "rule a:\r\n  conda: \"a.yml\"\r\n  container: \"docker://i:a\"\r\n"},
		"two rules":   {"rule a:\n  conda: \"a.yml\"\nrule b:\n  conda: \"b.yml\"\n", "rule a:\n  conda: \"a.yml\"\n  container: \"docker://i:a\"\nrule b:\n  conda: \"b.yml\"\n  container: \"docker://i:b\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := parse("Snakefile", c.text)
			var changes []change
			for _, r := range f.rules {
				changes = append(changes, change{r, "i:" + r.name})
			}
			got := f.written(changes)
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			for _, r := range parse("Snakefile", got).rules {
				if r.image() != "i:"+r.name {
					t.Errorf("the container of %s is read as %q", r.name, r.image())
				}
			}
		})
	}
}

// TestUnread checks that rules in forms that are not read are reported.
func TestUnread(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"rule a: conda: \"a.yml\"\n":                          "[0]",
		"x = 1\nrule a: input: \"x\"\n    conda: \"a.yml\"\n": "[]", // not valid
		"rule all: input: \"x\"\n":                            "[]",
		"use rule a from m as b with: conda: \"a.yml\"\n":     "[0]",
		"use rule a from m as b\n":                            "[]",
		"rule a:\n    conda: \"a.yml\"\n":                     "[]",
	} {
		if got := fmt.Sprint(parse("Snakefile", text).unread); got != want {
			t.Errorf("%q: the lines %s are unread, want %s", text, got, want)
		}
	}
}

// FuzzSnakefile writes a container into each rule. The rules must keep their environments, and the
// containers must be read again.
func FuzzSnakefile(f *testing.F) {
	for _, seed := range []string{
		"rule a:\n  conda: \"a.yml\"\n", "x = '''\nrule a:\n  conda: \"a.yml\"\n'''\n", "include: \"b.smk\"\nrule a:\n\tconda:\n\t\t\"a.yml\"\n\tcontainer: \"docker://x\"\n",
		"rule a:\n  conda: (\n\"a.yml\"\n)\n", "rule a:\n  conda: \"a.yml\" \\\n  container: \"x\"\n", "use rule a from b as c with:\n  conda: f\"{x}\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		before := parse("Snakefile", text)
		if strings.Join(before.lines, "") != text {
			t.Fatal("the lines are not the text")
		}
		if before.unfinished {
			return
		}
		var changes []change
		for _, r := range before.rules {
			changes = append(changes, change{r, "i:1"})
		}
		after := parse("Snakefile", before.written(changes))
		if len(after.rules) != len(before.rules) {
			t.Fatalf("there were %d rules, and are %d:\n%s", len(before.rules), len(after.rules), strings.Join(after.lines, ""))
		}
		for i, r := range after.rules {
			if r.image() != "i:1" || r.conda.text != before.rules[i].conda.text {
				t.Errorf("rule %d has %q and %q:\n%s", i, r.image(), r.conda.text, strings.Join(after.lines, ""))
			}
		}
	})
}

func TestReadWorkflow(t *testing.T) { //nolint:paralleltest // the working directory
	t.Chdir(t.TempDir())
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	outside := t.TempDir()
	write("workflow/Snakefile", "include: \"rules/a.smk\"\ninclude: \"rules/a.smk\"\ninclude: x\ninclude: \"https://example.org/b.smk\"\n")
	write("workflow/rules/a.smk", "include: \"../Snakefile\"\nrule a:\n  conda: \"../envs/a.yaml\"\nrule b:\n  conda: \"installed\"\nrule c:\n  conda: \"https://example.org/c.yml\"\n")
	write("workflow/envs/a.yaml", "dependencies: [a]\n")
	path, err := findSnakefile()
	if err != nil {
		t.Fatal(err)
	}
	files, problems, err := readWorkflow([]string{path})
	if err != nil || len(files) != 2 || len(problems) != 2 {
		t.Fatalf("got %d files, %q, %v", len(files), problems, err)
	}
	var got []string
	for _, r := range files[1].rules {
		environment, err := files[1].environment(r)
		got = append(got, fmt.Sprint(filepath.ToSlash(environment), " ", err != nil))
	}
	if s, want := strings.Join(got, ","), "workflow/envs/a.yaml false, true, true"; s != want {
		t.Errorf("got %q, want %q", s, want)
	}

	write(filepath.Join(outside, "b.smk"), "rule b:\n  conda: \"b.yml\"\n")
	if err := os.Symlink(filepath.Join(outside, "b.smk"), "link.smk"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{filepath.Join(outside, "b.smk"), "link.smk"} {
		write("Snakefile", "include: \""+name+"\"\n")
		if _, _, err := readWorkflow([]string{"Snakefile"}); err == nil || !strings.Contains(err.Error(), "outside") {
			t.Errorf("including %s: %v", name, err)
		}
	}
	write("Snakefile", "include: \"again.smk\"\ninclude: \"missing.smk\"\n")
	if err := os.Symlink("Snakefile", "again.smk"); err != nil {
		t.Fatal(err)
	}
	if files, problems, err := readWorkflow([]string{"Snakefile"}); err != nil || len(files) != 1 || fmt.Sprint(problems) != "[missing.smk: the included file does not exist]" {
		t.Errorf("a file by two paths and a missing one: %d files, %q, %v", len(files), problems, err)
	}
	if _, _, err := readWorkflow([]string{"missing.smk"}); err == nil {
		t.Error("a missing Snakefile is no error")
	}
	write(".git/config", "[core]\n")
	write(filepath.Join(outside, "secret.yml"), "metadata:\n")
	for link, to := range map[string]string{"git.yml": ".git/config", "outside.yml": filepath.Join(outside, "secret.yml")} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
		f := parse("Snakefile", "rule a:\n  conda: \""+link+"\"\n")
		if path, err := f.environment(f.rules[0]); err == nil {
			t.Errorf("the environment file %s is read", path)
		}
	}
	write("Snakefile", "rule a:\n\x00")
	if _, _, err := readWorkflow([]string{"Snakefile"}); err == nil || !strings.Contains(err.Error(), "text file") {
		t.Errorf("a binary file: %v", err)
	}
	write("Snakefile", strings.Repeat("#", maxSnakefile+1))
	if _, _, err := readWorkflow([]string{"Snakefile"}); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a large file: %v", err)
	}
}
