package registry

import (
	"encoding/json"
	"net/http"
	"strconv"

	"slipway.dev/services/internal/oci"
)

// tags lists the one tag of the image name, or none for a digest.
func (s *Registry) tags(w http.ResponseWriter, r *http.Request, tok *resolvedToken) error {
	list := []string{}
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if oci.IsTag(tok.ref) && (err != nil || n > 0) && tok.ref > r.URL.Query().Get("last") {
		list = append(list, tok.ref)
	}
	body, err := json.Marshal(struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{oci.IssuedName{Token: tok.token, Name: tok.name}.String(), list})
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, "application/json", body)
	return nil
}
