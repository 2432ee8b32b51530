package oci

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// WriteError responds with an error of the distribution specification. The body is left out if
// withBody is false, for HEAD.
func WriteError(w http.ResponseWriter, status int, code, message string, withBody bool) {
	type entry struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	var raw bytes.Buffer
	out := json.NewEncoder(&raw)
	out.SetEscapeHTML(false)                                        // clients print messages as they are
	_ = out.Encode(map[string][]entry{"errors": {{code, message}}}) // strings always encode
	body := bytes.TrimSuffix(raw.Bytes(), []byte("\n"))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if withBody {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if withBody {
		_, _ = w.Write(body) // the client may have disconnected
	}
}
