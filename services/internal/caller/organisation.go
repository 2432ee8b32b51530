package caller

import (
	"strings"

	platformv1 "slipway.dev/proto/gen/slipway/platform/v1"
)

// longest is the longest organisation in bytes, as of host names (RFC 1035).
const longest = 253

// Organisation is whom a user's work is counted for: the part of the e-mail
// address after "@", lower case. "" for an anonymous caller, or an address that
// has no such part.
func Organisation(id *platformv1.Identity) string {
	email := id.GetEmail()
	org := strings.ToLower(email[strings.LastIndexByte(email, '@')+1:])
	if org == strings.ToLower(email) || len(org) > longest {
		return ""
	}
	return org
}
