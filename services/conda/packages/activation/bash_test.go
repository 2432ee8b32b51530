package activation_test

import (
	"bytes"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"slipway.dev/services/conda/packages/activation"
)

// tree returns an environment with some files of the packages that the scripts belong to.
func tree(t testing.TB) activation.Environment {
	t.Helper()
	prefix := filepath.Join(t.TempDir(), "opt", "conda")
	for _, name := range []string{
		"share/gdal/gcs.csv", "lib/gdalplugins/gdal_HDF5.so", "lib/gdalplugins/gdal_netCDF.so", "share/proj/proj.db", "lib/R/etc/Renviron", "bin/R", "bin/python",
		"go/VERSION", "share/epsg_csv/a.csv", "share/udunits/udunits2.xml", "lib/esmf.mk", "etc/OpenCL/vendors/pocl.icd", "etc/OpenCL/vendors/beignet.icd", "bin.AVX2_256/gmx",
	} {
		write(t, prefix, name, 0o755)
	}
	for _, name := range strings.Fields("cc cpp gcc gcc-ar gcc-nm gcc-ranlib c++ g++ f95 gfortran addr2line ar as ld ld.gold nm c++filt") {
		write(t, prefix, "bin/x86_64-conda-linux-gnu-"+name, 0o755)
	}
	return activation.Environment{
		Prefix: prefix, Machine: machine(t),
		Kind: func(path string) activation.Kind {
			switch info, err := os.Stat(filepath.Join(prefix, path)); {
			case err != nil:
				return activation.None
			case info.IsDir():
				return activation.Folder
			}
			return activation.File
		},
		Files: func(folder string) (names []string) {
			all, err := fs.ReadDir(os.DirFS(prefix), folder)
			if err != nil {
				return nil
			}
			for _, e := range all {
				names = append(names, e.Name())
			}
			return names
		},
	}
}

func write(t testing.TB, prefix, name string, mode fs.FileMode) {
	t.Helper()
	path := filepath.Join(prefix, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, mode); err != nil {
		t.Fatal(err)
	}
}

func machine(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("uname", "-m").Output()
	if err != nil {
		t.Skip("there is no uname:", err)
	}
	return strings.TrimSpace(string(out))
}

// sourced returns the variables of a real bash that has sourced a script.
func sourced(t testing.TB, script string, vars map[string]string) map[string]string {
	t.Helper()
	cmd := exec.Command("bash", "--noprofile", "--norc", "-c", `. "$1" >/dev/null 2>&1; exec -c true 2>/dev/null; env -0`, "bash", script)
	cmd.Args[4] = `. "$0" >/dev/null 2>&1 </dev/null; /usr/bin/env -0`
	cmd.Args = append(cmd.Args[:5], script)
	for name, value := range vars {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(script, err)
	}
	got := map[string]string{}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		name, value, is := strings.Cut(string(line), "=")
		if is && name != "PWD" && name != "SHLVL" && name != "_" && name != "OLDPWD" {
			got[name] = value
		}
	}
	return got
}

func starts(prefix string) []map[string]string {
	return []map[string]string{
		{"PATH": prefix + "/bin:/usr/bin:/bin", "CONDA_PREFIX": prefix},
		{
			"PATH": prefix + "/bin:/usr/bin:/bin", "CONDA_PREFIX": prefix, "JAVA_HOME": "/usr/java", "GDAL_DATA": "/gdal data", "PROJ_DATA": "", "XML_CATALOG_FILES": "file:///a b", "CFLAGS": "-g",
			"CC": "/usr/bin/cc", "CXX": "g++ -m64", "AUGUSTUS_CONFIG_PATH": "/a", "PERL5LIB": "/p:/q", "GOROOT": "/go", "XDG_DATA_DIRS": "/x", "MANPATH": "/m", "OCL_ICD_FILENAMES": "/i",
			"INFOPATH": "/info", "R_HOME": "/r", "CUDA_HOME": "/cuda", "CARGO_HOME": "/cargo", "M2_HOME": "/m2", "UDUNITS2_XML_PATH": "", "QT_XCB_GL_INTEGRATION": "nonesuch",
		},
	}
}

// known lists the test scripts that must be rejected, because they run a program.
func known() []string { return []string{"needs_program.sh"} }

// TestAsBash sources each script in a real bash and compares the resulting variables. All
// scripts that are not in known must be evaluated.
func TestAsBash(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("there is no bash:", err)
	}
	scripts, err := filepath.Glob("testdata/activate.d/*.sh")
	if err != nil || len(scripts) < 30 {
		t.Fatalf("there are %d scripts, %v", len(scripts), err)
	}
	env := tree(t)
	equal, refused := 0, []string{}
	for _, script := range scripts {
		raw, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(script)
		at := filepath.Join(env.Prefix, "etc/conda/activate.d", name)
		write(t, env.Prefix, "etc/conda/activate.d/"+name, 0o644)
		if err := os.WriteFile(at, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		right := true
		for i, vars := range starts(env.Prefix) {
			s := activation.New(env, vars)
			if err := s.Source(t.Context(), "etc/conda/activate.d/"+name, string(raw)); err != nil {
				t.Logf("%s: %v", name, err)
				refused, right = append(refused, name), false
				break
			}
			want, got := sourced(t, at, vars), s.Exported()
			if !maps.Equal(want, got) {
				right = false
				for _, v := range slices.Sorted(maps.Keys(want)) {
					if got[v] != want[v] {
						t.Errorf("%s, start %d: %s is %q; in bash %q", name, i, v, got[v], want[v])
					}
				}
				for _, v := range slices.Sorted(maps.Keys(got)) {
					if _, ok := want[v]; !ok {
						t.Errorf("%s, start %d: %s is %q; bash has none", name, i, v, got[v])
					}
				}
			}
		}
		if right {
			equal++
		}
	}
	if !slices.Equal(refused, known()) {
		t.Errorf("refused are %q, want %q", refused, known())
	}
	if equal*100 < 95*len(scripts) {
		t.Errorf("%d of %d scripts are as in bash", equal, len(scripts))
	}
	t.Logf("%d of %d scripts are as in bash, %d are refused", equal, len(scripts), len(refused))
}
