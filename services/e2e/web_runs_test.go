package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"
)

// folder is the work folder of tasks, whose name must be quoted in commands.
const folder = "/data/it's `id` $(id)/" + probe

// reportLong reports a run of many tasks, one of which failed; tell has further members of the run's last report. No
// task reports its memory.
func (p *program) reportLong(name string, failed bool, tell map[string]any) (watch string) {
	p.t.Helper()
	n := &plugin{t: p.t, p: p}
	made := n.ok(http.MethodPost, "/trace/create", map[string]any{"sessionId": "s-" + name, "runName": name, "projectName": "nf-core/rnaseq"})
	id := text(made, "workflowId")
	var told map[string]any
	if err := json.Unmarshal([]byte("{"+traceWorkflow+"}"), &told); err != nil {
		p.t.Fatal(err)
	}
	told["runName"] = name
	told["params"] = map[string]any{"outdir": probe, "email": nil, "max_cpus": 16, "genomes": map[string]any{"GRCh38": map[string]any{"fasta": "genome.fa"}}}
	const all = "NFCORE:RNASEQ:"
	names := []string{all + "QC:FASTQC", all + "TRIM:FASTQC", all + "ALIGN:STAR_ALIGN", all + "MULTIQC"}
	n.ok(http.MethodPut, "/trace/"+id+"/begin", map[string]any{"workflow": told, "processNames": names})
	var tasks []map[string]any
	for i := range 600 {
		process := names[i%3]
		tasks = append(tasks, map[string]any{
			"taskId": i + 1, "hash": fmt.Sprintf("%02x/%06x", i%256, i), "process": process, "name": fmt.Sprintf("%s (S%d)", process, i), "status": "COMPLETED", "exit": 0,
			"submit": "2026-01-31T12:00:00Z", "start": "2026-01-31T12:00:01Z", "complete": "2026-01-31T12:10:01Z", "realtime": 600_000, "cpus": 2, "pcpu": 150, "attempt": 1, "workdir": folder, "script": "true",
		})
	}
	if failed {
		tasks[299]["status"], tasks[299]["exit"], tasks[299]["errorAction"] = "FAILED", 137, "TERMINATE"
	}
	n.ok(http.MethodPut, "/trace/"+id+"/progress", map[string]any{"tasks": tasks})
	told["complete"], told["duration"] = "2026-01-31T12:20:00Z", 1_200_000
	for name, value := range tell {
		told[name] = value
	}
	n.ok(http.MethodPut, "/trace/"+id+"/complete", map[string]any{"workflow": told})
	return text(made, "watchUrl")
}

// TestWebPageOfAFailedRun reads a failed run: what failed is visible without a search, and filters are in the address.
func TestWebPageOfAFailedRun(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	eachShape(t, nil, nil, func(t *testing.T, p *program) {
		report := "Error executing process > 'X'\n\nCaused by:\n  It ended with 137 " + probe + "\n\nCommand error:\n  out of memory\n\nWork dir:\n  /work"
		watch := p.reportLong("grumpy_wing", true, map[string]any{"success": false, "errorMessage": "It ended", "errorReport": report})
		late := p.reportLong("late_wing", false, map[string]any{"success": false})
		b := openTab(t, browser, p.url+"/view/runs")
		b.signIn(adminToken)
		b.await(`document.querySelectorAll(".runs li").length === 2`)
		b.showsFailure(".runs li .tally")
		b.areAligned(".runs .tally")
		if text := b.text(`document.querySelector(".runs li:last-child").innerText`); !strings.Contains(text, "Failed") || !strings.Contains(text, "599 of 600 tasks") || !strings.Contains(text, "took 20 min") {
			t.Errorf("the list shows %q", text)
		}
		b.eval(button("Succeeded") + ".focus()")
		b.press(kb.Enter)
		b.await(`document.querySelector(".empty")?.innerText === "No run matches." && location.search === "?status=SUCCEEDED"`)
		b.eval("history.back()")
		b.await(`document.querySelectorAll(".runs li").length === 2 && location.search === ""`)

		b.visit(watch)
		b.await(`document.querySelectorAll(".tasks li").length === 50 && document.querySelectorAll(".plot").length === 4`)
		b.showsFailure(".run .tally")
		b.alignsProcesses()
		if why := b.text(`document.querySelector(".failed").innerText`); !strings.Contains(why, "It ended with 137 <img") || !strings.Contains(why, "out of memory") || strings.Contains(why, "Work dir") {
			t.Errorf("the reason is %q", why)
		}
		b.filters()
		b.opensTask()
		b.showsLaunch()
		b.good("failed run", p.url)
		b.harmless()

		b.visit(late)
		b.await(`document.querySelector(".failed")?.innerText.includes("no reason")`)
		b.showsFailure(".run .tally")
		b.good("run that failed without a task", p.url)
	})
}

// showsFailure checks that the bar of a failed run has a visible red part, however many tasks succeeded.
func (b *tab) showsFailure(bars string) {
	b.t.Helper()
	const parts = `[...document.querySelectorAll(%q)].map((bar) => [bar.getAttribute("aria-label"), ...[...bar.children].map((c) => [c.className, c.getBoundingClientRect().width])])`
	if got := b.text(fmt.Sprintf(`(`+parts+`).length > 0 && (`+parts+`).every(([label, ...all]) => all.every(([, width]) => width > 3.9))`, bars, bars)); got != "true" {
		b.t.Errorf("parts of bars are too small: %s", b.text(fmt.Sprintf(`JSON.stringify(`+parts+`)`, bars)))
	}
	if got := b.text(fmt.Sprintf(`(`+parts+`).some(([, ...all]) => all.some(([name]) => name === "part-failed" || name === "end"))`, bars)); got != "true" {
		b.t.Errorf("no bar shows the failure: %s", b.text(fmt.Sprintf(`JSON.stringify(`+parts+`)`, bars)))
	}
}

// areAligned checks that bars begin and end at the same places.
func (b *tab) areAligned(bars string) {
	b.t.Helper()
	if got := b.text(fmt.Sprintf(`[...new Set([...document.querySelectorAll(%q)].map((x) => x.getBoundingClientRect()).map((r) => r.left + " to " + r.right))].join(", ")`, bars)); strings.Count(got, " to ") != 1 {
		b.t.Errorf("the bars %s are at %s", bars, got)
	}
}

// alignsProcesses checks the list of processes: their bars are in one column, names are shortened, and what failed is first.
func (b *tab) alignsProcesses() {
	b.t.Helper()
	b.areAligned(".processes .tally")
	const names = `[...document.querySelectorAll(".processes .name")].map((n) => [...n.childNodes].filter((c) => c.className !== "unseen").map((c) => c.textContent).join("")).join(" ")`
	if got, want := b.text(names), "STAR_ALIGN QC:FASTQC TRIM:FASTQC MULTIQC"; got != want {
		b.t.Errorf("the processes are %q, want %q", got, want)
	}
	if got := b.text(`[...document.querySelectorAll(".processes li button")].every((x) => x.title.startsWith("NFCORE:RNASEQ:") && x.textContent.includes(x.title))`); got != "true" {
		b.t.Error("the full names of processes are not there")
	}
}

// filters filters the tasks of reportLong by state and process, with the keyboard, the address, a reload and Back.
func (b *tab) filters() {
	b.t.Helper()
	const first, count = `document.querySelector(".tasks li")?.innerText`, `document.querySelectorAll(".tasks li").length`
	b.await(first + `.replace("NFCORE:RNASEQ:ALIGN:\n", "").startsWith("Failed\nSTAR_ALIGN (S299)\nexit 137")`)
	b.eval(`document.querySelectorAll(".panes .pill")[1].focus()`)
	b.press(kb.Enter)
	b.await(`location.search === "?state=failed" && ` + count + ` === 1`)
	if chosen := b.text(`document.querySelector(".panes .pill[aria-pressed=true]").innerText`); chosen != "Failed 1" {
		b.t.Errorf("the filter is %q", chosen)
	}
	b.reload()
	b.await(`document.querySelector(".panes .pill[aria-pressed=true]")?.innerText === "Failed 1" && ` + count + ` === 1`)
	b.eval(`document.querySelectorAll(".processes li button")[1].focus()`)
	b.press(kb.Enter)
	b.await(`location.search === "?state=failed&process=` + url.QueryEscape("NFCORE:RNASEQ:QC:FASTQC") + `" && document.querySelector(".panes .empty")`)
	b.eval(`document.querySelectorAll(".panes .pill")[0].click()`)
	b.await(count + ` === 50 && document.querySelector(".panes .pill[aria-pressed=true]").innerText === "All 200"`)
	b.eval(`document.querySelector(".pager button:last-child").click()`)
	b.await(`location.search.includes("from=50") && document.querySelector(".pager [role=status]").innerText === "51–100 of 200"`)
	for range 3 {
		b.eval("history.back()")
	}
	b.await(`location.search === "?state=failed" && ` + first + `?.startsWith("Failed")`)
	b.put("#task", "no such task"+kb.Enter)
	b.await(`document.querySelector(".panes .empty")?.innerText === "No task matches."`)
	b.eval("history.back()")
	b.await(count + ` === 1 && document.querySelector("#task").value === ""`)
}

// opensTask opens the failed task. The command that reads its log must quote the folder.
func (b *tab) opensTask() {
	b.t.Helper()
	b.eval(`document.querySelector(".tasks summary").focus()`)
	b.press(kb.Enter)
	b.await(`document.querySelector(".task .facts")?.innerText.includes("137: killed, most often because memory ran out")`)
	if text := b.text(`document.querySelector(".task .copied code").innerText`); text != folder {
		b.t.Errorf("the work folder is %q", text)
	}
	command := b.text(`document.querySelectorAll(".task .copied code")[1].innerText`)
	argument, ok := strings.CutPrefix(command, "tail -n 100 ")
	out, err := exec.Command("sh", "-c", "printf %s "+argument).Output()
	if !ok || err != nil || string(out) != folder+"/.command.err" {
		b.t.Errorf("%q reads %q: %v", command, out, err)
	}
}

// showsLaunch checks the parameters, the command and the plots without values.
func (b *tab) showsLaunch() {
	b.t.Helper()
	const parameters = `document.querySelector(".parameters").innerText`
	if text := b.text(parameters); !strings.Contains(text, "<script>") || !strings.Contains(text, "1 parameter") || strings.Contains(text, "email") {
		b.t.Errorf("the parameters are %q", text)
	}
	b.eval(button("Show 1 that are not set") + ".click()")
	b.await(parameters + `.includes("email")`)
	const style = `getComputedStyle(document.querySelector("[aria-label=Command]")).whiteSpace`
	before := b.text(style)
	b.eval(`document.querySelector("[aria-label=Command]").closest(".block").querySelector("[aria-pressed]").click()`)
	b.await(style + ` === "pre"`)
	if before != "pre-wrap" {
		b.t.Errorf("the command's lines are %q at first", before)
	}
	if plots := b.text(`[...document.querySelectorAll(".plot")].map((p) => p.querySelector("strong").innerText + " " + (p.querySelector(".empty")?.innerText ?? p.querySelectorAll(".ticks span, .heights span").length)).join("; ")`); plots !=
		"Tasks at a time 3; Time 6; Processors 5; Memory No task has reported this." {
		b.t.Errorf("the plots are %s", plots)
	}
}
