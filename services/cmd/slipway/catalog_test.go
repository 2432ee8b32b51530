package main

import "testing"

// TestCatalog checks the query and the table of kept images, and the citation of one.
func TestCatalog(t *testing.T) {
	t.Parallel()
	const call = "GET /v1alpha1/catalog"
	for _, s := range []sight{
		{
			name: "a table", args: []string{"catalog", "samt", "bwa"},
			ex: exchange{call: call + "?q=samt+bwa", answer: `{"images":[{"id":"3f9a0c12ab34cd56","targetImage":"h/c/3f9a0c12ab34cd56/samtools:1.20","pulls":12,
				"packages":[{"name":"samtools","version":"1.20"},{"name":"bwa","version":"1"}]}],"nextPageToken":"n"}`},
			out:  "ID                PACKAGES              KEPT  PULLS  IMAGE\n3f9a0c12ab34cd56  samtools 1.20, bwa 1        12     h/c/3f9a0c12ab34cd56/samtools:1.20\n",
			errs: []string{"--page n"},
		},
		{
			name: "all options", args: []string{"catalog", "--package", "htslib=1.20", "--license", "GPL", "--sort", "pulls", "--max", "5", "--page", "p", "-o", "name"},
			ex: exchange{call: call + "?license=GPL&max=5&package=htslib&pageToken=p&sort=pulls&version=1.20", answer: `{"images":[{"id":"aa"}]}`}, out: "aa\n",
		},
		{name: "none", args: []string{"catalog"}, ex: exchange{call: call, answer: `{}`}, errs: []string{"No image was found"}},
		{name: "a refusal", args: []string{"catalog", "--sort", "size"}, ex: exchange{call: call + "?sort=size", status: 400, answer: `{"message":"sort must be newest"}`}, code: 1, errs: []string{"reading the catalog: sort must be newest"}},
		{
			name: "a citation", args: []string{"catalog", "cite", "h.example:5000/c/3f9a0c12ab34cd56/samtools:1.20", "--format", "cff"},
			ex: exchange{call: call + "/3f9a0c12ab34cd56/citation?format=cff", answer: "cff-version: 1.2.0\n"}, out: "cff-version: 1.2.0\n",
		},
		{name: "a citation by id", args: []string{"catalog", "cite", "3f9a0c12ab34cd56"}, ex: exchange{call: call + "/3f9a0c12ab34cd56/citation?format=bibtex", answer: "@misc{x}\n"}, out: "@misc{x}\n"},
		{name: "no id", args: []string{"catalog", "cite", "samtools"}, code: 2, errs: []string{"neither the id nor the name"}},
	} {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
}
