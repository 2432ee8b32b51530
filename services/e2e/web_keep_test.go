package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"testing"
)

// TestWebPageKeepsForAnOrganisation keeps two images for an organisation, and finds them in its catalogue, one page after the
// other. The public catalogue must not show them.
func TestWebPageKeepsForAnOrganisation(t *testing.T) {
	t.Parallel()
	browser := newChromium(t)
	plain, s, _ := webSettings(t)
	p := oneProcess(t, common(t, plain, s))
	p.newOrganisation(t, "lab")
	to, err := url.Parse(p.url)
	if err != nil {
		t.Fatal(err)
	}
	b := openTab(t, browser, p.url+"/login")
	b.signIn(adminToken)
	for _, packages := range []string{"samtools", "sambamba"} {
		b.visit(p.url + "/?p=" + packages)
		b.await("document.querySelector('#get:enabled')")
		b.eval(webSubmit + ".click()")
		b.await(keepIt + ` && document.querySelectorAll("#organization option").length === 2`)
		b.selectOption("organization", "lab")
		b.await(`document.querySelector(".keep .note").innerText.includes("The name is a secret of the organisation")`)
		b.good("choice of an organisation", p.url)
		b.eval(keepIt + ".click()")
		b.await(`document.querySelector(".result h2")?.innerText === "Your image is kept"`)
		b.await(webReady)
		if name := b.text(webName); !regexp.MustCompile(`/c/org-[a-z2-7]{26}/`).MatchString(name) {
			t.Errorf("the name is %s", name)
		}
	}

	rest := httputil.NewSingleHostReverseProxy(to)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1alpha1/catalog" { // pages of one image
			q := r.URL.Query()
			q.Set("max", "1")
			r.URL.RawQuery = q.Encode()
		}
		rest.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	const found = `[...document.querySelectorAll(".rows .what > a")].map((a) => a.innerText).join()`
	b = openTab(t, browser, front.URL+"/login")
	b.signIn(adminToken)
	b.visit(front.URL + "/c")
	b.await(`document.querySelector(".result h2")?.innerText === "Nothing is kept here yet"`)
	b.await(`document.querySelectorAll("#organization option").length === 2`)
	b.selectOption("organization", "lab")
	b.await(`location.search.startsWith("?workspaceId=") && ` + found + ` === "sambamba"`)
	b.good("catalogue of an organisation", front.URL)
	b.eval(button("Show more") + ".click()")
	b.await(found + ` === "sambamba,samtools" && !(` + button("Show more") + `)`)
	b.reload()
	b.await(found + ` === "sambamba,samtools"`)
	b.eval(`document.querySelectorAll(".rows .what > a")[1].click()`)
	b.await(`document.title.startsWith("samtools ")`)
	b.await(`document.querySelector(".copied.large code")?.innerText.includes("/c/org-")`)
	b.eval("history.back()")
	b.await(found + ` === "sambamba,samtools"`)
	other := openTab(t, browser, p.url+"/c"+b.text("location.search"))
	other.await(fmt.Sprintf(`document.querySelector(".failed .why")?.innerText.includes(%q)`, "access token"))
}

// selectOption selects the option of a list with a title.
func (b *tab) selectOption(id, title string) {
	b.t.Helper()
	b.eval(fmt.Sprintf(`(() => {
		const list = document.getElementById(%q);
		list.value = [...list.options].find((o) => o.innerText === %q).value;
		list.dispatchEvent(new Event("change", { bubbles: true }));
	})()`, id, title))
}
