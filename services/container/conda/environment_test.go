package conda

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChannelsOfEnvironment: the request's come behind the file's, the defaults where
// neither has any.
func TestChannelsOfEnvironment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		asked    []string
		want     []string
	}{
		{"its own", "channels: [a, b]\ndependencies: [x]\n", nil, []string{"a", "b"}},
		{"none", "dependencies: [x]\n", nil, []string{"conda-forge", "bioconda"}},
		{"the request's", "dependencies: [x]\n", []string{"c"}, []string{"c"}},
		{"both", "channels: [a, b]\ndependencies: [x]\n", []string{"c", "a"}, []string{"a", "b", "c"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e, err := readEnvironment("condaFile", tc.in, tc.asked)
			if err != nil {
				t.Fatal(err)
			}
			back, err := readEnvironment("condaFile", e.Text(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([][]string{tc.want, tc.want}, [][]string{e.Channels, back.Channels}); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
