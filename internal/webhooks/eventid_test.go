package webhooks

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// names are PSPs: the default one, and others, whose names have no full stop.
func names() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(defaultPSP), rapid.StringMatching(`[a-z]{1,12}`))
}

// ids are what Verify of package native takes as an id: it refuses a full stop.
func ids() *rapid.Generator[string] { return rapid.StringMatching(`[!-\-/-~]{1,255}`) }

func TestStoredEventSaysWhichPSPHasSentIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		psp, id := names().Draw(t, "PSP"), ids().Draw(t, "id")
		if psp != defaultPSP { // others may have full stops in their ids
			id += rapid.SampledFrom([]string{"", ".", ".g2", "..x", ".native"}).Draw(t, "end")
		}
		stored := EventID(psp, id)
		if of := PSPOf(stored); of != psp {
			t.Fatalf("the event %q of %s is stored as %q, which is one of %s", id, psp, stored, of)
		}
		if !strings.HasSuffix(stored, id) {
			t.Fatalf("the event %q of %s is stored as %q", id, psp, stored)
		}
	})
}

// Two events are one row only if they are the same event of the same PSP.
func TestEventsOfTwoPSPsNeverShareAnID(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one, other := names().Draw(t, "one PSP"), names().Draw(t, "other PSP")
		id := ids().Draw(t, "id")
		ofOther := rapid.OneOf(rapid.Just(id), ids()).Draw(t, "other id")
		same := one == other && id == ofOther
		if stored, again := EventID(one, id), EventID(other, ofOther); (stored == again) != same {
			t.Fatalf("%q of %s is %q, %q of %s is %q", id, one, stored, ofOther, other, again)
		}
	})
}

// Events that were stored before there was a second PSP are read as they were.
func TestEventsOfTheFirstPSPKeepTheirIDs(t *testing.T) {
	t.Parallel()
	if id := EventID("native", "evt_1"); id != "evt_1" || PSPOf(id) != "native" {
		t.Fatalf("stored as %q, of %s", id, PSPOf(id))
	}
	if id := EventID("stripe", "evt_1"); id != "stripe.evt_1" || PSPOf(id) != "stripe" {
		t.Fatalf("stored as %q, of %s", id, PSPOf(id))
	}
}
