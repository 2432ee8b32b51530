package run_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	native "github.com/sylabs/sif/v2/pkg/sif"

	"slipway.dev/services/mount/mounttest"
)

// An archived entry is a file with a content, a link to a target after "->", or a folder.
type archived struct{ name, content string }

func archive(t *testing.T, entries ...archived) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(e.content))}
		if to, ok := strings.CutPrefix(e.content, "->"); ok {
			h.Typeflag, h.Linkname, h.Size, e.content = tar.TypeSymlink, to, 0, ""
		} else if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = io.WriteString(w, e.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// system are the entries of an image whose programs are those of this machine, which are bound at /usr.
func system(more ...archived) []archived {
	out := []archived{
		{"usr/", ""}, {"bin", "->usr/bin"}, {"lib", "->usr/lib"}, {"lib64", "->usr/lib64"}, {"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"}, {"etc/group", "root:x:0:\n"},
		{"etc/marker", "of the image\n"}, {"home/", ""}, {"tmp/", ""},
	}
	return append(out, more...)
}

// An engineUser runs the stand-in for Singularity in a folder of the user.
type engineUser struct{ *user }

func newEngineUser(t *testing.T) engineUser {
	t.Helper()
	u := newUser(t)
	if info, err := os.Lstat("/bin"); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Skip("NOT TESTED: /bin of this machine is no link to /usr/bin")
	}
	if err := os.Mkdir(u.home+"/work", 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		if err := os.Chown(u.home+"/work", nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	return engineUser{u}
}

func (u engineUser) image(t *testing.T, layers ...[]byte) string {
	t.Helper()
	config := ocispec.ImageConfig{Env: []string{"PATH=/bin", "GREETING=of the image"}, Entrypoint: []string{"/bin/echo", "entry"}, Cmd: []string{"cmd"}}
	return mounttest.WriteOn(t, u.home+"/image", config, layers).Name()
}

// do runs the stand-in with arguments, and programs of this machine in the image.
func (u engineUser) do(t *testing.T, kind string, args ...string) (out, messages string, code int) {
	t.Helper()
	cmd := u.command(append([]string{"singularity", kind, "--bind", "/usr:/usr:ro"}, args...)...)
	cmd.Dir = u.home + "/work"
	return runCommand(t, cmd)
}

func (u engineUser) must(t *testing.T, want string, args ...string) {
	t.Helper()
	if out, messages, code := u.do(t, "exec", args...); out != want || code != 0 {
		t.Errorf("%v: %q instead of %q, exit code %d, %s", args, out, want, code, messages)
	}
}

func TestImageWithoutEngine(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system(archived{"etc/old", "x"})...), archive(t, archived{"etc/.wh.old", ""}))
	work := u.home + "/work"
	u.must(t, "of the image\nof the image\n"+work+"\n", i, "sh", "-c", "cat /etc/marker; echo $GREETING; pwd; test ! -e /etc/old")
	u.must(t, "nobody\n", i, "id", "-un")
	u.must(t, "", i, "sh", "-c", "grep -E 'Cap(Inh|Prm|Eff|Amb)' /proc/self/status | grep -v 0000000000000000; echo made > made")
	if raw, err := os.ReadFile(work + "/made"); string(raw) != "made\n" {
		t.Errorf("the command wrote %q to the working folder, %v", raw, err)
	}
	for _, path := range []string{"/new", "/etc/new", "/etc/marker", "/home/new", "/usr/new"} {
		if _, messages, code := u.do(t, "exec", i, "sh", "-c", "echo x > "+path); code == 0 || !strings.Contains(messages, "Read-only") {
			t.Errorf("%s: exit code %d, %s", path, code, messages)
		}
	}
	for _, pid := range []string{"--pid", "--pid=false"} {
		for script, want := range map[string]int{"exit 7": 7, "kill -TERM $$": 128 + 15} {
			if _, messages, code := u.do(t, "exec", pid, i, "sh", "-c", script); code != want {
				t.Errorf("%s, %s: exit code %d, %s", pid, script, code, messages)
			}
		}
		if _, messages, code := u.do(t, "exec", pid, i, "missing"); code != 127 {
			t.Errorf("a missing command: exit code %d, %s", code, messages)
		}
	}
	u.must(t, "2\n", "--pid", i, "sh", "-c", "set -- /proc/[0-9]*; echo $#")
	if out, messages, code := u.do(t, "run", i); out != "entry cmd\n" || code != 0 {
		t.Errorf("run: %q, %d, %s", out, code, messages)
	}
	if out, messages, code := u.do(t, "run", i, "--flag", "x"); out != "entry --flag x\n" || code != 0 {
		t.Errorf("run: %q, %d, %s", out, code, messages)
	}
}

// Processes that a command leaves behind end with it: this one has the pipe of the output, until whose end the test waits.
func TestProcessesEndWithTheCommand(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system()...))
	u.must(t, "started\n", "--pid", i, "sh", "-c", "sleep 1000 & echo started")
}

func TestEngineOptions(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system(archived{"data", "->/usr/share"}, archived{"gone", "->/missing"})...))
	work := u.home + "/work"
	if err := errors.Join(os.WriteFile(work+"/input", []byte("input\n"), 0o644), os.Mkdir(work+"/folder", 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct {
		want string
		args []string
	}{
		{"input\n", []string{"-B", work + ":/new/folder:ro", i, "cat", "/new/folder/input"}},
		{"input\n", []string{"-B", work + "/input:/new/file," + work + ":/x", i, "cat", "/new/file"}},
		{"input\n", []string{"-B", work + "/input:/gone/file", i, "cat", "/gone/file"}},
		{"input\n", []string{"--no-home", "-B", work, i, "cat", work + "/input"}},
		{"/x\n/x\n", []string{"--home", work + ":/x", "--pwd", "/x", i, "sh", "-c", "pwd; echo $HOME"}},
		{"a b\nx\n", []string{"--env", "A=a b", "--env", "PREPEND_PATH=/x", i, "sh", "-c", "echo $A; echo ${PATH%%:*} | tr -d /"}},
		{"0\n0\n", []string{"--contain", i, "sh", "-c", "ls /var/tmp | wc -l; ls -A ~ | wc -l"}},
		{"/\n", []string{"--containall", i, "sh", "-c", "pwd; touch ~/x /tmp/x"}},
		{"\n", []string{"--cleanenv", i, "sh", "-c", "echo $SLIPWAY_CACHE"}},
	} {
		u.must(t, one.want, one.args...)
	}
	u.env = append(u.env, "SINGULARITYENV_A=old", "APPTAINERENV_A=new", "LD_LIBRARY_PATH=/x", "APPTAINER_BIND="+work+"/input:/bound")
	u.must(t, "new\n\ninput\n", "--cleanenv", i, "sh", "-c", "echo $A; echo $LD_LIBRARY_PATH; cat /bound")
	for _, args := range [][]string{{"--nv", i, "true"}, {"--fakeroot", i, "true"}, {"-B", work + ":relative", i, "true"}, {"-B", work + ":/x:rx", i, "true"}, {"-B", work + "/missing", i, "true"}, {i}} {
		if _, messages, code := u.do(t, "exec", args...); code == 0 || messages == "" {
			t.Errorf("%v: exit code %d, %s", args, code, messages)
		}
	}
	if _, messages, _ := u.do(t, "exec", "--fakeroot", i, "true"); !strings.Contains(messages, "--fakeroot") {
		t.Errorf("an unknown option: %s", messages)
	}
}

// The variables of Apptainer and Singularity set options, and those for other options are not ignored.
func TestEngineVariables(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system()...))
	work, env := u.home+"/work", u.env
	for _, one := range []struct{ set, want, script string }{
		{"APPTAINER_CONTAIN=1", "0\n", "ls -A /var/tmp | wc -l"},
		{"SINGULARITY_CONTAINALL=true", "/ 0\n", "echo $(pwd) $(ls -A ~ | wc -l)"},
		{"APPTAINER_CLEANENV=1", "\n", "echo $SLIPWAY_CACHE"},
		{"SINGULARITY_NO_HOME=1", "0\n", `grep -c " $HOME " /proc/self/mountinfo; true`},
		{"SINGULARITY_NO_HOME=0", "1\n", `grep -c " $HOME " /proc/self/mountinfo; true`},
		{"APPTAINER_HOME=" + work + ":/new", "/new\n", "echo $HOME"},
		{"APPTAINER_PWD=/etc", "/etc\n", "pwd"},
		{"APPTAINER_NV=0", "ok\n", "echo ok"},
		{"SINGULARITY_PID=1", "2\n", "set -- /proc/[0-9]*; echo $#"},
	} {
		u.env = append(slices.Clone(env), one.set)
		u.must(t, one.want, i, "sh", "-c", one.script)
	}
	u.env = append(slices.Clone(env), "APPTAINER_PWD=/etc", "APPTAINER_CONTAIN=1", "SINGULARITY_CONTAIN=maybe")
	u.must(t, "/home\n", "--pwd", "/home", i, "pwd")
	for _, set := range []string{"APPTAINER_NV=1", "SINGULARITY_NV=true", "SINGULARITY_ROCM=1", "APPTAINER_WRITABLE_TMPFS=1", "SINGULARITY_OVERLAY=/x", "APPTAINER_CONTAIN=maybe", "SINGULARITY_WRITABLE=x"} {
		u.env = append(slices.Clone(env), set)
		name, _, _ := strings.Cut(set, "=")
		if out, messages, code := u.do(t, "exec", i, "echo", "ran"); code == 0 || out != "" || !strings.Contains(messages, name) {
			t.Errorf("%s: %q, exit code %d, %s", set, out, code, messages)
		}
	}
}

// A folder of programs or settings of the system does not replace that of the image, if a command is started in it.
func TestWorkingFolderOfTheSystem(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system(archived{"opt/marker", "of the image\n"})...))
	for _, dir := range []string{"/etc", "/opt", "/boot", "/dev", "/proc"} {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			continue
		}
		cmd := u.command("singularity", "exec", "--bind", "/usr:/usr:ro", i, "sh", "-c", "cat /etc/marker /opt/marker; pwd")
		cmd.Dir = dir
		if out, messages, code := runCommand(t, cmd); out != "of the image\nof the image\n/\n" || code != 0 {
			t.Errorf("%s: %q, exit code %d, %s", dir, out, code, messages)
		}
	}
	u.env = append(u.env, "HOME=/opt")
	u.must(t, "of the image\n", i, "cat", "/opt/marker")
}

// singularityImage writes a Singularity image with the library of its authors.
func singularityImage(t *testing.T, path string, files []byte) {
	t.Helper()
	squash := filepath.Join(t.TempDir(), "squash")
	cmd := exec.Command("mksquashfs", "-", squash, "-tar", "-quiet", "-no-progress")
	cmd.Stdin = bytes.NewReader(files)
	if out, err := cmd.CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("NOT TESTED: mksquashfs is not installed")
	} else if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(squash)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	part, err := native.NewDescriptorInput(native.DataPartition, f, native.OptPartitionMetadata(native.FsSquash, native.PartPrimSys, runtime.GOARCH))
	if err != nil {
		t.Fatal(err)
	}
	made, err := native.CreateContainerAtPath(path, native.OptCreateWithDescriptors(part))
	if err == nil {
		err = made.UnloadContainer()
	}
	if err = errors.Join(err, os.Chmod(path, 0o755)); err != nil {
		t.Fatal(err)
	}
}

// The scripts of a Singularity image set its variables, and those of the user for containers take precedence.
func TestVariablesOfSingularityImages(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	file := u.home + "/work/image.sif"
	const script = "export A=image B=image C=image D=image PATH=/image:/bin\nset -- changed\nf=changed\n"
	singularityImage(t, file, archive(t, system(archived{".singularity.d/env/10-image.sh", script}, archived{".singularity.d/runscript", "#!/bin/sh\necho run \"$A\" \"$@\"\n"})...))
	u.env = append(u.env, "APPTAINERENV_B=of the user", "SINGULARITYENV_D=$(id)'", "APPTAINERENV_0=x", "APPTAINERENV_APPEND_PATH=/end", "APPTAINERENV_UID=7")
	args := []string{"--env", "C=x=y z", "--env", "PREPEND_PATH=/first", file, "sh", "-c", `echo "$A,$B,$C,$D,$PATH,$1,$2"`, "sh", "--", "last"}
	u.must(t, "image,of the user,x=y z,$(id)',/first:/image:/bin:/end,--,last\n", args...)
	if out, messages, code := u.do(t, "run", "--env", "A=a", file, "--flag", "x"); out != "run a --flag x\n" || code != 0 {
		t.Errorf("%q, exit code %d, %s", out, code, messages)
	}
}

// Signatures can be required of the stand-in, whose options do not know them.
func TestEngineRequiresSignatures(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system()...))
	file, sif, key := u.home+"/work/image.img", u.home+"/work/image.sif", u.home+"/cosign.pub"
	if _, messages, code := u.run(t, "singularity", "pull", "--name", file, i); code != 0 {
		t.Fatal(messages)
	}
	if err := os.WriteFile(key, []byte(publicKey), 0o644); err != nil {
		t.Fatal(err)
	}
	singularityImage(t, sif, archive(t, system()...))
	env := u.env
	for _, set := range []string{"SLIPWAY_KEY=" + key, "SLIPWAY_VERIFY=1", "SLIPWAY_VERIFY=maybe", "SLIPWAY_KEY=" + key + "-missing"} {
		u.env = append(slices.Clone(env), set)
		for _, image := range []string{i, file, sif} {
			if out, messages, code := u.do(t, "exec", image, "echo", "ran"); code == 0 || out != "" || messages == "" {
				t.Errorf("%s, %s: %q, exit code %d, %s", set, image, out, code, messages)
			}
		}
		if out, messages, code := u.run(t, "run", "--base", "--bind", "/usr:/usr:ro", i, "--", "echo", "ran"); code == 0 || out != "" {
			t.Errorf("%s: %q, exit code %d, %s", set, out, code, messages)
		}
	}
	u.env = append(slices.Clone(env), "SLIPWAY_VERIFY=0")
	u.must(t, "ran\n", i, "echo", "ran")
}

// publicKey is a key that has signed nothing.
const publicKey = `-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEQ6XIZ6i/tGtGnknIPkCG1SQ11ZtI
4eIhx9K8o5kEPlUBLu1XjXiSJPGUYFe7Pg4BMZELa2vOClPztCaYIT4RQA==
-----END PUBLIC KEY-----
`

// Links of an image do not lead to files of the system: they are followed in the root of the image.
func TestLinksOfImages(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	outside := u.home + "/outside"
	if err := errors.Join(os.Mkdir(outside, 0o777), os.Chmod(outside, 0o777), os.WriteFile(u.home+"/secret", []byte("secret"), 0o644)); err != nil {
		t.Fatal(err)
	}
	i := u.image(t, archive(t, system(archived{"out", "->" + outside}, archived{"up", "->../../../../../.." + outside}, archived{"etc/resolv.conf", "->" + u.home + "/secret"})...))
	for _, link := range []string{"/out", "/up"} {
		u.must(t, "", "--contain", "-B", "/etc/hostname:"+link+"/file", i, "test", "-e", link+"/file")
	}
	u.must(t, "", "--contain", i, "sh", "-c", "grep secret /etc/resolv.conf; true")
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("files were created outside: %v, %v", left, err)
	}
	if raw, err := os.ReadFile(u.home + "/secret"); string(raw) != "secret" {
		t.Errorf("%q, %v", raw, err)
	}
}

// The root of the system is not in that of the command, not even while binds are mounted: links could lead there, so that files would be created or deleted.
func TestLinksToTheSystem(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	outside := u.home + "/outside"
	if err := errors.Join(os.Mkdir(outside, 0o777), os.Chmod(outside, 0o777), os.Symlink("missing", outside+"/localtime"), os.WriteFile(outside+"/hosts", []byte("hosts"), 0o666)); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{"/.slipway", "/.slipway/system", "/.slipway/../.slipway"} {
		entries := slices.DeleteFunc(system(archived{"out", "->" + root + outside}), func(e archived) bool { return strings.HasPrefix(e.name, "etc/") })
		if err := os.RemoveAll(u.home + "/image"); err != nil {
			t.Fatal(err)
		}
		i := u.image(t, archive(t, append(entries, archived{"etc", "->" + root + outside})...))
		u.must(t, "", "--contain", "-B", "/etc/hostname:/out/new/file", i, "sh", "-c", "test -e /out/new/file && test ! -e /.slipway"+outside+" && test ! -e "+outside)
		left, err := os.ReadDir(outside)
		if err != nil || len(left) != 2 || left[0].Name() != "hosts" || left[1].Name() != "localtime" {
			t.Errorf("%s: the folder outside has %v, %v", root, left, err)
		}
	}
	for n := range 8 { // the binds while they are moved
		if err := os.RemoveAll(u.home + "/image"); err != nil {
			t.Fatal(err)
		}
		i := u.image(t, archive(t, system(archived{"out", fmt.Sprintf("->/.slipway/%d", n)})...))
		if _, messages, _ := u.do(t, "exec", "-B", outside+":/bound,/etc/hostname:/out/new/file", i, "true"); strings.Contains(messages, "panic") {
			t.Error(messages)
		}
		if left, err := os.ReadDir(outside); err != nil || len(left) != 2 {
			t.Errorf("the folder outside has %v, %v", left, err)
		}
	}
}

// With --contain, folders are empty but for the binds in them.
func TestBindsInEmptyFolders(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system()...))
	work := u.home + "/work"
	if err := os.WriteFile(work+"/input", []byte("input\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	u.must(t, "input\ndata\n", "--contain", "-B", work+":/tmp/data", i, "sh", "-c", "cat /tmp/data/input; ls /tmp | grep -v run-")
	u.must(t, "input\n", "--contain", "-B", work+":/home", i, "cat", "/home/input")
	u.must(t, "input\n", "--contain", "-B", work, i, "sh", "-c", "cat "+work+"/input; touch ~/x")
}

// Root owns the devices and settings of the system, and a command in an image cannot use them.
func TestRootInImages(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root owns the devices of the system")
	}
	i := u.image(t, archive(t, system()...))
	const script = `set -e; echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 3 /dev/urandom | wc -c; echo x > /dev/shm/x; test -c /dev/pts/ptmx; echo err > /dev/stderr
ls /dev | tr '\n' ' '; for f in /proc/sys/kernel/hostname /proc/sysrq-trigger /sys/kernel/mm/ksm/run /dev/new; do if (: > $f) 2> /dev/null; then echo "changed $f"; fi; done
grep -E ' /(sys|proc/sys)(/[^ ]*)? ' /proc/self/mountinfo | grep -v ' ro,' || true`
	for _, setup := range [][]string{nil, {"setpriv", "--bounding-set", "-sys_admin"}} {
		for _, pid := range []string{"--pid", "--pid=false"} {
			cmd := exec.Command("env", append(setup, u.binary, "singularity", "exec", pid, "--bind", "/usr:/usr:ro", i, "sh", "-c", script)...)
			cmd.Env, cmd.Dir = append(slices.Clone(u.env), "SLIPWAY_CACHE="+u.home+"/root", "SLIPWAY_AGENT_DIR="+u.home+"/rootagents"), u.home+"/work"
			out, messages, code := runCommand(t, cmd)
			if want := "3\n3\nfd full null ptmx pts random shm stderr stdin stdout tty urandom zero "; out != want || code != 0 {
				t.Errorf("%v %s: %q, exit code %d, %s", setup, pid, out, code, messages)
			}
		}
	}
	cmd := exec.Command(u.binary, "singularity", "exec", "--bind", "/usr:/usr:ro,/dev/fuse", i, "test", "-c", "/dev/fuse")
	cmd.Env, cmd.Dir = append(slices.Clone(u.env), "SLIPWAY_CACHE="+u.home+"/root"), "/"
	if _, messages, code := runCommand(t, cmd); code != 0 {
		t.Errorf("a device that is bound: exit code %d, %s", code, messages)
	}
}

// What is mounted below a folder that is bound read-only is read-only as well.
func TestReadOnlyBindsOfMounts(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: only root can mount a folder below another")
	}
	i := u.image(t, archive(t, system()...))
	if err := os.MkdirAll(u.home+"/data/below", 0o755); err != nil {
		t.Fatal(err)
	}
	inner := fmt.Sprintf("mount -t tmpfs none %[1]s/data/below && chmod 777 %[1]s/data/below && exec setpriv --reuid %[2]d --regid %[2]d --clear-groups %[3]s singularity exec --bind /usr:/usr:ro,%[1]s/data:/data:ro %[4]s sh -c 'if (echo x > /data/below/x) 2> /dev/null; then echo changed; fi; ls -d /data/below'",
		u.home, nobody, u.binary, i)
	cmd := exec.Command("unshare", "--mount", "sh", "-c", inner)
	cmd.Env, cmd.Dir = append(slices.Clone(u.env), "PATH=/usr/bin:/bin:/usr/sbin:/sbin"), "/"
	if out, messages, code := runCommand(t, cmd); out != "/data/below\n" || code != 0 {
		t.Errorf("%q, exit code %d, %s", out, code, messages)
	}
}

// A pulled image needs neither its registry nor the user's variables, as in the tasks of Nextflow.
func TestPulledImage(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	i := u.image(t, archive(t, system()...))
	file := u.home + "/work/image.img"
	pull := []string{"singularity", "pull", "--name", file, i}
	if _, messages, code := u.run(t, pull...); code != 0 {
		t.Fatal(messages)
	}
	if _, messages, code := u.run(t, pull...); code != 1 || !strings.Contains(messages, "--force") {
		t.Errorf("a second pull: exit code %d, %s", code, messages)
	}
	if err := os.Rename(u.home+"/image", u.home+"/moved"); err != nil {
		t.Fatal(err)
	}
	u.env = []string{"PATH=/usr/bin:/bin", clientVariable + "=1", "SINGULARITYENV_A=a", "SLIPWAY_AGENT_DIR=" + u.home + "/agents", "GOCOVERDIR=" + u.home}
	u.must(t, "of the image\na\n", "--no-home", "--pid", file, "sh", "-c", "cat /etc/marker; echo $A")
	if out, messages, code := u.run(t, "singularity", "inspect", "--json", file); code != 0 || !strings.Contains(out, `"digest": "sha256:`) {
		t.Errorf("inspect: %q, %d, %s", out, code, messages)
	}
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, messages, code := u.do(t, "exec", file, "true"); code != 1 || !strings.Contains(messages, "neither a Singularity image") {
		t.Errorf("another file: exit code %d, %s", code, messages)
	}
}

// The environment of an image is mounted, and only the other layers are unpacked: those of packages do not exist here.
func TestEnvironmentOnItsBase(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	tools := mounttest.Pack(t, mounttest.Files{"bin/greet": "#!/bin/sh\necho hello $CONDA_PREFIX; cat /etc/marker\n"})
	config := ocispec.ImageConfig{Env: []string{"PATH=/opt/conda/bin:/bin", "CONDA_PREFIX=/opt/conda"}}
	i := mounttest.WriteOn(t, u.home+"/image", config, [][]byte{archive(t, system(archived{"opt/conda/bin/hidden", "x"})...)}, tools).Name()
	const want = "hello /opt/conda\nof the image\n"
	u.must(t, want, i, "greet")
	u.must(t, want, "--pid", i, "greet")
	u.must(t, "greet\n", i, "ls", "/opt/conda/bin")
	for _, share := range []string{"--no-share=false", "--no-share"} {
		out, messages, code := u.run(t, "run", "--base", share, "--idle=1s", "--bind", "/usr:/usr:ro", i, "--", "greet")
		if out != want || code != 0 {
			t.Errorf("%s: %q, exit code %d, %s", share, out, code, messages)
		}
	}
	if _, messages, code := u.run(t, "fetch", "--base", i); code != 0 {
		t.Error(messages)
	}
}

// 16 commands that start at once with an empty cache unpack the same image.
func TestManyUnpackAtOnce(t *testing.T) {
	t.Parallel()
	u := newEngineUser(t)
	var more []archived
	for n := range 200 {
		more = append(more, archived{fmt.Sprintf("opt/many/%d", n), "x"})
	}
	i := u.image(t, archive(t, system(more...)...))
	failures := make(chan string, 16)
	for range 16 {
		go func() {
			out, messages, code := u.do(t, "exec", i, "sh", "-c", "ls /opt/many | wc -l")
			if out != "200\n" || code != 0 {
				failures <- fmt.Sprintf("%q, %d, %s", out, code, messages)
				return
			}
			failures <- ""
		}()
	}
	for range 16 {
		if f := <-failures; f != "" {
			t.Error(f)
		}
	}
	if left, err := filepath.Glob(u.home + "/cache/tmp/*"); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
}
