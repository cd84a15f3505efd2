package rig

import "testing"

func TestChangeIsRefusedUnlessItsPlaceIsUnmistakable(t *testing.T) {
	t.Parallel()
	if got, err := withOneChange("a; old; b", "old", "new"); err != nil || got != "a; new; b" {
		t.Errorf("one place: %q, %v", got, err)
	}
	for _, source := range []string{"a; b", "old; old"} {
		if got, err := withOneChange(source, "old", "new"); err == nil {
			t.Errorf("%q was changed to %q", source, got)
		}
	}
}
