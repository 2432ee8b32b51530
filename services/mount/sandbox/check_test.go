package sandbox

import "testing"

// Each finding about something that is missing states what an administrator can do, and required ones also what is used without it.
func TestFindingsHaveAdvice(t *testing.T) {
	t.Parallel()
	all := Check()
	if len(all) < 5 {
		t.Errorf("only %d findings: %+v", len(all), all)
	}
	all = append(all, tried("mounts in the namespace", "operation not permitted"), clones("open_tree: function not implemented"), namespaces(ErrNamespace))
	for _, f := range all {
		if f.What == "" || !f.OK && (f.Detail == "" || f.Advice == "") || f.Required && !f.OK && f.Instead == "" || f.OK && f.Advice+f.Instead != "" {
			t.Errorf("%+v", f)
		}
	}
}

func TestMountBelow(t *testing.T) {
	t.Parallel()
	const list = "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 8:2 / /data rw - ext4 /dev/sdb rw\n3 1 8:3 / /data2 rw - ext4 /dev/sdc rw\n4 1 8:4 / /a\\040b/c\\134\\d rw - ext4 /dev/sdd rw\nbroken\n"
	for at, want := range map[string]string{"/": "/data", "/data": "", "/data2": "", "/dat": "", "/a b": `/a b/c\\d`, `/a b/c\\d`: "", "/x": ""} {
		if got := mountBelow([]byte(list), at); got != want {
			t.Errorf("%s: %q instead of %q", at, got, want)
		}
	}
}

func FuzzMountBelow(f *testing.F) {
	f.Add([]byte("1 0 8:1 / /a\\040b rw\n"), "/")
	f.Fuzz(func(t *testing.T, list []byte, at string) {
		if got := mountBelow(list, at); got != "" && (got == at || !isBelow(got, at)) {
			t.Errorf("%q is not below %q", got, at)
		}
	})
}
