// Package golden compares what a test makes with a file of its package. If the test has the flag -update, the file is
// written instead, so that a change of it is read as a diff. It knows nothing of what is compared.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files of this package") //nolint:gochecknoglobals // a flag

// File compares a text with a file that is made of it. With -update, it writes the file.
func File(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-file +now); -update rewrites it:\n%s", path, diff)
	}
}
