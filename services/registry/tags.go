package registry

import (
	"encoding/json"
	"net/http"
	"strconv"

	"slipway.dev/services/internal/oci"
)

// tags returns the one tag that the name is for; none for a digest.
func (s *Registry) tags(w http.ResponseWriter, r *http.Request, tok *resolvedToken) error {
	list := []string{}
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if oci.IsTag(tok.ref) && (err != nil || n > 0) && tok.ref > r.URL.Query().Get("last") {
		list = append(list, tok.ref)
	}
	body, err := json.Marshal(struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{"wt/" + tok.token + "/" + tok.name, list})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, "application/json", body)
	return nil
}
