package events

import "testing"

func FuzzParseID(f *testing.F) {
	f.Fuzz(func(t *testing.T, id string) {
		name, err := ParseID(id)
		if err == nil && IDOf(name) != id {
			t.Errorf("%q is read as %q", id, IDOf(name))
		}
	})
}
