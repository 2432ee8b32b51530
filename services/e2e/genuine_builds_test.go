package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"slipway.dev/services/internal/testkit"
)

// TestGenuineNextflowTeam runs the pipeline of a team with an account: module Dockerfiles are
// built, private images are pulled with the login of a workspace, and the run is monitored in
// the workspace.
func TestGenuineNextflowTeam(t *testing.T) {
	genuine(t)
	needClients(t)
	needBuilds(t)
	private := testkit.NewRegistry(t, testkit.Basic)
	l := newLaboratory(t, []string{private.Host}, settings{"runc_path": ""})
	secret := private.Push(t, "team/tool:1", with(t, withPs(t, debian(t)), map[string]string{"private.txt": "of the team"}))
	tw := newDesk(t, "TOWER_ACCESS_TOKEN="+adminToken, "TOWER_API_ENDPOINT="+l.platform)
	tw.must(t, []string{"was added"}, "tw", "--insecure", "organizations", "add", "-n", "acme", "-f", "Acme")
	tw.must(t, []string{"added"}, "tw", "--insecure", "workspaces", "add", "-o", "acme", "-n", "lab", "-f", "Lab", "--visibility", "PRIVATE")
	tw.must(t, []string{"New CONTAINER_REG credentials"}, "tw", "--insecure", "credentials", "add", "container-reg",
		"-n", "team", "-u", testkit.User, "-p", testkit.Password, "-r", private.Host, "-w", "acme/lab")
	var listed struct {
		Workspaces []struct {
			WorkspaceID   int64
			WorkspaceName string
		}
	}
	printed := tw.must(t, nil, "tw", "--insecure", "-o", "json", "workspaces", "list")
	if err := json.Unmarshal([]byte(printed), &listed); err != nil {
		t.Fatalf("%v: %s", err, printed)
	}
	workspace := ""
	for _, w := range listed.Workspaces {
		if w.WorkspaceName == "lab" {
			workspace = fmt.Sprint(w.WorkspaceID)
		}
	}
	docker := startDocker(t)
	for _, version := range nextflows {
		t.Run(version, func(t *testing.T) {
			w, nextflow := newDesk(t, "DOCKER_HOST="+docker.socket()), "nextflow-"+version
			w.write(t, "made/main.nf", "process MODULE { debug true; script: 'echo \"module: $(cat /made.txt)\"' }\n")
			w.write(t, "made/Dockerfile", "FROM "+l.base+"\nRUN echo of the Dockerfile "+version+" > /made.txt\n")
			w.write(t, "main.nf", `
include { MODULE } from './made'
process PRIVATE { container '`+secret+`'; debug true; script: 'echo "private: $(cat /private.txt)"' }
process STRING { conda 'bioconda::samtools=1.20'; debug true; script: 'echo "string: $(samtools)"' }
workflow { MODULE(); PRIVATE(); STRING() }
`)
			account := "tower { endpoint = '" + l.platform + "'; accessToken = '" + adminToken + "'; %s }"
			config := func(more string) string {
				return strings.ReplaceAll(waveConfig(l.program, fmt.Sprintf(account, more)), "['conda'", "['dockerfile', 'conda'")
			}
			w.write(t, "nextflow.config", config("enabled = true; workspaceId = '"+workspace+"'"))
			name := "team_" + strings.ReplaceAll(version, ".", "_")
			w.must(t, []string{"module: of the Dockerfile " + version, "private: of the team", "string: samtools 1.20", "Monitor the execution"},
				nextflow, "run", "main.nf", "-name", name)

			w.write(t, "own.config", config("")) // without the workspace there is no login for the registry
			w.fails(t, []string{"[400]", secret + " may not be read with the credentials of this request"}, nextflow, "-C", "own.config", "run", "main.nf")

			w.write(t, "broken/main.nf", "process BROKEN { script: 'true' }\n")
			w.write(t, "broken/Dockerfile", "FROM "+l.base+"\nRUN echo does not compile; exit 3\n")
			w.write(t, "failing.nf", "include { BROKEN } from './broken'\nworkflow { BROKEN() }\n")
			w.fails(t, []string{"did not complete successfully", "RUN echo does not compile; exit 3 failed with exit code 3: does not compile", "/view/"}, nextflow, "run", "failing.nf")

			runs := tw.must(t, []string{name, "SUCCEEDED", "FAILED"}, "tw", "--insecure", "runs", "list", "-w", "acme/lab")
			id := regexp.MustCompile(`(\S+)\s*\|[^\n]*` + name).FindStringSubmatch(runs)
			if id == nil {
				t.Fatalf("the list of runs has no %s:\n%s", name, runs)
			}
			tw.must(t, []string{name, "SUCCEEDED"}, "tw", "--insecure", "runs", "view", "-w", "acme/lab", "-i", id[1])
			tw.must(t, []string{"MODULE", "PRIVATE", "STRING", "COMPLETED"}, "tw", "--insecure", "runs", "view", "-w", "acme/lab", "-i", id[1], "tasks")
			tw.must(t, []string{"Resolved Configuration", "nextflow run main.nf -name " + name, "Succeeded | 3", "MODULE  | 1/1", "Wall Time", "Cores", "Efficiency"}, "tw", "--insecure", "runs", "view", "-w", "acme/lab", "-i", id[1],
				"--config", "--command", "--status", "--processes", "--stats", "--load", "--utilization")
			tw.must(t, []string{"Task details"}, "tw", "--insecure", "runs", "dump", "-w", "acme/lab", "-i", id[1], "-o", version+".tar.gz")
			tw.must(t, []string{"deleted at [acme / lab] workspace"}, "tw", "--insecure", "runs", "delete", "-w", "acme/lab", "-i", id[1])
			tw.fails(t, []string{"No such run"}, "tw", "--insecure", "runs", "view", "-w", "acme/lab", "-i", id[1])
		})
	}
}

// TestGenuineWaveBuilds builds Dockerfiles and Singularity images with wave-cli, using logins
// that tower-cli has stored.
func TestGenuineWaveBuilds(t *testing.T) {
	genuine(t)
	needClients(t)
	needBuilds(t)
	own := testkit.NewRegistry(t, testkit.Basic)
	l := newLaboratory(t, []string{own.Host}, settings{"runc_path": ""})
	secret := own.Push(t, "team/tool:1", testkit.Image(t, "amd64", true))
	w := newDesk(t, "TOWER_ACCESS_TOKEN="+adminToken, "TOWER_API_ENDPOINT="+l.platform)
	w.must(t, []string{"New CONTAINER_REG credentials"}, "tw", "--insecure", "credentials", "add", "container-reg",
		"-n", "own", "-u", testkit.User, "-p", testkit.Password, "-r", own.Host)
	w.env = slices.DeleteFunc(w.env, func(v string) bool { return strings.HasPrefix(v, "TOWER_ACCESS_TOKEN=") })
	w.write(t, "Dockerfile", "FROM "+l.base+"\nCOPY note /note\nRUN cat /note > /made\n")
	w.write(t, "context/note", "of the context")
	w.write(t, "broken/Dockerfile", "FROM "+l.base+"\nRUN echo does not compile; exit 3\n")
	account := []string{"--tower-token", adminToken}
	wave := func(args ...string) []string { return append([]string{"--wave-endpoint", l.url}, args...) }
	printed := w.must(t, []string{l.host + "/wt/"}, "wave", wave("-f", "Dockerfile", "--context", "context", "--await")...)
	if got := files(t, pull(t, strings.TrimSpace(printed), "amd64"))["made"]; got != "of the context" {
		t.Errorf("the image has %q", got)
	}
	w.fails(t, []string{"RUN echo does not compile; exit 3 failed with exit code 3: does not compile", "/view/builds/"}, "wave", wave("-f", "broken/Dockerfile", "--await")...)
	w.must(t, []string{own.Host + "/team/frozen:"}, "wave", wave(append(account, "-f", "Dockerfile", "--context", "context", "--freeze", "--build-repo", own.Host+"/team/frozen", "--await")...)...)
	w.must(t, []string{own.Host + "/team/frozen:samtools-1.20--"}, "wave", wave(append(account, "--conda-package", "bioconda::samtools=1.20", "--freeze", "--build-repo", own.Host+"/team/frozen", "--await")...)...)
	w.must(t, []string{"oras://" + own.Host + "/team/sif:samtools-1.20--"}, "wave", wave(append(account, "--conda-package", "bioconda::samtools=1.20", "--singularity", "--freeze", "--build-repo", own.Host+"/team/sif", "--await")...)...)
	w.must(t, []string{l.host + "/wt/"}, "wave", wave(append(account, "-i", secret)...)...)
	w.fails(t, []string{"[400]", secret + " may not be read with the credentials of this request"}, "wave", wave("-i", secret)...)
}

// newOrdinaryDesk returns the desk of an unprivileged user.
func newOrdinaryDesk(t testing.TB, env ...string) desk {
	t.Helper()
	dir := ordinaryFolder(t)
	return desk{clients: genuine(t), dir: dir, as: &syscall.Credential{Uid: nobodyID, Gid: nobodyID}, env: append([]string{
		"PATH=" + filepath.Join(genuine(t), "bin") + ":" + os.Getenv("PATH"), "HOME=" + dir, "NXF_HOME=" + dir + "/.nextflow-home", "TMPDIR=" + dir, "USER=nobody",
	}, env...)}
}

// ordinaryFolder returns a temporary folder that an unprivileged user owns.
func ordinaryFolder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chown(dir, nobodyID, nobodyID)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// allowFuse lets unprivileged users mount Singularity images until the test ends.
func allowFuse(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(genuine(t), "bin", "apptainer")); err != nil {
		t.Fatalf("SLIPWAY_TEST_CLIENTS: %v", err)
	}
	info, err := os.Stat("/dev/fuse")
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o666 { // the default of all distributions
		if err := os.Chmod("/dev/fuse", 0o666); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod("/dev/fuse", info.Mode().Perm()) })
	}
}

// TestGenuineApptainer runs a pipeline as an unprivileged user with Apptainer. The server
// builds the Singularity images of wave.freeze, and Apptainer pulls their oras:// names.
func TestGenuineApptainer(t *testing.T) {
	genuine(t)
	needClients(t)
	allowFuse(t)
	own := testkit.NewRegistry(t, testkit.Basic)
	l := newLaboratory(t, []string{own.Host}, nil)
	tw := newDesk(t, "TOWER_ACCESS_TOKEN="+adminToken, "TOWER_API_ENDPOINT="+l.platform)
	tw.must(t, []string{"New CONTAINER_REG credentials"}, "tw", "--insecure", "credentials", "add", "container-reg",
		"-n", "own", "-u", testkit.User, "-p", testkit.Password, "-r", own.Host)
	for _, version := range nextflows {
		t.Run(version, func(t *testing.T) {
			w := newOrdinaryDesk(t, "APPTAINER_DOCKER_USERNAME="+testkit.User, "APPTAINER_DOCKER_PASSWORD="+testkit.Password)
			w.env = append(w.env, "APPTAINER_CACHEDIR="+w.dir+"/images")
			w.write(t, "main.nf", `
process STRING { conda 'bioconda::samtools=1.20'; debug true; script: 'echo "string: $(samtools)"' }
process IMAGE { container '`+l.base+`'; debug true; script: 'echo "image: $(cat /etc/debian_version)"' }
workflow { STRING(); IMAGE() }
`)
			w.write(t, "nextflow.config", strings.ReplaceAll(waveConfig(l.program, "wave.freeze = true", "wave.build.repository = '"+own.Host+"/sif/"+version+"'",
				"tower { endpoint = '"+l.platform+"'; accessToken = '"+adminToken+"' }"), "docker { enabled = true; runOptions = '--network host' }", "apptainer { enabled = true; envWhitelist = 'APPTAINER_DOCKER_USERNAME,APPTAINER_DOCKER_PASSWORD,APPTAINER_CACHEDIR' }"))
			w.must(t, []string{"string: samtools 1.20", "image: 12"}, "nextflow-"+version, "run", "main.nf")
			images, err := filepath.Glob(filepath.Join(w.dir, "images", "cache", "oras", "*"))
			if err != nil || len(images) != 2 {
				t.Fatalf("Apptainer has stored %v, %v", images, err)
			}
			w.must(t, []string{"org.label-schema"}, "apptainer", "inspect", images[0])
		})
	}
}

// TestGenuineNewUser follows the README: the server runs as an unprivileged user, without
// BuildKit and Docker Hub, and Nextflow uses the documented four lines of configuration.
func TestGenuineNewUser(t *testing.T) {
	genuine(t)
	needClients(t)
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(readme), "```groovy\n")
	config, _, _ = strings.Cut(config, "```")
	if strings.Count(config, "\n") != 4 || !strings.Contains(config, "'http://localhost:9090'") {
		t.Fatalf("README's nextflow.config is\n%s", config)
	}
	dir := ordinaryFolder(t)
	if err := os.Chmod(binaries, 0o755); err != nil {
		t.Fatal(err)
	}
	port := testkit.FreePort(t)
	l := newLaboratory(t, nil, settings{
		ordinaryUser: "yes", "data_dir": dir, "admin_token_file": "", "runc_path": "", "PATH": dir,
		"http_addr": "127.0.0.1:" + port, "public_url": "http://localhost:" + port,
	})
	l.url, l.host = "http://localhost:"+port, "localhost:"+port
	raw, err := os.ReadFile(filepath.Join(dir, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(raw))
	w := newDesk(t, "DOCKER_HOST="+startDocker(t).socket())
	w.write(t, "main.nf", "process SAMTOOLS { conda 'bioconda::samtools=1.20'; debug true; script: 'samtools' }\nworkflow { SAMTOOLS() }\n")
	w.write(t, "nextflow.config", strings.ReplaceAll(config, "http://localhost:9090", l.url))
	show := func(wants []string, program string, args ...string) {
		t.Logf("$ %s %s\n%s", program, strings.Join(args, " "), w.must(t, wants, program, args...))
	}
	show([]string{"samtools 1.20"}, "nextflow-"+nextflows[0], "run", "main.nf")
	w.env = append(w.env, "TOWER_ACCESS_TOKEN="+token, "TOWER_API_ENDPOINT="+l.url+"/api")
	show([]string{"Authenticated user", "admin"}, "tw", "--insecure", "info")
	show([]string{"No pipeline runs found"}, "tw", "--insecure", "runs", "list")
	show([]string{"No credentials found"}, "tw", "--insecure", "credentials", "list")
}
