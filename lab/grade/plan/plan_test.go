package plan

import (
	"reflect"
	"slices"
	"testing"
)

func TestASeedAlwaysMakesTheSamePlan(t *testing.T) {
	t.Parallel()
	differs := false
	for level := 1; level <= len(Levels()); level++ {
		one := Of(level, 7)
		if len(one) == 0 || !reflect.DeepEqual(one, Of(level, 7)) {
			t.Errorf("level %d: %d cases, not the same twice", level, len(one))
		}
		differs = differs || !reflect.DeepEqual(one, Of(level, 8))
		for _, c := range one {
			if c.Level != level || c.Name == "" || len(c.Intents) == 0 || !c.Has(Send) {
				t.Errorf("level %d: %+v", level, c)
			}
		}
	}
	if !differs {
		t.Error("the seed changes nothing")
	}
}

// What begins has to end in the same case: a process that stays stopped would spoil the next one.
func TestEachCaseEndsWhatItBegins(t *testing.T) {
	t.Parallel()
	pairs := map[Kind]Kind{Kill: Start, Pause: Resume, Disorder: Order, Silence: Order,
		ShortLives: LongLives, HoldAnswer: Release, HoldRequest: Release}
	for level := 1; level <= len(Levels()); level++ {
		for _, c := range Of(level, 3) {
			for _, smaller := range append(c.Smaller(), c) {
				for begin, end := range pairs {
					if smaller.Has(begin) && !smaller.Has(end) {
						t.Errorf("level %d, %s: %s without %s", level, c.Name, begin, end)
					}
				}
			}
		}
	}
}

func TestSmallerCasesAreSmallerAndWhole(t *testing.T) {
	t.Parallel()
	for level := 1; level <= len(Levels()); level++ {
		for _, c := range Of(level, 5) {
			before := c.Size()
			for _, smaller := range c.Smaller() {
				if smaller.Size() >= before || !smaller.Has(Send) {
					t.Errorf("level %d, %s: %d of %d: %+v", level, c.Name, smaller.Size(), before, smaller.Steps)
				}
				for _, s := range smaller.Steps {
					if s.Intent != All && s.Intent >= len(smaller.Intents) && !s.Kind.OfAll() {
						t.Errorf("level %d, %s: a step for payment %d of %d", level, c.Name, s.Intent,
							len(smaller.Intents))
					}
				}
				for i, intent := range smaller.Intents {
					if intent.SameKey > i {
						t.Errorf("level %d, %s: payment %d has the key of a later one", level, c.Name, i)
					}
				}
			}
			if c.Size() != before {
				t.Errorf("level %d, %s: the case itself was changed", level, c.Name)
			}
		}
	}
}

func TestCasesThatStopSomethingArePlayedAlone(t *testing.T) {
	t.Parallel()
	var alone []int
	for level := 1; level <= len(Levels()); level++ {
		if slices.ContainsFunc(Of(level, 1), Case.Alone) {
			alone = append(alone, level)
		}
	}
	if !slices.Equal(alone, []int{1, 5, 6, 7, 8, 9}) {
		t.Errorf("levels with such cases: %v", alone)
	}
}
