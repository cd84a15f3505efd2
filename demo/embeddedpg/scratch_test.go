package embeddedpg

import (
	"os"
	"slices"
	"testing"
)

//nolint:paralleltest // TMPDIR is the process's
func TestTMPDIRNamesThePlaceOfScratchClusters(t *testing.T) {
	named := t.TempDir()
	t.Setenv("TMPDIR", named)
	if got := ScratchDir(); got != named {
		t.Errorf("clusters go to %s, want %s", got, named)
	}
	t.Setenv("TMPDIR", "")
	want := os.TempDir()
	if memoryHasRoom() {
		want = memory
	}
	if got := ScratchDir(); got != want || !slices.Contains(ScratchDirs(), got) {
		t.Errorf("clusters go to %s, want %s, of %s", got, want, ScratchDirs())
	}
}
