package caller

import (
	"strconv"
	"strings"
)

// Changed is the subject on which the platform publishes whose credentials may be
// others from now on, or none: a Change, as text.
const Changed = "platform.changed"

// Change names whose credentials may have changed: those of a user, or those of
// everybody in a workspace.
type Change struct {
	// UserID is 0 for a workspace's.
	UserID int64
	// WorkspaceID is 0 for a user's.
	WorkspaceID int64
}

// String is the change as it is published, e.g. "user 7" or "workspace 12".
func (c Change) String() string {
	if c.WorkspaceID != 0 {
		return "workspace " + strconv.FormatInt(c.WorkspaceID, 10)
	}
	return "user " + strconv.FormatInt(c.UserID, 10)
}

// parseChange reads what String wrote; the zero value for anything else.
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

// Forget drops the logins that a Change may concern. An answer that is under way is
// not remembered: it may be from before. Who misses a change believes the old
// login for a minute.
func (k *Keychain) Forget(change string) {
	c := parseChange(change)
	k.changes.Add(1)
	for key := range k.known.Keys() {
		if c.UserID != 0 && key.caller.UserID == c.UserID || c.WorkspaceID != 0 && key.caller.WorkspaceID == c.WorkspaceID {
			k.known.Invalidate(key)
		}
	}
}
