package caller

import (
	"strconv"
	"strings"
)

// ChangedSubject is the subject on which the platform publishes changes of credentials, as
// the text form of a Change.
const ChangedSubject = "platform.changed"

// A Change identifies the credentials that may have changed: those of a user, or those of
// all members of a workspace.
type Change struct {
	// UserID is 0 for a change in a workspace.
	UserID int64
	// WorkspaceID is 0 for a change of a user.
	WorkspaceID int64
}

// String returns the change in its text form, e.g. "user 7" or "workspace 12".
func (c Change) String() string {
	if c.WorkspaceID != 0 {
		return "workspace " + strconv.FormatInt(c.WorkspaceID, 10)
	}
	return "user " + strconv.FormatInt(c.UserID, 10)
}

// parseChange parses the text form of a Change. It returns the zero value for invalid text.
func parseChange(s string) (c Change) {
	what, number, _ := strings.Cut(s, " ")
	id, err := strconv.ParseInt(number, 10, 64)
	switch {
	case err != nil:
	case what == "user":
		c.UserID = id
	case what == "workspace":
		c.WorkspaceID = id
	}
	return c
}

// Forget removes the cached logins that a change may concern. Logins that are being looked
// up are not cached, because they may be outdated. A process that misses the message uses
// an outdated login for up to a minute.
func (k *Keychain) Forget(change string) {
	c := parseChange(change)
	k.changes.Add(1)
	for key := range k.cache.Keys() {
		if c.UserID != 0 && key.caller.UserID == c.UserID || c.WorkspaceID != 0 && key.caller.WorkspaceID == c.WorkspaceID {
			k.cache.Delete(key)
		}
	}
}
