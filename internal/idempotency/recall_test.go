package idempotency

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatIsReadDurablyIsWhatIsThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.keys.FindDurably(t.Context(), b.ref); !errors.Is(err, ErrNoKey) {
		t.Errorf("a key without a row: %v", err)
	}
	if d, err := b.keys.PeekDurably(t.Context(), b.reservation()); err != nil || d != nil {
		t.Errorf("a key without a row peeks as %T, %v", d, err)
	}
	b.complete(b.own(), answer("first"))
	found, err := b.keys.FindDurably(t.Context(), b.ref)
	if diff := cmp.Diff(b.row(), found, cmp.Comparer(sameKey)); err != nil || diff != "" {
		t.Errorf("%v (-found +found durably):\n%s", err, diff)
	}
}
