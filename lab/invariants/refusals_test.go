package invariants

import (
	"testing"
	"time"
)

// What others have moved bounds our refunds from when it is known.
func TestRefundThatWasBegunBeyondWhatIsLeftIsFound(t *testing.T) {
	t.Parallel()
	late := outsideLag + time.Second
	for name, row := range map[string]struct {
		change func(*returned)
		found  int
	}{
		"within what is left":         {func(r *returned) { r.refund("rf_2", 40, late, late) }, 0},
		"beyond it":                   {func(r *returned) { r.refund("rf_2", 41, late, late) }, 1},
		"beyond it, when nobody knew": {func(r *returned) { r.refund("rf_2", 100, -late, late) }, 0},
		"beyond it, at the same time": {func(r *returned) { r.refund("rf_2", 100, time.Second, late) }, 0},
		"within it, and another was done": {func(r *returned) {
			r.refund("rf_2", 40, 0, 0).refund("rf_3", 1, late, late)
		}, 1},
		"within it, with another under way": {func(r *returned) {
			r.refund("rf_2", 40, 0, late).refund("rf_3", 40, late, late)
		}, 0},
		"a dispute was won since": {func(r *returned) {
			r.books.outside[1].Status = "won"
			r.refund("rf_2", 60, late, late)
		}, 0},
		"nothing was moved outside": {func(r *returned) {
			r.books.outside = nil
			r.refund("rf_2", 100, late, late)
		}, 0},
	} {
		r := returnedByOthers()
		row.change(r)
		if found := r.world().begunBeyond(); len(found) != row.found {
			t.Errorf("%s: %v", name, found)
		}
	}
}
