package reconcile

import (
	"errors"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"payonce/internal/payments"
)

// A run that would begin where the last one did is not made at once: the two would chase each other.
func TestScanThatDoesNotGetOnWaits(t *testing.T) {
	t.Parallel()
	for progress, want := range map[payments.Progress]time.Duration{payments.GotOn: 0, payments.Stalled: stalledPause} {
		var snooze *river.JobSnoozeError
		if err := nextRun(progress); !errors.As(err, &snooze) || snooze.Duration != want {
			t.Errorf("%s: %v, want a pause of %s", progress, err, want)
		}
	}
	if err := nextRun(payments.ReachedEnd); err != nil || stalledPause < time.Second {
		t.Fatalf("at the end: %v; pauses for %s", err, stalledPause)
	}
}

// One page may take as long as the PSP has for an answer.
func TestScanHasTimeForItsPages(t *testing.T) {
	t.Parallel()
	if got := (&scanLedger{}).Timeout(nil); got < scanPages*8*time.Second {
		t.Fatalf("a run of %d pages has %s", scanPages, got)
	}
}

// A dead run stands in the way of the next one. With a time of its own that is longer, the rescuer would leave it there for as long.
func TestScanThatDiedIsTakenForDeadAsSoonAsAnyOtherJob(t *testing.T) {
	t.Parallel()
	if got := (&scanLedger{}).Timeout(nil); got >= rescueAfter {
		t.Fatalf("a scan has %s, and jobs are rescued after %s", got, rescueAfter)
	}
}
