package main

import "testing"

// TestOutdated checks the query and the table of outdated images.
func TestOutdated(t *testing.T) {
	t.Parallel()
	const call = "GET /v1alpha1/images/outdated?below=3.0.14&package=openssl"
	for _, s := range []sight{
		{
			name: "a table", args: []string{"outdated", "openssl<3.0.14"}, env: map[string]string{"SLIPWAY_TOKEN": "tok"},
			ex:  exchange{call: call, auth: "Bearer tok", answer: `{"images":[{"requestId":"aa","containerImage":"r/b:1","packages":[{"version":"3.0.13","kind":"conda"},{"version":"3.0.1","kind":"pypi"}],"replacedBy":"bb"}],"unindexed":2,"nextPageToken":"n"}`},
			out: "ID  HAS                    CREATED  PATCHED  IMAGE\naa  3.0.13, 3.0.1 (wheel)           yes      r/b:1\n", errs: []string{"2 more images are not known yet", "--page n"},
		},
		{
			name: "all of a workspace", args: []string{"outdated", "openssl", "3.0.14", "--all", "--workspace", "7", "--max", "5", "--page", "p", "-o", "name"},
			ex: exchange{call: "GET /v1alpha1/images/outdated?all=true&below=3.0.14&max=5&package=openssl&pageToken=p&workspaceId=7", answer: `{"images":[{"requestId":"aa"}]}`}, out: "aa\n",
		},
		{name: "none", args: []string{"outdated", "openssl", "3.0.14"}, ex: exchange{call: call, answer: `{}`}, errs: []string{"No kept image"}},
		{name: "no version", args: []string{"outdated", "openssl"}, code: 2, errs: []string{"is not a package and a version"}},
		{name: "another operator", args: []string{"outdated", "openssl<=3"}, code: 2, errs: []string{"only < is supported"}},
		{name: "a refusal", args: []string{"outdated", "openssl", "3.0.14"}, ex: exchange{call: call, status: 401, answer: `{"message":"send your token"}`}, code: 1, errs: []string{"listing the images: send your token"}},
	} {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
}

// TestPatchOne checks the request and the result of a patch.
func TestPatchOne(t *testing.T) {
	t.Parallel()
	const call = "POST /v1alpha1/images/patch"
	const changes = `"changes":[{"platform":"linux/amd64","packages":[{"name":"openssl","change":"changed","old":{"version":"1","build":"h"},"new":{"version":"2"}},{"name":"new","change":"added","new":{"version":"1"}}]}]`
	for _, s := range []sight{
		{
			name: "a name", args: []string{"patch", "aa", "openssl=2", "--also", "new,old"},
			ex:  exchange{call: call, body: `{"image":"aa","packages":["openssl=2"],"also":["new","old"]}`, answer: `{"targetImage":"s/wt/t/b:1","succeeded":true,` + changes + `}`},
			out: "s/wt/t/b:1\n", errs: []string{"slipway: openssl 1 h 2 linux/amd64", "slipway: new none 1 linux/amd64"},
		},
		{
			name: "a dry run", args: []string{"patch", "aa", "openssl", "--dry-run", "--allow-changes"},
			ex:  exchange{call: call, body: `{"image":"aa","packages":["openssl"],"allowChanges":true,"dryRun":true}`, answer: "{" + changes + "}"},
			out: "PACKAGE  FROM  TO  PLATFORM\nopenssl  1 h   2   linux/amd64\nnew      none  1   linux/amd64\n",
		},
		{name: "a refusal", args: []string{"patch", "aa", "openssl"}, ex: exchange{call: call, body: `{"image":"aa","packages":["openssl"]}`, status: 409, answer: `{"message":"Other packages must change: a"}`}, code: 1, errs: []string{"patching the image: Other packages must change: a"}},
		{name: "no package", args: []string{"patch", "aa"}, code: 2, errs: []string{"an image and the packages"}},
		{name: "a wait for nothing", args: []string{"patch", "aa", "b", "--dry-run", "--await"}, code: 2, errs: []string{"--dry-run builds nothing"}},
		{name: "again without all", args: []string{"patch", "aa", "b", "--again"}, code: 2, errs: []string{"--again and --workspace are for --all"}},
		{name: "all without a version", args: []string{"patch", "--all", "b"}, code: 2, errs: []string{"is not a package and a version"}},
	} {
		t.Run(s.name, func(t *testing.T) { s.check(t) })
	}
}
