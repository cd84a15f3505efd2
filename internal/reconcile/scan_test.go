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

// A page that is begun at the last moment may take as long as a PSP has for an answer, and then its records are
// resolved.
func TestScanHasTimeForItsLastPage(t *testing.T) {
	t.Parallel()
	if got := (&scanLedger{}).Timeout(nil); got < scanReads+2*8*time.Second {
		t.Fatalf("a run that reads for %s has %s", scanReads, got)
	}
}

// A dead run stands in the way of the next one. With a time of its own that is longer, the rescuer would leave it there
// for as long.
func TestScanThatDiedIsTakenForDeadAsSoonAsAnyOtherJob(t *testing.T) {
	t.Parallel()
	if got := (&scanLedger{}).Timeout(nil); got >= rescueAfter {
		t.Fatalf("a scan has %s, and jobs are rescued after %s", got, rescueAfter)
	}
}
