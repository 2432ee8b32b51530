package gateway

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The document of the first view contains its script. So the form works after one exchange with the server instead of two, which
// saves a second on a slow network. Scripts that are loaded later import the file of that script, as they do on other pages. An import
// map replaces it by a file with the exports of the script in the document, since two instances would not share their state.

// sharedFile is the name of that file.
const sharedFile = "shared.js"

// An inlineScript is a script that is part of a document.
type inlineScript struct {
	// head and end are the elements for the head and the end of the document.
	head, end string
	// sources are the elements in the form of a Content-Security-Policy.
	sources string
	// shared is the content of sharedFile.
	shared string
}

var (
	// onlyImport matches a script that does nothing but import another one.
	onlyImport = regexp.MustCompile(`^import"\./([\w.-]+)";\s*$`)
	// exports matches the end of a script.
	exports = regexp.MustCompile(`export\{([^{}]*)\};?\s*$`)
	// markup matches text that a browser would take for markup in a script of a document.
	markup = regexp.MustCompile(`(?i)<!--|</?script`)
)

// entry returns the script that the first script imports: app.js has no code of its own.
func entry(scripts map[string][]byte) (string, error) {
	m := onlyImport.FindSubmatch(scripts["app.js"])
	if m == nil || scripts[string(m[1])] == nil {
		return "", errors.New("app.js does not only import one script")
	}
	return string(m[1]), nil
}

// inline returns a script as a part of the document of /. base is the address of its folder, relative to that document.
func inline(name, text, base string) (inlineScript, error) {
	tail := exports.FindStringSubmatchIndex(text)
	if tail == nil || markup.MatchString(text) || needed.MatchString(text) {
		return inlineScript{}, fmt.Errorf("%s cannot be a part of a document", name)
	}
	var members, names []string
	for _, pair := range strings.Split(text[tail[2]:tail[3]], ",") {
		own, as, isPair := strings.Cut(pair, " as ")
		if !isPair {
			as = own
		}
		members, names = append(members, as+":"+own), append(names, as)
	}
	body := strings.ReplaceAll(text[:tail[0]], `import("./`, `import("`+base)
	body = strings.ReplaceAll(body, "import.meta.url", `new URL("`+base+name+`",document.baseURI).href`)
	body += "globalThis.slipwayShared={" + strings.Join(members, ",") + "};"
	imports := fmt.Sprintf(`{"imports":{%q:%q}}`, base+name, base+sharedFile)
	return inlineScript{
		head:    `<script type="importmap">` + imports + "</script>\n",
		end:     `<script type="module">` + body + "</script>\n",
		sources: policyHash(imports) + " " + policyHash(body),
		shared:  "export const{" + strings.Join(names, ",") + "}=globalThis.slipwayShared;\n",
	}, nil
}

// policyHash returns the source of a Content-Security-Policy that allows an element with a text.
func policyHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
