package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"slipway.dev/services/internal/testkit"
)

// TestDatabaseIsLostInTheMiddleOfWrites kills PostgreSQL during a stream of writes. All
// acknowledged writes must be stored, and no write may be stored partially.
func TestDatabaseIsLostInTheMiddleOfWrites(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("needs a server that can be killed")
	}
	p := processPerRole(t, common(t, nil, settings{"limit_platform": "0", "master_key_file": newMasterKey(t)}))
	user := []string{"Authorization", "Bearer " + p.token}
	call := func(method, path string, body any) reply {
		return request(t, method, p.platform+path, body, user...)
	}
	run := text(call(http.MethodPost, "/trace/create", map[string]any{"runName": "kept", "sessionId": "s"}).json(t), "workflowId")
	if r := call(http.MethodPut, "/trace/"+run+"/begin", map[string]any{"workflow": map[string]any{}}); r.status != http.StatusOK {
		t.Fatalf("starting a run: %d %s", r.status, r.body)
	}
	var stop atomic.Bool
	var mu sync.Mutex
	names, tasks := map[string]bool{}, map[int]bool{}
	refused := 0
	note := func(r reply, ok func()) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case r.status == http.StatusOK:
			ok()
		case r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "":
			refused++
		default:
			t.Errorf("a write got %d %s", r.status, r.body)
		}
	}
	var wg sync.WaitGroup
	for worker := range 3 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				name := fmt.Sprintf("kept-%d-%d", worker, i)
				note(call(http.MethodPost, "/credentials", map[string]any{"credentials": map[string]any{
					"name": name, "keys": map[string]any{"userName": "u", "password": "p", "registry": "quay.io/" + name},
				}}), func() { names[name] = true })
			}
		})
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := 1 + worker*100_000 + i*2
				note(call(http.MethodPut, "/trace/"+run+"/progress", map[string]any{"tasks": []any{
					map[string]any{"taskId": id, "status": "COMPLETED", "process": "p"}, map[string]any{"taskId": id + 1, "status": "COMPLETED", "process": "p"},
				}}), func() { tasks[id] = true })
			}
		})
	}
	count := func(of *int) error {
		mu.Lock()
		defer mu.Unlock()
		if len(names) < 20 || len(tasks) < 20 || *of < 5 {
			return fmt.Errorf("%d names, %d tasks, %d refused", len(names), len(tasks), refused)
		}
		return nil
	}
	enough := 5
	if err := within(time.Minute, func() error { return count(&enough) }); err != nil {
		t.Fatal(err)
	}
	p.postgres.Kill()
	if err := within(time.Minute, func() error { return count(&refused) }); err != nil {
		t.Errorf("without PostgreSQL: %v", err)
	}
	stop.Store(true)
	wg.Wait()
	if err := p.postgres.Start(); err != nil {
		t.Fatal(err)
	}
	var list reply
	if err := within(30*time.Second, func() error {
		if list = call(http.MethodGet, "/credentials", nil); list.status != http.StatusOK {
			return &unexpectedStatus{list.status}
		}
		return nil
	}); err != nil {
		t.Fatalf("with PostgreSQL again: %v", err)
	}
	for name := range names {
		if !strings.Contains(string(list.body), `"`+name+`"`) {
			t.Errorf("%s was stored, and is lost", name)
		}
	}
	checkTasks(t, call, run, tasks)
}

// checkTasks compares the acknowledged tasks, two for each call, with the stored and counted
// tasks.
func checkTasks(t testing.TB, call func(string, string, any) reply, run string, taken map[int]bool) {
	t.Helper()
	there := map[int]bool{}
	for offset := 0; ; offset += 100 {
		page, _ := call(http.MethodGet, fmt.Sprintf("/workflow/%s/tasks?max=100&offset=%d", run, offset), nil).json(t)["tasks"].([]any)
		if len(page) == 0 {
			break
		}
		for _, item := range page {
			task, _ := item.(map[string]any)["task"].(map[string]any)
			id, _ := task["taskId"].(float64)
			there[int(id)] = true
		}
	}
	for id := range taken {
		if !there[id] {
			t.Errorf("task %d was acknowledged, and is lost", id)
		}
	}
	for id := range there {
		if pair := id + 2*(id%2) - 1; !there[pair] {
			t.Errorf("task %d is stored without task %d of the same call", id, pair)
		}
	}
	progress, _ := call(http.MethodGet, "/workflow/"+run+"/progress", nil).json(t)["progress"].(map[string]any)
	load, _ := progress["workflowProgress"].(map[string]any)
	if counted, _ := load["succeeded"].(float64); int(counted) != len(there) {
		t.Errorf("%v tasks are counted, and %d are stored", counted, len(there))
	}
}

// TestNameExpiresWithRun checks that a name with a workflowId stays valid beyond token_ttl
// until the run ends.
func TestNameExpiresWithRun(t *testing.T) {
	t.Parallel()
	if !testkit.Real() {
		t.Skip("takes a minute, half the lifetime of a name")
	}
	up := testkit.NewRegistry(t, testkit.Open)
	image := up.Push(t, "lib/tool:1", testkit.Image(t, "amd64", true))
	p := oneProcess(t, common(t, []string{up.Host}, settings{"token_ttl": "2m"}))
	user := []string{"Authorization", "Bearer " + p.token}
	run := text(request(t, http.MethodPost, p.platform+"/trace/create", map[string]any{"runName": "long"}, user...).json(t), "workflowId")
	made := p.call(http.MethodPost, "/v1alpha2/container", map[string]any{"containerImage": image, "workflowId": run}, user...).json(t)
	path := "/v1alpha2/container/" + text(made, "requestId")
	if err := within(115*time.Second, func() error {
		if now := text(p.call(http.MethodGet, path, nil).json(t), "expiration"); now == text(made, "expiration") || now == "" {
			return fmt.Errorf("the name expires at %q", now)
		}
		return nil
	}); err != nil {
		t.Errorf("the name was not renewed: %v", err)
	}
}
