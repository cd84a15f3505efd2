package console

import (
	"strings"
	"testing"

	"payonce/internal/deadletters"
)

// A decision after which another case is opened says so before it is taken.
func TestDecisionSaysWhatFollows(t *testing.T) {
	t.Parallel()
	for _, kind := range deadletters.Kinds() {
		for _, a := range []deadletters.Action{deadletters.Retry, deadletters.Executed, deadletters.NotExecuted} {
			follows := kind == deadletters.PSPContradicts && a == deadletters.Executed
			if said := leadsTo(kind, a); strings.Contains(said, "contradicts_completed") != follows {
				t.Errorf("%s, %s: %q", kind, a, said)
			}
		}
	}
}
